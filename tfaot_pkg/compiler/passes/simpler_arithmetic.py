"""Rules of simplify.py for operations that compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Comparison, Constant, Dimensions, Dot
from tfaot_pkg.compiler.passes.folding import constant
from tfaot_pkg.compiler.passes.rewriting import Rewrite, Simpler
from tfaot_pkg.compiler.program import (
    NO_ATTRIBUTES,
    NUMPY_TYPES,
    ONE,
    ZERO,
    Attributes,
    Literal,
    Operation,
    Shape,
    Size,
)


def with_neutral(neutral: float, *, both_sides: bool) -> Simpler:
    """A rule for an operation that returns its other operand, unchanged to the bit, if one is `neutral`."""

    def rule(rewrite: Rewrite, operation: Operation, _operand: Operation) -> int | Operation:
        first, second = operation.operands
        if _is_filled(rewrite.made, second, neutral):
            return first
        if both_sides and _is_filled(rewrite.made, first, neutral):
            return second
        return operation

    return rule


def and_(rewrite: Rewrite, operation: Operation, _operand: Operation) -> int | Operation:
    """One of two and not both, as TensorFlow lowers `logical_xor`."""
    for pair in (operation.operands, operation.operands[::-1]):
        either, denied = (rewrite.made[value] for value in pair)
        both = rewrite.made[denied.operands[0]] if denied.opcode == "not" else denied
        opcodes = (either.opcode, denied.opcode, both.opcode)
        if opcodes == ("or", "not", "and") and set(either.operands) == set(both.operands):
            return replace(operation, opcode="xor", operands=either.operands)
    return operation


def power(rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """Products, quotients and roots for common exponents: `x ** 2` takes one instruction, not forty."""
    exponent = next((each for each in _EXPONENTS if _is_filled(rewrite.made, operation.operands[1], each)), None)
    if exponent is None or operation.shape.dtype not in ("f32", "f64"):
        return operation

    def made(
        opcode: str, *operands: int, dtype: str = operation.shape.dtype, attributes: Attributes = NO_ATTRIBUTES
    ) -> int:
        shape = replace(operation.shape, dtype=dtype)
        return rewrite.add(replace(operation, opcode=opcode, type=shape, operands=operands, attributes=attributes))

    def filled(number: float) -> int:
        scalar = Shape(operation.shape.dtype, ())
        value = rewrite.add(constant(np.asarray(number, NUMPY_TYPES[scalar.dtype]), scalar, operation.node))
        return rewrite.add(
            replace(operation, opcode="broadcast", operands=(value,), attributes=Dimensions(dimensions=()))
        )

    x = operand.id
    if abs(exponent) == 0.5:
        # pow(-0.0, 0.5) is 0.0 and pow(-inf, 0.5) is inf (C11, F.10.4.4), but sqrt gives -0.0 and NaN.
        root = made("add", made("sqrt", x), filled(0.0))
        infinite = made("compare", x, filled(-np.inf), dtype="pred", attributes=Comparison(direction="EQ"))
        x = made("select", infinite, filled(np.inf), root)
    elif exponent > 1:
        square = made("multiply", x, x)
        x = square if exponent == 2 else made("multiply", square, x if exponent == 3 else square)
    return made("divide", filled(1.0), x) if exponent < 0 else x


_EXPONENTS = (-1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 4.0)


def select(rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """One of both values, if it is known which."""
    for truth, value in zip((True, False), operation.operands[1:], strict=True):
        if _is_filled(rewrite.made, operand.id, truth):
            return value
    return operation


def _is_filled(made: Mapping[int, Operation], value: int, wanted: float) -> bool:
    """Whether all elements are `wanted`, including its sign."""
    operation = made[value]
    while operation.opcode in ("broadcast", "reshape"):
        operation = made[operation.operands[0]]
    if operation.opcode != "constant" or Constant.of(operation).literal.growing:
        return False
    values = Constant.of(operation).literal.constant
    # -0.0 == 0.0, but x + 0.0 is not x for x = -0.0. Integers and truth values have one zero.
    has_sign = values.dtype.kind in "iub" or np.all(np.signbit(values) == np.signbit(wanted))
    return bool(np.all(values == wanted) and has_sign)


def dot(rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """A product that adds nothing up, as an elementwise one. As a `dot` it would be a tiny matrix for each element."""
    operands = (operand, rewrite.made[operation.operands[1]])
    contracting, batch = Dot.of(operation).contracting, Dot.of(operation).batch
    if operation.shape.dtype == "pred" or any(operand.shape.sizes[axis] != ONE for axis in contracting[0]):
        return operation
    if contracting[0] and any(each.opcode == "constant" for each in operands):
        return operation  # a dense layer with one input, which can absorb a bias and an activation
    factors, beside = [], len(batch[0])
    for each, summed, shared in zip(operands, contracting, batch, strict=True):
        free = [axis for axis in range(each.shape.rank) if axis not in (*summed, *shared)]
        order, places = (*shared, *free, *summed), (*range(len(shared)), *range(beside, beside + len(free)))
        beside += len(free)
        value, sizes = each.id, tuple(each.shape.sizes[axis] for axis in order)
        steps: tuple[tuple[str, tuple[Size, ...], Attributes], ...] = (
            ("transpose", sizes, Dimensions(dimensions=order)),
            ("reshape", sizes[: len(places)], NO_ATTRIBUTES),
            ("broadcast", operation.shape.sizes, Dimensions(dimensions=places)),
        )
        for opcode, kept, attributes in steps:
            shape = replace(operation.shape, sizes=kept)
            value = rewrite.add(replace(operation, opcode=opcode, type=shape, operands=(value,), attributes=attributes))
        factors.append(value)
    return replace(operation, opcode="multiply", operands=tuple(factors), attributes=NO_ATTRIBUTES)


def set_dimension_size(rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """No operation if it sets the size that the array has. Arrays with fewer valid elements are not supported."""
    (axis,) = Dimensions.of(operation).dimensions
    size, length = rewrite.made[operation.operands[1]], operand.shape.sizes[axis]
    if size.opcode == "constant":
        literal: Literal = Constant.of(size).literal
        if literal.size == length:
            return operand.id
    return operation


def reduce(_rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """A reduction of no elements gives the initial value."""
    if len(operation.operands) != 2 or ZERO not in operand.shape.sizes:
        return operation
    start = operation.operands[1:]
    return replace(operation, opcode="broadcast", operands=start, attributes=Dimensions(dimensions=()), regions=())
