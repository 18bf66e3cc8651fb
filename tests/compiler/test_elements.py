"""Expressions of loops: what depends on what, and the C++ that is made of them at the end."""

from __future__ import annotations

import numpy as np

from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.attributes import Constant
from tfaot_pkg.compiler.elements import (
    Access,
    Computed,
    Element,
    Filled,
    Number,
    Operand,
    Scalar,
    Statement,
    Variable,
    depending_on,
    invariant,
)
from tfaot_pkg.compiler.program import ONE, ZERO, Literal, Operation, Shape

_VECTOR = Shape("f32", (ONE,))


def _statement(name: str, opcode: str, *operands: Operand, dtype: str = "f32") -> Statement:
    operation = Operation(id=0, opcode=opcode, type=Shape(dtype, (ONE,)))
    return Statement(name, operation, operands, (dtype,) * len(operands))


def _number(value: int | float, dtype: str = "s32") -> Number:
    literal = Literal(np.array(value, np.int32 if dtype == "s32" else np.float32))
    return Number(Operation(id=0, opcode="constant", type=Shape(dtype, ()), attributes=Constant(literal=literal)))


# y3 is computed of x0 alone. The number is named like an element, which text would not tell from one.
_STATEMENTS = (
    _statement("y2", "add", Element("x0"), Element("x1")),
    _statement("y3", "multiply", Element("x0"), Filled(Variable("x1"))),
    _statement("y4", "subtract", Element("y3"), Element("y2")),
    _statement("y5", "negate", Element("y3")),
)


def test_statements_of_nothing_that_changes_move_before_a_loop() -> None:
    assert [each.name for each in invariant(_STATEMENTS, ["x1"])] == ["y3", "y5"]
    assert invariant(_STATEMENTS, ["x0", "x1"]) == []
    assert invariant(_STATEMENTS, []) == [*_STATEMENTS]


def test_statements_depend_on_accesses_through_others() -> None:
    accesses = [Access(f"p{number}", "v0", "f32", Index(ZERO, (ONE,))) for number in range(2)]
    assert depending_on(_STATEMENTS, accesses[1:]) == {"x1", "y2", "y4"}
    assert depending_on(_STATEMENTS, accesses[:1]) == {"x0", "y2", "y3", "y4", "y5"}


def test_a_number_is_filled_in_as_the_place_of_a_statement_needs() -> None:
    """Within a loop, before it with vectors, and before it without."""
    statement = _statement("y1", "add", Element("x0"), Filled(_number(2.0, "f32")))
    assert [statement.text(*fill) for fill in ((), ("filled",), ("",))] == [
        "x0 + at.fill(0x1.0000000000000p+1f)", "x0 + filled(0x1.0000000000000p+1f)", "x0 + (0x1.0000000000000p+1f)",
    ]  # fmt: skip


def test_vectors_are_divided_by_numbers_that_are_known() -> None:
    """Not by 0, 1 and -1, nor by a variable or a computed number."""

    def divided(by: Scalar) -> str:
        return _statement("y1", "divide", Element("x0"), Filled(by), dtype="s32").text()

    assert [divided(_number(by)) for by in (5, -2)] == ["quotientBy<5>(x0)", "quotientBy<-2>(x0)"]
    negated = Computed(Operation(id=0, opcode="negate", type=Shape("s32", ())), (_number(5),), ("s32",))
    others: tuple[Scalar, ...] = (*map(_number, (0, 1, -1, -(2**31))), Variable("s7"), negated)
    for other in others:
        assert divided(other) == f"quotientOf(x0, at.fill({other}))"
