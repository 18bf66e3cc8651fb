"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from tfaot_pkg.compiler.attributes import MaxPool, Side, numbers
from tfaot_pkg.compiler.image_windows import window_of
from tfaot_pkg.compiler.program import ONE
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known, number_of
from tfaot_pkg.frontends.onnx_lowering.convolutions import Pair, channels_first, channels_last, paddings, steps
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.reductions import WHOLE, extreme, maximum, mean, total, windowed, windowed_places
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator
from tfaot_pkg.ground.arrays import Array


def _sides(call: Call, x: Value) -> tuple[list[Side], list[Pair]]:
    """The windows over the axes of space, and ONNX's own padding, without that which completes the last windows."""
    kernel = call.wholes("kernel_shape")
    if kernel is None:
        raise call.fault("it has no kernel_shape")
    strides, holes = steps(call, len(kernel))
    pads = paddings(call, x.sizes[2:], kernel, strides, holes)
    sides: list[Side] = [
        (width, stride, low, high, hole, 1)
        for width, stride, hole, (low, high) in zip(kernel, strides, holes, pads, strict=True)
    ]
    if call.whole("ceil_mode", 0):
        sides = [completed(side, call.number(size, "ceil_mode")) for side, size in zip(sides, x.sizes[2:], strict=True)]
    return sides, pads


def completed(side: Side, length: int) -> Side:
    """The same windows over `length` elements, and one more for those that are left, with the padding that it needs."""
    width, stride, low, high, hole, spread = side
    assert isinstance(width, int) and isinstance(stride, int) and isinstance(low, int) and isinstance(high, int)
    reach = (width - 1) * hole + 1
    count = math.ceil((length + low + high - reach) / stride) + 1
    # A window that would begin after the data does not count.
    count -= (count - 1) * stride >= length + low
    return width, stride, low, high + max((count - 1) * stride + reach - length - low - high, 0), hole, spread


@operator("MaxPool")
def _max_pool(call: Call) -> Value | tuple[Value, ...]:
    b, x = call.builder, call.input(0)
    sides, _ = _sides(call, x)
    if not any(call.node.outputs[1:]):
        return max_pooled(b, x, sides)
    order: Literal["C", "F"] = "F" if call.whole("storage_order", 0) else "C"
    largest, found = max_pooled_places(b, x, sides, [call.number(size, "its image") for size in x.sizes[2:]], order)
    channels = call.number(x.sizes[1], "its channels")
    images = b.map("add", b.map("multiply", b.iota("s64", found.sizes, 0), b.constant(channels, "s64")),
                   b.iota("s64", found.sizes, 1))  # fmt: skip
    room = math.prod(call.number(size, "its image") for size in x.sizes[2:])
    return largest, b.map("add", found, b.map("multiply", images, b.constant(room, "s64")))


def max_pooled(b: Builder, x: Value, sides: Sequence[Side], *, keeps_nan: bool = False) -> Value:
    """The maxima of windows over the axes behind the first two. NaN is ignored if it is not kept."""
    return channels_first(b, _pooled(b, channels_last(b, x), sides, keeps_nan=keeps_nan))


def _pooled(b: Builder, x: Value, sides: Sequence[Side], *, keeps_nan: bool) -> Value:
    if len(sides) == 1:
        # As an image of one row.
        made = _pooled(b, b.reshape(x, [x.sizes[0], ONE, *x.sizes[1:]]), [WHOLE, *sides], keeps_nan=keeps_nan)
        return b.reshape(made, [made.sizes[0], *made.sizes[2:]])
    made = windowed(b, "maximum", x, [WHOLE, *sides, WHOLE], extreme(x.dtype, largest=True))
    if not b.layers or x.rank != 4 or x.dtype != "f32" or x.known is not None:
        return made
    window = window_of(x.shape, made.shape, sides)
    known_window = None if window is None else numbers(window)
    if known_window is None:
        return made
    return b.op("max_pool", x, attributes=MaxPool(window=known_window, keeps_nan=keeps_nan))


