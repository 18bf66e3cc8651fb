"""Operators that create, move, join and cut tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx.selecting import places_of
from from_onnx.table import operator
from from_onnx.tensors import (
    axis_of,
    has_open_rows,
    has_sizes,
    ints,
    is_packed,
    rank,
    required,
    reshaped,
    scalars,
    sizes,
    static,
    transposed,
    vector,
)

if TYPE_CHECKING:
    from from_onnx.table import Node


_CONSTANTS = {
    "value": None,
    "sparse_value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": None,
    "value_strings": None,
}
"""Attributes with the value of a constant -> its type, None if the value has one."""


@operator("Constant")
def _constant(node: Node) -> tf.Tensor:
    for name, dtype in _CONSTANTS.items():
        value = node.get(name)
        if value is not None:
            return tf.constant(value if dtype is None else np.array(value, dtype))
    raise node.fault("it has no value")


@operator("ConstantOfShape")
def _constant_of_shape(node: Node, shape: tf.Tensor) -> tf.Tensor:
    value = node.get("value")
    value = np.zeros(1, np.float32) if value is None else value
    return tf.fill(_shape(shape), tf.constant(value.reshape(())))


def _shape(tensor: tf.Tensor) -> tf.Tensor:
    """A shape that TensorFlow's operations take: int32."""
    return tf.cast(tensor, tf.int32)


@operator("Shape")
def _shape_of(node: Node, x: tf.Tensor) -> tf.Tensor:
    count = rank(node, x)
    start, end = (_within(each, count) for each in (node.get("start", 0), node.get("end", count)))
    return vector(sizes(x)[start:end], tf.int64)


def _within(place: int, count: int) -> int:
    return min(max(place + count if place < 0 else place, 0), count)


@operator("Size")
def _size(node: Node, x: tf.Tensor) -> tf.Tensor:
    return tf.size(x, tf.int64)


@operator("Reshape")
def _reshape(node: Node, x: tf.Tensor, shape: tf.Tensor | None = None) -> tf.Tensor:
    values = node.get("shape") if shape is None else static(shape)
    if values is None:
        return _reshaped_at_run_time(node, x, shape)
    values = [int(each) for each in np.ravel(values)]
    if values == [-1] and x.shape.rank == 1:
        return x
    given = sizes(x) if 0 in values and not node.get("allowzero", 0) else []
    wanted = [given[place] if each == 0 and not node.get("allowzero", 0) else each for place, each in enumerate(values)]
    if node.by_row and wanted and x.shape.rank and x.shape[0] is None and values[0] == 1 and -1 not in values[:1]:
        # The exporter wrote the batch of its example, 1, into the shape.
        wanted[0] = sizes(x)[0]
    return reshaped(x, wanted)


