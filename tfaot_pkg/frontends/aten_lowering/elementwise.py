"""Operators that work element by element, with PyTorch's broadcasting and types of results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tfaot_pkg.compiler.program import NUMPY_TYPES, Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.table import COMPARISONS, Call, Results, operator, promoted
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic, cast, elu, has_other_sign, leaky_relu, softplus
from tfaot_pkg.frontends.onnx_lowering.moving import cut

_UNARY = {
    "abs": "abs", "neg": "negate", "ceil": "ceil", "floor": "floor", "round": "round-nearest-even",
}  # fmt: skip
"""Operators that keep the type."""
_OF_FLOATS = {
    "cos": "cosine", "erf": "erf", "exp": "exponential", "expm1": "exponential-minus-one", "log": "log",
    "log1p": "log-plus-one", "rsqrt": "rsqrt", "sigmoid": "logistic", "sin": "sine", "sqrt": "sqrt", "tan": "tan",
    "tanh": "tanh",
}  # fmt: skip
"""Operators that give floats of integers, too."""
_AS_ONNX = {
    **{name: name.capitalize() for name in "acos acosh asin asinh atan atanh cosh mish selu sinh".split()},
    "hardswish": "HardSwish", "silu": "Swish",
}  # fmt: skip
"""Operators that one of ONNX's means."""
_LOGIC = {"and": "and", "or": "or", "xor": "xor"}
_IDENTITIES = "alias clone contiguous detach lift_fresh_copy lift view_of".split()


def operand(call: Call, name: str) -> Value | float:
    """A tensor or a number."""
    found = call.get(name)
    return found if isinstance(found, int | float) else call.value(name)


def converted(call: Call, values: Sequence[Value | float], dtype: str) -> list[Value]:
    b = call.builder

    def of_type(x: Value | float) -> Value:
        if not isinstance(x, Value):
            return b.constant(x, dtype)
        # Integers are rounded before floats of 16 bits are computed with them.
        return b.op(f"round-to-{call.short}", cast(b, x, dtype)) if call.short and not x.is_float else cast(b, x, dtype)

    return list(map(of_type, values))


def floating(call: Call, name: str = "self") -> Value:
    """A tensor as floats."""
    x = call.value(name)
    return x if x.is_float else call.builder.convert(x, "f32")


def _pair(call: Call, *, floats: bool = False) -> tuple[Value, Value]:
    given = [operand(call, "self"), operand(call, "other")]
    dtype = promoted(given)
    x, y = converted(call, given, "f32" if floats and NUMPY_TYPES[dtype].kind != "f" else dtype)
    return x, y


def _unary(opcode: str) -> Callable[[Call], Results]:
    def function(call: Call) -> Results:
        x = call.value("self")
        if not x.is_float and opcode in ("ceil", "floor", "round-nearest-even"):
            return x
        return call.builder.op(opcode, x)

    return function


def _of_floats(opcode: str) -> Callable[[Call], Results]:
    return lambda call: call.builder.op(opcode, floating(call))


def _as_onnx(name: str) -> Callable[[Call], Results]:
    return lambda call: call.onnx_one(name, floating(call))


def _compare(direction: str) -> Callable[[Call], Results]:
    def function(call: Call) -> Results:
        return call.builder.compare(direction, *_pair(call))

    return function


def _logical(opcode: str) -> Callable[[Call], Results]:
    def function(call: Call) -> Results:
        b = call.builder
        return b.map(opcode, *(cast(b, call.value(name), "pred") for name in ("self", "other")))

    return function


def _bitwise(opcode: str) -> Callable[[Call], Results]:
    return lambda call: call.builder.map(opcode, *_pair(call))


def _same(call: Call) -> Results:
    return call.value("self")


for _name, _opcode in _UNARY.items():
    operator(_name)(_unary(_opcode))
for _name, _opcode in _OF_FLOATS.items():
    operator(_name)(_of_floats(_opcode))
for _name, _other in _AS_ONNX.items():
    operator(_name)(_as_onnx(_other))
