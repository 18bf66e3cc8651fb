"""What follows a layer and becomes part of it: scales and offsets by channel, an activation, a reshape.

Weights and biases are computed in float64 and rounded once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.activations import activated
from tfaot_pkg.compiler.expressions import ELEMENTWISE
from tfaot_pkg.compiler.look import Look
from tfaot_pkg.compiler.program import Operation

LAYERS = ("dense", "conv2d", "transposed_conv2d")


def absorbed(look: Look, operation: Operation) -> Operation | None:
    """The layer that gives what `operation` gives."""
    match operation.opcode:
        case "reshape":
            made = _reshaped(look, operation)
        case "multiply" | "divide":
            made = _scaled(look, operation)
        case "add" | "subtract":
            made = _offset(look, operation)
        case _:
            made = None
    return made or _activation(look, operation) or _below_moves(look, operation)


def _below_moves(look: Look, operation: Operation) -> Operation | None:
    """What treats all elements alike may come before they are moved: then it is part of the layer."""
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
    layer = absorbed(look, replace(operation, id=look.fresh(), type=base.type, operands=operands))
    if layer is None:
        return None
    look.add(layer)
    for move in moves[:0:-1]:
        layer = look.add(replace(move, id=look.fresh(), operands=(layer.id,)))
    return replace(moves[0], id=operation.id, operands=(layer.id,))


def _plain_layer(look: Look, value: int) -> Operation | None:
    """The layer that makes `value` for nothing else: if others used it, it would be computed twice."""
    found = look.made_by(value, *LAYERS, once=True)
    return found if found is not None and found.attributes["activation"] == "none" else None


def _reshaped(look: Look, operation: Operation) -> Operation | None:
    found = look.made_by(operation.operands[0], "dense", once=True)
    if found is None or not operation.shape.rank or operation.shape.sizes[-1] != found.shape.sizes[-1]:
        return None
    return replace(found, id=operation.id, type=operation.type)


def _by_channel(look: Look, value: int, channels: int) -> Array | None:
    """What a constant is for each channel."""
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
            scale = factor if operation.opcode == "multiply" else 1.0 / factor
        weights = look.constant(layer.operands[1])
        if weights is None or not np.all(np.isfinite(scale)):
            continue
        # The output channel is the last axis, or the first one of a transposed matrix.
        by = scale[:, None] if layer.attributes.get("weights_axis") == 1 else scale
        operands = [layer.operands[0], look.add_constant((weights * by).astype(np.float32), layer)]
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
    if found is None or layer is None or layer.opcode not in LAYERS or layer.attributes["activation"] != "none":
        return None
    return replace(layer, id=operation.id, attributes={**layer.attributes, "activation": found[1]})
