"""Comparisons that are simpler than they look."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.verifier import verify


def _hot(number: int | None, direction: str, *, wide: bool = False) -> Writer:
    """Whether places, or a number, equal an integer of each row, which is an input of 64 bits if `wide`."""
    writer = Writer()
    x = writer.input(3, dtype="s64" if wide else "s32")
    converted = x if wide else writer.add("convert", (N, 3), x, dtype="s64")
    spread = writer.add("broadcast", (N, 3, 7), converted, dtype="s64", dimensions=(0, 1))
    if number is None:
        places = writer.add("iota", (7,), dtype="s64", dimensions=(0,))
        others = writer.add("broadcast", (N, 3, 7), places, dtype="s64", dimensions=(2,))
    else:
        others = writer.spread(number, 3, 7, dtype="s64")
    writer.add("compare", (N, 3, 7), spread, others, dtype="pred", direction=direction)
    return writer


@pytest.mark.parametrize(
    ("number", "wide", "dtype"),
    [
        (None, False, "s32"),
        (5, False, "s32"),
        (-(2**31), False, "s32"),
        (2**31, False, "s64"),
        (-(2**31) - 1, False, "s64"),
        (None, True, "s64"),
    ],
)
@pytest.mark.parametrize("direction", ["EQ", "LT"])
def test_integers_that_fit_are_compared_as_32_bits(number: int | None, wide: bool, dtype: str, direction: str) -> None:
    writer = _hot(number, direction, wide=wide)
    program = writer.program(writer.operations[-1].id)
    made = simplify(program)
    verify(made)
    (compare,) = (each for each in made.entry.operations if each.opcode == "compare")
    assert {made.entry.by_id()[operand].shape.dtype for operand in compare.operands} == {dtype}
    values = np.array([[0, 5, -(2**31)], [6, 2**31 - 1, -1]], np.int64 if wide else np.int32)
    (given,), (wanted,) = (interpret.run(each, 2, [values]) for each in (made, program))
    np.testing.assert_array_equal(given, wanted)
