"""Products with constant weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Dense, Dimensions, Dot
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, Attributes, Operation, Shape, Size
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array


def dense(look: Look, operation: Operation) -> Operation | None:
    """A product with constant weights on either side. Other axes than the last one are transposed first."""
    if operation.opcode != "dot" or Dot.of(operation).batch != ((), ()):
        return None
    operands, contracting = operation.operands, Dot.of(operation).contracting
    is_left = look.constant(operands[1]) is None
    if is_left:
        operands, contracting = operands[::-1], contracting[::-1]
    (given, of_weights), (left, right) = operands, contracting
    weights, first = look.constant(of_weights), look.known[given].shape
    if weights is None or weights.dtype != np.float32 or not left or look.constant(given) is not None:
        return None
    if not is_left and weights.ndim == 2 and left == (first.rank - 1,):
        return replace(operation, opcode="dense", attributes=Dense(weights_axis=right[0]))
    return _with_last_axes(look, operation, (given, left), (weights, right), is_left=is_left)


def _with_last_axes(
    look: Look,
    operation: Operation,
    operand: tuple[int, Sequence[int]],
    constant: tuple[Array, Sequence[int]],
    *,
    is_left: bool,
) -> Operation:
    """The product, whose operands come with the axes that are summed over, with these axes brought to the end."""
    (given, left), (weights, right) = operand, constant
    first = look.known[given].shape
    free = [axis for axis in range(first.rank) if axis not in left]
    columns = [axis for axis in range(weights.ndim) if axis not in right]
    sizes = (math.prod(weights.shape[axis] for axis in axes) for axes in (right, columns))
    matrix = weights.transpose(*right, *columns).reshape(*sizes)
    rows, inner = [first.sizes[axis] for axis in free], [first.sizes[axis] for axis in left]
    made = [Size(weights.shape[axis]) for axis in columns]

    def added(opcode: str, sizes: Sequence[Size], *of: int, attributes: Attributes = NO_ATTRIBUTES) -> int:
        shape = Shape("f32", tuple(sizes))
        return look.add(
            Operation(
                id=look.fresh(), opcode=opcode, type=shape, operands=of, attributes=attributes, node=operation.node
            )
        ).id  # fmt: skip

    if (*free, *left) != tuple(range(first.rank)):
        given = added("transpose", (*rows, *inner), given, attributes=Dimensions(dimensions=(*free, *left)))
    if len(left) > 1:
        given = added("reshape", (*rows, Size(matrix.shape[0])), given)
    layer = (given, look.add_constant(np.ascontiguousarray(matrix), operation))
    value = added("dense", (*rows, Size(matrix.shape[1])), *layer, attributes=Dense(weights_axis=0))
    if not is_left:
        return replace(operation, opcode="reshape", operands=(value,), attributes=NO_ATTRIBUTES)
    value = added("reshape", (*rows, *made), value)
    order = (*range(len(rows), operation.shape.rank), *range(len(rows)))
    return replace(operation, opcode="transpose", operands=(value,), attributes=Dimensions(dimensions=order))
