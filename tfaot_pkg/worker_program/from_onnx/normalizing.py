"""Softmax and normalizations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import axis_of, by_channel, rank, reshaped, sizes

if TYPE_CHECKING:
    from from_onnx.table import Node


@operator("Softmax", "LogSoftmax", "Hardmax")
def _softmax(node: Node, x: tf.Tensor) -> tf.Tensor:
    count = rank(node, x)
    function = {"Softmax": tf.nn.softmax, "LogSoftmax": tf.nn.log_softmax, "Hardmax": _hardmax}[node.op]
    if node.version >= 13:
        return function(x, axis_of(node, node.get("axis", -1), count))
    # Up to opset 12, all axes from `axis` on count as one.
    axis = axis_of(node, node.get("axis", 1), count)
    if axis == count - 1:
        return function(x, axis)
    given = sizes(x)
    flat = function(reshaped(x, [*given[:axis], -1]), axis)
    return reshaped(flat, given)


def _hardmax(x: tf.Tensor, axis: int) -> tf.Tensor:
    return tf.one_hot(tf.argmax(x, axis), tf.shape(x)[axis], axis=axis, dtype=x.dtype)


@operator("BatchNormalization")
def _batch_normalization(
    node: Node, x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    if node.get("training_mode", 0) or (node.version < 14 and len([name for name in node.outputs if name]) > 1):
        raise node.fault("it is in training mode", "export the model for inference: model.eval()")
    epsilon, count = node.get("epsilon", 1e-5), rank(node, x)
    if count < 2:
        raise node.fault("its input has no axis of channels")
    # One factor and one term for each channel, computed now if the statistics are constants.
    dtype = x.dtype
    factor = scale / tf.sqrt(variance + tf.constant(epsilon, variance.dtype))
    term = tf.cast(offset, dtype) - tf.cast(mean * factor, dtype)
    if not node.get("spatial", 1):  # of opset 7 and 8: one for each element of a row
        return x * tf.cast(factor, dtype) + term
    return x * by_channel(tf.cast(factor, dtype), count) + by_channel(term, count)


@operator("LayerNormalization")
def _layer_normalization(
    node: Node, x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    count = rank(node, x)
    axis = axis_of(node, node.get("axis", -1), count)
    axes, epsilon = list(range(axis, count)), node.get("epsilon", 1e-5)
    # The standard computes the statistics in float32 (stash_type).
    values = tf.cast(x, tf.float32) if x.dtype.size < 4 else x
    mean = tf.reduce_mean(values, axes, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(values, mean), axes, keepdims=True)
    inverse = tf.math.rsqrt(variance + tf.constant(epsilon, values.dtype))
    made = tf.cast((values - mean) * inverse, x.dtype) * scale
    return (made if offset is None else made + offset), mean, inverse


@operator("InstanceNormalization")
def _instance_normalization(node: Node, x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    count = rank(node, x)
    axes = list(range(2, count))
    mean = tf.reduce_mean(x, axes, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), axes, keepdims=True)
    made = (x - mean) * tf.math.rsqrt(variance + tf.constant(node.get("epsilon", 1e-5), x.dtype))
    return made * by_channel(scale, count) + by_channel(offset, count)


@operator("MeanVarianceNormalization")
def _mean_variance_normalization(node: Node, x: tf.Tensor) -> tf.Tensor:
    axes = node.get("axes") or [0, 2, 3]
    mean = tf.reduce_mean(x, axes, keepdims=True)
    # As ONNX defines it, down to the order of operations and the constant below.
    deviation = tf.sqrt(tf.reduce_mean(tf.square(x), axes, keepdims=True) - tf.square(mean))
    return (x - mean) / (deviation + tf.constant(1e-9, x.dtype))


@operator("LpNormalization")
def _lp_normalization(node: Node, x: tf.Tensor) -> tf.Tensor:
    axis, order = node.get("axis", -1), node.get("p", 2)
    norm = tf.reduce_sum(tf.abs(x), axis, True) if order == 1 else tf.sqrt(tf.reduce_sum(tf.square(x), axis, True))
    # ONNX Runtime gives zeros if the norm is 0.
    return tf.math.divide_no_nan(x, norm)


@operator("LRN")
def _lrn(node: Node, x: tf.Tensor) -> tf.Tensor:
    size = node.get("size")
    alpha, beta, bias = node.get("alpha", 1e-4), node.get("beta", 0.75), node.get("bias", 1.0)
    low = (size - 1) // 2
    padded = tf.pad(tf.square(x), [[0, 0], [low, size - 1 - low]] + [[0, 0]] * (rank(node, x) - 2))
    channels = x.shape[1]
    total = sum((padded[:, place : place + channels] for place in range(1, size)), padded[:, :channels])
    return x / tf.pow(bias + np.float32(alpha / size) * total, beta)
