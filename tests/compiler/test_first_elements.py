"""The first elements in order: of equal ones the first, NaN where HLO's total order has it, zeros equal or not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N
from tfaot_pkg.compiler.attributes import Element, TopK
from tfaot_pkg.compiler.program import Number, Operation, Program, Region, Shape, Size
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.ground.arrays import Array

_SIZE = 21


def _values() -> Array:
    random = np.random.default_rng(5)
    # Few different numbers: many are equal.
    values = random.integers(-4, 5, (12, _SIZE)).astype(np.float32)
    values[1] = random.normal(size=_SIZE)
    values[2, ::3] = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42]
    # The NaN that stands before and behind all others.
    values[3].view(np.uint32)[::2] = 0xFFFFFFFF
    values[4].view(np.uint32)[1::2] = 0x7FFFFFFF
    values[5].view(np.uint32)[:] = 0xFFFFFFFF
    values[6].view(np.uint32)[:] = 0x7FFFFFFF
    # Masked scores: zeros of both signs.
    values[7] *= 0
    values[8, ::2] *= 0
    values[9, 3:] = np.where(np.arange(_SIZE - 3) % 5, -0.0, np.float32(-1e-45))
    return values


def _in_order(values: Array, zeros: str) -> Array:
    bits = np.where((values == 0) & (zeros == "equal"), np.float32(0), values).view(np.int32).astype(np.int64)
    return np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@pytest.mark.sweep("1-False-equal", "5-True-signed", "9-False-signed", "16-True-equal", "21-False-signed")
@pytest.mark.parametrize("zeros", ["equal", "signed"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 5, 8, 9, 16, 17, 21])
def test_the_first_elements_and_where_they_are(compiled: Compile, k: int, largest: bool, zeros: str) -> None:
    source = Operation(id=0, opcode="parameter", type=Shape("f32", (N, Size(_SIZE))), attributes=Number(number=0))
    shapes = (Shape("f32", (N, Size(k))), Shape("s32", (N, Size(k))))
    found = Operation(
        id=1, opcode="top_k", type=shapes, operands=(0,), attributes=TopK(k=k, largest=largest, zeros=zeros)
    )
    parts = [
        Operation(id=2 + i, opcode="get-tuple-element", type=shape, operands=(1,), attributes=Element(index=i))
        for i, shape in enumerate(shapes)
    ]
    program = Program(entry=Region(operations=(source, found, *parts), results=(2, 3)))
    verify(program)
    values = _values()
    code = compiled(program, 5)
    given, places = code(values)
    order = np.argsort(_in_order(values, zeros) * (-1 if largest else 1), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places, order)
    wanted = np.take_along_axis(values, order, axis=1)
    np.testing.assert_array_equal(given.view(np.uint32), wanted.view(np.uint32))
    # A single row has code of its own.
    for row in range(len(values)):
        alone, its_places = code(values[row : row + 1])
        np.testing.assert_array_equal(its_places, order[row : row + 1])
        np.testing.assert_array_equal(alone.view(np.uint32), wanted[row : row + 1].view(np.uint32))
