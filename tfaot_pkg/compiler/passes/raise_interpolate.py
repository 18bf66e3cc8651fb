"""Sums of elements that are gathered along an axis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import Along, Dimensions, Gather
from tfaot_pkg.compiler.program import Operation, Shape, Size, reducer
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
    weights, starts = look.constant(spread.operands[0]), look.constant(gather.operands[1])
    source = look.known[gather.operands[0]].shape
    if Dimensions.of(spread).dimensions != (axis, axis + 1) or len(Dimensions.of(operation).dimensions) > 1:
        return None
    if weights is None or starts is None or not _is_along(Gather.of(gather), axis, source, product.shape.rank):
        return None
    # HLO's gather clamps places so that they lie inside the array.
    places = np.clip(starts.reshape(weights.shape), 0, source.sizes[axis].constant - 1).astype(np.int32)
    return replace(
        operation, opcode="interpolate", attributes=Along(axis=axis), regions=(),
        operands=(gather.operands[0], spread.operands[0], look.add_constant(places, operation)),
    )  # fmt: skip


def _is_along(given: Gather, axis: int, source: Shape, rank: int) -> bool:
    """Whether single places along `axis`, whose size is constant, are gathered: the result has two axes of them."""
    wanted = replace(
        given, indexed=(axis,), collapsed=(axis,), operand_batch=(), vector=2,
        offset=tuple(other for other in range(rank) if other not in (axis, axis + 1)),
    )  # fmt: skip
    sizes = (*source.sizes[:axis], Size(1), *source.sizes[axis + 1 :])
    return given == wanted and tuple(map(as_size, given.sizes)) == sizes and source.sizes[axis].is_constant
