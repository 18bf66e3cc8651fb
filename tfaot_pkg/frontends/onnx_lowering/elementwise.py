"""Operators that work element by element, with NumPy's broadcasting."""

from __future__ import annotations

import functools
import math

import numpy as np

from tfaot_pkg.compiler.program import NUMPY_TYPES, Shape
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator

_UNARY = {
    "Abs": "abs",
    "BitwiseNot": "not",
    "Ceil": "ceil",
    "Cos": "cosine",
    "Exp": "exponential",
    "Floor": "floor",
    "Log": "log",
    "Neg": "negate",
    "Not": "not",
    "Round": "round-nearest-even",
    "Sigmoid": "logistic",
    "Sign": "sign",
    "Sin": "sine",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
    "Erf": "erf",
}
_INTEGERS_STAY = ("Ceil", "Floor", "Round")


@operator(*_UNARY)
def _unary(call: Call) -> Value:
    x = call.input(0)
    if call.op in _INTEGERS_STAY and not x.is_float:
        return x
    if x.dtype.startswith("u") and call.op in ("Abs", "Sign"):
        return x if call.op == "Abs" else call.builder.convert(_is_not_zero(call.builder, x), x.dtype)
    return call.builder.op(_UNARY[call.op], x)


@operator("Identity")
def _identity(call: Call) -> Value:
    return call.input(0)


def _is_not_zero(b: Builder, x: Value) -> Value:
    return b.compare("NE", x, b.constant(0, x.dtype))


class Arithmetic:
    """Expressions of arrays and numbers: `a.mul(x, 2)`. Numbers take the type of the arrays."""

    def __init__(self, builder: Builder, like: Value) -> None:
        self._builder, self._dtype = builder, like.dtype

    def value(self, x: Value | float) -> Value:
        return x if isinstance(x, Value) else self._builder.constant(x, self._dtype)

    def _op(self, opcode: str, *x: Value | float) -> Value:
        return self._builder.map(opcode, *map(self.value, x))

    def add(self, x: Value | float, y: Value | float) -> Value:
        return self._op("add", x, y)

    def sub(self, x: Value | float, y: Value | float) -> Value:
        return self._op("subtract", x, y)

    def mul(self, x: Value | float, y: Value | float) -> Value:
        return self._op("multiply", x, y)

    def div(self, x: Value | float, y: Value | float) -> Value:
        return self._op("divide", x, y)

    def max(self, x: Value | float, y: Value | float) -> Value:
        return self._op("maximum", x, y)

    def min(self, x: Value | float, y: Value | float) -> Value:
        return self._op("minimum", x, y)

    def pow(self, x: Value | float, y: Value | float) -> Value:
        return self._op("power", x, y)

    def unary(self, opcode: str, x: Value) -> Value:
        return self._builder.op(opcode, x)

    def exp(self, x: Value) -> Value:
        return self.unary("exponential", x)

    def log(self, x: Value) -> Value:
        return self.unary("log", x)

    def where(self, condition: Value, x: Value | float, y: Value | float) -> Value:
        return self._builder.map("select", condition, self.value(x), self.value(y))

    def compare(self, direction: str, x: Value | float, y: Value | float) -> Value:
        return self._builder.compare(direction, self.value(x), self.value(y))


def arithmetic(call: Call, like: Value) -> Arithmetic:
    return Arithmetic(call.builder, like)


def softplus(a: Arithmetic, x: Value) -> Value:
    """log(1 + exp(x)), without overflow."""
    return a.add(a.max(x, 0), a.unary("log-plus-one", a.exp(a.unary("negate", a.unary("abs", x)))))


def elu(a: Arithmetic, x: Value, alpha: float) -> Value:
    negative = a.unary("exponential-minus-one", a.min(x, 0))
    return a.where(a.compare("GT", x, 0), x, negative if alpha == 1 else a.mul(negative, alpha))


def leaky_relu(a: Arithmetic, x: Value, alpha: float) -> Value:
    return a.where(a.compare("GE", x, 0), x, a.mul(x, alpha))


def hard_sigmoid(a: Arithmetic, x: Value, alpha: float, beta: float) -> Value:
    if x.dtype == "f32" and np.float32(alpha) == np.float32(1 / 6) and beta == 0.5:
        # PyTorch's formula: x / 6 + 1/2 would lose all digits near its zero at -3.
        return a.div(a.min(a.max(a.add(x, 3), 0), 6), 6)
    return a.min(a.max(a.add(a.mul(x, alpha), beta), 0), 1)


