"""Quantized numbers, computed as what they stand for."""

import numpy as np
import tensorflow as tf
from from_onnx.layers import convolution
from from_onnx.products import matmul
from from_onnx.table import operator
from from_onnx.tensors import axis_of, rank

_RANGES = {tf.uint8: (0, 255), tf.int8: (-128, 127), tf.uint16: (0, 65535), tf.int16: (-32768, 32767)}


def _along(node, values, x, axis: int, block: int = 0):
    """`values`, one for all, one for each element of an axis, or one for each block along it, in the shape of `x`."""
    if values is None or values.shape.rank == 0:
        return values
    if values.shape.rank == 1 and values.shape[0] == 1:
        return tf.reshape(values, [])
    if block:
        return tf.repeat(values, block, axis=axis)[tuple(slice(size) for size in x.shape)]
    return tf.reshape(values, [-1 if place == axis else 1 for place in range(rank(node, x))])


@operator("DequantizeLinear")
def _dequantize(node, x, scale, zero=None):
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    axis = axis_of(node, axis, rank(node, x)) if scale.shape.rank else 0
    scale, zero = _along(node, scale, x, axis, block), _along(node, zero, x, axis, block)
    dtype = tf.float32 if scale.dtype != tf.float64 else tf.float64
    values = tf.cast(x, dtype)
    values = values if zero is None else values - tf.cast(zero, dtype)
    return tf.cast(values * tf.cast(scale, dtype), scale.dtype)


@operator("QuantizeLinear")
def _quantize(node, x, scale, zero=None):
    from from_onnx.elementwise import type_of

    axis, block = node.get("axis", 1), node.get("block_size", 0)
    axis = axis_of(node, axis, rank(node, x)) if scale.shape.rank else 0
    dtype = zero.dtype if zero is not None else type_of(node, node.get("output_dtype") or 2)
    scale, zero = _along(node, scale, x, axis, block), _along(node, zero, x, axis, block)
    return quantized(node, tf.cast(x, tf.float32) / tf.cast(scale, tf.float32), zero, dtype)


def quantized(node, values, zero, dtype):
    """`values`, rounded and moved by the zero point, in the range of `dtype`."""
    if dtype not in _RANGES:
        raise node.fault(f"the element type {dtype.name} is not read")
    low, high = _RANGES[dtype]
    values = tf.round(values)
    values = values if zero is None else values + tf.cast(zero, values.dtype)
    return tf.cast(tf.cast(tf.clip_by_value(values, low, high), tf.int32), dtype)


@operator("DynamicQuantizeLinear")
def _dynamic_quantize(node, x):
    low, high = tf.minimum(tf.reduce_min(x), 0), tf.maximum(tf.reduce_max(x), 0)
    scale = (high - low) / np.float32(255)
    zero = tf.round(tf.clip_by_value(-low / scale, 0, 255))
    return quantized(node, x / scale, zero, tf.uint8), scale, tf.cast(tf.cast(zero, tf.int32), tf.uint8)


@operator("QLinearMatMul")
def _qlinear_matmul(node, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    made = matmul(node, _number(a, a_scale, a_zero, -2), _number(b, b_scale, b_zero, -1))
    return quantized(node, made / tf.cast(y_scale, tf.float32), y_zero, y_zero.dtype)


def _number(x, scale, zero, axis: int):
    scale, zero = tf.cast(scale, tf.float32), tf.cast(zero, tf.float32)
    if axis == -2:
        scale, zero = (each[:, None] if each.shape.rank == 1 and each.shape[0] != 1 else each for each in (scale, zero))
    return (tf.cast(x, tf.float32) - zero) * scale


@operator("QLinearConv")
def _qlinear_conv(node, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias=None):
    shape = [-1] + [1] * (rank(node, x) - 1)
    weights = tf.cast(w, tf.float32) - tf.reshape(tf.cast(w_zero, tf.float32), shape)
    made = convolution(node, tf.cast(x, tf.float32) - tf.cast(x_zero, tf.float32), weights)
    if bias is not None:
        made = made + tf.reshape(tf.cast(bias, tf.float32), shape[:-1])
    factor = tf.reshape(x_scale * w_scale, shape[:-1]) / y_scale
    return quantized(node, made * factor, y_zero, y_zero.dtype)


@operator("ConvInteger")
def _conv_integer(node, x, w, x_zero=None, w_zero=None):
    x, w = tf.cast(x, tf.float32), tf.cast(w, tf.float32)
    x = x if x_zero is None else x - tf.cast(x_zero, tf.float32)
    if w_zero is not None:
        zero = tf.cast(w_zero, tf.float32)
        w = w - (tf.reshape(zero, [-1] + [1] * (rank(node, w) - 1)) if zero.shape.rank else zero)
    # Exact up to 2^24, which is more than 256 products of bytes.
    return tf.cast(tf.round(convolution(node, x, w)), tf.int32)
