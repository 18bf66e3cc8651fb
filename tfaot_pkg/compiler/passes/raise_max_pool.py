"""Maxima over windows of images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import MaxPool, Windows, numbers
from tfaot_pkg.compiler.image_windows import window_of
from tfaot_pkg.compiler.layer_types import BYTES
from tfaot_pkg.compiler.program import NUMPY_TYPES, Operation, reducer
from tfaot_pkg.compiler.use_def import Look


def max_pool(look: Look, operation: Operation) -> Operation | None:
    if operation.opcode != "reduce-window" or len(operation.operands) != 2:
        return None
    dtype = operation.shape.dtype
    if operation.shape.rank != 4 or dtype not in ("f32", *BYTES):
        return None
    sides = Windows.of(operation).window
    least = -np.inf if dtype == "f32" else np.iinfo(NUMPY_TYPES[dtype]).min
    # Windows over the batch or over channels are not those of image pooling.
    plain = all(tuple(sides[axis]) == (1, 1, 0, 0, 1, 1) for axis in (0, 3))
    if not plain or reducer(operation) != "maximum" or look.scalar(operation.operands[1]) != least:
        return None
    window = window_of(look.known[operation.operands[0]].shape, operation.shape, sides[1:3])
    known = None if window is None else numbers(window)
    if known is None:
        return None
    return replace(
        operation, opcode="max_pool", operands=operation.operands[:1], attributes=MaxPool(window=known), regions=()
    )