def softsign(a: Arithmetic, x: Value) -> Value:
    return a.div(x, a.add(a.unary("abs", x), 1))


def thresholded(a: Arithmetic, x: Value, alpha: float) -> Value:
    return a.where(a.compare("GT", x, alpha), x, 0)


@operator("Relu")
def _relu(call: Call) -> Value:
    x = call.input(0)
    return arithmetic(call, x).max(x, 0)


@operator("LeakyRelu", "Elu", "ThresholdedRelu")
def _with_alpha(call: Call) -> Value:
    x = call.input(0)
    a = arithmetic(call, x)
    if call.op == "LeakyRelu":
        return leaky_relu(a, x, call.real("alpha", 0.01))
    return (elu if call.op == "Elu" else thresholded)(a, x, call.real("alpha", 1.0))


@operator("Celu")
def _celu(call: Call) -> Value:
    x, alpha = call.input(0), call.real("alpha", 1.0)
    a = arithmetic(call, x)
    negative = a.unary("exponential-minus-one", a.div(a.min(x, 0), alpha))
    return a.add(a.max(x, 0), a.min(a.mul(negative, alpha), 0))


@operator("Selu")
def _selu(call: Call) -> Value:
    x = call.input(0)
    a = arithmetic(call, x)
    alpha, gamma = call.real("alpha", 1.67326319217681884765625), call.real("gamma", 1.05070102214813232421875)
    return a.mul(elu(a, x, alpha), gamma)


@operator("HardSigmoid")
def _hard_sigmoid(call: Call) -> Value:
    x = call.input(0)
    return hard_sigmoid(arithmetic(call, x), x, call.real("alpha", 0.2), call.real("beta", 0.5))


@operator("HardSwish")
def _hard_swish(call: Call) -> Value:
    x = call.input(0)
    a = arithmetic(call, x)
    return a.mul(x, hard_sigmoid(a, x, 1 / 6, 0.5))


@operator("Swish")
def _swish(call: Call) -> Value:
    return swish(call, call.input(0), call.real("alpha", 1.0))


def swish(call: Call, x: Value, alpha: float) -> Value:
    a = arithmetic(call, x)
    return a.mul(x, a.unary("logistic", x if alpha == 1 else a.mul(x, alpha)))


@operator("Mish")
def _mish(call: Call) -> Value:
    x = call.input(0)
    a = arithmetic(call, x)
    return a.mul(x, a.unary("tanh", softplus(a, x)))


@operator("Softplus")
def _softplus(call: Call) -> Value:
    x = call.input(0)
    return softplus(arithmetic(call, x), x)


@operator("Softsign")
def _softsign(call: Call) -> Value:
    x = call.input(0)
    return softsign(arithmetic(call, x), x)


@operator("Gelu")
def _gelu(call: Call) -> Value:
    return gelu(call, call.input(0), tanh=call.text("approximate", "none") == "tanh")


