"""Pooling, and its inverses: MaxUnpool and Col2Im."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tensorflow as tf
from from_onnx.layers import attributes, channels_first, channels_last, paddings, with_holes
from from_onnx.table import operator
from from_onnx.tensors import ints, rank, reshaped, sizes, vector

if TYPE_CHECKING:
    from from_onnx.table import Node


def _pool_paddings(
    node: Node, x: tf.Tensor, kernel: list[int], strides: list[int], dilations: list[int]
) -> tuple[Any, ...]:
    """ONNX's padding, and the further padding that completes the last window of each axis (ceil_mode)."""
    given = sizes(x)[2:]
    pads = paddings(node, given, kernel, strides, dilations)
    more = [0] * len(kernel)
    if node.get("ceil_mode", 0):
        for place, (size, width, stride, dilation, (low, high)) in enumerate(
            zip(given, kernel, strides, dilations, pads, strict=True)
        ):
            if not isinstance(size, int):
                raise node.fault("ceil_mode needs the sizes of its input")
            spread = (width - 1) * dilation + 1
            count = math.ceil((size + low + high - spread) / stride) + 1
            # A window that would begin after the data does not count.
            count -= (count - 1) * stride >= size + low
            more[place] = max((count - 1) * stride + spread - size - low - high, 0)
    return pads, more


