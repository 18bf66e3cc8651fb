"""Quantizers of HGQ convert each number to its own type, as `ap_fixed` does."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hls4ml_lowering.test_numbers import OVERFLOWS, ROUNDINGS
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.frontends.hls4ml_lowering.lowering import program_of
from tfaot_pkg.frontends.onnx_lowering.table import Refused
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.fixed_network import (
    FixedLayer,
    FixedNetwork,
    FixedTensor,
    FixedType,
    Overflow,
    Rounding,
    converted,
)

_GIVEN = FixedType(width=18, integer=8, signed=True)
_WIDE = FixedType(width=60, integer=30, signed=True)


def _found(mask: Array, rounding: str, overflow: str, x: Array) -> Array:
    def layer(name: str, kind: str, type_: FixedType, given: tuple[str, ...]) -> FixedLayer:
        return FixedLayer(
            name=name, kind=kind, function="nnet::f", inputs=given, numbers={}, lists={}, types={},
            outputs=(FixedTensor(name=name, shape=x.shape[1:], type=type_),),
            texts={"RND": rounding, "SAT": overflow}, arrays={"mask_kbi": "m"},
        )  # fmt: skip

    layers = (layer("x", "Input", _GIVEN, ()), layer("q", "FixedPointQuantizer", _WIDE, ("x",)))
    network = FixedNetwork(inputs=("x",), outputs=("q",), io="io_parallel", layers=layers)
    program = verified(program_of(network, {"m": mask}), "test")
    (made,) = interpret.run(program, len(x), [x], {})
    return np.asarray(made)


_TYPE = st.tuples(st.integers(0, 1), st.integers(0, 16), st.integers(-3, 9))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(_TYPE, min_size=1, max_size=8), st.sampled_from(ROUNDINGS), st.sampled_from(OVERFLOWS), st.randoms()
)  # fmt: skip
def test_each_number_has_its_own_type(
    types: list[tuple[int, int, int]], rounding: Rounding, overflow: Overflow, random: Random
) -> None:
    x = np.array([[random.randint(-(2**17), 2**17 - 1) / 1024 for _ in types] for _ in range(30)], np.float32)
    found = _found(np.array(types, np.int64).T[:, None], rounding, overflow, x)
    for place, (signed, width, integer) in enumerate(types):
        expected = np.zeros(len(x))
        if width:
            type_ = FixedType(width=width, integer=integer, signed=bool(signed), rounding=rounding, overflow=overflow)
            expected = converted(x[:, place], type_) * 2.0**-type_.fraction
        np.testing.assert_array_equal(found[:, place], expected, f"{signed, width, integer}")


def test_one_type_may_stand_for_all_numbers() -> None:
    x = np.linspace(-9, 9, 60, dtype=np.float32).reshape(10, 2, 3)
    found = _found(np.array([[1], [6], [3]]), "RND", "SAT", x)
    np.testing.assert_array_equal(found, np.clip(np.floor(np.floor(x * 1024) / 128 + 0.5) / 8, -4, 3.875))


@pytest.mark.parametrize(
    ("mask", "modes", "told"),
    [
        ([[1], [6], [3]], ("ROUND", "SAT"), "the modes 'ROUND' and 'SAT'"),
        ([[1], [6]], ("RND", "SAT"), "2 numbers for each type, not 3"),
        ([[1], [70], [3]], ("RND", "SAT"), "types of more than 62 bits"),
        ([[2], [6], [3]], ("RND", "SAT"), "types of more than 62 bits"),
        ([[1] * 5, [6] * 5, [3] * 5], ("RND", "SAT"), "its attributes contradict its inputs"),
    ],
)
def test_types_that_cannot_be_are_errors(mask: list[list[int]], modes: tuple[str, str], told: str) -> None:
    types = np.array(mask)
    with pytest.raises(Refused, match="the layer 'q'") as raised:
        _found(types if types.shape[1] == 1 else types[:, None], *modes, np.zeros((1, 4), np.float32))
    assert told in str(raised.value)