def _reshaped_at_run_time(node: Node, x: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    if node.get("allowzero", 0):
        return tf.reshape(x, _shape(shape))
    count = shape.shape[0]
    if count is None:
        return tf.reshape(x, _shape(shape))
    packed = scalars(shape) if is_packed(shape) else None
    known = [_shape(each) for each in (tf.unstack(shape, count) if packed is None else packed)]
    given = sizes(x)
    wanted = []
    for place, each in enumerate(known):
        value = static(each)
        if value is None:
            wanted.append(tf.where(each == 0, given[place], each) if place < len(given) else each)
        else:
            wanted.append(given[place] if value == 0 else int(value))
    return reshaped(x, wanted)


@operator("Flatten")
def _flatten(node: Node, x: tf.Tensor) -> tf.Tensor:
    count, given = rank(node, x), sizes(x)
    axis = node.get("axis", 1)
    axis = axis + count if axis < 0 else axis
    if axis == 0:
        return reshaped(x, [1, _product(given)])
    behind = _product(given[axis:])
    if axis == 1:
        return reshaped(x, [given[0], behind])
    return reshaped(x, [_product(given[:axis]), behind])


def _product(values: list[Any]) -> tf.Tensor:
    known = [each for each in values if isinstance(each, int)]
    made = int(np.prod(known)) if known else 1
    for each in values:
        if not isinstance(each, int):
            made = each * made
    return made


@operator("Squeeze")
def _squeeze(node: Node, x: tf.Tensor, axes: tf.Tensor | None = None) -> tf.Tensor:
    axes = node.get("axes") if axes is None else ints(node, axes, "the axes")
    if axes is None:
        if None in x.shape.as_list():
            raise node.fault("its axes are not given, and sizes of its input are not known")
        axes = [place for place, size in enumerate(x.shape) if size == 1]
    count = rank(node, x)
    axes = {axis_of(node, each, count) for each in axes}
    # A column of the result of Where itself: data_dependent_rows.py follows no transposition.
    if (places := places_of(x)) is not None and axes == {0}:
        return places[:, 0]
    if is_packed(x) and x.shape[0] == 1 and axes == {0} and (elements := scalars(x)) is not None:
        return elements[0]
    if has_open_rows(x) and all(x.shape[each] == 1 for each in axes):
        return tf.squeeze(x, sorted(axes))
    return reshaped(x, [size for place, size in enumerate(sizes(x)) if place not in axes])


@operator("Unsqueeze")
def _unsqueeze(node: Node, x: tf.Tensor, axes: tf.Tensor | None = None) -> tf.Tensor:
    axes = node.get("axes") if axes is None else ints(node, axes, "the axes")
    count = rank(node, x) + len(axes)
    places = {axis_of(node, each, count) for each in axes}
    if has_open_rows(x) and 0 not in places:
        for place in sorted(places):
            x = tf.expand_dims(x, place)
        return x
    given = iter(sizes(x))
    return reshaped(x, [1 if place in places else next(given) for place in range(count)])


@operator("Transpose")
def _transpose(node: Node, x: tf.Tensor) -> tf.Tensor:
    order = node.get("perm") or list(range(rank(node, x)))[::-1]
    places = places_of(x)
    return places if places is not None and order == [1, 0] else transposed(x, order)


@operator("Concat")
def _concat(node: Node, *inputs: tf.Tensor) -> tf.Tensor:
    axis, count = node.get("axis"), rank(node, inputs[0])
    # Shapes stay lists of sizes, of which some are known.
    found = [scalars(each) for each in inputs] if any(map(is_packed, inputs)) else []
    parts = [each for each in found if each is not None]
    if found and len(parts) == len(found):
        return tf.stack([each for part in parts for each in part])
    return tf.concat(inputs, axis_of(node, axis, count))


@operator("Split")
def _split(node: Node, x: tf.Tensor, split: tf.Tensor | None = None) -> tf.Tensor:
    axis = axis_of(node, node.get("axis", 0), rank(node, x))
    parts = node.get("split") if split is None else ints(node, split, "the sizes of its parts")
    if parts is None:
        count, size = node.get("num_outputs", len(node.outputs)), x.shape[axis]
        if size is None:
            raise node.fault("the size of the axis that it divides is not known")
        part = -(-size // count)
        parts = [part] * (size // part) + ([size % part] if size % part else [])
    return tuple(tf.split(x, parts, axis))


@operator("Slice")
def _slice(
    node: Node,
    x: tf.Tensor,
    starts: tf.Tensor | None = None,
    ends: tf.Tensor | None = None,
    axes: tf.Tensor | None = None,
    steps: tf.Tensor | None = None,
) -> tf.Tensor:
    count = rank(node, x)
    if starts is None:
        starts, ends = node.get("starts"), node.get("ends")
        axes, steps = node.get("axes", list(range(len(starts)))), [1] * len(starts)
        starts, ends = ([tf.constant(each, tf.int64) for each in values] for values in (starts, ends))
    else:
        number = starts.shape[0]
        if number is None:
            raise node.fault("the number of its axes is not known")
        axes = list(range(number)) if axes is None else ints(node, axes, "the axes")
        steps = [1] * number if steps is None else ints(node, steps, "the steps")
        starts, ends = tf.unstack(starts, number), tf.unstack(ends, number)
    wanted = [slice(None)] * count
    for named, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = axis_of(node, named, count)
        wanted[axis] = _cut(x, axis, start, end, int(step))
    parts = scalars(x) if is_packed(x) else None
    if parts and all(each is None or isinstance(each, int) for each in (wanted[0].start, wanted[0].stop)):
        # Some sizes of a shape: those stay known that are.
        parts = parts[wanted[0]]
        return tf.stack(parts) if parts else tf.zeros([0], x.dtype)
    return x[tuple(wanted)]


_FAR = 2**31 - 1  # exporters write the largest int64 for "to the end"; TensorFlow's slices take 32 bits


def _cut(x: tf.Tensor, axis: int, start: tf.Tensor, end: tf.Tensor, step: int) -> slice:
    first, last = _bound(start, step), _bound(end, step)
    if step < 0:
        # NumPy's and TensorFlow's slices read -1 as the last element, and None as "to the front".
        size = x.shape[axis]
        if isinstance(last, int) and (last <= -_FAR or (size is not None and last < -size)):
            last = None
    return slice(first, last, step)


def _bound(value: tf.Tensor, step: int) -> tf.Tensor:
    """An integer that fits into 32 bits, or a scalar."""
    known = static(value)
    if known is None:
        return tf.cast(tf.clip_by_value(value, -_FAR, _FAR), tf.int32) if value.dtype == tf.int64 else value
    return int(min(max(int(known), -_FAR), _FAR))


@operator("Expand")
def _expand(node: Node, x: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    # What PyTorch writes for x[mask]: indices expand to the largest of their own sizes.
    if has_sizes(x, scalars(shape)):
        return x
    # Both ways: a size of 1 in `shape` leaves that of x.
    return tf.broadcast_to(x, tf.broadcast_dynamic_shape(vector(sizes(x)), _shape(shape)))


@operator("Tile")
def _tile(node: Node, x: tf.Tensor, repeats: tf.Tensor) -> tf.Tensor:
    return tf.tile(x, repeats)


@operator("Range")
def _range(node: Node, start: tf.Tensor, limit: tf.Tensor, delta: tf.Tensor) -> tf.Tensor:
    if start.dtype.is_floating and start.dtype.size < 4:
        # TensorFlow has no range of short floats.
        return tf.cast(tf.range(*(tf.cast(each, tf.float32) for each in (start, limit, delta))), start.dtype)
    return tf.range(start, limit, delta)


@operator("EyeLike")
def _eye_like(node: Node, x: tf.Tensor) -> tf.Tensor:
    from from_onnx.elementwise import type_of

    dtype = type_of(node, node.get("dtype")) if node.get("dtype") else x.dtype
    rows, columns = sizes(x)
    offset = node.get("k", 0)
    return tf.cast(tf.range(columns)[None, :] == tf.range(rows)[:, None] + offset, dtype)


@operator("Trilu")
def _trilu(node: Node, x: tf.Tensor, k: tf.Tensor | None = None) -> tf.Tensor:
    offset = 0 if k is None else tf.cast(k, tf.int32)
    offset = tf.reshape(offset, [])
    rows, columns = sizes(x)[-2:]
    distance = tf.range(columns)[None, :] - tf.range(rows)[:, None]
    kept = distance >= offset if node.get("upper", 1) else distance <= offset
    return tf.where(kept, x, tf.zeros((), x.dtype))


@operator("DepthToSpace")
def _depth_to_space(node: Node, x: tf.Tensor) -> tf.Tensor:
    size = node.get("blocksize")
    batch, channels, height, width = sizes(x)
    depth = channels // (size * size)
    # Elements of a block are the outer part of the channels (depth, column, row), or the inner one (CRD).
    if node.get("mode", "DCR") == "DCR":
        x = tf.transpose(reshaped(x, [batch, size, size, depth, height, width]), [0, 3, 4, 1, 5, 2])
    else:
        x = tf.transpose(reshaped(x, [batch, depth, size, size, height, width]), [0, 1, 4, 2, 5, 3])
    return reshaped(x, [batch, depth, height * size, width * size])


@operator("SpaceToDepth")
def _space_to_depth(node: Node, x: tf.Tensor) -> tf.Tensor:
    size = node.get("blocksize")
    batch, channels, height, width = sizes(x)
    x = reshaped(x, [batch, channels, height // size, size, width // size, size])
    order = [0, 3, 5, 1, 2, 4] if node.get("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    return reshaped(tf.transpose(x, order), [batch, channels * size * size, height // size, width // size])


@operator("Pad")
def _pad(
    node: Node,
    x: tf.Tensor,
    pads: tf.Tensor | None = None,
    value: tf.Tensor | None = None,
    axes: tf.Tensor | None = None,
) -> tf.Tensor:
    count = rank(node, x)
    amounts = node.get("pads") if pads is None else ints(node, pads, "the amounts of padding")
    axes = list(range(count)) if axes is None else [axis_of(node, each, count) for each in ints(node, axes, "the axes")]
    table = np.zeros((count, 2), int)
    for place, axis in enumerate(axes):
        table[axis] = amounts[place], amounts[place + len(axes)]
    mode = node.get("mode", "constant")
    if (table < 0).any():
        cut = tuple(slice(max(-low, 0), -max(-high, 0) or None) for low, high in table)
        # Negative padding cuts off.
        x, table = x[cut], np.maximum(table, 0)
    if mode == "constant":
        filler = node.get("value", 0.0) if pads is None else (0 if value is None else tf.reshape(value, []))
        return tf.pad(x, table, constant_values=tf.cast(filler, x.dtype))
    if mode == "reflect":
        return tf.pad(x, table, "REFLECT")
    return _indexed_padding(node, x, table, mode)


def _indexed_padding(node: Node, x: tf.Tensor, table: tf.Tensor, mode: str) -> tf.Tensor:
    """Padding with copies: of the edge, or of the other end."""
    for axis, (low, high) in enumerate(table):
        if low or high:
            size = sizes(x)[axis]
            places = tf.range(-int(low), size + int(high))
            places = tf.clip_by_value(places, 0, size - 1) if mode == "edge" else tf.math.floormod(places, size)
            x = tf.gather(x, places, axis=axis)
    return x


@operator("OneHot")
def _one_hot(node: Node, indices: tf.Tensor, depth: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    number = int(np.ravel(required(node, depth, "the depth"))[0])
    axis = axis_of(node, node.get("axis", -1), rank(node, indices) + 1)
    off, on = tf.unstack(values, 2)
    indices = tf.cast(indices, tf.int64)
    # ONNX counts negative indices from the end; tf.one_hot has zeros for them.
    indices = tf.where(indices < 0, indices + number, indices)
    return tf.where(tf.one_hot(indices, number, True, False, axis=axis, dtype=tf.bool), on, off)


@operator("ReverseSequence")
def _reverse_sequence(node: Node, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    return tf.reverse_sequence(x, lengths, seq_axis=time, batch_axis=batch)
