"""Rows whose number values decide, operations of the model's author, and float16 at the border of lowered programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.onnx_lowering.small_graphs import model_of, node
from tests.wording import reported, worded
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import CustomCall
from tfaot_pkg.compiler.program import Shape, Size, Unsupported
from tfaot_pkg.compiler.text import nodes_of, parse, text_of, with_nodes
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.onnx_lowering.authored import Operations
from tfaot_pkg.frontends.onnx_lowering.ends import lowered
from tfaot_pkg.frontends.onnx_lowering.graph import Model, Output
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.ground.arrays import Array

X = np.array([[1, -2, 0.5], [-1, 3, 0.25], [0, 0.75, -4], [2, 2, 2]], np.float32)
SELECTED = [
    node("Greater", "x zero", "mask"), node("NonZero", "mask", "columns"), node("Transpose", "columns", "places"),
    node("GatherND", "x places", "hits"), node("Gather", "mask one", "of_rows", axis=1),
    node("Compress", "x of_rows", "kept", axis=0), node("Shape", "hits", "wide"), node("Expand", "hits wide", "same"),
    node("Mul", "same same", "y"),
]  # fmt: skip
ROWS = {"y": "y_count", "places": "places_count", "kept": "kept_count"}


def _with_outputs(model: Model, names: Sequence[str]) -> Model:
    outputs = tuple(Output(name=each, key=each) for each in names)
    return replace(model, outputs=outputs, graph=replace(model.graph, outputs=tuple(names)))


def _selected(nodes: list[dict[str, object]], outputs: Sequence[str]) -> Model:
    return _with_outputs(model_of(nodes, (4, 3), {"zero": np.float32(0), "one": 1, "axis": [0]}), outputs)


@pytest.mark.parametrize("layers", [True, False])
def test_rows_that_are_meant_come_first_and_zeros_behind_them(layers: bool) -> None:
    program = lower(_selected(SELECTED, ["y", "places", "kept"]), counts=ROWS, layers=layers)
    verify(program)
    y, places, kept, *counts = interpret.run(program, 1, [X])
    wanted: list[Array] = [X[X > 0] ** 2, np.argwhere(X > 0), X[X[:, 1] > 0]]
    assert [int(each) for each in counts] == [len(each) for each in wanted]
    for ours, theirs in zip((y, places, kept), wanted, strict=True):
        assert np.array_equal(ours[: len(theirs)], theirs) and not ours[len(theirs) :].any()
    assert (y.shape, places.shape, kept.shape) == ((12,), (12, 2), (4, 3))


def test_kinds_are_numpys() -> None:
    numbers = np.array([3, 1, 3, 2, 1, 1, 7], np.float32)
    for is_sorted in (0, 1):
        outputs = ["y", "first", "inverse", "many"]
        nodes = [node("Unique", "x", " ".join(outputs), sorted=is_sorted)]
        model = _with_outputs(model_of(nodes, (7,)), outputs)
        counts = {name: f"{name}_count" for name in ("y", "first", "many")}
        kinds, first, inverse, many, *found = interpret.run(lower(model, counts=counts), 1, [numbers])
        values, at, back, each = np.unique(numbers, return_index=True, return_inverse=True, return_counts=True)
        order = np.arange(4) if is_sorted else np.argsort(at)
        assert [int(count) for count in found] == [4, 4, 4]
        assert np.array_equal(kinds[:4], values[order]) and np.array_equal(first[:4], at[order])
        assert np.array_equal(many[:4], each[order]) and np.array_equal(kinds[inverse], numbers)
        assert np.array_equal(inverse, np.argsort(order)[back])


@pytest.mark.parametrize(
    "nodes",
    [
        [node("ReduceSum", "hits", "y")],
        [node("Shape", "hits", "wide"), node("Cast", "wide", "y", to=1)],
        [node("NonZero", "of_rows", "others"), node("Squeeze", "others axis", "o"), node("Add", "o hits", "y")],
        [node("Slice", "hits zeros ones zeros", "y")],
        [node("Concat", "hits hits", "y", axis=0)],
        [node("NonZero", "hits", "y")],
    ],
    ids=["sum", "size", "two", "slice", "concat", "again"],
)
def test_what_may_mix_such_rows_is_refused(nodes: list[dict[str, object]]) -> None:
    model = _selected([*SELECTED[:5], *nodes], ["y"])
    tensors = {**model.graph.tensors, "zeros": np.array([0]), "ones": np.array([1])}
    with pytest.raises(Unsupported) as error:
        lower(replace(model, graph=replace(model.graph, tensors=tensors)), counts={"y": "y_count"})
    worded(str(error.value))


@pytest.mark.parametrize(
    "counts",
    [{}, {"y": "count", "no": "other"}, {"y": "kept", "kept": "count"}, {"y": "count", "mask": "other"}],
    ids=["none", "unknown", "taken", "fixed"],
)
def test_counts_that_do_not_fit_the_outputs_are_told(counts: Mapping[str, str]) -> None:
    outputs = ["y", "kept", "mask"] if "kept" in counts else ["y", "mask"]
    with reported(ModelError):
        lower(_selected(SELECTED, outputs), counts=counts)


def _twice(*results: Array) -> Operations:
    """An operation whose reference doubles its first input, or returns `results`."""
    return Operations(names=frozenset(("Twice",)), reference=lambda _, given, __: results or [given[0] * 2])


_TWICE = {**node("Twice", "x w", "y", slope=[1, 0.5], count=3), "domain": "org.example"}


def test_an_operation_of_the_author_is_a_call_of_what_its_reference_returns() -> None:
    program = lower(model_of([_TWICE], (None, 4), {"w": np.zeros((2, 3), np.float32)}), operations=_twice())
    verify(program)
    (call,) = [each for each in program.entry.operations if each.opcode == "custom-call"]
    assert call.shape == Shape("f32", (Size.symbol("batch"), Size(4)))
    assert json.loads(CustomCall.of(call).config) == {"name": "Twice", "attributes": {"slope": [1, 0.5], "count": [3]}}
    found = lowered(model_of([_TWICE], (None, 4), {"w": np.zeros((2, 3), np.float32)}), (), _twice())
    assert found.rows.independent


@pytest.mark.parametrize(
    ("operations", "wrong"),
    [
        (Operations(), _TWICE),
        (_twice(), node("Neg", "x", "y")),
        (_twice(np.zeros((3, 4), np.float32)), _TWICE),
        (_twice(np.zeros((5, 4), "U1"), np.zeros((5, 4), "U1")), _TWICE),
        (_twice(), {**_TWICE, "attributes": {"mode": "fast"}}),
    ],
    ids=["undeclared", "unused", "rows", "two", "text"],
)
def test_what_is_wrong_with_an_operation_is_told_by_its_node(operations: Operations, wrong: dict[str, object]) -> None:
    model = model_of([wrong], (None, 4), {"w": np.zeros((2, 3), np.float32)})
    with pytest.raises((Unsupported, ModelError)) as error:
        lower(model, operations=operations)
    worded(f"{error.value}\n{getattr(error.value, 'hint', '')}")


def test_float16_at_the_border_is_carried_as_its_bits() -> None:
    model = model_of([node("Add", "x x", "y")], (None, 4))
    half = replace(model, inputs=tuple(replace(each, dtype="float16") for each in model.inputs))
    found = lowered(half, ())
    assert found.carried == {"x": "float16", "y": "float16"}
    assert found.rows.independent
    x = np.array([[1, 0.1, -3, 400]], np.float16)
    (y,) = interpret.run(found.program, 1, [x.view(np.uint16)])
    assert np.array_equal(y.view(np.float16), x + x)


def test_nodes_stand_beside_the_text_of_a_program() -> None:
    program = lower(_selected(SELECTED, ["y", "places", "kept"]), counts=ROWS)
    nodes = nodes_of(program)
    assert {"NonZero", "Compress"} <= set(nodes)
    assert nodes_of(with_nodes(parse(text_of(program)), nodes)) == nodes
    with pytest.raises(ValueError, match="another number"):
        with_nodes(program, nodes[1:])
