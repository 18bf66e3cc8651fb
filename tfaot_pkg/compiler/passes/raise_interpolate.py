"""Sums of elements that are gathered along an axis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import Along, Dimensions, Gather
from tfaot_pkg.compiler.program import Operation, Size, reducer
from tfaot_pkg.compiler.use_def import Look


def interpolated(look: Look, operation: Operation) -> Operation | None:
    """A sum of elements that are gathered along an axis by constant places, each times its weight."""
    if operation.opcode != "reduce" or isinstance(operation.type, tuple) or operation.shape.dtype != "f32":
        return None
    axis, product = (
        Dimensions.of(operation).dimensions[0] - 1,
        look.made_by(operation.operands[0], "multiply", once=True),
    )
    if reducer(operation) != "add" or look.scalar(operation.operands[1]) != 0 or product is None or axis < 0:
        return None
    gather, spread = (look.known[value] for value in product.operands)
    if gather.opcode != "gather" or spread.opcode != "broadcast" or look.uses[gather.id] > 1:
        return None
    weights, starts, shape = look.constant(spread.operands[0]), look.constant(gather.operands[1]), product.shape
    along, source = (axis, axis + 1), look.known[gather.operands[0]].shape
    if Dimensions.of(spread).dimensions != along or len(Dimensions.of(operation).dimensions) > 1:
        return None
    given = Gather.of(gather)
    wanted = replace(
        given, indexed=(axis,), collapsed=(axis,), operand_batch=(), vector=2,
        offset=tuple(other for other in range(shape.rank) if other not in along),
    )  # fmt: skip
    if weights is None or starts is None or given != wanted:
        return None
    sizes = tuple(as_size(size) for size in Gather.of(gather).sizes)
    if sizes != (*source.sizes[:axis], Size(1), *source.sizes[axis + 1 :]) or not source.sizes[axis].is_constant:
        return None
    # HLO's gather clamps places so that they lie inside the array.
    places = np.clip(starts.reshape(weights.shape), 0, source.sizes[axis].constant - 1).astype(np.int32)
    return replace(
        operation, opcode="interpolate", attributes=Along(axis=axis), regions=(),
        operands=(gather.operands[0], spread.operands[0], look.add_constant(places, operation)),
    )  # fmt: skip
