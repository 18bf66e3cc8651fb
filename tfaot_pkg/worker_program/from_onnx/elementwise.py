"""Operators that work element by element, with NumPy's broadcasting."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import is_packed, scalars, static

if TYPE_CHECKING:
    from from_onnx.table import Node


_UNARY = {
    "Acos": tf.acos,
    "Acosh": tf.acosh,
    "Asin": tf.asin,
    "Asinh": tf.asinh,
    "Atan": tf.atan,
    "Atanh": tf.atanh,
    "Cos": tf.cos,
    "Cosh": tf.cosh,
    "Erf": tf.math.erf,
    "Exp": tf.exp,
    "IsNaN": tf.math.is_nan,
    "Log": tf.math.log,
    "Not": tf.logical_not,
    "Reciprocal": tf.math.reciprocal,
    "Sigmoid": tf.sigmoid,
    "Sin": tf.sin,
    "Sinh": tf.sinh,
    "Softplus": tf.nn.softplus,
    "Softsign": tf.nn.softsign,
    "Sqrt": tf.sqrt,
    "Tan": tf.tan,
    "Tanh": tf.tanh,
    "Relu": tf.nn.relu,
    "BitwiseNot": tf.bitwise.invert,
    "Identity": tf.identity,
}

for _name, _function in _UNARY.items():
    operator(_name)(lambda node, x, _function=_function: _function(x))

_SIGNED = {
    "Abs": tf.abs,
    "Neg": tf.negative,
    "Sign": tf.sign,
    "Round": tf.round,
    "Floor": tf.floor,
    "Ceil": tf.math.ceil,
}


@operator(*_SIGNED)
def _signed(node: Node, x: tf.Tensor) -> tf.Tensor:
    # TensorFlow has no such kernels for unsigned integers, and rounds floats only.
    if x.dtype.is_integer and (x.dtype.is_unsigned or node.op in ("Round", "Floor", "Ceil")):
        return tf.cast(x != 0, x.dtype) if node.op == "Sign" else x
    return _SIGNED[node.op](x)


def _number(value: float, like: tf.Tensor) -> tf.Tensor:
    return tf.constant(value, like.dtype)


@operator("LeakyRelu")
def _leaky_relu(node: Node, x: tf.Tensor) -> tf.Tensor:
    return tf.nn.leaky_relu(x, node.get("alpha", 0.01))


@operator("Elu")
def _elu(node: Node, x: tf.Tensor) -> tf.Tensor:
    alpha = node.get("alpha", 1.0)
    return tf.nn.elu(x) if alpha == 1 else tf.where(x > 0, x, _number(alpha, x) * tf.math.expm1(tf.minimum(x, 0)))


@operator("Celu")
def _celu(node: Node, x: tf.Tensor) -> tf.Tensor:
    alpha = _number(node.get("alpha", 1.0), x)
    return tf.maximum(x, 0) + tf.minimum(alpha * tf.math.expm1(x / alpha), 0)


@operator("Selu")
def _selu(node: Node, x: tf.Tensor) -> tf.Tensor:
    alpha, gamma = node.get("alpha", 1.67326319217681884765625), node.get("gamma", 1.05070102214813232421875)
    if abs(alpha - 1.6732632) < 1e-6 and abs(gamma - 1.050701) < 1e-6:
        # The constants of the standard, as exporters round them: TensorFlow has one operation for them.
        return tf.nn.selu(x)
    return _number(gamma, x) * tf.where(x > 0, x, _number(alpha, x) * tf.math.expm1(tf.minimum(x, 0)))


@operator("ThresholdedRelu")
def _thresholded_relu(node: Node, x: tf.Tensor) -> tf.Tensor:
    return tf.where(x > _number(node.get("alpha", 1.0), x), x, tf.zeros_like(x))


@operator("HardSigmoid")
def _hard_sigmoid(node: Node, x: tf.Tensor) -> tf.Tensor:
    return hard_sigmoid(x, node.get("alpha", 0.2), node.get("beta", 0.5))


def hard_sigmoid(x: tf.Tensor, alpha: float, beta: float) -> tf.Tensor:
    return tf.clip_by_value(_number(alpha, x) * x + _number(beta, x), _number(0, x), _number(1, x))


@operator("HardSwish")
def _hard_swish(node: Node, x: tf.Tensor) -> tf.Tensor:
    return x * hard_sigmoid(x, 1 / 6, 0.5)


@operator("Swish")
def _swish(node: Node, x: tf.Tensor) -> tf.Tensor:
    return x * tf.sigmoid(_number(node.get("alpha", 1.0), x) * x)


@operator("Mish")
def _mish(node: Node, x: tf.Tensor) -> tf.Tensor:
    return x * tf.tanh(tf.nn.softplus(x))


@operator("PRelu")
def _prelu(node: Node, x: tf.Tensor, slope: tf.Tensor) -> tf.Tensor:
    return tf.where(x < 0, x * slope, x)


@operator("Shrink")
def _shrink(node: Node, x: tf.Tensor) -> tf.Tensor:
    limit, bias = _number(node.get("lambd", 0.5), x), _number(node.get("bias", 0.0), x)
    return tf.where(x < -limit, x + bias, tf.where(x > limit, x - bias, tf.zeros_like(x)))


@operator("Gelu")
def _gelu(node: Node, x: tf.Tensor) -> tf.Tensor:
    return tf.nn.gelu(x, approximate=node.get("approximate", "none") == "tanh")


@operator("Clip")
def _clip(node: Node, x: tf.Tensor, low: tf.Tensor | None = None, high: tf.Tensor | None = None) -> tf.Tensor:
    if node.version < 11:
        # Before opset 11 the limits were attributes.
        low, high = node.get("min"), node.get("max")
    x = x if low is None else tf.maximum(x, tf.cast(low, x.dtype))
    return x if high is None else tf.minimum(x, tf.cast(high, x.dtype))


@operator("IsInf")
def _is_inf(node: Node, x: tf.Tensor) -> tf.Tensor:
    positive, negative = node.get("detect_positive", 1), node.get("detect_negative", 1)
    found = tf.math.is_inf(x)
    if positive and negative:
        return found
    if positive or negative:
        return found & ((x > 0) if positive else (x < 0))
    return tf.zeros_like(x, tf.bool)


_BINARY = {
    "Add": tf.add,
    "Sub": tf.subtract,
    "Mul": tf.multiply,
    "And": tf.logical_and,
    "Or": tf.logical_or,
    "Xor": tf.math.logical_xor,
    "Equal": tf.equal,
    "Greater": tf.greater,
    "Less": tf.less,
    "GreaterOrEqual": tf.greater_equal,
    "LessOrEqual": tf.less_equal,
    "BitwiseAnd": tf.bitwise.bitwise_and,
    "BitwiseOr": tf.bitwise.bitwise_or,
    "BitwiseXor": tf.bitwise.bitwise_xor,
}

for _name, _function in _BINARY.items():
    operator(_name)(lambda node, x, y, _function=_function: _function(x, y))


@operator("Div")
def _div(node: Node, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    # Towards zero, as C divides integers; tf.math.floordiv would differ for negative ones.
    return tf.truncatediv(x, y) if x.dtype.is_integer else tf.divide(x, y)


@operator("Pow")
def _pow(node: Node, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    if x.dtype == y.dtype and x.dtype.is_floating:
        power = static(y)
        # Exactly TensorFlow's own power, for which compilers have faster code. A root is not: of -inf, and of -0.0.
        is_square = power is not None and power.size == 1 and power.ndim <= x.shape.rank and power.item() == 2
        return tf.square(x) if is_square else tf.pow(x, y)
    if x.dtype.is_floating:
        return tf.pow(x, tf.cast(y, x.dtype))
    # TensorFlow rejects negative exponents of integers.
    return tf.cast(tf.pow(tf.cast(x, tf.float64), tf.cast(y, tf.float64)), x.dtype)


@operator("Mod")
def _mod(node: Node, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    # fmod takes the sign of the dividend, as in C, else that of the divisor, as in Python.
    function = tf.truncatemod if node.get("fmod", 0) else tf.math.floormod
    # TensorFlow has no such kernels for short floats.
    if x.dtype.size < 4 and x.dtype.is_floating:
        return tf.cast(function(tf.cast(x, tf.float32), tf.cast(y, tf.float32)), x.dtype)
    return function(x, y)


@operator("BitShift")
def _bit_shift(node: Node, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    is_left, width = node.get("direction") == "LEFT", 8 * x.dtype.size
    shift = tf.bitwise.left_shift if is_left else tf.bitwise.right_shift
    # A shift by all bits, or by less than none, is undefined in C; in ONNX it leaves zeros, or copies of the sign.
    least = tf.zeros_like(x) if is_left or x.dtype.is_unsigned else tf.where(x < 0, -tf.ones_like(x), tf.zeros_like(x))
    most = tf.cast(width - 1, y.dtype)
    return tf.where((y > most) | (y < 0), least, shift(x, tf.clip_by_value(y, tf.zeros_like(most), most)))


_MANY = {"Max": tf.maximum, "Min": tf.minimum, "Sum": tf.add, "Mean": tf.add}


@operator("Max", "Min", "Sum", "Mean")
def _many(node: Node, *inputs: tf.Tensor) -> tf.Tensor:
    found = functools.reduce(_MANY[node.op], inputs)
    return found / _number(len(inputs), found) if node.op == "Mean" else found


@operator("Where")
def _where(node: Node, condition: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.where(condition, x, y)


_TYPES = {
    1: tf.float32, 2: tf.uint8, 3: tf.int8, 4: tf.uint16, 5: tf.int16, 6: tf.int32, 7: tf.int64, 8: tf.string,
    9: tf.bool, 10: tf.float16, 11: tf.float64, 12: tf.uint32, 13: tf.uint64, 14: tf.complex64, 15: tf.complex128,
    16: tf.bfloat16,
}  # fmt: skip
"""TensorProto.DataType -> TensorFlow's types."""


