"""Operators that take and put elements by their indices, and that sort."""

import numpy as np
import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import (
    axis_of,
    moved_back,
    moved_last,
    rank,
    required,
    sizes,
    static,
    vector,
    wrapped,
)


@operator("Gather")
def _gather(node, x, indices):
    axis = axis_of(node, node.get("axis", 0), rank(node, x))
    return tf.gather(x, wrapped(indices, sizes(x)[axis]), axis=axis)


@operator("GatherElements")
def _gather_elements(node, x, indices):
    axis, count = axis_of(node, node.get("axis", 0), rank(node, x)), rank(node, x)
    indices = wrapped(indices, sizes(x)[axis])
    # Other axes of `indices` may be shorter.
    x = x[tuple(slice(None) if place == axis else slice(size) for place, size in enumerate(sizes(indices)))]
    taken = tf.gather(moved_last(x, axis), moved_last(indices, axis), batch_dims=count - 1, axis=count - 1)
    return moved_back(taken, axis)


@operator("GatherND")
def _gather_nd(node, x, indices):
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


def _scattered(node, x, indices, updates):
    reduction = node.get("reduction", "none") or "none"
    if reduction not in _SCATTERS:
        raise node.fault(f"its reduction {reduction!r} is not read", "compute it with 'add' on logarithms, or without")
    if x.dtype == tf.bool:
        numbers = (tf.cast(each, tf.int32) for each in (x, updates))
        data, values = numbers
        return tf.cast(_SCATTERS[reduction](data, indices, values), tf.bool)
    return _SCATTERS[reduction](x, indices, updates)


@operator("ScatterND")
def _scatter_nd(node, x, indices, updates):
    depth = indices.shape[-1]
    if depth is None:
        raise node.fault("the size of the last axis of its indices is not known")
    return _scattered(node, x, wrapped(indices, vector(sizes(x)[:depth], tf.int64)), updates)


@operator("Scatter", "ScatterElements")
def _scatter_elements(node, x, indices, updates):
    axis, count = axis_of(node, node.get("axis", 0), rank(node, x)), rank(node, x)
    indices = wrapped(indices, sizes(x)[axis])
    given = sizes(indices)
    # The place of each element of `indices` itself, except along the axis.
    places = [
        indices if place == axis else tf.broadcast_to(_along(place, given, indices.dtype), vector(given))
        for place in range(count)
    ]
    return _scattered(node, x, tf.stack(places, -1), updates)


def _along(place: int, given: list, dtype):
    """0, 1, 2, ... along the axis `place`."""
    shape = [1] * len(given)
    shape[place] = -1
    return tf.reshape(tf.cast(tf.range(given[place]), dtype), shape)


@operator("TopK")
def _top_k(node, x, k=None):
    axis = axis_of(node, node.get("axis", -1), rank(node, x))
    number = node.get("k") if k is None else int(np.ravel(required(node, k, "the number of elements that it takes"))[0])
    values = moved_last(x, axis)
    if node.get("largest", 1):
        found, places = tf.math.top_k(values, number)
    else:
        # The order of -x; of integers that of -1 - x, which has no overflow.
        opposite = tf.bitwise.invert if x.dtype.is_integer else tf.negative
        found, places = tf.math.top_k(opposite(values), number)
        found = opposite(found)
    return moved_back(found, axis), tf.cast(moved_back(places, axis), tf.int64)


@operator("NonZero")
def _non_zero(node, x):
    values = static(x)
    if values is None:
        raise node.fault(
            "how many elements it finds depends on the values of the inputs, and libraries have fixed sizes",
            "multiply by a mask, or use Where and TopK",
        )
    return tf.constant(np.stack(np.nonzero(values)), tf.int64)


@operator("Compress")
def _compress(node, x, condition):
    places = np.nonzero(required(node, condition, "what it keeps"))[0]
    if node.get("axis") is None:
        return tf.gather(tf.reshape(x, [-1]), places)
    return tf.gather(x, places, axis=axis_of(node, node.get("axis"), rank(node, x)))