for _name, _direction in COMPARISONS.items():
    operator(f"{_name}.Tensor", f"{_name}.Scalar")(_compare(_direction))
for _name, _opcode in _LOGIC.items():
    operator(f"logical_{_name}")(_logical(_opcode))
    operator(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", f"__{_name}__.Tensor", f"__{_name}__.Scalar")(
        _bitwise(_opcode)
    )
for _name, _opcode in {"left": "shift-left", "right": "shift-right-arithmetic"}.items():
    _names = (f"bitwise_{_name}_shift.Tensor", f"bitwise_{_name}_shift.Tensor_Scalar")
    operator(*_names, f"__{_name[0]}shift__.Tensor", f"__{_name[0]}shift__.Scalar")(_bitwise(_opcode))
operator(*_IDENTITIES)(_same)


# -- arithmetic ----------------------------------------------------------------------------------------------------


@operator("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Scalar", "rsub.Tensor")
def _add(call: Call) -> Results:
    b, alpha = call.builder, call.real("alpha", 1)
    x, y = _pair(call)
    if "rsub" in call.op:
        x, y = y, x
    if x.dtype == "pred":
        return b.map("or", x, y)
    y = y if alpha == 1 else b.map("multiply", y, b.constant(alpha, y.dtype))
    return b.map("add" if ".add." in call.op else "subtract", x, y)


@operator("mul.Tensor", "mul.Scalar")
def _mul(call: Call) -> Results:
    x, y = _pair(call)
    return call.builder.map("and" if x.dtype == "pred" else "multiply", x, y)


@operator("div.Tensor", "div.Scalar")
def _div(call: Call) -> Results:
    return call.builder.map("divide", *_pair(call, floats=True))


@operator("div.Tensor_mode", "div.Scalar_mode", "floor_divide")
def _div_rounded(call: Call) -> Results:
    b, mode = call.builder, call.text("rounding_mode") if call.has("rounding_mode") else ""
    mode = "floor" if "floor_divide" in call.op else mode
    x, y = _pair(call, floats=not mode)
    made = b.map("divide", x, y)
    if not mode:
        return made
    if made.is_float:
        return _floor_of_quotient(call, x, y, made) if mode == "floor" else _truncated(Arithmetic(b, made), made)
    return made if mode == "trunc" else floor_of_integers(b, x, y)


def floor_of_integers(b: Builder, x: Value, y: Value) -> Value:
    """The quotient, rounded down."""
    made = b.map("divide", x, y)
    if made.known is not None and made.numbers is None:
        return made  # of sizes, which are not negative
    a = Arithmetic(b, made)
    return a.where(has_other_sign(b, a.sub(x, a.mul(made, y)), y), a.sub(made, 1), made)


def _floor_of_quotient(call: Call, x: Value, y: Value, quotient: Value) -> Value:
    """As PyTorch's div_floor_floating, by the rest: 1 // 0.1 is 9 in float32, though the quotient is rounded to 10."""
    a, rest = Arithmetic(call.builder, quotient), call.onnx_one("Mod", x, y, fmod=1)
    made = a.div(a.sub(x, rest), y)
    made = a.where(has_other_sign(call.builder, rest, y), a.sub(made, 1), made)
    down = a.unary("floor", made)
    down = a.where(a.compare("GT", a.sub(made, down), 0.5), a.add(down, 1), down)
    # A zero has the sign of the quotient.
    down = a.where(a.compare("EQ", made, 0), a.mul(quotient, 0), down)
    return a.where(a.compare("EQ", y, 0), quotient, down)


@operator("sign", "sgn")
def _sign(call: Call) -> Results:
    """0 for NaN, too."""
    x = call.value("self")
    a = Arithmetic(call.builder, x)
    return a.where(a.compare("EQ", x, x), a.unary("sign", x), 0) if x.is_float else a.unary("sign", x)