def type_of(node: Node, number: int) -> tf.Tensor:
    """The type with ONNX's `number`; ModelFault if TensorFlow does not compute with it."""
    if number not in _TYPES:
        raise node.fault(f"the element type {number} (onnx.TensorProto.DataType) is not supported")
    return _TYPES[number]


@operator("Cast")
def _cast(node: Node, x: tf.Tensor) -> tf.Tensor:
    return cast(node, x, type_of(node, node.get("to")))


@operator("CastLike")
def _cast_like(node: Node, x: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    return cast(node, x, like.dtype)


@operator("BitCast")
def _bit_cast(node: Node, x: tf.Tensor) -> tf.Tensor:
    dtype = type_of(node, node.get("to"))
    if tf.bool in (x.dtype, dtype) or dtype.size != x.dtype.size:
        raise node.fault(f"{x.dtype.name} as {dtype.name}: only numbers of the same size are supported")
    return tf.bitcast(x, dtype)


def cast(node: Node, x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    if tf.string in {x.dtype, dtype}:
        raise node.fault("strings are not supported")
    if dtype == tf.bool:
        return x != tf.zeros((), x.dtype)
    if is_packed(x) and (elements := scalars(x)) is not None:
        # Sizes of a shape: those stay known that are.
        return tf.stack([tf.cast(each, dtype) for each in elements])
    if x.dtype.is_floating and dtype.is_integer and dtype.size < 4:
        # A direct cast of numbers out of range differs between machines; in ONNX they wrap around.
        return tf.cast(tf.cast(x, tf.int32), dtype)
    return tf.cast(x, dtype)


@operator("Dropout")
def _dropout(
    node: Node, x: tf.Tensor, ratio: tf.Tensor | None = None, training: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    known = static(training)
    if training is not None and (known is None or np.any(known)):
        raise node.fault("it is in training mode", "export the model for inference: model.eval()")
    return x, tf.ones_like(x, tf.bool)
