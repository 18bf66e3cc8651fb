"""Comparisons whose results are known, and those of 64-bit integers that fit 32 bits, as of places in `one_hot`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Comparison, Constant, Dimensions
from tfaot_pkg.compiler.passes.folding import constant
from tfaot_pkg.compiler.passes.rewriting import Rewrite
from tfaot_pkg.compiler.program import NUMPY_TYPES, Literal, Operation, Shape

_MOVING = frozenset({"broadcast", "reshape", "slice", "transpose"})
_SIGNED = ("s8", "s16", "s32", "s64")
_LIMITS = np.iinfo(np.int32)
_DEEPEST = 16
"""Operations that are looked through: each looks at the operand of the one before."""


def compared(program: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """A simpler comparison or value, if that is the same, such as a comparison of 32-bit integers."""
    numbers = [_number(program, value) for value in operation.operands]
    known = tuple(number for number in numbers if number is not None)
    if operation.shape.rank and len(known) == len(numbers):
        scalar = replace(operation, type=replace(operation.shape, sizes=()), operands=known)
        return replace(
            operation, opcode="broadcast", operands=(program.add(scalar),), attributes=Dimensions(dimensions=())
        )
    if operand.shape.dtype == "pred" and Comparison.of(operation).direction == "NE" and numbers[1] is not None:
        if not Constant.of(program.made[numbers[1]]).literal.constant:  # whether x differs from "false"
            return operation.operands[0]
    if (is_true := _of_sign(program, operation, operand.shape.dtype, numbers)) is not None:
        truth = program.add(constant(np.asarray(is_true), Shape("pred", ()), operation.node))
        return replace(operation, opcode="broadcast", operands=(truth,), attributes=Dimensions(dimensions=()))
    # Vectors hold twice as many integers of 32 bits.
    if operand.shape.dtype != "s64" or not all(_fits(program.made, value) for value in operation.operands):
        return operation
    return replace(operation, operands=tuple(_narrowed(program, value) for value in operation.operands))


def _of_sign(program: Rewrite, operation: Operation, dtype: str, numbers: Sequence[int | None]) -> bool | None:
    """Whether no element is below 0, where one is compared with 0, as an index that may count from the end."""
    direction = Comparison.of(operation).direction
    if dtype not in _SIGNED or numbers[1] is None or direction not in ("LT", "GE"):
        return None
    is_zero = not Constant.of(program.made[numbers[1]]).literal.constant
    return direction == "GE" if is_zero and _is_natural(program.made, operation.operands[0]) else None


def _is_natural(made: Mapping[int, Operation], value: int, depth: int = _DEEPEST) -> bool:
    """Whether all elements are 0 or more; floats may be NaN."""
    operation = made[value]
    if operation.shape.dtype[0] in "pu":
        return True
    if operation.opcode == "constant":
        literal = Constant.of(operation).literal
        return not literal.growing and bool(np.all(literal.constant >= 0))
    if depth == 0 or operation.opcode not in ("convert", "maximum", "minimum", *_MOVING):
        return False
    if operation.opcode == "convert":
        # Of integers only to longer ones: others would be cut off. Floats become the nearest end of the type, or 0.
        source, dtype = made[operation.operands[0]].shape.dtype, operation.shape.dtype
        size = NUMPY_TYPES[source].itemsize + (source[0] == "u")
        if dtype not in _SIGNED or (source[0] != "f" and size > NUMPY_TYPES[dtype].itemsize):
            return False
    enough = any if operation.opcode == "maximum" else all
    return enough(_is_natural(made, each, depth - 1) for each in operation.operands)


def _number(program: Rewrite, value: int) -> int | None:
    """The constant that all elements are equal to, if they repeat one."""
    operation = program.made[value]
    if operation.opcode != "broadcast":
        return None
    number = program.made[operation.operands[0]]
    return number.id if number.opcode == "constant" and not number.shape.rank else None


def _fits(made: Mapping[int, Operation], value: int, depth: int = _DEEPEST) -> bool:
    operation = made[value]
    match operation.opcode:
        case "convert":
            return bool(made[operation.operands[0]].shape.dtype == "s32")
        case "iota":
            size = operation.shape.sizes[Dimensions.of(operation).dimensions[0]]
            return bool(size.is_constant and size.constant <= _LIMITS.max)
        case "constant":
            literal: Literal = Constant.of(operation).literal
            number = literal.constant
            return not literal.growing and number.size == 1 and _LIMITS.min <= int(number.item()) <= _LIMITS.max
    return depth > 0 and operation.opcode in _MOVING and _fits(made, operation.operands[0], depth - 1)


def _narrowed(program: Rewrite, value: int) -> int:
    operation = program.made[value]
    if operation.opcode == "convert":
        return operation.operands[0]
    shape = replace(operation.shape, dtype="s32")
    if operation.opcode == "constant":
        number = Constant.of(operation).literal.constant.astype(np.int32)
        return program.add(replace(operation, type=shape, attributes=Constant(literal=Literal(number))))
    operands = tuple(_narrowed(program, operand) for operand in operation.operands)
    return program.add(replace(operation, type=shape, operands=operands))
