"""Operations that become part of a layer: scales and offsets by channel before or after it, an activation, a reshape.

Weights and biases are computed in float64 and rounded once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.activations import activated
from tfaot_pkg.compiler.attributes import Conv2d, Dense, Dimensions, Layer
from tfaot_pkg.compiler.expressions import ELEMENTWISE
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look

_BY_CHANNEL = frozenset({"add", "subtract", "multiply", "divide"})
LAYERS = ("dense", "conv2d", "transposed_conv2d")
_LARGEST_OFFSET = 16.0
"""The largest offset of a layer's input that moves into its bias: products lose about as many units in the last place,
as a sum of a hundred products does anyway. A larger offset cancels most of what it is added to (a year, an energy in
MeV): then small differences are left, which must be computed before they are multiplied."""


def absorbed(look: Look, operation: Operation) -> Operation | None:
    """The layer that computes the result of `operation` as well; None if no layer can."""
    match operation.opcode:
        case "reshape":
            made = _reshaped(look, operation)
        case "multiply" | "divide":
            made = _scaled(look, operation)
        case "add" | "subtract":
            made = _offset(look, operation)
        case _:
            made = None
    return made or _activation(look, operation) or _below_moves(look, operation) or _below_heads(look, operation)


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
    made = _rounded(_with_scale(operation, weights.astype(np.float64), scale))
    if made is None or not np.all(np.isfinite(offset)):
        return None
    value = found[0]
    if moved is not None:
        value = look.add(replace(moved, id=look.fresh(), operands=(value,))).id
    operands = [value, look.add_constant(made, operation), *operation.operands[2:]]
    if np.any(offset):
        bias = _bias(look, operation) + _sum_of(_with_scale(operation, weights.astype(np.float64), offset), operation)
        operands[2:] = [look.add_constant(bias.astype(np.float32), operation)]
    return replace(operation, operands=tuple(operands))


def _rounded(weights: Any) -> Array | None:
    """`weights` in float32; None if one is out of range: an input of 0 times infinity would be NaN instead of 0."""
    with np.errstate(all="ignore"):
        made: Array = weights.astype(np.float32)
    return made if np.all(np.isfinite(made)) else None


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
    groups, (into, out) = Conv2d.of(layer).groups, weights.shape[2:]
    # HLO's feature groups: filters of a group lie side by side, and read the channels of that group only.
    of_filters = np.repeat(scale.reshape(groups, into), out // groups, axis=0)  # filters x channels of their group
    return weights * of_filters.T


def _sum_of(weights: Any, layer: Operation) -> Any:
    """The sum of each output channel's weights."""
    if layer.opcode == "dense":
        return weights.sum(axis=1 if Dense.of(layer).weights_axis == 1 else 0)
    return weights.sum(axis=(0, 1, 2))


def _below_moves(look: Look, operation: Operation) -> Operation | None:
    """An operation that treats all elements alike may come before elements are moved: then the layer absorbs it."""
    values = [operand for operand in operation.operands if look.scalar(operand) is None]
    if operation.opcode not in ELEMENTWISE or len(values) != 1:
        return None
    moves: list[Operation] = []
    base = look.known[values[0]]
    while base.opcode in ("reshape", "transpose") and look.uses[base.id] == 1:
        moves.append(base)
        base = look.known[base.operands[0]]
    if not moves or _plain_layer(look, base.id) is None or operation.type != moves[0].type:
        return None
    operands = tuple(base.id if operand == values[0] else operand for operand in operation.operands)
    # This recursion has one level: `base` is a layer, so there are no more moves to pass.
    layer = absorbed(look, replace(operation, id=look.fresh(), type=base.type, operands=operands))
    if layer is None:
        return None
    look.add(layer)
    # From the layer outwards: all moves except the last, which keeps the id that others read.
    for move in moves[:0:-1]:
        layer = look.add(replace(move, id=look.fresh(), operands=(layer.id,)))
    return replace(moves[0], id=operation.id, operands=(layer.id,))


