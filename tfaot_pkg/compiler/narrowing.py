"""Comparisons of 64-bit integers that fit 32 bits, as of places in `one_hot`: vectors hold twice as many of those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from tfaot_pkg.compiler.program import Literal, Operation

_MOVING = frozenset({"broadcast", "reshape", "slice", "transpose"})
_LIMITS = np.iinfo(np.int32)
_DEEPEST = 16
"""Operations that are looked through: each looks at the operand of the one before."""


class Program(Protocol):
    """The program that operations are added to (simplify.py)."""

    made: dict[int, Operation]

    def add(self, operation: Operation) -> int: ...


def compared(program: Program, operation: Operation, operand: Operation) -> Operation:
    """A comparison of 32-bit integers, if that is the same."""
    if operand.shape.dtype != "s64" or not all(_fits(program.made, value) for value in operation.operands):
        return operation
    return replace(operation, operands=tuple(_narrowed(program, value) for value in operation.operands))


def _fits(made: Mapping[int, Operation], value: int, depth: int = _DEEPEST) -> bool:
    operation = made[value]
    match operation.opcode:
        case "convert":
            return bool(made[operation.operands[0]].shape.dtype == "s32")
        case "iota":
            size = operation.shape.sizes[operation.attributes["dimensions"][0]]
            return bool(size.is_constant and size.constant <= _LIMITS.max)
        case "constant":
            literal: Literal = operation.attributes["literal"]
            number = literal.constant
            return not literal.growing and number.size == 1 and _LIMITS.min <= int(number.item()) <= _LIMITS.max
    return depth > 0 and operation.opcode in _MOVING and _fits(made, operation.operands[0], depth - 1)


def _narrowed(program: Program, value: int) -> int:
    operation = program.made[value]
    if operation.opcode == "convert":
        return operation.operands[0]
    shape = replace(operation.shape, dtype="s32")
    if operation.opcode == "constant":
        number = operation.attributes["literal"].constant.astype(np.int32)
        return program.add(replace(operation, type=shape, attributes={"literal": Literal(number)}))
    operands = tuple(_narrowed(program, operand) for operand in operation.operands)
    return program.add(replace(operation, type=shape, operands=operands))
