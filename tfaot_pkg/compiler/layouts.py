"""Brings convolutions of any layout to images with channels last, and moves transposes past the operations after them.

Frameworks have different layouts for convolutions, and exporters of PyTorch put a transpose on each side of one. An
operation on transposed arrays becomes the operation on the arrays and a transpose of its result, until the transpose
meets its inverse. Layers and the operations that are fused into them are then neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.expressions import ELEMENTWISE
from tfaot_pkg.compiler.program import ONE, Literal, Operation, Shape, Size

_MAKES_IMAGES = frozenset({"convolution", "reduce-window"})
_KEEPS_IMAGES = frozenset({*ELEMENTWISE, "broadcast", "concatenate", "pad", "reduce", "reshape", "slice", "transpose"})
_MOVED = frozenset({*ELEMENTWISE, "concatenate", "reduce"})
_Add = Callable[[Operation], int]
_NHWC, _HWIO = (0, 3, 1, 2), (3, 2, 0, 1)
"""The dimensions of batch (or outputs and inputs of filters), features, height and width, as HLO numbers them."""


def is_image(operation: Operation, images: set[int]) -> bool:
    """Whether the result is an image, or computed from one without a layer; `images` are the values that are."""
    if operation.opcode in _MAKES_IMAGES:
        return True
    return operation.opcode in _KEEPS_IMAGES and any(operand in images for operand in operation.operands)


def sunk(operation: Operation, made: Mapping[int, Operation], images: set[int], add: _Add) -> int | None:
    """The value of `operation` as the transpose of an operation on untransposed arrays; None if that is not possible.

    Arrays that are not images keep their transposes: products take transposed operands and results in place.
    """
    if operation.opcode not in _MOVED or isinstance(operation.type, tuple):
        return None
    count = 1 if operation.opcode == "reduce" else len(operation.operands)
    arrays = [made[operand] for operand in operation.operands[:count]]
    turned = [each for each in arrays if each.opcode == "transpose"]
    orders = {each.attributes["dimensions"] for each in turned}
    if len(orders) != 1 or not any(each.operands[0] in images for each in turned):
        return None
    # Another operand would need a transpose instead of the one that is removed: nothing would be gained.
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
    """A reduction of the array itself: its remaining axes are transposed if their order differs."""
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


class _Program(Protocol):
    """The program that operations are added to (simplify.py)."""

    @property
    def made(self) -> Mapping[int, Operation]: ...

    def add(self, operation: Operation) -> int: ...


def of_images(program: _Program, operation: Operation, operand: Operation) -> int | Operation:
    """A convolution with constant filters over one, two or three axes as one of images (NHWC, HWIO)."""
    given, count = operation.attributes, operation.shape.rank - 2
    filters = program.made[operation.operands[1]]
    if filters.opcode != "constant" or filters.attributes["literal"].growing or given["batch_groups"] != 1:
        return operation
    if {filters.shape.dtype, operand.shape.dtype, operation.shape.dtype} != {"f32"} or count not in (1, 2, 3):
        return operation
    if count == 2 and (given["input"], given["output"]) == (_NHWC, _NHWC):
        return operation
    if any(operation.shape.sizes[axis].grows for axis in given["output"][1:]):
        return operation
    if count == 3 and not _is_simple(given["window"][0], given["feature_groups"]):
        return operation
    make = _Maker(program, operation)
    # One axis of space is an image of height 1. Of three, the first joins the batch: see `of_volumes`.
    x = make.transposed(operand.id, _spatial(given["input"], first=True))
    weights = make.transposed(filters.id, _spatial(given["kernel"], first=False))
    rows, *space, channels = (operation.shape.sizes[axis] for axis in _spatial(given["output"], first=True))
    if count == 3:
        image = make.of_volumes(x, weights, (rows, *space, channels))
    else:
        side = [ONE] * (2 - count)
        image = make.convolved(
            make.reshaped(x, lambda sizes: (sizes[0], *side, *sizes[1:])),
            make.reshaped(weights, lambda sizes: (*side, *sizes)),
            (rows, *side, *space, channels), ((1, 1, 0, 0, 1, 1),) * len(side) + tuple(given["window"]),
        )  # fmt: skip
        image = make.reshaped(image, lambda _: (rows, *space, channels))
    laid = _spatial(given["output"], first=True)
    return make.transposed(image, tuple(laid.index(axis) for axis in range(len(laid))))


def _spatial(axes: Sequence[int], *, first: bool) -> tuple[int, ...]:
    """The axes in the order batch, space, features; of filters: space, inputs, outputs."""
    batch, features, *space = axes
    return (batch, *space, features) if first else (*space, features, batch)


def _is_simple(depth: Sequence[Any], groups: int) -> bool:
    """Whether the depth of filters can become channels of an image."""
    return groups == 1 and all(isinstance(number, int) for number in depth) and depth[5] == 1


@dataclass(frozen=True, slots=True)
class _Maker:
    """Adds the operations that replace `like` to a program."""

    program: _Program
    like: Operation

    def transposed(self, value: int, order: tuple[int, ...]) -> int:
        sizes = self.program.made[value].shape.sizes
        return self._add("transpose", tuple(sizes[axis] for axis in order), value, dimensions=order)

    def reshaped(self, value: int, to: Callable[[tuple[Size, ...]], tuple[Size, ...]]) -> int:
        return self._add("reshape", to(self.program.made[value].shape.sizes), value)

    def convolved(self, x: int, weights: int, sizes: tuple[Size, ...], window: Sequence[Any]) -> int:
        attributes = {**self.like.attributes, "input": _NHWC, "kernel": _HWIO, "output": _NHWC, "window": tuple(window)}
        return self._add("convolution", sizes, x, weights, **attributes)

    def of_volumes(self, x: int, weights: int, sizes: tuple[Size, ...]) -> int:
        """A convolution over volumes: each slice is an image, and the slices that its filters reach are channels."""
        (taps, stride, low, high, dilation, _), *sides = self.like.attributes["window"]
        rows, layers, *image = sizes
        # Padding of the depth becomes explicit, because slices of it become channels.
        if low or high:
            zero = self._add("constant", (), literal=Literal(np.zeros((), np.float32)))
            padding = ((0, 0, 0), (low, high, 0), *[(0, 0, 0)] * 3)
            given = self.program.made[x].shape.sizes
            x = self._add("pad", (given[0], given[1] + Size(low + high), *given[2:]), x, zero, padding=padding)
        before = self.program.made[x].shape.sizes
        ends = [layers * Size(stride) + Size(tap * dilation - stride + 1) for tap in range(taps)]
        parts = [
            self._add(
                "slice", (rows, layers, *before[2:]), x,
                slices=((0, rows, 1), (tap * dilation, plain(end), stride), *((0, size, 1) for size in before[2:])),
            )
            for tap, end in enumerate(ends)
        ]  # fmt: skip
        channels = before[-1] * Size(taps)
        x = self._add("concatenate", (rows, layers, *before[2:4], channels), *parts, dimensions=(4,))
        x = self.reshaped(x, lambda shape: (rows * layers, *shape[2:]))
        weights = self.transposed(weights, (1, 2, 0, 3, 4))
        weights = self.reshaped(weights, lambda shape: (*shape[:2], channels, shape[4]))
        made = self.convolved(x, weights, (rows * layers, *image), sides)
        return self.reshaped(made, lambda shape: (rows, layers, *shape[1:]))

    def _add(self, opcode: str, sizes: tuple[Size, ...], *operands: int, **attributes: Any) -> int:
        return self.program.add(
            Operation(
                id=0, opcode=opcode, type=Shape("f32", sizes), operands=operands, attributes=attributes,
                node=self.like.node,
            )
        )  # fmt: skip
