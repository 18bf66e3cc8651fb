"""Convolutions over two axes with constant filters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Conv2d, Convolution, TransposedConv2d
from tfaot_pkg.compiler.image_windows import is_woven, window_of
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look


def conv2d(look: Look, operation: Operation) -> Operation | None:
    """A convolution over two axes with constant filters, channels last."""
    if operation.opcode != "convolution" or Convolution.of(operation).batch_groups != 1:
        return None
    filters, attributes = look.constant(operation.operands[1]), Convolution.of(operation)
    if filters is None or filters.ndim != 4 or filters.dtype != np.float32 or operation.shape.rank != 4:
        return None
    # NHWC; each lists batch (or filters) and features before the two axes of the image.
    if (attributes.input, attributes.output) != ((0, 3, 1, 2), (0, 3, 1, 2)):
        return None
    before, sides = look.known[operation.operands[0]].shape, attributes.window
    groups = attributes.feature_groups
    window = window_of(before, operation.shape, sides)
    if window is not None:
        operation = replace(operation, opcode="conv2d", attributes=Conv2d(window=window, groups=groups))
    elif is_woven(before, operation.shape, sides):
        operation = replace(
            operation, opcode="transposed_conv2d", attributes=TransposedConv2d(sides=sides, groups=groups)
        )
    else:
        return None
    out, into, down, right = attributes.kernel
    if (out, into, down, right) != (3, 2, 0, 1):
        ordered = look.add_constant(np.ascontiguousarray(filters.transpose(down, right, into, out)), operation)
        operation = replace(operation, operands=(operation.operands[0], ordered))
    return operation
