"""Brings convolutions of any layout to images with channels last, and moves transposes past the operations after them.

Frameworks have different layouts for convolutions, and exporters of PyTorch put a transpose on each side of one. An
operation on transposed arrays becomes the operation on the arrays and a transpose of its result, until the transpose
meets its inverse. Layers and the operations that are fused into them are then neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.attributes import Constant, Convolution, Dimensions, Dot, Pad, Slices, numbers
from tfaot_pkg.compiler.expressions import ELEMENTWISE
from tfaot_pkg.compiler.image_windows import phases
from tfaot_pkg.compiler.layer_types import BYTES
from tfaot_pkg.compiler.passes.rewriting import Rewrite
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, NUMPY_TYPES, ONE, Attributes, Literal, Operation, Shape, Size

_MAKES_IMAGES = frozenset({"conv2d", "convolution", "interpolate", "max_pool", "reduce-window"})
_KEEPS_IMAGES = frozenset({*ELEMENTWISE, "broadcast", "concatenate", "pad", "reduce", "reshape", "slice", "transpose"})
_MOVED = frozenset({*ELEMENTWISE, "concatenate", "reduce"})
_TURNED = ("transpose", "broadcast", "constant")
_MOST_TAPS = 64
"""Elements of a window at most that are copied: each has a loop of its own."""
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
    order = _order_of_images(arrays, images)
    # Another operand would need a transpose instead of the one that is removed: nothing would be gained.
    if order is None or any(each.opcode not in _TURNED and each.shape.rank for each in arrays):
        return None
    back = tuple(order.index(axis) for axis in range(len(order)))
    operands = tuple(_turned_back(each, back, add) for each in arrays)
    if operation.opcode == "reduce":
        return _reduced(operation, (*operands, *operation.operands[count:]), order, add)
    attributes = operation.attributes
    if operation.opcode == "concatenate":
        attributes = Dimensions(dimensions=tuple(order[axis] for axis in Dimensions.of(operation).dimensions))
    sizes = tuple(operation.shape.sizes[axis] for axis in back)
    inner = add(replace(operation, type=Shape(operation.shape.dtype, sizes), operands=operands, attributes=attributes))
    images.add(inner)
    return add(_transpose(operation, inner, order))


def _order_of_images(arrays: Sequence[Operation], images: set[int]) -> tuple[int, ...] | None:
    """The order in which all transposes among `arrays` have images, of which there is one; None for several or none."""
    turned = [each for each in arrays if each.opcode == "transpose"]
    orders = {Dimensions.of(each).dimensions for each in turned}
    if len(orders) != 1 or not any(each.operands[0] in images or _are_pixels(each) for each in turned):
        return None
    return orders.pop()


def _are_pixels(transpose: Operation) -> bool:
    """Whether bytes are brought to the order of PyTorch's images: what follows makes numbers of them first."""
    order = Dimensions.of(transpose).dimensions
    return transpose.shape.dtype in BYTES and len(order) > 3 and order == (0, len(order) - 1, *range(1, len(order) - 1))


def _turned_back(array: Operation, back: tuple[int, ...], add: _Add) -> int:
    if not array.shape.rank:
        return array.id
    sizes = tuple(array.shape.sizes[axis] for axis in back)
    return add(
        replace(
            array, opcode="transpose", type=Shape(array.shape.dtype, sizes), operands=(array.id,),
            attributes=Dimensions(dimensions=back), regions=(),
        )
    )  # fmt: skip


def _reduced(operation: Operation, operands: tuple[int, ...], order: tuple[int, ...], add: _Add) -> int:
    """A reduction of the array itself: its remaining axes are transposed if their order differs."""
    gone = Dimensions.of(operation).dimensions
    left = [axis for place, axis in enumerate(order) if place not in gone]  # of the result, as axes of the array
    stays = tuple(sorted(left).index(axis) for axis in left)
    sizes = tuple(operation.shape.sizes[stays.index(place)] for place in range(len(stays)))
    attributes = Dimensions(dimensions=tuple(sorted(order[axis] for axis in gone)))
    inner = add(replace(operation, type=Shape(operation.shape.dtype, sizes), operands=operands, attributes=attributes))
    return add(_transpose(operation, inner, stays))


def _transpose(operation: Operation, value: int, order: tuple[int, ...]) -> Operation:
    return Operation(
        id=0, opcode="transpose", type=operation.type, operands=(value,), attributes=Dimensions(dimensions=order),
        node=operation.node,
    )  # fmt: skip