def _below_heads(look: Look, operation: Operation) -> Operation | None:
    """The same for a constant over the last axes, into which a layer's channels were split: the bias of attention."""
    # Decision 070: as separate operations, these biases made five passes over the candidates of DeepJet's network.
    if operation.opcode not in _BY_CHANNEL:
        return None
    for value, other in (operation.operands, operation.operands[::-1]):
        move, spread = look.made_by(value, "reshape", once=True), look.made_by(other, "broadcast")
        layer = _plain_layer(look, move.operands[0]) if move is not None else None
        if move is None or layer is None or spread is None:
            continue
        constant, axes = look.constant(spread.operands[0]), Dimensions.of(spread).dimensions
        last = tuple(range(operation.shape.rank))[operation.shape.rank - len(axes) :]
        if constant is None or constant.size != _channels(layer) or axes != last:
            continue
        by_channel = look.add_constant(constant.reshape(-1), layer)
        operands = tuple(layer.id if operand == value else by_channel for operand in operation.operands)
        made = absorbed(look, replace(operation, id=look.fresh(), type=layer.type, operands=operands))
        if made is not None:
            return replace(move, id=operation.id, operands=(look.add(made).id,))
    return None


def _plain_layer(look: Look, value: int) -> Operation | None:
    """The layer that computes `value` for one use: with several, it would be computed twice."""
    found = look.made_by(value, *LAYERS, once=True)
    return found if found is not None and Layer.of(found).activation == "none" else None


def _reshaped(look: Look, operation: Operation) -> Operation | None:
    found = look.made_by(operation.operands[0], "dense", once=True)
    # The channels stay the last axis: only rows are split or merged.
    if found is None or not operation.shape.rank or operation.shape.sizes[-1] != found.shape.sizes[-1]:
        return None
    return replace(found, id=operation.id, type=operation.type)


def _by_channel(look: Look, value: int, channels: int) -> Array | None:
    """A constant as one number per channel."""
    number = look.scalar(value)
    if number is not None:
        return np.full(channels, number)
    vector = look.along_last(value)
    found = look.constant(vector) if vector is not None else look.constant(value)
    return found.astype(np.float64) if found is not None and found.shape == (channels,) else None


def _channels(layer: Operation) -> int:
    return layer.shape.sizes[-1].constant


def _scaled(look: Look, operation: Operation) -> Operation | None:
    orders = [operation.operands] + ([operation.operands[::-1]] if operation.opcode == "multiply" else [])
    for value, other in orders:
        layer = _plain_layer(look, value)
        factor = _by_channel(look, other, _channels(layer)) if layer is not None else None
        if layer is None or factor is None:
            continue
        with np.errstate(divide="ignore"):
            # In float64, so that quotient and product are rounded once, together.
            scale = factor if operation.opcode == "multiply" else 1.0 / factor
        weights = look.constant(layer.operands[1])
        if weights is None:
            continue
        # The output channel is the last axis, or the first one of a transposed matrix.
        by = scale[:, None] if layer.opcode == "dense" and Dense.of(layer).weights_axis == 1 else scale
        made = _rounded(weights.astype(np.float64) * by)
        if made is None:
            continue
        operands = [layer.operands[0], look.add_constant(made, layer)]
        if len(layer.operands) > 2:
            operands.append(look.add_constant((_bias(look, layer) * scale).astype(np.float32), layer))
        return replace(layer, id=operation.id, operands=tuple(operands))
    return None


def _bias(look: Look, layer: Operation) -> Any:
    bias = look.constant(layer.operands[2]) if len(layer.operands) > 2 else None
    return np.zeros(_channels(layer)) if bias is None else bias.astype(np.float64)


def _offset(look: Look, operation: Operation) -> Operation | None:
    orders = [operation.operands] + ([operation.operands[::-1]] if operation.opcode == "add" else [])
    for value, other in orders:
        layer = _plain_layer(look, value)
        offset = _by_channel(look, other, _channels(layer)) if layer is not None else None
        if layer is None or offset is None:
            continue
        total = _bias(look, layer) + (offset if operation.opcode == "add" else -offset)
        bias = look.add_constant(total.astype(np.float32), layer)
        return replace(layer, id=operation.id, operands=(*layer.operands[:2], bias), node=operation.node)
    return None


def _activation(look: Look, operation: Operation) -> Operation | None:
    found = activated(look, operation)
    layer = look.known[found[0]] if found is not None else None
    if found is None or layer is None or layer.opcode not in LAYERS or Layer.of(layer).activation != "none":
        return None
    return replace(layer, id=operation.id, attributes=replace(Layer.of(layer), activation=found[1]))