def max_pooled_places(
    b: Builder, x: Value, sides: Sequence[Side], space: Sequence[int], order: Literal["C", "F"] = "C", *,
    keeps_nan: bool = False,
) -> tuple[Value, Value]:  # fmt: skip
    """As `max_pooled`, and the place of the first of the largest, or of the last NaN, in an image of sizes `space`."""
    inner = known(np.arange(math.prod(space)).reshape(space, order=order), "s64")
    places = b.spread(inner, x.sizes)

    def better(other: Value, value: Value) -> Value:
        is_more = b.compare("GT", other, value)
        return b.op("or", is_more, b.compare("NE", other, other)) if keeps_nan and x.is_float else is_more

    return windowed_places(b, x, places, [WHOLE, WHOLE, *sides], extreme(x.dtype, largest=True), better)


@operator("AveragePool")
def _average_pool(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    sides, pads = _sides(call, x)
    last = channels_last(b, x)
    whole = [WHOLE, *sides, WHOLE]
    sums = windowed(b, "add", last, whole, 0)
    if all(side[2] == side[3] == 0 for side in sides):
        # All windows are full.
        return channels_first(b, Arithmetic(b, sums).div(sums, math.prod(call.wholes("kernel_shape") or [])))
    counts = _counts(call, x, sides, pads)
    return channels_first(b, b.map("divide", sums, counts))


def _counts(call: Call, x: Value, sides: Sequence[Side], pads: Sequence[Pair]) -> Value:
    """How many elements count in each window: with count_include_pad also ONNX's padding, never that of ceil_mode."""
    b, is_padding = call.builder, bool(call.whole("count_include_pad", 0))
    if all(number_of(size) is not None for size in x.sizes[2:]):
        rows = [
            _in_window(size.constant, side, pair, is_padding=is_padding)
            for size, side, pair in zip(x.sizes[2:], sides, pads, strict=True)
        ]
        made = np.ones([1] * len(rows))
        for axis, row in enumerate(rows):
            made = made * row.reshape([-1 if each == axis else 1 for each in range(len(rows))])
        return known(made[..., None], x.dtype)
    if is_padding and all(side[3] == high for side, (_, high) in zip(sides, pads, strict=True)):
        return b.constant(math.prod(call.wholes("kernel_shape") or []), x.dtype)
    ones = b.spread(b.constant(1, x.dtype), [ONE, *x.sizes[2:], ONE])
    return windowed(b, "add", ones, [WHOLE, *sides, WHOLE], 0)


def _in_window(size: int, side: Side, pair: Pair, *, is_padding: bool) -> Array:
    width, stride, low, high, hole, _ = side
    assert isinstance(low, int) and isinstance(high, int) and isinstance(width, int) and isinstance(stride, int)
    inside = np.zeros(low + size + high)
    inside[(0 if is_padding else low) : low + size + (pair[1] if is_padding else 0)] = 1
    count = (len(inside) - (width - 1) * hole - 1) // stride + 1
    return np.array(
        [inside[place * stride : place * stride + (width - 1) * hole + 1 : hole].sum() for place in range(count)]
    )


@operator("LpPool")
def _lp_pool(call: Call) -> Value:
    b, x, order = call.builder, call.input(0), call.whole("p", 2)
    sides, _ = _sides(call, x)
    a, last = Arithmetic(b, x), channels_last(b, x)
    powers = a.mul(last, last) if order == 2 else a.pow(a.unary("abs", last), order)
    sums = windowed(b, "add", powers, [WHOLE, *sides, WHOLE], 0)
    return channels_first(b, a.unary("sqrt", sums) if order == 2 else a.pow(sums, 1 / order))


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    axes, a = range(2, x.rank), Arithmetic(call.builder, x)
    if call.op == "GlobalMaxPool":
        return maximum(b, x, axes, keep=True)
    if call.op == "GlobalAveragePool":
        return mean(b, x, axes, keep=True)
    order = call.whole("p", 2)
    powers = a.mul(x, x) if order == 2 else a.pow(a.unary("abs", x), order)
    sums = total(b, powers, axes, keep=True)
    return a.unary("sqrt", sums) if order == 2 else a.pow(sums, 1 / order)
