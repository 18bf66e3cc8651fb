"""What a program's operations give by definition: right answers, within limits of time and memory."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.onnx_lowering.small_graphs import model_of, node
from tfaot_pkg.compiler.program import Program, Symbol
from tfaot_pkg.frontends.onnx_lowering.ends import signature_of
from tfaot_pkg.frontends.onnx_lowering.graph import Model
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.verify import defined


def _made(model: Model, *symbols: Symbol) -> tuple[Program, Signature]:
    program = lower(model, symbols)
    return program, signature_of(model, program)


def test_conversions_out_of_range_are_the_nearest_integers_and_0_for_nan() -> None:
    program, signature = _made(model_of([node("Cast", "x", "y", to=6)], (None, 3)))
    x = np.array([[np.nan, np.inf, -1e20], [1.5, -1.5, 7.0]], np.float32)
    found = defined.answers(program, signature, {"x": x}, (1, 2), most=None, seconds=10)
    whole = np.array([[0, 2**31 - 1, -(2**31)], [1, -1, 7]], np.int32)
    assert {name: values.tolist() for name, values in found.items()} == {"1/y": whole.tolist(), "2/y": whole.tolist()}


def test_a_loop_has_answers_unless_it_does_not_end_in_time() -> None:
    inner = {
        "inputs": ["i", "c", "s"], "outputs": ["on", "t"], "tensors": {"one": "one"}, "shapes": {},
        "nodes": [node("Identity", "c", "on"), node("Add", "s one", "t")],
    }  # fmt: skip
    nodes = [node("Loop", "most true x", "y", body={"graph": inner})]
    values = {"most": np.int64(2**62), "true": np.bool_(True), "one": np.float32(1)}
    x = np.zeros((1, 3), np.float32)
    program, signature = _made(model_of(nodes, (None, 3), {**values, "most": np.int64(5000)}))
    assert (defined.answers(program, signature, {"x": x}, (1,), most=None, seconds=60)["1/y"] == 5000).all()
    program, signature = _made(model_of(nodes, (None, 3), values))
    start = time.monotonic()
    assert defined.answers(program, signature, {"x": x}, (1,), most=None, seconds=0.5) == {}
    assert time.monotonic() - start < 60  # it would never end


@pytest.mark.parametrize(("size", "is_answered"), [(1 << 10, True), (1 << 20, False)])
def test_arrays_that_need_much_memory_are_not_made(size: int, is_answered: bool) -> None:
    nodes = [
        node("Expand", "x wide", "z"),
        node("Mul", "z z", "w"),
        node("ReduceMax", "w", "y", axes=[1, 2], keepdims=0),
    ]
    program, signature = _made(model_of(nodes, (None, 1, 1), {"wide": np.array([1, size, 1 << 10])}))
    x = np.ones((1, 1, 1), np.float32)
    found = defined.answers(program, signature, {"x": x}, (1,), most=None, seconds=60)
    assert ("1/y" in found) is is_answered


def test_an_input_that_is_a_number_stays_a_number() -> None:
    program, signature = _made(model_of([node("Add", "x x", "y")], ()))
    found = defined.answers(program, signature, {"x": np.array(3, np.float32)}, (1,), most=None, seconds=10)
    assert found["1/y"].shape == () and found["1/y"] == 6
