"""Convolutions. ONNX has channels in axis 1; the kernel library needs them last."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.attributes import Conv2d, Convolution, Side
from tfaot_pkg.compiler.image_windows import window_of
from tfaot_pkg.compiler.program import ONE, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, number_of
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import element, pad, reverse
from tfaot_pkg.frontends.onnx_lowering.products import centered
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator

Pair = tuple[int, int]


def channels_last(b: Builder, x: Value) -> Value:
    return b.transpose(x, [0, *range(2, x.rank), 1])


def channels_first(b: Builder, x: Value) -> Value:
    return b.transpose(x, [0, x.rank - 1, *range(1, x.rank - 1)])


def by_channel(b: Builder, values: Value, rank: int) -> Value:
    """`values`, one for each channel, in the shape of an array of `rank` axes with channels in axis 1."""
    return b.reshape(values, [*values.sizes, *[ONE] * (rank - 2)])


_LONG_ENOUGH = (
    "give that axis a number in model.shapes, also if it is the first one, such as `x: [100, 8]`; or a range whose "
    "least size holds a window"
)


def paddings(
    call: Call, given: Sequence[Size], kernel: Sequence[int], strides: list[int], holes: list[int]
) -> list[Pair]:
    """(before, after) for each axis of space, of sizes `given`. Raises Refused if a window is longer than its axis."""
    found = _paddings(call, given, kernel, strides, holes)
    for size, width, hole, (low, high) in zip(given, kernel, holes, found, strict=True):
        spread = (width - 1) * hole + 1
        if call.builder.ranges.least(size) + low + high < spread:
            why = f"a window of {spread} elements is longer than an axis of {size} with its padding"
            raise call.fault(why, "" if size.is_constant else _LONG_ENOUGH)
    return found


def _paddings(
    call: Call, given: Sequence[Size], kernel: Sequence[int], strides: list[int], holes: list[int]
) -> list[Pair]:
    mode, count = call.text("auto_pad", "NOTSET"), len(kernel)
    if mode in ("NOTSET", ""):
        pads = call.wholes("pads") or [0] * (2 * count)
        return [(pads[place], pads[place + count]) for place in range(count)]
    if mode == "VALID":
        return [(0, 0)] * count
    found = []
    for size, width, stride, hole in zip(given, kernel, strides, holes, strict=True):
        length = number_of(size)
        if length is None:
            if stride > 1:
                raise call.fault(f"auto_pad {mode} with strides needs the sizes of its input: export explicit pads")
            length = 0  # without strides the padding does not depend on it
        whole = max((-(-length // stride) - 1) * stride + (width - 1) * hole + 1 - length, 0)
        # An odd element is added after the data (UPPER), or before it (LOWER).
        low = whole // 2 if mode == "SAME_UPPER" else whole - whole // 2
        found.append((low, whole - low))
    return found


def steps(call: Call, count: int) -> tuple[list[int], list[int]]:
    """Strides and dilations."""
    return call.wholes("strides") or [1] * count, call.wholes("dilations") or [1] * count


def kernel_of(weights: Value) -> list[int]:
    return [size.constant for size in weights.sizes[2:]]


@operator("Conv")
def _conv(call: Call) -> Value:
    b, x, weights, bias = call.builder, call.input(0), call.input(1), call.maybe(2)
    made = convolution(call, x, weights, bias)
    return channels_first(b, made)


def convolution(call: Call, x: Value, weights: Value, bias: Value | None) -> Value:
    """The convolution of a node, with channels last."""
    b, kernel, groups = call.builder, kernel_of(weights), call.whole("group", 1)
    strides, holes = steps(call, len(kernel))
    pads = paddings(call, x.sizes[2:], kernel, strides, holes)
    sides: list[Side] = [
        (width, stride, low, high, hole, 1)
        for width, stride, (low, high), hole in zip(kernel, strides, pads, holes, strict=True)
    ]
    # ONNX: outputs, inputs of a group, space; the kernel library: space, inputs of a group, outputs.
    filters = b.transpose(weights, [*range(2, weights.rank), 1, 0])
    return convolved(b, channels_last(b, x), filters, sides, groups, bias)


def convolved(
    b: Builder, x: Value, filters: Value, sides: Sequence[Side], groups: int, bias: Value | None = None
) -> Value:
    """A convolution of an array with channels last by filters of space, inputs of a group, and outputs."""
    if len(sides) == 1:
        # As an image of one row.
        wide = b.reshape(x, [x.sizes[0], ONE, *x.sizes[1:]])
        made = convolved(b, wide, b.reshape(filters, [ONE, *filters.sizes]), [(1, 1, 0, 0, 1, 1), *sides], groups, bias)
        return b.reshape(made, [made.sizes[0], *made.sizes[2:]])
    rank = x.rank
    laid = (0, rank - 1, *range(1, rank - 1))
    attributes = Convolution(
        input=laid, kernel=(rank - 1, rank - 2, *range(rank - 2)), output=laid, window=tuple(sides),
        feature_groups=groups, batch_groups=1,
    )  # fmt: skip
    if (layer := _layer(b, x, filters, attributes, bias)) is not None:
        return layer
    made = b.op("convolution", x, filters, attributes=attributes)
    return made if bias is None else Arithmetic(b, made).add(made, bias)


def _layer(b: Builder, x: Value, filters: Value, given: Convolution, bias: Value | None) -> Value | None:
    """The layer of the kernel library, if it has one. Depthwise ones may still take up a padding before them."""
    constants = [filters.numbers, *([] if bias is None else [bias.numbers])]
    if (
        not b.layers
        or x.rank != 4
        or x.dtype != "f32"
        or x.known is not None
        or any(each is None for each in constants)
    ):
        return None
    if given.feature_groups > 1:
        return None
    made = b.shape_of("convolution", [x, filters], given)
    window = window_of(x.shape, made, given.window)
    if window is None:
        return None
    layer = [x, filters, *([] if bias is None else [bias])]
    return b.op("conv2d", *layer, attributes=Conv2d(window=window, groups=given.feature_groups))


@operator("ConvInteger")
def _conv_integer(call: Call) -> Value:
    b, x = call.builder, centered(call.builder, call.input(0), call.maybe(2), -1)
    return channels_first(b, convolution(call, x, whole_filters(b, call.input(1), call.maybe(3)), None))


def whole_filters(b: Builder, weights: Value, zero: Value | None) -> Value:
    """Filters minus their zero point, one for all or one for each, as int32."""
    if zero is not None and zero.rank == 1 and zero.sizes[0] != ONE:
        zero = b.reshape(zero, [*zero.sizes, *[ONE] * (weights.rank - 1)])
    return centered(b, weights, zero, -1)


@operator("ConvTranspose")
def _conv_transpose(call: Call) -> Value:
    b, x, weights, bias = call.builder, call.input(0), call.input(1), call.maybe(2)
    kernel, groups = kernel_of(weights), call.whole("group", 1)
    count = len(kernel)
    strides, holes = steps(call, count)
    extra = call.wholes("output_padding") or [0] * count
    spread = [(width - 1) * hole + 1 for width, hole in zip(kernel, holes, strict=True)]
    pads = _cropped(call, x.sizes[2:], strides, spread, extra)
    # The transpose of a convolution is a convolution of the image with zeros between its elements, by turned filters.
    sides: list[Side] = [
        (width, 1, reach - 1 - low, reach - 1 - high + more, hole, stride)
        for width, reach, (low, high), more, hole, stride in zip(
            kernel, spread, pads, extra, holes, strides, strict=True
        )
    ]
    filters = _turned(b, weights, groups)
    made = convolved(b, channels_last(b, x), filters, sides, groups, bias)
    return channels_first(b, made)


def _turned(b: Builder, weights: Value, groups: int) -> Value:
    """[inputs, outputs of a group, space] as filters of space, inputs of a group, outputs, reversed in space."""
    inputs, outputs, *space = (size.constant for size in weights.sizes)
    parts = b.reshape(weights, [Size(groups), Size(inputs // groups), Size(outputs), *map(Size, space)])
    axes = range(3, parts.rank)
    laid = b.transpose(reverse(b, parts, *axes), [*axes, 1, 0, 2])
    return b.reshape(laid, [*map(Size, space), Size(inputs // groups), Size(groups * outputs)])


def _cropped(call: Call, given: Sequence[Size], strides: list[int], spread: list[int], extra: list[int]) -> list[Pair]:
    """What is cut off on both sides of each axis."""
    count, mode, wanted = len(strides), call.text("auto_pad", "NOTSET"), call.wholes("output_shape")
    if not wanted and mode in ("NOTSET", ""):
        pads = call.wholes("pads") or [0] * (2 * count)
        return [(pads[place], pads[place + count]) for place in range(count)]
    if mode == "VALID":
        return [(0, 0)] * count
    found = []
    for place in range(count):
        if wanted:
            size = call.number(given[place], "output_shape needs the sizes of its input")
            whole = strides[place] * (size - 1) + extra[place] + spread[place] - wanted[place - count]
        else:
            whole = spread[place] + extra[place] - strides[place]
        half = whole // 2
        found.append((half, whole - half) if mode == "SAME_UPPER" else (whole - half, half))
    return found


@operator("Col2Im")
def _col2im(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    image, block = call.integers(1, "the sizes of the image"), call.integers(2, "the sizes of a block")
    strides, holes = steps(call, len(block))
    pads = call.wholes("pads") or [0] * (2 * len(block))
    rooms = [size + pads[axis] + pads[axis + len(block)] for axis, size in enumerate(image)]
    counts = [
        (room - (width - 1) * hole - 1) // stride + 1
        for room, width, hole, stride in zip(rooms, block, holes, strides, strict=True)
    ]
    channels = call.number(x.sizes[1], "the number of channels") // prod(block)
    rows = x.sizes[0]
    columns = b.reshape(x, [rows, Size(channels), Size(prod(block)), *map(Size, counts)])
    whole: Value | None = None
    for number, place in enumerate(np.ndindex(*block)):
        part = element(b, columns, 2, number)
        # Its elements are `stride` apart; the padding of the image is cut off again.
        edges = [(0, 0, 0), (0, 0, 0)]
        for axis in range(len(block)):
            low = place[axis] * holes[axis]
            high = rooms[axis] - low - (counts[axis] - 1) * strides[axis] - 1
            edges.append((low - pads[axis], high - pads[axis + len(block)], strides[axis] - 1))
        part = pad(
            b, part, [(plain(Size(low)), plain(Size(high)), inner) for low, high, inner in edges], call.constant(0, x)
        )
        whole = part if whole is None else b.map("add", whole, part)
    if whole is None:
        raise call.fault("a block of no elements")
    return whole
