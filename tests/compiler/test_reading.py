"""What loops read: constants in their own order, and values that are computed again or written to memory first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.conftest import Compile, nests, opcodes_in
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program

_BATCH = (0, N, 1)


@pytest.mark.slow  # compiles its code
def test_constants_are_read_in_any_order(compiled: Compile) -> None:
    """Every third column, backwards, transposed, and a part of each row; a copy of them lies in the loop's order."""
    random, writer = np.random.default_rng(2), Writer()
    numbers = random.normal(size=(6, 12)).astype(np.float32)
    moved: list[tuple[str, tuple[int, int], dict[str, Any]]] = [
        ("slice", (6, 4), {"slices": (_BATCH, (0, 6, 1), (1, 12, 3))}),
        ("slice", (2, 12), {"slices": (_BATCH, (3, 5, 1), (0, 12, 1))}),
        ("reverse", (6, 12), {"dimensions": (2,)}),
        ("transpose", (12, 6), {"dimensions": (0, 2, 1)}),
    ]
    results = []
    for opcode, sizes, attributes in moved:
        x = writer.input(6, 12)
        constant = writer.add("broadcast", (N, 6, 12), writer.constant(numbers), dimensions=(1, 2))
        both = writer.add("add", (N, 6, 12), x, constant)
        results.append(writer.add("negate", (N, *sizes), writer.add(opcode, (N, *sizes), both, **attributes)))
    code = compiled(writer.program(*results), 4)
    values = [random.normal(size=(5, 6, 12)).astype(np.float32) for _ in moved]
    first, second, third, fourth = (-(each + numbers) for each in values)
    wanted = first[:, :, 1::3], second[:, 3:5], third[..., ::-1], fourth.transpose(0, 2, 1)
    for got, expected in zip(code(*values), wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


def _with_its_reverse(opcode: str) -> Program:
    writer = Writer()
    x = writer.input(20)
    value = writer.add(opcode, (N, 20), x)
    reversed_ = writer.add("reverse", (N, 20), value, dimensions=(1,))
    return writer.program(writer.add("multiply", (N, 20), value, reversed_))


def test_a_cheap_value_and_its_reverse_need_one_loop_and_no_memory() -> None:
    program = _with_its_reverse("negate")
    assert (emit(program, "program", 16).scratch, len(nests(program))) == (0, 1)


def test_a_costly_value_is_computed_once_for_itself_and_its_reverse() -> None:
    assert [opcodes_in(loop) for loop in nests(_with_its_reverse("tanh"))] == [["tanh"], ["multiply"]]


@pytest.mark.parametrize(("opcode", "scratch"), [("sqrt", True), ("negate", False)])
def test_costly_numbers_of_rows_are_computed_once_for_each_row(opcode: str, *, scratch: bool) -> None:
    writer = Writer()
    x, numbers = writer.input(12, 7), writer.input(12)
    number = writer.add(opcode, (N, 12), numbers)
    spread = writer.add("broadcast", (N, 12, 7), number, dimensions=(0, 1))
    made = writer.add("multiply", (N, 12, 7), x, spread)
    assert (emit(writer.program(made), "program", 16).scratch > 0) == scratch


def test_one_of_two_and_not_both_is_an_exclusive_or() -> None:
    writer = Writer()
    x, y = writer.input(5, dtype="pred"), writer.input(5, dtype="pred")

    def add(opcode: str, *operands: int) -> int:
        return writer.add(opcode, (N, 5), *operands, dtype="pred")

    made = add("and", add("not", add("and", y, x)), add("or", x, y))
    program = simplify(writer.program(made))
    assert [each.opcode for each in program.entry.operations] == ["parameter", "parameter", "xor"]