@operator("copysign.Tensor", "copysign.Scalar")
def _copysign(call: Call) -> Results:
    x, y = _pair(call, floats=True)
    a = Arithmetic(call.builder, x)
    size = a.unary("abs", x)
    return a.where(_is_negative(call.builder, y), a.unary("negate", size), size)


@operator("signbit")
def _signbit(call: Call) -> Results:
    b, x = call.builder, call.value("self")
    return _is_negative(b, x) if x.is_float else b.compare("LT", cast(b, x, "s64"), b.constant(0, "s64"))


def _is_negative(b: Builder, x: Value) -> Value:
    """Of zeros, too; not of NaN, whose sign programs do not keep."""
    a = Arithmetic(b, x)
    return b.map("or", a.compare("LT", x, 0), a.compare("LT", a.div(1, x), 0))


@operator("angle")
def _angle(call: Call) -> Results:
    """Of real numbers."""
    x = floating(call)
    a = Arithmetic(call.builder, x)
    return a.where(a.compare("LT", x, 0), math.pi, a.where(a.compare("EQ", x, x), 0, x))


@operator("ldexp.Tensor")
def _ldexp(call: Call) -> Results:
    b, x = call.builder, floating(call)
    other = Arithmetic(b, x).pow(b.constant(2, x.dtype), cast(b, call.value("other"), x.dtype))
    return b.map("multiply", x, other)


@operator("round.decimals")
def _round_decimals(call: Call) -> Results:
    x, decimals = call.value("self"), call.whole("decimals", 0)
    if not x.is_float:
        if decimals < 0:
            raise Unsupported("integers with decimals before the point: convert them to floats")
        return x
    a, ten = Arithmetic(call.builder, x), 10.0 ** abs(decimals)
    if decimals < 0:
        return a.mul(a.unary("round-nearest-even", a.div(x, ten)), ten)
    return a.div(a.unary("round-nearest-even", a.mul(x, ten)), ten)


@operator("trunc")
def _trunc(call: Call) -> Results:
    x = call.value("self")
    return _truncated(Arithmetic(call.builder, x), x) if x.is_float else x


def _truncated(a: Arithmetic, x: Value) -> Value:
    return a.where(a.compare("LT", x, 0), a.unary("ceil", x), a.unary("floor", x))


@operator("remainder.Tensor", "remainder.Scalar", "fmod.Tensor", "fmod.Scalar")
def _remainder(call: Call) -> Results:
    return call.onnx_one("Mod", *_pair(call), fmod=1 if "fmod" in call.op else 0)


