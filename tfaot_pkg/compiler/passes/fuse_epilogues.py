"""Operations after a layer that become part of it: scales and offsets by channel, an activation, a reshape.

Weights and biases are computed in float64 and rounded once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Dense, Dimensions, Layer
from tfaot_pkg.compiler.expressions import ELEMENTWISE
from tfaot_pkg.compiler.passes.layer_weights import LAYERS, bias_of, channels, rounded
from tfaot_pkg.compiler.passes.raise_activations import activated
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array

_BY_CHANNEL = frozenset({"add", "subtract", "multiply", "divide"})


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
        if constant is None or constant.size != channels(layer) or axes != last:
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


def _scaled(look: Look, operation: Operation) -> Operation | None:
    orders = [operation.operands] + ([operation.operands[::-1]] if operation.opcode == "multiply" else [])
    for value, other in orders:
        layer = _plain_layer(look, value)
        factor = _by_channel(look, other, channels(layer)) if layer is not None else None
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
        made = rounded(weights.astype(np.float64) * by)
        if made is None:
            continue
        operands = [layer.operands[0], look.add_constant(made, layer)]
        if len(layer.operands) > 2:
            operands.append(look.add_constant((bias_of(look, layer) * scale).astype(np.float32), layer))
        return replace(layer, id=operation.id, operands=tuple(operands))
    return None


def _offset(look: Look, operation: Operation) -> Operation | None:
    orders = [operation.operands] + ([operation.operands[::-1]] if operation.opcode == "add" else [])
    for value, other in orders:
        layer = _plain_layer(look, value)
        offset = _by_channel(look, other, channels(layer)) if layer is not None else None
        if layer is None or offset is None:
            continue
        total = bias_of(look, layer) + (offset if operation.opcode == "add" else -offset)
        bias = look.add_constant(total.astype(np.float32), layer)
        return replace(layer, id=operation.id, operands=(*layer.operands[:2], bias), node=operation.node)
    return None


def _activation(look: Look, operation: Operation) -> Operation | None:
    found = activated(look, operation)
    layer = look.known[found[0]] if found is not None else None
    if found is None or layer is None or layer.opcode not in LAYERS or Layer.of(layer).activation != "none":
        return None
    return replace(layer, id=operation.id, attributes=replace(Layer.of(layer), activation=found[1]))