def gelu(call: Call, x: Value, *, tanh: bool = False) -> Value:
    a = arithmetic(call, x)
    if tanh:
        inner = a.mul(a.add(x, a.mul(a.mul(a.mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
        return a.mul(a.mul(x, 0.5), a.add(a.unary("tanh", inner), 1))
    return a.mul(a.mul(x, 0.5), a.add(a.unary("erf", a.mul(x, math.sqrt(0.5))), 1))


@operator("PRelu")
def _prelu(call: Call) -> Value:
    x, slope = call.input(0), call.input(1)
    a = arithmetic(call, x)
    return a.where(a.compare("LT", x, 0), a.mul(x, slope), x)


@operator("Shrink")
def _shrink(call: Call) -> Value:
    x = call.input(0)
    a, limit, bias = arithmetic(call, x), call.real("lambd", 0.5), call.real("bias", 0.0)
    inner = a.where(a.compare("GT", x, limit), a.sub(x, bias), 0)
    return a.where(a.compare("LT", x, -limit), a.add(x, bias), inner)


@operator("Reciprocal")
def _reciprocal(call: Call) -> Value:
    x = call.input(0)
    return arithmetic(call, x).div(1, x)


@operator("Clip")
def _clip(call: Call) -> Value:
    x = call.input(0)
    a = arithmetic(call, x)
    # Before opset 11 the limits were attributes.
    low, high = (
        (call.maybe(place) if call.version >= 11 else call.real(name, 0) if call.has(name) else None)
        for place, name in ((1, "min"), (2, "max"))
    )
    x = x if low is None else a.max(x, low)
    return x if high is None else a.min(x, high)


# -- circular and hyperbolic functions -----------------------------------------------------------------------------


@operator("Asin", "Acos", "Atan")
def _arcs(call: Call) -> Value:
    x = call.input(0)
    a = arithmetic(call, x)
    if call.op == "Atan":
        return call.builder.map("atan2", x, a.value(1))
    # sqrt((1 - x) (1 + x)) loses nothing where x is close to 1.
    other = a.unary("sqrt", a.mul(a.sub(1, x), a.add(1, x)))
    return call.builder.map("atan2", x, other) if call.op == "Asin" else call.builder.map("atan2", other, x)


@operator("Sinh", "Cosh")
def _hyperbolic(call: Call) -> Value:
    x = call.input(0)
    a = arithmetic(call, x)
    # exp(|x| + log(1/2)) is half of exp(|x|), and does not overflow before the result does.
    size = a.unary("abs", x)
    half = a.exp(a.add(size, math.log(0.5)))
    small = a.div(0.25, half)
    if call.op == "Cosh":
        return a.add(half, small)
    less = a.unary("exponential-minus-one", size)
    # Below 1, where both parts are close, by exp(x) - 1.
    near = a.mul(a.add(less, a.div(less, a.add(less, 1))), 0.5)
    made = a.where(a.compare("LT", size, 1), near, a.sub(half, small))
    return a.where(a.compare("LT", x, 0), a.unary("negate", made), made)


@operator("Asinh", "Acosh", "Atanh")
def _areas(call: Call) -> Value:
    x = call.input(0)
    a = arithmetic(call, x)
    if call.op == "Atanh":
        return a.mul(a.sub(a.unary("log-plus-one", x), a.unary("log-plus-one", a.unary("negate", x))), 0.5)
    if call.op == "Acosh":
        # Beyond where squares would overflow, log(2 x).
        # Two roots: below 1, and so below -1, the first one is NaN.
        root = a.mul(a.unary("sqrt", a.sub(x, 1)), a.unary("sqrt", a.add(x, 1)))
        near = a.log(a.add(x, root))
        return a.where(a.compare("GT", x, 1e15), a.add(a.log(x), math.log(2)), near)
    size = a.unary("abs", x)
    square = a.mul(size, size)
    near = a.unary("log-plus-one", a.add(size, a.div(square, a.add(1, a.unary("sqrt", a.add(square, 1))))))
    made = a.where(a.compare("GT", size, 1e15), a.add(a.log(size), math.log(2)), near)
    return a.where(a.compare("LT", x, 0), a.unary("negate", made), a.where(a.compare("EQ", x, 0), x, made))


# -- comparisons, choices ------------------------------------------------------------------------------------------


@operator("IsNaN")
def _is_nan(call: Call) -> Value:
    x = call.input(0)
    return call.builder.compare("NE", x, x)


@operator("IsInf")
def _is_inf(call: Call) -> Value:
    x, b = call.input(0), call.builder
    ends = [call.constant(end, x) for name, end in _ENDS.items() if call.whole(name, 1)]
    found = [b.compare("EQ", x, end) for end in ends]
    if not found:
        return b.spread(b.constant(False, "pred"), x.sizes)
    return functools.reduce(lambda first, second: b.map("or", first, second), found)


_ENDS = {"detect_positive": math.inf, "detect_negative": -math.inf}

_BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "And": "and",
    "Or": "or",
    "Xor": "xor",
    "BitwiseAnd": "and",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
    "Div": "divide",
}
_COMPARISONS = {"Equal": "EQ", "Greater": "GT", "Less": "LT", "GreaterOrEqual": "GE", "LessOrEqual": "LE"}


@operator(*_BINARY)
def _binary(call: Call) -> Value:
    return call.builder.map(_BINARY[call.op], call.input(0), call.input(1))


@operator(*_COMPARISONS)
def _compare(call: Call) -> Value:
    return call.builder.compare(_COMPARISONS[call.op], call.input(0), call.input(1))


@operator("Where")
def _where(call: Call) -> Value:
    return call.builder.map("select", *call.all())


@operator("Pow")
def _pow(call: Call) -> Value:
    x, y = call.input(0), call.input(1)
    b, a = call.builder, arithmetic(call, x)
    power = y.numbers
    if x.is_float and power is not None and power.size == 1 and y.rank <= x.rank and power.item() == 2:
        return a.mul(x, x)
    if x.is_float:
        return b.map("power", x, b.convert(y, x.dtype))
    if y.is_float:
        # ONNX Runtime computes it in double.
        made = b.map("power", b.convert(x, "f64"), b.convert(y, "f64"))
        return b.convert(made, x.dtype)
    return b.map("power", x, b.convert(y, x.dtype))


@operator("Mod")
def _mod(call: Call) -> Value:
    x, y = call.input(0), call.input(1)
    a, rest = arithmetic(call, x), call.builder.map("remainder", x, y)
    # fmod has the sign of the dividend, as in C; else the result has that of the divisor, as in Python.
    if call.whole("fmod", 0) or x.dtype.startswith("u") or (rest.known is not None and rest.numbers is None):
        return rest
    return a.where(has_other_sign(call.builder, rest, y), a.add(rest, y), rest)


def has_other_sign(b: Builder, rest: Value, divisor: Value) -> Value:
    """Whether a rest of C's division is not 0 and has not the sign of the divisor, as Python's rests have."""
    a = Arithmetic(b, rest)
    return b.map("and", a.compare("NE", rest, 0), b.map("xor", a.compare("LT", rest, 0), a.compare("LT", divisor, 0)))


@operator("BitShift")
def _bit_shift(call: Call) -> Value:
    x, is_left = call.input(0), call.text("direction", "") == "LEFT"
    # A shift by all bits or more leaves zeros, or copies of the sign, as HLO's does.
    right = "shift-right-logical" if x.dtype.startswith("u") else "shift-right-arithmetic"
    return call.builder.map("shift-left" if is_left else right, x, call.input(1))


_MANY = {"Max": "maximum", "Min": "minimum", "Sum": "add", "Mean": "add"}


@operator(*_MANY)
def _many(call: Call) -> Value:
    b, inputs = call.builder, call.all()
    found = functools.reduce(lambda x, y: b.map(_MANY[call.op], x, y), inputs)
    return arithmetic(call, found).div(found, len(inputs)) if call.op == "Mean" else found


# -- types ---------------------------------------------------------------------------------------------------------


@operator("Cast")
def _cast(call: Call) -> Value:
    return cast(call.builder, call.input(0), call.dtype(call.whole("to")))


@operator("CastLike")
def _cast_like(call: Call) -> Value:
    return cast(call.builder, call.input(0), call.input(1).dtype)


def cast(b: Builder, x: Value, dtype: str) -> Value:
    """As ONNX Runtime casts: to truth values what is not 0, and to short integers through int32, which wraps around."""
    if dtype == "pred":
        return x if x.dtype == "pred" else _is_not_zero(b, x)
    if x.is_float and dtype not in ("f32", "f64") and NUMPY_TYPES[dtype].itemsize < 4:
        return b.convert(b.convert(x, "s32"), dtype)
    return b.convert(x, dtype)


@operator("BitCast")
def _bit_cast(call: Call) -> Value:
    x, dtype = call.input(0), call.dtype(call.whole("to"))
    if "pred" in (x.dtype, dtype) or NUMPY_TYPES[x.dtype].itemsize != NUMPY_TYPES[dtype].itemsize:
        raise call.fault(f"{x.dtype} as {dtype}: only numbers of the same size are supported")
    return call.builder.op("bitcast-convert", x, stated=Shape(dtype, x.sizes))


@operator("Dropout")
def _dropout(call: Call) -> tuple[Value, Value]:
    training = call.maybe(2)
    if training is not None and (training.numbers is None or np.any(training.numbers)):
        raise call.fault("it is in training mode: export the model for inference, model.eval()")
    x = call.input(0)
    return x, call.builder.spread(call.builder.constant(True, "pred"), x.sizes)
