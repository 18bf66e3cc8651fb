"""Operators that read and write elements by their indices, and that sort."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import (
    axis_of,
    is_packed,
    moved_back,
    moved_last,
    rank,
    required,
    scalars,
    sizes,
    static,
    vector,
    wrapped,
)

if TYPE_CHECKING:
    from from_onnx.table import Node


@operator("Gather")
def _gather(node: Node, x: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    axis = axis_of(node, node.get("axis", 0), rank(node, x))
    # Exporters cut shapes into sizes and pack some of them again; known sizes must stay known on this way.
    place, parts = static(indices), scalars(x) if is_packed(x) else None
    if parts and place is not None and place.ndim < 2 and (-len(parts) <= place).all() and (place < len(parts)).all():
        # Sizes of a shape: known, even if others are not.
        return parts[int(place)] if place.ndim == 0 else tf.stack([parts[each] for each in place])
    if place is not None and place.ndim == 0:
        # A slice, so that the compiler may compute the elements of the slice alone.
        return x[(slice(None),) * axis + (int(place),)]
    return tf.gather(x, wrapped(indices, sizes(x)[axis]), axis=axis)


@operator("GatherElements")
def _gather_elements(node: Node, x: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    axis, count = axis_of(node, node.get("axis", 0), rank(node, x)), rank(node, x)
    indices = wrapped(indices, sizes(x)[axis])
    # Other axes of `indices` may be shorter.
    x = x[tuple(slice(None) if place == axis else slice(size) for place, size in enumerate(sizes(indices)))]
    taken = tf.gather(moved_last(x, axis), moved_last(indices, axis), batch_dims=count - 1, axis=count - 1)
    return moved_back(taken, axis)


@operator("GatherND")
def _gather_nd(node: Node, x: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    batch = node.get("batch_dims", 0)
    depth = indices.shape[-1]
    if depth is None:
        raise node.fault("the size of the last axis of its indices is not known")
    indices = wrapped(indices, vector(sizes(x)[batch : batch + depth], tf.int64))
    return tf.gather_nd(x, indices, batch_dims=batch)


_SCATTERS = {
    "none": tf.tensor_scatter_nd_update,
    "add": tf.tensor_scatter_nd_add,
    "max": tf.tensor_scatter_nd_max,
    "min": tf.tensor_scatter_nd_min,
}


def _scattered(node: Node, x: tf.Tensor, indices: tf.Tensor, updates: tf.Tensor) -> tf.Tensor:
    reduction = node.get("reduction", "none") or "none"
    if reduction == "mul":
        return _multiplied(node, x, indices, updates)
    if reduction not in _SCATTERS:
        raise node.fault(f"its reduction {reduction!r} is not supported")
    # As numbers, because TensorFlow's scatters add and compare no booleans.
    if x.dtype == tf.bool:
        numbers = (tf.cast(each, tf.int32) for each in (x, updates))
        data, values = numbers
        return tf.cast(_SCATTERS[reduction](data, indices, values), tf.bool)
    made = _SCATTERS[reduction](x, indices, updates)
    if reduction not in ("max", "min") or not x.dtype.is_floating:
        return made
    # TensorFlow leaves out updates that are NaN. Of ONNX Runtime's, the numbers behind the last one of these count.
    nothing = tf.constant(-0.0, x.dtype)
    return tf.tensor_scatter_nd_add(made, indices, tf.where(tf.math.is_nan(updates), updates, nothing))


# Each index is compared with each position: more comparisons would be slower than any model that needs them.
_MOST_COMPARED = 1 << 20


def _multiplied(node: Node, x: tf.Tensor, indices: tf.Tensor, updates: tf.Tensor) -> tf.Tensor:
    """Each element times all updates for it. XLA scatters no products: each index is compared with each position."""
    depth, given = indices.shape[-1], x.shape.as_list()
    count = indices.shape[:-1].num_elements()
    if None in given or count is None or count * math.prod(given[:depth]) > _MOST_COMPARED:
        raise node.fault(
            "its reduction 'mul' is only supported for few elements of known sizes", "compute it with a mask"
        )
    strides = [math.prod(given[place + 1 : depth]) for place in range(depth)]
    flat = tf.reduce_sum(tf.reshape(indices, [count, depth]) * tf.constant(strides, indices.dtype), -1)
    rest = math.prod(given[depth:])
    values = tf.reshape(updates, [count, 1, rest])
    # Updates for other positions become ones, which leave the product unchanged.
    hits = flat[:, None] == tf.range(math.prod(given[:depth]), dtype=flat.dtype)[None, :]
    factors = tf.reduce_prod(tf.where(hits[..., None], values, tf.ones((), x.dtype)), 0)
    return x * tf.reshape(factors, given)


@operator("TensorScatter")
def _tensor_scatter(node: Node, past: tf.Tensor, update: tf.Tensor, starts: tf.Tensor | None = None) -> tf.Tensor:
    """Each row's update at the row's own position of the axis: each position selects one of both arrays."""
    axis = axis_of(node, node.get("axis", -2), rank(node, past))
    room, count = sizes(past)[axis], sizes(update)[axis]
    places = tf.range(room, dtype=tf.int64)[None, :]
    places = places - (tf.zeros([1, 1], tf.int64) if starts is None else tf.cast(starts, tf.int64)[:, None])
    if node.get("mode", "linear") == "circular":
        places = tf.math.floormod(places, tf.cast(room, tf.int64))
    taken = tf.broadcast_to(tf.clip_by_value(places, 0, count - 1), vector([sizes(past)[0], room]))
    values = moved_back(tf.gather(moved_last(update, axis), taken, batch_dims=1, axis=-1), axis) if axis > 1 else (
        tf.gather(update, taken, batch_dims=1, axis=1)
    )  # fmt: skip
    shape = [1] * past.shape.rank
    shape[0], shape[axis] = -1, room
    return tf.where(tf.reshape((places >= 0) & (places < count), vector(shape)), values, past)


@operator("ScatterND")
def _scatter_nd(node: Node, x: tf.Tensor, indices: tf.Tensor, updates: tf.Tensor) -> tf.Tensor:
    depth = indices.shape[-1]
    if depth is None:
        raise node.fault("the size of the last axis of its indices is not known")
    return _scattered(node, x, wrapped(indices, vector(sizes(x)[:depth], tf.int64)), updates)


@operator("Scatter", "ScatterElements")
def _scatter_elements(node: Node, x: tf.Tensor, indices: tf.Tensor, updates: tf.Tensor) -> tf.Tensor:
    axis, count = axis_of(node, node.get("axis", 0), rank(node, x)), rank(node, x)
    indices = wrapped(indices, sizes(x)[axis])
    given = sizes(indices)
    # The position of each element of `indices` itself, except along the axis. It is added to zeros: a broadcast would
    # become a constant that grows with all sizes, and if two of them vary, the model would not become a program.
    zeros = indices * 0
    places = [indices if place == axis else _along(place, given, indices.dtype) + zeros for place in range(count)]
    return _scattered(node, x, tf.stack(places, -1), updates)


def _along(place: int, given: list[Any], dtype: tf.DType) -> tf.Tensor:
    """0, 1, 2 and so on along the axis `place`."""
    shape = [1] * len(given)
    shape[place] = -1
    return tf.reshape(tf.cast(tf.range(given[place]), dtype), shape)


@operator("TopK")
def _top_k(node: Node, x: tf.Tensor, k: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    axis = axis_of(node, node.get("axis", -1), rank(node, x))
    number = node.get("k") if k is None else int(np.ravel(required(node, k, "the number of elements that it takes"))[0])
    values = moved_last(x, axis)
    if x.dtype.is_floating:
        # For ONNX Runtime, NaN of both signs is the largest number.
        values = tf.where(tf.math.is_nan(values), tf.constant(np.nan, x.dtype), values)
    if node.get("largest", 1):
        found, places = tf.math.top_k(values, number)
    else:
        # The order of -x; of integers that of -1 - x, which has no overflow.
        opposite = tf.bitwise.invert if x.dtype.is_integer else tf.negative
        found, places = tf.math.top_k(opposite(values), number)
        found = opposite(found)
    return moved_back(found, axis), tf.cast(moved_back(places, axis), tf.int64)
