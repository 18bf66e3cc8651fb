"""Quotients of exponentials and their sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Along, Dimensions
from tfaot_pkg.compiler.program import Operation, reducer
from tfaot_pkg.compiler.use_def import Look

_COLUMNS = 4
"""The least distance of neighbours along an inner axis for a softmax along it: each of these columns fills a lane."""


def softmax(look: Look, operation: Operation) -> Operation | None:
    """exp(x - max(x)) / sum(exp(x - max(x))) over the last axis."""
    if operation.opcode != "divide" or operation.shape.dtype != "f32":
        return None
    exponential = look.made_by(operation.operands[0], "exponential")
    total = _reduced(look, operation.operands[1], "add")
    # exp has two uses: the sum, and the quotient itself.
    if exponential is None or total != exponential.id or look.uses[exponential.id] != 2:
        return None
    difference = look.made_by(exponential.operands[0], "subtract", once=True)
    if difference is None or _reduced(look, difference.operands[1], "maximum") != difference.operands[0]:
        return None
    source = look.known[difference.operands[0]]
    if source.opcode == "transpose" and look.uses[source.id] == 2:
        whole, axis = look.known[source.operands[0]], Dimensions.of(source).dimensions[-1]
        columns = whole.shape.strides[axis]
        if columns.is_constant and columns.constant >= _COLUMNS:
            # TensorFlow has a softmax over the last axis only, and transposes before and after it for other axes.
            made = look.add(
                replace(
                    operation,
                    id=look.fresh(),
                    opcode="softmax",
                    type=whole.type,
                    operands=(whole.id,),
                    attributes=Along(axis=axis),
                )
            )
            return replace(source, id=operation.id, operands=(made.id,))
    last = Along(axis=operation.shape.rank - 1)
    return replace(operation, opcode="softmax", operands=(source.id,), attributes=last, regions=())


def _reduced(look: Look, value: int, by: str) -> int | None:
    """The array whose reduction over the last axis `value` repeats along that axis; None if it is something else."""
    broadcast = look.made_by(value, "broadcast", once=True)
    if broadcast is None or Dimensions.of(broadcast).dimensions != tuple(range(broadcast.shape.rank - 1)):
        return None
    reduce = look.made_by(broadcast.operands[0], "reduce", once=True)
    if reduce is None or Dimensions.of(reduce).dimensions != (broadcast.shape.rank - 1,) or reducer(reduce) != by:
        return None
    start = {"add": 0.0, "maximum": -np.inf}[by]
    return reduce.operands[0] if look.scalar(reduce.operands[1]) == start else None