def _windows(x: tf.Tensor, kernel: list[int], strides: list[int], dilations: list[int]) -> list[Any]:
    """For each position in a window, its elements in all windows of `x`, which has channels last."""
    given = sizes(x)[1:-1]
    counts = [(s - (k - 1) * d - 1) // t + 1 for s, k, t, d in zip(given, kernel, strides, dilations, strict=True)]
    parts = []
    for place in np.ndindex(*kernel):
        cut = [
            slice(p * d, p * d + (n - 1) * t + 1, t)
            for p, d, n, t in zip(place, dilations, counts, strides, strict=True)
        ]
        parts.append(x[(slice(None), *cut)])
    return parts


def _is_plain(x: tf.Tensor, kernel: list[int], strides: list[int], dilations: list[int]) -> bool:
    if any(stride > width for stride, width in zip(strides, kernel, strict=True)):
        return False
    return max(dilations) == 1 and x.shape.rank <= 5 and x.dtype in (tf.float32, tf.float64)


@operator("MaxPool")
def _max_pool(node: Node, x: tf.Tensor) -> tf.Tensor:
    kernel = node.get("kernel_shape")
    strides, dilations = attributes(node, len(kernel))
    pads, more = _pool_paddings(node, x, kernel, strides, dilations)
    # Padding must never be the largest element.
    filler = x.dtype.min if x.dtype.is_integer else -math.inf
    padded = _padded(channels_last(x), pads, more, filler)
    if any(node.outputs[1:]):
        return _largest_places(node, x, padded, pads, more)
    if _is_plain(x, kernel, strides, dilations):
        return channels_first(tf.nn.pool(padded, kernel, "MAX", strides, "VALID"))
    return channels_first(functools.reduce(tf.maximum, _windows(padded, kernel, strides, dilations)))


def _largest_places(
    node: Node, x: tf.Tensor, padded: tf.Tensor, pads: list[tuple[int, int]], more: list[int]
) -> tuple[Any, ...]:
    """The largest elements, and the index of the first of each in the flattened `x`."""
    kernel, given = node.get("kernel_shape"), x.shape.as_list()[1:]
    strides, dilations = attributes(node, len(kernel))
    if None in given:
        raise node.fault("the sizes of its input are not known")
    order: Literal["F", "C"] = "F" if node.get("storage_order", 0) else "C"
    # Positions within one image, so that rows of a batch stay independent until the last step.
    places = np.arange(math.prod(given[1:])).reshape(given[1:], order=order)
    places = tf.constant(np.pad(places, [(low, high + add) for (low, high), add in zip(pads, more, strict=True)]))
    pairs = _windows(padded, kernel, strides, dilations), _windows(places[None, ..., None], kernel, strides, dilations)
    largest, found = pairs[0][0], tf.broadcast_to(pairs[1][0], tf.shape(pairs[0][0]))
    for values, where in zip(pairs[0][1:], pairs[1][1:], strict=True):
        found = tf.where(values > largest, where, found)
        largest = tf.maximum(largest, values)
    found = channels_first(found)
    starts = tf.range(tf.cast(tf.shape(x)[0], tf.int64) * given[0]) * math.prod(given[1:])
    starts = tf.reshape(starts, vector([sizes(x)[0], given[0], *[1] * len(kernel)]))
    return channels_first(largest), found + starts


@operator("MaxUnpool")
def _max_unpool(node: Node, x: tf.Tensor, places: tf.Tensor, wanted: tf.Tensor | None = None) -> tf.Tensor:
    kernel, given = node.get("kernel_shape"), x.shape.as_list()[2:]
    strides, _ = attributes(node, len(kernel))
    pads = node.get("pads") or [0] * (2 * len(kernel))
    if None in given or x.shape[1] is None:
        raise node.fault("the sizes of its input are not known")
    shape = [
        (size - 1) * stride - pads[axis] - pads[axis + len(kernel)] + width
        for axis, (size, stride, width) in enumerate(zip(given, strides, kernel, strict=True))
    ]
    batch, channels, room = sizes(x)[0], x.shape[1], math.prod(shape)
    inner = tf.cast(tf.math.floormod(reshaped(places, [batch, -1]), channels * room), tf.int32)
    rows = tf.broadcast_to(tf.range(batch)[:, None], tf.shape(inner))
    empty = tf.zeros(vector([batch, channels * room]), x.dtype)
    made = tf.tensor_scatter_nd_update(empty, tf.stack([rows, inner], -1), reshaped(x, [batch, -1]))
    made = reshaped(made, [batch, channels, *shape])
    if wanted is None:
        return made
    sizes_wanted = ints(node, wanted, "the sizes of its output")[2:]
    if any(new < old for new, old in zip(sizes_wanted, shape, strict=True)):
        raise node.fault("its output_shape is smaller than what its windows cover")
    return tf.pad(made, [(0, 0), (0, 0), *((0, new - old) for new, old in zip(sizes_wanted, shape, strict=True))])


@operator("Col2Im")
def _col2im(node: Node, x: tf.Tensor, image: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
    image, block = ints(node, image, "the sizes of the image"), ints(node, block, "the sizes of a block")
    strides, dilations = attributes(node, len(block))
    pads = node.get("pads") or [0] * (2 * len(block))
    counts, rooms = [], []
    for axis, (size, width) in enumerate(zip(image, block, strict=True)):
        rooms.append(size + pads[axis] + pads[axis + len(block)])
        counts.append((rooms[-1] - (width - 1) * dilations[axis] - 1) // strides[axis] + 1)
    channels = x.shape[1] // math.prod(block)
    columns = reshaped(x, [sizes(x)[0], channels, math.prod(block), *counts])
    parts = []
    for number, place in enumerate(np.ndindex(*block)):
        part = with_holes(columns[:, :, number], strides)
        starts = [p * d for p, d in zip(place, dilations, strict=True)]
        behind = [
            room - start - (count - 1) * stride - 1
            for room, start, count, stride in zip(rooms, starts, counts, strides, strict=True)
        ]
        parts.append(tf.pad(part, [(0, 0), (0, 0), *zip(starts, behind, strict=True)]))
    cut = [slice(pads[axis], pads[axis] + size) for axis, size in enumerate(image)]
    return functools.reduce(tf.add, parts)[(slice(None), slice(None), *cut)]


def _padded(x: tf.Tensor, pads: list[tuple[int, int]], more: list[int], filler: tf.Tensor) -> tf.Tensor:
    table = [(low, high + add) for (low, high), add in zip(pads, more, strict=True)]
    if not any(map(any, table)):
        return x
    return tf.pad(x, [(0, 0), *table, (0, 0)], constant_values=tf.cast(filler, x.dtype))


@operator("AveragePool")
def _average_pool(node: Node, x: tf.Tensor) -> tf.Tensor:
    kernel = node.get("kernel_shape")
    strides, dilations = attributes(node, len(kernel))
    pads, more = _pool_paddings(node, x, kernel, strides, dilations)
    last = channels_last(x)
    total = _sums(_padded(last, pads, more, 0), kernel, strides, dilations)
    # Without padding all windows are full: one division by a constant.
    if not any(map(any, pads)) and not any(more):
        return channels_first(total / tf.constant(math.prod(kernel), x.dtype))
    # The number of elements that count in each window: with count_include_pad also ONNX's padding, but never the
    # further padding of ceil_mode.
    ones = tf.ones(vector([1, *sizes(last)[1:-1], 1]), x.dtype)
    ones = _padded(ones, pads, [0] * len(kernel), 1 if node.get("count_include_pad", 0) else 0)
    counts = _sums(_padded(ones, [(0, 0)] * len(kernel), more, 0), kernel, strides, dilations)
    return channels_first(total / counts)


def _sums(x: tf.Tensor, kernel: list[int], strides: list[int], dilations: list[int]) -> tf.Tensor:
    if _is_plain(x, kernel, strides, dilations):
        # TensorFlow has no sums of windows; all windows are full here, so that averages have one divisor.
        return tf.nn.pool(x, kernel, "AVG", strides, "VALID") * tf.constant(math.prod(kernel), x.dtype)
    return functools.reduce(tf.add, _windows(x, kernel, strides, dilations))


@operator("LpPool")
def _lp_pool(node: Node, x: tf.Tensor) -> tf.Tensor:
    kernel, order = node.get("kernel_shape"), node.get("p", 2)
    strides, dilations = attributes(node, len(kernel))
    pads, more = _pool_paddings(node, x, kernel, strides, dilations)
    powers = tf.pow(tf.abs(_padded(channels_last(x), pads, more, 0)), order)
    return channels_first(tf.pow(_sums(powers, kernel, strides, dilations), 1 / order))


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(node: Node, x: tf.Tensor) -> tf.Tensor:
    axes = list(range(2, rank(node, x)))
    if node.op == "GlobalLpPool":
        order = node.get("p", 2)
        return tf.pow(tf.reduce_sum(tf.pow(tf.abs(x), order), axes, True), 1 / order)
    return (tf.reduce_mean if node.op == "GlobalAveragePool" else tf.reduce_max)(x, axes, True)
