"""Transposes of images behind what follows them: exporters of PyTorch put one on each side of a convolution.

An operation of transposed arrays becomes the same operation of the arrays, and a transpose of its result, until the
transpose meets its opposite. Layers and what is fused into them then stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tfaot_pkg.compiler.expressions import ELEMENTWISE
from tfaot_pkg.compiler.program import Operation, Shape

_MAKES_IMAGES = frozenset({"convolution", "reduce-window"})
_KEEPS_IMAGES = frozenset({*ELEMENTWISE, "broadcast", "concatenate", "pad", "reduce", "reshape", "slice", "transpose"})
_MOVED = frozenset({*ELEMENTWISE, "concatenate", "reduce"})
_Add = Callable[[Operation], int]


def is_image(operation: Operation, images: set[int]) -> bool:
    """Whether `operation` gives an image, or what is made of one without a layer; `images` are those before it."""
    if operation.opcode in _MAKES_IMAGES:
        return True
    return operation.opcode in _KEEPS_IMAGES and any(operand in images for operand in operation.operands)


def sunk(operation: Operation, made: Mapping[int, Operation], images: set[int], add: _Add) -> int | None:
    """The value of `operation` as a transpose of one that is not transposed; None if that is not possible.

    Other arrays than images keep their order: products take transposed operands and results as they are.
    """
    if operation.opcode not in _MOVED or isinstance(operation.type, tuple):
        return None
    count = 1 if operation.opcode == "reduce" else len(operation.operands)
    arrays = [made[operand] for operand in operation.operands[:count]]
    turned = [each for each in arrays if each.opcode == "transpose"]
    orders = {each.attributes["dimensions"] for each in turned}
    if len(orders) != 1 or not any(each.operands[0] in images for each in turned):
        return None
    if any(each.opcode not in ("transpose", "broadcast", "constant") and each.shape.rank for each in arrays):
        return None
    (order,) = orders
    back = tuple(order.index(axis) for axis in range(len(order)))
    operands = tuple(_turned_back(each, back, add) for each in arrays)
    if operation.opcode == "reduce":
        return _reduced(operation, (*operands, *operation.operands[count:]), order, add)
    attributes = operation.attributes
    if operation.opcode == "concatenate":
        attributes = {**attributes, "dimensions": tuple(order[axis] for axis in attributes["dimensions"])}
    sizes = tuple(operation.shape.sizes[axis] for axis in back)
    inner = add(replace(operation, type=Shape(operation.shape.dtype, sizes), operands=operands, attributes=attributes))
    return add(_transpose(operation, inner, order))


def _turned_back(array: Operation, back: tuple[int, ...], add: _Add) -> int:
    if not array.shape.rank:
        return array.id
    sizes = tuple(array.shape.sizes[axis] for axis in back)
    return add(
        replace(
            array, opcode="transpose", type=Shape(array.shape.dtype, sizes), operands=(array.id,),
            attributes={"dimensions": back}, regions=(),
        )
    )  # fmt: skip


def _reduced(operation: Operation, operands: tuple[int, ...], order: tuple[int, ...], add: _Add) -> int:
    """The axes that stay are in the order of the array itself: transposed if that is another order."""
    gone = operation.attributes["dimensions"]
    left = [axis for place, axis in enumerate(order) if place not in gone]  # of the result, as axes of the array
    stays = tuple(sorted(left).index(axis) for axis in left)
    sizes = tuple(operation.shape.sizes[stays.index(place)] for place in range(len(stays)))
    attributes = {**operation.attributes, "dimensions": tuple(sorted(order[axis] for axis in gone))}
    inner = add(replace(operation, type=Shape(operation.shape.dtype, sizes), operands=operands, attributes=attributes))
    return add(_transpose(operation, inner, stays))


def _transpose(operation: Operation, value: int, order: tuple[int, ...]) -> Operation:
    return Operation(
        id=0, opcode="transpose", type=operation.type, operands=(value,), attributes={"dimensions": order},
        node=operation.node,
    )  # fmt: skip
