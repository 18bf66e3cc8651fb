"""Values and sizes of tensors, as far as they are known while the graph is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from framework_types import Array
    from from_onnx.table import Node


def static(tensor: tf.Tensor | None) -> Array | None:
    """The values of `tensor` as an array; None if they depend on inputs, or if there is no tensor."""
    return None if tensor is None else tf.get_static_value(tensor)


def required(node: Node, tensor: tf.Tensor | None, what: str) -> np.ndarray:
    """The values of `tensor`; ModelFault if they depend on inputs."""
    values = static(tensor)
    if values is None:
        raise node.fault(
            f"{what}: they depend on the inputs of the model",
            "export the model with constant sizes, or give them a maximum",
        )
    return values


def ints(node: Node, tensor: tf.Tensor | None, what: str) -> list[int]:
    """The values of `tensor`, of one axis or none, as integers."""
    return [int(each) for each in np.ravel(required(node, tensor, what))]


def rank(node: Node, tensor: tf.Tensor) -> int:
    if tensor.shape.rank is None:
        raise node.fault(
            "the number of axes of its input is not known",
            "give the inputs' full shapes in the spec (model.shapes), or simplify the file (onnxsim)",
        )
    return int(tensor.shape.rank)


def axis_of(node: Node, axis: int, count: int) -> int:
    """`axis` counted from the front."""
    if not -count <= axis < count:
        raise node.fault(f"the axis {axis} is not one of {count}")
    return axis % count


def sizes(tensor: tf.Tensor) -> list[int | tf.Tensor]:
    """The sizes of `tensor`: an integer for each known size, a scalar of int32 for each other one."""
    known = tensor.shape.as_list()
    if None not in known:
        result: list[int | tf.Tensor] = known
        return result
    # Known sizes stay integers, so that sizes computed from them are known too.
    found = tf.shape(tensor)
    return [found[place] if size is None else size for place, size in enumerate(known)]


def has_open_rows(tensor: tf.Tensor) -> bool:
    """Whether inputs decide how many rows `tensor` has.

    For data_dependent_rows.py tf.reshape may mix them, and tf.squeeze may not.
    """
    return bool(tensor.shape.rank) and tensor.shape[0] is None


def has_sizes(tensor: tf.Tensor, shape: list[tf.Tensor] | None) -> bool:
    """Whether `shape`, scalars, are just the sizes of `tensor`; False if that is not known, or there is no `shape`."""
    if shape is None or len(shape) != tensor.shape.rank:
        return False
    return all(_is_size(each, tensor, place) for place, each in enumerate(shape))


def _is_size(size: tf.Tensor, tensor: tf.Tensor, place: int) -> bool:
    known = static(size)
    if known is not None:
        return bool(known == tensor.shape[place])
    while not tf.executing_eagerly() and size.op.type == "Cast":
        size = size.op.inputs[0]
    if size.op.type != "StridedSlice" or size.op.inputs[0].op.type != "Shape":
        return False
    return size.op.inputs[0].op.inputs[0] is tensor and static(size.op.inputs[1]) == place


def vector(values: list[int | tf.Tensor], dtype: tf.DType = tf.int32) -> tf.Tensor:
    """A tensor of one axis from integers and scalars."""
    if all(isinstance(each, int | np.integer) for each in values):
        return tf.constant(values, dtype, shape=[len(values)])
    # A pack, not a concatenation: `scalars` takes it apart again.
    return tf.stack([tf.cast(each, dtype) for each in values])


def scalars(tensor: tf.Tensor) -> list[tf.Tensor] | None:
    """The elements of a tensor of one axis, each known by itself, as sizes of a shape are; None if they are not."""
    if tensor.shape.rank != 1:
        return None
    values = static(tensor)
    if values is not None:
        return [tf.constant(each, tensor.dtype) for each in values]
    return list(tensor.op.inputs) if is_packed(tensor) else None


def is_packed(tensor: tf.Tensor) -> bool:
    """Whether `tensor` was packed from its elements; a tensor that was computed at once has no operation."""
    return not tf.executing_eagerly() and tensor.op.type == "Pack"


def constant_or(function: Callable[[tf.Tensor], tf.Tensor], tensor: tf.Tensor) -> tf.Tensor:
    """`function(tensor)`; computed now if the values are known, so that it costs nothing later."""
    values = static(tensor)
    if values is None:
        return function(tensor)
    with tf.init_scope():
        made = function(tf.constant(values, tensor.dtype)).numpy()
    return tf.constant(made, tensor.dtype)


def by_channel(values: tf.Tensor, count: int) -> tf.Tensor:
    """`values`, one for each channel, in the shape of an array of `count` axes with channels in axis 1."""
    return constant_or(lambda each: tf.reshape(each, [-1] + [1] * (count - 2)), values)


def transposed(tensor: tf.Tensor, order: list[int]) -> tf.Tensor:
    if list(order) == list(range(len(order))):
        return tensor
    return constant_or(lambda each: tf.transpose(each, order), tensor)


def moved_last(tensor: tf.Tensor, axis: int) -> tf.Tensor:
    """`tensor` with `axis` as its last axis."""
    count = tensor.shape.rank
    return transposed(tensor, [each for each in range(count) if each != axis] + [axis])


def moved_back(tensor: tf.Tensor, axis: int) -> tf.Tensor:
    """The inverse of `moved_last`."""
    count = tensor.shape.rank
    order = list(range(count - 1))
    order.insert(axis, count - 1)
    return transposed(tensor, order)


def reshaped(tensor: tf.Tensor, shape: list[int | tf.Tensor]) -> tf.Tensor:
    """`tensor` with the sizes `shape`, integers and scalars."""
    made = tf.reshape(tensor, vector(shape))
    # TensorFlow forgets the known sizes of a packed shape that also has computed ones.
    made.set_shape([each if isinstance(each, int | np.integer) and each >= 0 else None for each in shape])
    return made


def wrapped(indices: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """`indices`, of which negative ones count from the end of an axis of `size`."""
    values = static(indices)
    # Most indices are constants that are not negative: no operation for these.
    if values is not None and (values >= 0).all():
        return indices
    return tf.where(indices < 0, indices + tf.cast(size, indices.dtype), indices)