def of_images(program: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """A convolution with constant filters over one, two or three axes as one of images (NHWC, HWIO)."""
    given, count = Convolution.of(operation), operation.shape.rank - 2
    filters = program.made[operation.operands[1]]
    if not _has_constant_filters(operation, operand, filters):
        return operation
    if operation.shape.dtype == "f64":
        return _of_windows(program, operation, operand, filters)
    if operation.shape.dtype != "f32":
        return operation
    if count == 2 and (given.input, given.output) == (_NHWC, _NHWC):
        return operation
    if any(operation.shape.sizes[axis].grows for axis in given.output[1:]):
        return operation
    if count == 3 and not _is_simple(given.window[0], given.feature_groups):
        return operation
    depths = (operation.shape.sizes[given.output[2]], operand.shape.sizes[given.input[2]])
    if count == 3 and given.window[0][5] != 1 and not all(size.is_constant for size in depths):
        return operation
    make = _Maker(program, operation)
    # One axis of space is an image of height 1. Of three, the first joins the batch: see `of_volumes`.
    x = make.transposed(operand.id, _spatial(given.input, first=True))
    weights = make.transposed(filters.id, _spatial(given.kernel, first=False))
    rows, *space, channels = (operation.shape.sizes[axis] for axis in _spatial(given.output, first=True))
    if count == 3:
        image = make.of_volumes(x, weights, (rows, *space, channels))
    else:
        side = [ONE] * (2 - count)
        image = make.convolved(
            make.reshaped(x, lambda sizes: (sizes[0], *side, *sizes[1:])),
            make.reshaped(weights, lambda sizes: (*side, *sizes)),
            (rows, *side, *space, channels), ((1, 1, 0, 0, 1, 1),) * len(side) + tuple(given.window),
        )  # fmt: skip
        image = make.reshaped(image, lambda _: (rows, *space, channels))
    laid = _spatial(given.output, first=True)
    return make.transposed(image, tuple(laid.index(axis) for axis in range(len(laid))))


def _has_constant_filters(operation: Operation, operand: Operation, filters: Operation) -> bool:
    """Whether a convolution over one, two or three axes has filters that are known, of the type of the image."""
    if filters.opcode != "constant" or Constant.of(filters).literal.growing:
        return False
    is_of_one_type = {filters.shape.dtype, operand.shape.dtype} == {operation.shape.dtype}
    return is_of_one_type and operation.shape.rank in (3, 4, 5) and Convolution.of(operation).batch_groups == 1


def _spatial(axes: Sequence[int], *, first: bool) -> tuple[int, ...]:
    """The axes in the order batch, space, features; of filters: space, inputs, outputs."""
    batch, features, *space = axes
    return (batch, *space, features) if first else (*space, features, batch)


def _is_simple(depth: Sequence[Any], groups: int) -> bool:
    """Whether the depth of filters can become channels of an image, phase by phase if the image is dilated."""
    if groups != 1 or not all(isinstance(number, int) for number in depth):
        return False
    return depth[5] == 1 or phases((depth,)) is not None


def _of_windows(program: Rewrite, operation: Operation, operand: Operation, filters: Operation) -> int | Operation:
    """A convolution of float64, for which there are products but no windows, as a product of copied windows."""
    given = Convolution.of(operation)
    sides = [side for each in given.window if (side := numbers(each)) is not None]
    if len(sides) < len(given.window) or given.feature_groups != 1 or math.prod(s[0] for s in sides) > _MOST_TAPS:
        return operation
    if any(operation.shape.sizes[axis].grows for axis in given.output[1:]):
        return operation
    make = _Maker(program, operation)
    x = make.transposed(operand.id, _spatial(given.input, first=True))
    weights = make.transposed(filters.id, _spatial(given.kernel, first=False))
    laid = _spatial(given.output, first=True)
    made = make.multiplied(x, weights, sides, tuple(operation.shape.sizes[axis] for axis in laid))
    return make.transposed(made, tuple(laid.index(axis) for axis in range(len(laid))))


@dataclass(frozen=True, slots=True)
class _Maker:
    """Adds the operations that replace `like` to a program."""

    program: Rewrite
    like: Operation

    def transposed(self, value: int, order: tuple[int, ...]) -> int:
        sizes = self.program.made[value].shape.sizes
        return self._add(
            "transpose", tuple(sizes[axis] for axis in order), value, attributes=Dimensions(dimensions=order)
        )

    def reshaped(self, value: int, to: Callable[[tuple[Size, ...]], tuple[Size, ...]]) -> int:
        return self._add("reshape", to(self.program.made[value].shape.sizes), value)

    def convolved(self, x: int, weights: int, sizes: tuple[Size, ...], window: Sequence[Any]) -> int:
        attributes = replace(Convolution.of(self.like), input=_NHWC, kernel=_HWIO, output=_NHWC, window=tuple(window))
        return self._add("convolution", sizes, x, weights, attributes=attributes)

    def of_volumes(self, x: int, weights: int, sizes: tuple[Size, ...]) -> int:
        """A convolution over volumes; a transposed one by phases of the depth, each with elements of the filters."""
        depth = numbers(Convolution.of(self.like).window[0])
        assert depth is not None  # `_is_simple`
        step, layers, found = depth[5], sizes[1], phases((depth,))
        if step == 1 or found is None:
            return self._of_layers(x, weights, sizes, depth)
        # All phases have as many slices; the last ones may have one too many.
        count = (layers + Size(step - 1 - (layers.constant + step - 1) % step)).divided(step) or ONE
        given, before = self.program.made[weights].shape.sizes, self.program.made[x].shape.sizes[1]
        made = []
        for phase in found[0]:
            size = (Size(phase.taps), *given[1:])
            cut = ((phase.first, plain(given[0]), step), *((0, plain(each), 1) for each in given[1:]))
            seen = self._add("slice", size, weights, attributes=Slices(slices=cut))
            high = count.constant - 1 + phase.taps - before.constant - phase.padding
            window = (phase.taps, 1, phase.padding, max(high, 0), 1, 1)
            made.append(self._of_layers(x, seen, (sizes[0], count, *sizes[2:]), window))
        apart = [self.reshaped(each, lambda shape: (*shape[:2], ONE, *shape[2:])) for each in made]
        image = self._add(
            "concatenate", (sizes[0], count, Size(step), *sizes[2:]), *apart, attributes=Dimensions(dimensions=(2,))
        )
        image = self.reshaped(image, lambda shape: (shape[0], count * Size(step), *shape[3:]))
        if count * Size(step) == layers:
            return image
        return self._add("slice", sizes, image, attributes=Slices(slices=tuple((0, plain(size), 1) for size in sizes)))

    def _of_layers(self, x: int, weights: int, sizes: tuple[Size, ...], depth: Sequence[int]) -> int:
        """Each slice of a volume as an image: the slices that its filters reach are channels."""
        (taps, stride, low, high, dilation, _), sides = depth, Convolution.of(self.like).window[1:]
        rows, layers, *image = sizes
        # Padding of the depth becomes explicit, because slices of it become channels.
        if low or high:
            x = self.padded(x, [(low, high, 0), *[(0, 0, 0)] * 2])
        before = self.program.made[x].shape.sizes
        ends = [layers * Size(stride) + Size(tap * dilation - stride + 1) for tap in range(taps)]
        parts = [
            self._add(
                "slice", (rows, layers, *before[2:]), x,
                attributes=Slices(
                    slices=((0, rows, 1), (tap * dilation, plain(end), stride), *((0, size, 1) for size in before[2:]))
                ),
            )
            for tap, end in enumerate(ends)
        ]  # fmt: skip
        channels = before[-1] * Size(taps)
        x = self._add(
            "concatenate", (rows, layers, *before[2:4], channels), *parts, attributes=Dimensions(dimensions=(4,))
        )
        x = self.reshaped(x, lambda shape: (rows * layers, *shape[2:]))
        weights = self.transposed(weights, (1, 2, 0, 3, 4))
        weights = self.reshaped(weights, lambda shape: (*shape[:2], channels, shape[4]))
        made = self.convolved(x, weights, (rows * layers, *image), sides)
        return self.reshaped(made, lambda shape: (rows, layers, *shape[1:]))

    def padded(self, x: int, spaces: Sequence[tuple[int, int, int]]) -> int:
        """An image of channels last with zeros around its axes, and between elements of them."""
        zero = self._add(
            "constant", (), attributes=Constant(literal=Literal(np.zeros((), NUMPY_TYPES[self.like.shape.dtype])))
        )
        given = self.program.made[x].shape.sizes
        sizes = [
            size + Size(low + high) + (size + Size(-1)) * Size(between)
            for size, (low, high, between) in zip(given[1:-1], spaces, strict=True)
        ]
        padding = ((0, 0, 0), *spaces, (0, 0, 0))
        return self._add("pad", (given[0], *sizes, given[-1]), x, zero, attributes=Pad(padding=padding))

    def multiplied(self, x: int, weights: int, sides: Sequence[Sequence[int]], sizes: tuple[Size, ...]) -> int:
        """The windows of an image, each of them a row, times the filters."""
        (rows, *space, _) = sizes
        spaces = [(low, high, base - 1) for _, _, low, high, _, base in sides]
        if any(map(any, spaces)):
            x = self.padded(x, spaces)
        channels, parts = self.program.made[x].shape.sizes[-1], []
        for places in product(*(range(size) for size, *_ in sides)):
            cut = [
                (place * dilation, plain(count * Size(stride) + Size(place * dilation - stride + 1)), stride)
                for place, count, (_, stride, _, _, dilation, _) in zip(places, space, sides, strict=True)
            ]
            slices = ((0, plain(rows), 1), *cut, (0, plain(channels), 1))
            parts.append(self._add("slice", (rows, *space, channels), x, attributes=Slices(slices=slices)))
        inner = channels * Size(len(parts))
        windows = self._add(
            "concatenate", (rows, *space, inner), *parts, attributes=Dimensions(dimensions=(len(space) + 1,))
        )
        matrix = self.reshaped(weights, lambda shape: (inner, shape[-1]))
        contracting = ((len(space) + 1,), (0,))
        return self._add("dot", sizes, windows, matrix, attributes=Dot(contracting=contracting, batch=((), ())))

    def _add(self, opcode: str, sizes: tuple[Size, ...], *operands: int, attributes: Attributes = NO_ATTRIBUTES) -> int:
        return self.program.add(
            Operation(
                id=0, opcode=opcode, type=Shape(self.like.shape.dtype, sizes), operands=operands, attributes=attributes,
                node=self.like.node,
            )
        )  # fmt: skip
