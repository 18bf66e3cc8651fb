"""Quantized numbers, computed as the numbers that they represent."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx.layers import convolution
from from_onnx.products import EXACT, integer_product, matmul
from from_onnx.table import MICROSOFT, OPERATORS, operator
from from_onnx.tensors import axis_of, constant_or, rank

if TYPE_CHECKING:
    from from_onnx.table import Node


_RANGES = {tf.uint8: (0, 255), tf.int8: (-128, 127), tf.uint16: (0, 65535), tf.int16: (-32768, 32767)}


def _along(node: Node, values: tf.Tensor, x: tf.Tensor, axis: int, block: int = 0) -> tf.Tensor:
    """`values`, one for all, one for each element of an axis, or one for each block along it, in the shape of `x`."""
    if values is None or values.shape.rank == 0:
        return values
    if values.shape.rank == 1 and values.shape[0] == 1:
        return tf.reshape(values, [])
    if block:
        return tf.repeat(values, block, axis=axis)[tuple(slice(size) for size in x.shape)]
    return tf.reshape(values, [-1 if place == axis else 1 for place in range(rank(node, x))])


def _axis_of_scales(node: Node, axis: int, x: tf.Tensor, scale: tf.Tensor) -> int:
    """The axis along which scales differ; if there is one scale for all, files may name any axis."""
    is_one = scale.shape.rank == 0 or (scale.shape.rank == 1 and scale.shape[0] == 1)
    return 0 if is_one else axis_of(node, axis, rank(node, x))


@operator("DequantizeLinear", domain=MICROSOFT)
@operator("DequantizeLinear")
def _dequantize(node: Node, x: tf.Tensor, scale: tf.Tensor, zero: tf.Tensor | None = None) -> tf.Tensor:
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    axis = _axis_of_scales(node, axis, x, scale)
    scale, zero = _along(node, scale, x, axis, block), _along(node, zero, x, axis, block)
    dtype = tf.float32 if scale.dtype != tf.float64 else tf.float64
    values = tf.cast(x, dtype)
    values = values if zero is None else values - tf.cast(zero, dtype)
    return tf.cast(values * tf.cast(scale, dtype), scale.dtype)


@operator("QuantizeLinear", domain=MICROSOFT)
@operator("QuantizeLinear")
def _quantize(node: Node, x: tf.Tensor, scale: tf.Tensor, zero: tf.Tensor | None = None) -> tf.Tensor:
    from from_onnx.elementwise import type_of

    axis, block = node.get("axis", 1), node.get("block_size", 0)
    axis = _axis_of_scales(node, axis, x, scale)
    dtype = zero.dtype if zero is not None else type_of(node, node.get("output_dtype") or 2)
    scale, zero = _along(node, scale, x, axis, block), _along(node, zero, x, axis, block)
    return quantized(node, tf.cast(x, tf.float32) / tf.cast(scale, tf.float32), zero, dtype)


def quantized(node: Node, values: tf.Tensor, zero: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """`values`, rounded and moved by the zero point, in the range of `dtype`."""
    if dtype not in _RANGES:
        raise node.fault(f"the element type {dtype.name} is not supported")
    low, high = _RANGES[dtype]
    # Half to even, as the standard says of QuantizeLinear; the zero point is added to whole numbers.
    values = tf.round(values)
    values = values if zero is None else values + tf.cast(zero, values.dtype)
    # NaN becomes the lowest number, as in ONNX Runtime.
    values = tf.where(tf.math.is_nan(values), tf.constant(low, values.dtype), values)
    return tf.cast(tf.cast(tf.clip_by_value(values, low, high), tf.int32), dtype)


@operator("DynamicQuantizeLinear")
def _dynamic_quantize(node: Node, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    low, high = tf.minimum(tf.reduce_min(x), 0), tf.maximum(tf.reduce_max(x), 0)
    scale = (high - low) / np.float32(255)
    # Zero is in the range always (above), so that it is represented exactly, as padding needs.
    zero = tf.round(tf.clip_by_value(-low / scale, 0, 255))
    return quantized(node, x / scale, zero, tf.uint8), scale, tf.cast(tf.cast(zero, tf.int32), tf.uint8)


@operator("QLinearMatMul")
def _qlinear_matmul(
    node: Node,
    a: tf.Tensor,
    a_scale: tf.Tensor,
    a_zero: tf.Tensor,
    b: tf.Tensor,
    b_scale: tf.Tensor,
    b_zero: tf.Tensor,
    y_scale: tf.Tensor,
    y_zero: tf.Tensor,
) -> tf.Tensor:
    made = matmul(node, _number(a, a_scale, a_zero, -2), _number(b, b_scale, b_zero, -1))
    return quantized(node, made / tf.cast(y_scale, tf.float32), y_zero, y_zero.dtype)


def _number(x: tf.Tensor, scale: tf.Tensor, zero: tf.Tensor, axis: int) -> tf.Tensor:
    scale, zero = tf.cast(scale, tf.float32), tf.cast(zero, tf.float32)
    if axis == -2:
        scale, zero = (each[:, None] if each.shape.rank == 1 and each.shape[0] != 1 else each for each in (scale, zero))
    return (tf.cast(x, tf.float32) - zero) * scale


@operator("QLinearConv")
def _qlinear_conv(
    node: Node,
    x: tf.Tensor,
    x_scale: tf.Tensor,
    x_zero: tf.Tensor,
    w: tf.Tensor,
    w_scale: tf.Tensor,
    w_zero: tf.Tensor,
    y_scale: tf.Tensor,
    y_zero: tf.Tensor,
    bias: tf.Tensor | None = None,
) -> tf.Tensor:
    shape = [-1] + [1] * (rank(node, x) - 1)
    # One zero point for all filters, or one for each.
    weights = tf.cast(w, tf.float32) - tf.reshape(tf.cast(w_zero, tf.float32), shape)
    made = convolution(node, tf.cast(x, tf.float32) - tf.cast(x_zero, tf.float32), weights)
    if bias is not None:
        made = made + tf.reshape(tf.cast(bias, tf.float32), shape[:-1])
    factor = tf.reshape(x_scale * w_scale, shape[:-1]) / y_scale
    return quantized(node, made * factor, y_zero, y_zero.dtype)


@operator("ConvInteger")
def _conv_integer(
    node: Node, x: tf.Tensor, w: tf.Tensor, x_zero: tf.Tensor | None = None, w_zero: tf.Tensor | None = None
) -> tf.Tensor:
    x, w = tf.cast(x, tf.float32), tf.cast(w, tf.float32)
    x = x if x_zero is None else x - tf.cast(x_zero, tf.float32)
    if w_zero is not None:
        zero = tf.cast(w_zero, tf.float32)
        w = w - (tf.reshape(zero, [-1] + [1] * (rank(node, w) - 1)) if zero.shape.rank else zero)
    return functools.reduce(tf.add, [tf.cast(convolution(node, *part), tf.int32) for part in _exact_parts(node, x, w)])


def _exact_parts(node: Node, x: tf.Tensor, w: tf.Tensor) -> list[Any]:
    """Parts of the channels whose convolutions are exact: float32 represents the sums of 258 products of bytes."""
    if not w.shape.is_fully_defined():
        raise node.fault("the sizes of its weights are not known")
    channels, *taps = w.shape.as_list()[1:]
    most = EXACT // (255 * 255 * math.prod(taps))
    if channels <= most:
        return [(x, w)]
    if node.get("group", 1) > 1 or not most:
        # Channels of a group cannot be split here; sums of float64 are exact as well.
        return [(tf.cast(x, tf.float64), tf.cast(w, tf.float64))]
    starts = range(0, channels, most)
    return [(x[:, start : start + most], w[:, start : start + most]) for start in starts]


def _between(a: tf.Tensor, a_scale: tf.Tensor, a_zero: tf.Tensor) -> tf.Tensor:
    """The numbers that `a` represents, with one scale for all."""
    made = tf.cast(a, tf.float32)
    return (made if a_zero is None else made - tf.cast(a_zero, tf.float32)) * a_scale


def _of_many(values: tf.Tensor, scale: tf.Tensor, zero: tf.Tensor, dtype: tf.DType, node: Node) -> tf.Tensor:
    return quantized(node, values / scale, zero, zero.dtype if zero is not None else dtype)


_PAIRS = {"QLinearAdd": tf.add, "QLinearMul": tf.multiply}


@operator(*_PAIRS, domain=MICROSOFT)
def _qlinear_pair(
    node: Node,
    a: tf.Tensor,
    a_scale: tf.Tensor,
    a_zero: tf.Tensor,
    b: tf.Tensor,
    b_scale: tf.Tensor,
    b_zero: tf.Tensor,
    scale: tf.Tensor,
    zero: tf.Tensor | None = None,
) -> tf.Tensor:
    made = _PAIRS[node.op](_between(a, a_scale, a_zero), _between(b, b_scale, b_zero))
    return _of_many(made, scale, zero, a.dtype, node)


_SINGLES = {
    "QLinearAveragePool": "AveragePool",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
    "QLinearLeakyRelu": "LeakyRelu",
    "QLinearReduceMean": "ReduceMean",
    "QLinearSigmoid": "Sigmoid",
}


@operator(*_SINGLES, domain=MICROSOFT)
def _qlinear_single(
    node: Node, x: tf.Tensor, x_scale: tf.Tensor, x_zero: tf.Tensor, scale: tf.Tensor, zero: tf.Tensor | None = None
) -> tf.Tensor:
    if node.get("channels_last", 0):
        raise node.fault("channels in the last axis are not supported", "save the file with ORT_ENABLE_BASIC")
    made = OPERATORS["ai.onnx", _SINGLES[node.op]](node.like(_SINGLES[node.op]), _between(x, x_scale, x_zero))
    return _of_many(made, scale, zero, x.dtype, node)


@operator("QLinearSoftmax", domain=MICROSOFT)
def _qlinear_softmax(
    node: Node, x: tf.Tensor, x_scale: tf.Tensor, x_zero: tf.Tensor, scale: tf.Tensor, zero: tf.Tensor | None = None
) -> tf.Tensor:
    made = tf.nn.softmax(_between(x, x_scale, x_zero), axis_of(node, node.get("axis", -1), rank(node, x)))
    return _of_many(made, scale, zero, x.dtype, node)


@operator("QLinearConcat", domain=MICROSOFT)
def _qlinear_concat(node: Node, scale: tf.Tensor, zero: tf.Tensor, *inputs: tf.Tensor) -> tf.Tensor:
    parts = [_between(*inputs[place : place + 3]) for place in range(0, len(inputs), 3)]
    made = tf.concat(parts, axis_of(node, node.get("axis"), rank(node, parts[0])))
    return _of_many(made, scale, zero, zero.dtype, node)


@operator("QGemm", domain=MICROSOFT)
def _qgemm(
    node: Node,
    a: tf.Tensor,
    a_scale: tf.Tensor,
    a_zero: tf.Tensor,
    b: tf.Tensor,
    b_scale: tf.Tensor,
    b_zero: tf.Tensor,
    c: tf.Tensor | None = None,
    scale: tf.Tensor | None = None,
    zero: tf.Tensor | None = None,
) -> tf.Tensor:
    a = tf.cast(a, tf.float32) - tf.cast(a_zero, tf.float32)
    along = 0 if node.get("transB", 0) else 1
    b = tf.cast(b, tf.float32) - tf.cast(_along(node, b_zero, b, along), tf.float32)
    a = tf.transpose(a) if node.get("transA", 0) else a
    b = constant_or(tf.transpose, b) if node.get("transB", 0) else b
    made = tf.matmul(a, b)
    made = made if c is None else made + tf.cast(c, tf.float32)
    made = made * (a_scale * b_scale * tf.constant(node.get("alpha", 1.0), tf.float32))
    return made if scale is None else _of_many(made, scale, zero, tf.uint8, node)


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_integer_to_float(
    node: Node,
    a: tf.Tensor,
    b: tf.Tensor,
    a_scale: tf.Tensor,
    b_scale: tf.Tensor,
    a_zero: tf.Tensor | None = None,
    b_zero: tf.Tensor | None = None,
    bias: tf.Tensor | None = None,
) -> tf.Tensor:
    a, b = (
        tf.cast(each, tf.int32) if zero is None else tf.cast(each, tf.int32) - tf.cast(zero, tf.int32)
        for each, zero in ((a, a_zero), (b, b_zero))
    )
    made = tf.cast(integer_product(node, a, b), tf.float32) * (a_scale * b_scale)
    return made if bias is None else made + bias


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def _dynamic_quantize_lstm(node: Node, *inputs: tf.Tensor) -> None:
    raise node.fault(
        "recurrent layers whose states are quantized are not read",
        "quantize other layers only: quantize_dynamic(..., op_types_to_quantize=['MatMul', 'Gemm'])",
    )


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_quantize_matmul(
    node: Node,
    a: tf.Tensor,
    b: tf.Tensor,
    b_scale: tf.Tensor,
    b_zero: tf.Tensor | None = None,
    bias: tf.Tensor | None = None,
) -> tf.Tensor:
    bytes_of_a, scale, zero = _dynamic_quantize(node, a)
    return _matmul_integer_to_float(node, bytes_of_a, b, scale, b_scale, zero, b_zero, bias)
