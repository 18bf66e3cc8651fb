"""Scales and offsets by channel before a layer that become part of its weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tfaot_pkg.compiler.attributes import Conv2d, Dense, TransposedConv2d
from tfaot_pkg.compiler.passes.layer_weights import LAYERS, bias_of, rounded
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array

_LARGEST_OFFSET = 16.0
"""The largest offset of a layer's input that moves into its bias: products lose about as many units in the last place,
as a sum of a hundred products does anyway. A larger offset cancels most of what it is added to (a year, an energy in
MeV): then small differences are left, which must be computed before they are multiplied."""


def preceded(look: Look, operation: Operation) -> Operation | None:
    """The layer with the scale and offset by channel of its input in its weights, as of a batch normalization.

    (x * scale + offset) W + b = x (scale W) + (offset W + b), if nothing else uses the sum. (x - mean) * scale stays as
    it is: the difference is exact if both are close, but the difference of their products is not.
    """
    weights = look.constant(operation.operands[1]) if operation.opcode in LAYERS else None
    # Weights that other layers share would be stored twice if they were scaled here.
    if weights is None or look.uses[operation.operands[1]] > 1:
        return None
    channels = look.known[operation.operands[0]].shape.sizes[-1]
    moved = look.made_by(operation.operands[0], "reshape", once=True)
    value, offset = operation.operands[0] if moved is None else moved.operands[0], np.zeros(1)
    added = look.made_by(value, "add", once=True)
    if added is not None:
        found = _by_last_axis(look, added)
        if found is None:
            return None
        value, offset = found
    scaled = look.made_by(value, "multiply", once=True)
    found = _by_last_axis(look, scaled) if scaled is not None else None
    if found is None or not channels.is_constant or channels.constant % max(found[1].size, offset.size):
        return None
    scale, offset = (np.resize(each, channels.constant) for each in (found[1], offset))
    if np.any(offset) and (not _sees_no_padding(operation) or np.abs(offset).max() > _LARGEST_OFFSET):
        return None
    made = rounded(_with_scale(operation, weights.astype(np.float64), scale))
    if made is None or not np.all(np.isfinite(offset)):
        return None
    value = found[0]
    if moved is not None:
        value = look.add(replace(moved, id=look.fresh(), operands=(value,))).id
    operands = [value, look.add_constant(made, operation), *operation.operands[2:]]
    if np.any(offset):
        bias = bias_of(look, operation) + _sum_of(_with_scale(operation, weights.astype(np.float64), offset), operation)
        operands[2:] = [look.add_constant(bias.astype(np.float32), operation)]
    return replace(operation, operands=tuple(operands))


def _by_last_axis(look: Look, operation: Operation) -> tuple[int, Array] | None:
    """The value and the constant of a binary operation; the constant along the last axis, or one number for all."""
    for value, other in (operation.operands, operation.operands[::-1]):
        number, vector = look.scalar(other), look.along_last(other)
        found = np.array([number]) if number is not None else None if vector is None else look.constant(vector)
        if found is not None and found.size and operation.shape.dtype == "f32":
            return value, found.reshape(-1).astype(np.float64)
    return None


def _sees_no_padding(layer: Operation) -> bool:
    """Whether no window covers padding: it is zeros, to which no offset was added."""
    if layer.opcode == "dense":
        return True
    if layer.opcode != "conv2d" or not all(isinstance(number, int) for number in Conv2d.of(layer).window):
        return False
    height, width, _, rows, columns, *rest = Conv2d.of(layer).window
    sides = zip((height, width), (rows, columns), rest[0:2], rest[2:4], rest[4:6], rest[6:8], strict=True)
    return all(
        before == 0 and (made - 1) * stride + (size - 1) * dilation < length
        for length, made, size, stride, dilation, before in sides
    )


def _with_scale(layer: Operation, weights: Any, scale: Any) -> Any:
    """`weights` times `scale` of the channel that each belongs to."""
    if layer.opcode == "dense":
        return weights * (scale if Dense.of(layer).weights_axis == 1 else scale[:, None])
    attributes = TransposedConv2d.of(layer) if layer.opcode == "transposed_conv2d" else Conv2d.of(layer)
    groups, (into, out) = attributes.groups, weights.shape[2:]
    # HLO's feature groups: filters of a group lie side by side, and read the channels of that group only.
    of_filters = np.repeat(scale.reshape(groups, into), out // groups, axis=0)  # filters x channels of their group
    return weights * of_filters.T


def _sum_of(weights: Any, layer: Operation) -> Any:
    """The sum of each output channel's weights."""
    if layer.opcode == "dense":
        return weights.sum(axis=1 if Dense.of(layer).weights_axis == 1 else 0)
    return weights.sum(axis=(0, 1, 2))
