"""Dense layers and convolutions whose products are those of bfloat16, in programs whose author asks for them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import (
    Bfloat16Conv2d,
    Bfloat16Dense,
    Conv2d,
    Conv2dMaxPool,
    Dense,
    Dot,
    Layer,
    MaxPool,
)
from tfaot_pkg.compiler.bfloat16 import BLOCK, PARTS, rounded
from tfaot_pkg.compiler.program import Operation, Shape
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array

_FEW = 4
"""Outputs of layers that stay float32: those whose products are added in the tree of a row (decision 039)."""
_ROWS, _ELEMENTS = 16, 4096
"""The least rows, and elements of the second array: of 64 rows with 64 by 32 elements, rounding and packing them takes
as long as products of bfloat16 gain, and attention of 197 tokens and 64 numbers makes a ViT take 0.87 of its time.
"""


def in_bfloat16(look: Look, operation: Operation) -> Operation | None:
    return _dot(look, operation) if operation.opcode == "dot" else in_parts(look, operation, PARTS["bfloat16"])


def _dot(look: Look, operation: Operation) -> Operation | None:
    """A product of two computed arrays, as in attention, if it is large enough."""
    given = Dot.of(operation)
    if operation.shape.dtype != "f32" or any(look.known[each].opcode == "constant" for each in operation.operands):
        return None
    sides = zip((look.known[each].shape for each in operation.operands), given.contracting, given.batch, strict=True)
    extents: list[int] = []  # inputs and rows, inputs and columns
    for shape, over, shared in sides:
        free = [size for axis, size in enumerate(shape.sizes) if axis not in (*over, *shared)]
        if len(over) != 1 or not all(size.is_constant for size in (*free, shape.sizes[over[0]])):
            return None
        extents += [shape.sizes[over[0]].constant, math.prod(size.constant for size in free)]
    inputs, rows, _, columns = extents
    if inputs < BLOCK or rows < _ROWS or inputs * columns < _ELEMENTS:
        return None
    return replace(operation, attributes=replace(given, in_bfloat16=True))


def in_parts(look: Look, operation: Operation, parts: int) -> Operation | None:
    """A layer whose numbers are sums of `parts` numbers of bfloat16.

    Layers with fewer inputs than products are added at a time would be mostly zeros, and stay float32; windows, which
    are read in place, need half as many. So do those with several parts of a weight that is not finite: a product of
    zeros with it would be NaN.
    """
    if operation.opcode not in ("conv2d", "conv2d_max_pool", "dense"):
        return None
    weights = look.constant(operation.operands[1])
    if weights is None or operation.shape.dtype != "f32":
        return None
    if parts > 1 and not np.isfinite(rounded(weights)).all():
        return None
    if operation.opcode == "dense":
        matrix = weights if Dense.of(operation).weights_axis == 0 else weights.T
        return _dense(look, operation, np.ascontiguousarray(matrix), parts) if _pays(*matrix.shape) else None
    least = BLOCK if math.prod(weights.shape[:2]) == 1 else BLOCK // 2
    return _conv2d(look, operation, parts) if _pays(math.prod(weights.shape[:3]), weights.shape[3], least) else None


def _pays(inputs: int, outputs: int, least: int = BLOCK) -> bool:
    return inputs >= least and outputs > _FEW


def _dense(look: Look, operation: Operation, matrix: Array, parts: int) -> Operation:
    x, weights, *bias = operation.operands
    if Dense.of(operation).weights_axis == 1:
        weights = look.add_constant(matrix, operation)
    attributes = Bfloat16Dense(activation=Layer.of(operation).activation, parts=parts)
    return replace(operation, opcode="bfloat16_dense", operands=(x, weights, *bias), attributes=attributes)


def _conv2d(look: Look, operation: Operation, parts: int) -> Operation | None:
    given = Conv2d.of(operation)
    if given.groups != 1 or not all(isinstance(each, int) for each in given.window):
        return None
    attributes = Bfloat16Conv2d(window=given.window, groups=1, activation=given.activation, parts=parts)
    if operation.opcode == "conv2d":
        return replace(operation, opcode="bfloat16_conv2d", attributes=attributes)
    image = look.known[operation.operands[0]].shape
    _, _, _, rows, columns, *_ = given.window
    made = Shape("f32", (image.sizes[0], as_size(rows), as_size(columns), operation.shape.sizes[3]))
    conv = look.add(replace(operation, id=look.fresh(), opcode="bfloat16_conv2d", type=made, attributes=attributes))
    pooled = Conv2dMaxPool.of(operation)
    pool = MaxPool(window=pooled.pool, keeps_nan=pooled.keeps_nan)
    return replace(operation, opcode="max_pool", operands=(conv.id,), attributes=pool)