@operator("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def _pow(call: Call) -> Results:
    b = call.builder
    given = [operand(call, "self"), operand(call, "exponent")]
    power, base = given[1], given[0]
    x, y = converted(call, given, promoted(given))
    if isinstance(power, int | float) and isinstance(base, Value) and x.is_float:
        a = Arithmetic(b, x)
        quick: dict[float, Callable[[], Value]] = {
            0.5: lambda: a.unary("sqrt", x), 1: lambda: x, 2: lambda: a.mul(x, x), 3: lambda: a.mul(a.mul(x, x), x),
            -0.5: lambda: a.unary("rsqrt", x), -1: lambda: a.div(1, x),
        }  # fmt: skip
        if power in quick:
            return quick[power]()
    return b.map("power", x, y)


@operator("maximum", "minimum", "fmax", "fmin", "max.other", "min.other")
def _extreme(call: Call) -> Results:
    b = call.builder
    x, y = _pair(call)
    opcode = "maximum" if "max" in call.op else "minimum"
    if x.dtype == "pred":
        return b.map("or" if opcode == "maximum" else "and", x, y)
    if call.node.op.split(".")[1] in ("fmax", "fmin") and x.is_float:
        # A NaN gives way to a number.
        x, y = b.map("select", b.compare("NE", x, x), y, x), b.map("select", b.compare("NE", y, y), x, y)
    return b.map(opcode, x, y)


@operator("atan2")
def _atan2(call: Call) -> Results:
    return call.builder.map("atan2", *_pair(call, floats=True))


@operator("hypot")
def _hypot(call: Call) -> Results:
    return magnitude(call.builder, *_pair(call, floats=True))


def magnitude(b: Builder, x: Value, y: Value) -> Value:
    """The root of x^2 + y^2, which overflows or vanishes only if it is out of range itself."""
    a = Arithmetic(b, x)
    x, y = b.op("abs", x), b.op("abs", y)
    limit = 60.0 if x.dtype == "f32" else 500.0
    larger = a.max(x, y)
    # Powers of two scale without roundings.
    is_large, is_small = a.compare("GT", larger, 2**limit), a.compare("LT", larger, 2**-limit)
    scale = a.where(is_large, 2 ** -(limit + 6), a.where(is_small, 2 ** (limit + 6), 1))
    back = a.where(is_large, 2 ** (limit + 6), a.where(is_small, 2 ** -(limit + 6), 1))
    one, two = a.mul(x, scale), a.mul(y, scale)
    made = a.mul(a.unary("sqrt", a.add(a.mul(one, one), a.mul(two, two))), back)
    # As C's hypot: infinite also beside NaN.
    is_infinite = b.map("or", a.compare("EQ", x, math.inf), a.compare("EQ", y, math.inf))
    return a.where(is_infinite, math.inf, made)


@operator("reciprocal")
def _reciprocal(call: Call) -> Results:
    x = floating(call)
    return Arithmetic(call.builder, x).div(1, x)


@operator("log2", "log10", "exp2", "erfc", "square", "frac")
def _composed(call: Call) -> Results:
    x, name = floating(call), call.op.split(".")[1]
    a = Arithmetic(call.builder, x)
    if name.startswith("log"):
        return a.mul(a.log(x), 1 / math.log(2 if name == "log2" else 10))
    if name == "exp2":
        return a.pow(2.0, x)
    if name == "frac":
        return a.sub(x, _truncated(a, x))
    return a.sub(1, a.unary("erf", x)) if name == "erfc" else a.mul(x, x)


@operator("logical_not")
def _logical_not(call: Call) -> Results:
    return call.builder.op("not", cast(call.builder, call.value("self"), "pred"))


@operator("bitwise_not")
def _bitwise_not(call: Call) -> Results:
    return call.builder.op("not", call.value("self"))


@operator("isnan")
def _isnan(call: Call) -> Results:
    x = call.value("self")
    return call.builder.compare("NE", x, x)


@operator("isinf", "isfinite")
def _isinf(call: Call) -> Results:
    x, b = floating(call), call.builder
    if "isfinite" in call.op:
        return b.op("is-finite", x)
    return b.compare("EQ", b.op("abs", x), b.constant(math.inf, x.dtype))


@operator("nan_to_num")
def _nan_to_num(call: Call) -> Results:
    x, b = call.value("self"), call.builder
    if not x.is_float:
        return x
    a, most = Arithmetic(b, x), 3.4028234663852886e38 if x.dtype == "f32" else 1.7976931348623157e308
    made = a.where(b.compare("NE", x, x), call.real("nan", 0.0), x)
    made = a.where(a.compare("EQ", x, math.inf), call.real("posinf", most), made)
    return a.where(a.compare("EQ", x, -math.inf), call.real("neginf", -most), made)


@operator("clamp", "clamp.Tensor", "clamp_min", "clamp_max", "clamp_min.Tensor", "clamp_max.Tensor")
def _clamp(call: Call) -> Results:
    names = [name for name in ("min", "max") if call.has(name)]
    given = [operand(call, name) for name in ("self", *names)]
    x, *ends = converted(call, given, promoted(given))
    for name, end in zip(names, ends, strict=True):
        x = call.builder.map("maximum" if name == "min" else "minimum", x, end)
    return x


@operator("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(call: Call) -> Results:
    given = [operand(call, "self"), operand(call, "other")]
    x, y = converted(call, given, promoted(given))
    return call.builder.map("select", cast(call.builder, call.value("condition"), "pred"), x, y)


@operator("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(call: Call) -> Results:
    x = call.value("self")
    (value,) = converted(call, [operand(call, "value")], x.dtype)
    return call.builder.map("select", call.value("mask"), value, x)


@operator("addcmul", "addcdiv")
def _addc(call: Call) -> Results:
    x, one, two = (call.value(name) for name in ("self", "tensor1", "tensor2"))
    a, factor = Arithmetic(call.builder, x), call.real("value", 1)
    made = (a.mul if "addcmul" in call.op else a.div)(one, two)
    return a.add(x, made if factor == 1 else a.mul(made, factor))


@operator("lerp.Scalar", "lerp.Tensor")
def _lerp(call: Call) -> Results:
    x, end = call.value("self"), call.value("end")
    a = Arithmetic(call.builder, x)
    (weight,) = converted(call, [operand(call, "weight")], x.dtype)
    return a.add(x, a.mul(weight, a.sub(end, x)))


# -- types ---------------------------------------------------------------------------------------------------------


@operator("_to_copy", "to.dtype", "to.dtype_layout", "type_as")
def _to(call: Call) -> Results:
    x = call.value("self")
    dtype = call.value("other").dtype if "type_as" in call.op else call.dtype()
    return x if dtype is None else cast(call.builder, x, dtype)


@operator("copy")
def _copy(call: Call) -> Results:
    x, other = call.value("self"), call.value("src")
    return call.builder.spread(cast(call.builder, other, x.dtype), x.sizes)


# -- activations ---------------------------------------------------------------------------------------------------


@operator("relu")
def _relu(call: Call) -> Results:
    x = call.value("self")
    return Arithmetic(call.builder, x).max(x, 0)


@operator("relu6", "hardtanh")
def _hardtanh(call: Call) -> Results:
    x = call.value("self")
    a = Arithmetic(call.builder, x)
    low, high = (0.0, 6.0) if "relu6" in call.op else (call.real("min_val", -1), call.real("max_val", 1))
    return a.min(a.max(x, low), high)


@operator("leaky_relu")
def _leaky_relu(call: Call) -> Results:
    x = call.value("self")
    return leaky_relu(Arithmetic(call.builder, x), x, call.real("negative_slope", 0.01))


@operator("rrelu_with_noise_functional", "rrelu_with_noise")
def _rrelu(call: Call) -> Results:
    if call.flag("training"):
        raise Unsupported("it is random in training mode: export the model in evaluation mode, model.eval()")
    x = call.value("self")
    slope = (call.real("lower", 1 / 8) + call.real("upper", 1 / 3)) / 2
    made = leaky_relu(Arithmetic(call.builder, x), x, slope)
    return (made, call.value("noise")) if "functional" in call.op else made


@operator("elu", "celu")
def _elu(call: Call) -> Results:
    x = call.value("self")
    a, alpha = Arithmetic(call.builder, x), call.real("alpha", 1)
    if "celu" in call.op:
        return call.onnx_one("Celu", x, alpha=alpha)
    scale, inner = call.real("scale", 1), call.real("input_scale", 1)
    if scale == inner == 1:
        return elu(a, x, alpha)
    negative = a.mul(a.unary("exponential-minus-one", a.mul(a.min(x, 0), inner)), alpha * scale)
    return a.where(a.compare("GT", x, 0), a.mul(x, scale), negative)


@operator("gelu")
def _gelu(call: Call) -> Results:
    return call.onnx_one("Gelu", call.value("self"), approximate=call.text("approximate") or "none")


@operator("hardsigmoid")
def _hardsigmoid(call: Call) -> Results:
    return call.onnx_one("HardSigmoid", call.value("self"), alpha=1 / 6, beta=0.5)


@operator("softplus")
def _softplus(call: Call) -> Results:
    x, beta, limit = call.value("self"), call.real("beta", 1), call.real("threshold", 20)
    a = Arithmetic(call.builder, x)
    scaled = x if beta == 1 else a.mul(x, beta)
    made = softplus(a, scaled)
    # From the threshold on PyTorch returns x itself: by then, both are the same float32 number.
    if limit < 15:
        made = a.where(a.compare("GT", scaled, limit), scaled, made)
    return made if beta == 1 else a.div(made, beta)


@operator("log_sigmoid")
def _log_sigmoid(call: Call) -> Results:
    x = call.value("self")
    a = Arithmetic(call.builder, x)
    return a.unary("negate", softplus(a, a.unary("negate", x)))


@operator("softshrink", "hardshrink", "threshold")
def _shrink(call: Call) -> Results:
    x = call.value("self")
    a = Arithmetic(call.builder, x)
    if "threshold" in call.op:
        return a.where(a.compare("LE", x, call.real("threshold")), call.real("value"), x)
    limit = call.real("lambd", 0.5)
    return call.onnx_one("Shrink", x, lambd=limit, bias=limit if "soft" in call.op else 0.0)


@operator("prelu")
def _prelu(call: Call) -> Results:
    b, x, slope = call.builder, call.value("self"), call.value("weight")
    if slope.rank == 1 and x.rank > 2:
        slope = b.reshape(slope, [*slope.sizes, *[each.of([((), 1)]) for each in x.sizes[2:]]])
    return call.onnx_one("PRelu", x, slope)


@operator("glu")
def _glu(call: Call) -> Results:
    b, x = call.builder, call.value("self")
    axis = call.axis("dim", x.rank, -1)
    half = b.ranges.divide(x.sizes[axis], x.sizes[axis].of([((), 2)]))
    left, right = cut(b, x, axis, half.of([]), half), cut(b, x, axis, half, x.sizes[axis])
    return b.map("multiply", left, b.op("logistic", right))


# -- new arrays ----------------------------------------------------------------------------------------------------


def scalar(b: Builder, value: object, dtype: str | None) -> Value:
    if isinstance(value, Value):
        return value if dtype is None else cast(b, value, dtype)
    if isinstance(value, Size):
        return b.size(value, dtype or "s64")
    if not isinstance(value, int | float):
        raise Unsupported("its value is no number")
    usual = "pred" if isinstance(value, bool) else "s64" if isinstance(value, int) else "f32"
    return b.constant(value, dtype or usual)


@operator("full", "zeros", "ones", "full_like", "zeros_like", "ones_like", "scalar_tensor", "new_full", "new_zeros")
def _full(call: Call) -> Results:
    b, name = call.builder, call.op.split(".")[1]
    like = call.value("self") if call.has("self") else None
    dtype = call.dtype() or (like.dtype if like is not None else None)
    if name == "scalar_tensor":
        return scalar(b, call.get("s"), dtype or "f32")
    value = 0.0 if "zeros" in name else 1.0 if "ones" in name else call.get("fill_value")
    if value is not None and not isinstance(value, int | float | Value):
        value = call.value("fill_value")
    sizes = list(like.sizes) if like is not None and name.endswith("_like") else call.sizes("size")
    return b.spread(scalar(b, value, dtype), sizes)


@operator("empty.memory_format", "empty_like", "empty_permuted")
def _empty(call: Call) -> Results:
    """Elements that PyTorch leaves open are zeros."""
    b, like = call.builder, call.maybe("self")
    dtype = call.dtype() or ("f32" if like is None else like.dtype)
    return b.spread(b.constant(0, dtype), call.sizes("size") if like is None else like.sizes)


@operator("arange.start_step", "arange.start", "arange")
def _arange(call: Call) -> Results:
    dtype = call.dtype()
    ends = [call.get(name) for name in ("start", "end", "step")]
    usual = "f32" if any(isinstance(each, float) for each in ends) else "s64"
    wanted = dtype or usual
    start = call.value("start") if call.has("start") else call.builder.constant(0, usual)
    step = call.value("step") if call.has("step") else call.builder.constant(1, usual)
    values = [cast(call.builder, each, usual) for each in (start, call.value("end"), step)]
    return cast(call.builder, call.onnx_one("Range", *values), wanted)
