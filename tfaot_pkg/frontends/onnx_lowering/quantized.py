"""Quantized numbers, computed as the numbers that they represent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tfaot_pkg.compiler.program import NUMPY_TYPES, ONE, ROWS, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, number_of
from tfaot_pkg.frontends.onnx_lowering.convolutions import by_channel, channels_first, convolution, whole_filters
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import cut, join, stretched
from tfaot_pkg.frontends.onnx_lowering.normalizing import softmax
from tfaot_pkg.frontends.onnx_lowering.products import centered, matmul
from tfaot_pkg.frontends.onnx_lowering.reductions import maximum, minimum, total
from tfaot_pkg.frontends.onnx_lowering.table import MICROSOFT, OPERATORS, Call, OfFewBits, Results, operator

_QUANTIZED = frozenset("u8 s8 u16 s16".split())


def spread_along(b: Builder, values: Value, x: Value, axis: int, block: int = 0) -> Value:
    """`values`, one for all, one for each element of an axis, or one for each block along it, in the shape of `x`."""
    if values.rank == 0 or values.sizes == (ONE,):
        return b.reshape(values, [])
    if values.rank == x.rank > 1 and not block:  # one for each row of the batch (_by_range)
        return values
    if block:
        wide = stretched(b, values, [axis + 1])
        many = b.spread(wide, [Size(block) if each == axis + 1 else size for each, size in enumerate(wide.sizes)])
        sizes = [size * Size(block) if each == axis else size for each, size in enumerate(values.sizes)]
        return cut(b, b.reshape(many, sizes), axis, Size(0), x.sizes[axis])
    return b.reshape(values, [values.sizes[0] if each == axis else ONE for each in range(x.rank)])


def axis_of(call: Call, x: Value, scale: Value) -> int:
    """The axis along which scales differ; if there is one scale for all, files may name any axis."""
    is_one = scale.rank == 0 or scale.sizes == (ONE,)
    return 0 if is_one else call.axis(call.whole("axis", 1), x.rank)


@operator("DequantizeLinear", domain=MICROSOFT)
@operator("DequantizeLinear")
def _dequantize(call: Call) -> Value:
    b, x, scale, zero = call.builder, call.input(0), call.input(1), call.maybe(2)
    axis, block = axis_of(call, x, scale), call.whole("block_size", 0)
    scale = spread_along(b, scale, x, axis, block)
    a, values = Arithmetic(b, scale), b.convert(x, scale.dtype)
    if zero is not None:
        values = a.sub(values, b.convert(spread_along(b, zero, x, axis, block), scale.dtype))
    return a.mul(values, scale)


@operator("QuantizeLinear", domain=MICROSOFT)
@operator("QuantizeLinear")
def _quantize(call: Call) -> Value:
    b, x, scale, zero = call.builder, call.input(0), call.input(1), call.maybe(2)
    axis, block = axis_of(call, x, scale), call.whole("block_size", 0)
    if isinstance(zero, OfFewBits):
        raise call.fault("results of fewer than 8 bits")
    dtype = zero.dtype if zero is not None else call.dtype(call.whole("output_dtype", 0) or 2)
    scale = spread_along(b, b.convert(scale, "f32"), x, axis, block)
    values = b.map("divide", b.convert(x, "f32"), scale)
    return quantized(call, values, None if zero is None else spread_along(b, zero, x, axis, block), dtype)


def half_to_even(a: Arithmetic, values: Value) -> Value:
    """As the standard says of QuantizeLinear."""
    return a.unary("round-nearest-even", values)


def quantized(
    call: Call,
    values: Value,
    zero: Value | None,
    dtype: str,
    bounds: tuple[int, int] | None = None,
    rounded: Callable[[Arithmetic, Value], Value] = half_to_even,
) -> Value:
    """`values`, rounded and moved by the zero point, between `bounds`, or in the range of `dtype`."""
    if dtype not in _QUANTIZED:
        raise call.fault(f"element type {dtype}")
    b, a, ends = call.builder, Arithmetic(call.builder, values), np.iinfo(NUMPY_TYPES[dtype])
    lowest, highest = bounds or (int(ends.min), int(ends.max))
    # The zero point is added to whole numbers, which are counted from the lowest one: NaN becomes this one, as in ONNX
    # Runtime, because conversions make 0 of it.
    values = rounded(a, values)
    start = float(-lowest) if zero is None else a.sub(b.convert(zero, values.dtype), float(lowest))
    values = a.min(a.max(a.add(values, start), 0.0), float(highest - lowest))
    whole = b.convert(values, "s32")
    return b.convert(whole if lowest == 0 else Arithmetic(b, whole).add(whole, lowest), dtype)


@operator("DynamicQuantizeLinear")
def _dynamic_quantize(call: Call) -> Results:
    return _by_range(call)


def _by_range(call: Call) -> tuple[Value, Value, Value]:
    """Bytes, their scale and their zero point."""
    return by_range(call, call.input(0))


def by_range(call: Call, x: Value) -> tuple[Value, Value, Value]:
    """Bytes of `x`, with a scale and a zero point: scalars, or, if the framework computes row by row, those of rows."""
    b = call.builder
    a, (low, high) = Arithmetic(b, x), _range(call, x)
    low, high = a.min(low, 0), a.max(high, 0)
    scale = a.div(a.sub(high, low), 255)
    # Zero is in the range always (above), so that it is represented exactly, as padding needs.
    zero = a.unary("round-nearest-even", a.min(a.max(a.div(a.unary("negate", low), scale), 0), 255))
    number = b.convert(b.convert(zero, "s32"), "u8")
    return quantized(call, a.div(x, scale), number, "u8"), scale, number


def _range(call: Call, x: Value) -> tuple[Value, Value]:
    """The least and the largest number, of each row if the framework computes one at a time: with axes as x has."""
    b, place = call.builder, next((each for each, size in enumerate(x.sizes) if size.grows), None)
    if not call.by_row or place is None:
        axes = range(x.rank)
        return minimum(b, x, axes, keep=False), maximum(b, x, axes, keep=False)
    # Rows may share an axis with what follows them, as time steps.
    many = x.sizes[place].per_row
    apart = x if many == ONE else b.reshape(x, [*x.sizes[:place], ROWS, many, *x.sizes[place + 1 :]])
    low, high = (_of_rows(b, each, apart, place, x) for each in (minimum, maximum))
    return low, high


def _of_rows(b: Builder, reduced: Callable[..., Value], apart: Value, place: int, x: Value) -> Value:
    """One number for each row of `apart`, along the axis `place`, with as many axes as `x` has."""
    found = reduced(b, apart, [each for each in range(apart.rank) if each != place], keep=False)
    sizes = [ROWS if each == place else ONE for each in range(x.rank)]
    if apart.rank == x.rank:
        return b.reshape(found, sizes)
    wide = b.reshape(found, [*sizes[: place + 1], ONE, *sizes[place + 1 :]])
    spread = b.spread(wide, [*sizes[: place + 1], apart.sizes[place + 1], *sizes[place + 1 :]])
    return b.reshape(spread, [x.sizes[place] if each == place else ONE for each in range(x.rank)])


def requantized(call: Call, total: Value, factor: Value, zero: Value) -> Value:
    """A sum in int32 as a quantized number; `factor` is the quotient of the scales, as ONNX Runtime has it."""
    b = call.builder
    return quantized(call, b.map("multiply", b.convert(total, "f32"), factor), zero, zero.dtype)


@operator("QLinearMatMul")
def _qlinear_matmul(call: Call) -> Value:
    b = call.builder
    x, y = (centered(b, call.input(place), call.input(place + 2), axis) for place, axis in ((0, -2), (3, -1)))
    x_scale, y_scale, made_scale = (call.input(place) for place in (1, 4, 6))
    if x_scale.rank == 1 and x_scale.sizes[0] != ONE:
        x_scale = b.reshape(x_scale, [*x_scale.sizes, ONE])
    factor = b.map("divide", b.map("multiply", x_scale, y_scale), made_scale)
    return requantized(call, matmul(b, x, y), factor, call.input(7))


@operator("QLinearConv")
def _qlinear_conv(call: Call) -> Value:
    b, x, w, bias = call.builder, call.input(0), call.input(3), call.maybe(8)
    x_scale, w_scale, made_scale = (call.input(place) for place in (1, 4, 6))
    made = convolution(call, centered(b, x, call.input(2), -1), whole_filters(b, w, call.input(5)), bias)
    made = channels_first(b, made)
    factor = b.map("divide", b.map("multiply", x_scale, w_scale), made_scale)
    factor = by_channel(b, factor, x.rank) if factor.rank == 1 else factor
    return requantized(call, made, factor, call.input(7))


# -- operators of ONNX Runtime's tools -------------------------------------------------------------------------------


def _between(call: Call, place: int) -> Value:
    """The numbers that the inputs from `place` on represent, with one scale for all."""
    b, zero = call.builder, call.maybe(place + 2)
    made = b.convert(call.input(place), "f32")
    a = Arithmetic(b, made)
    return a.mul(made if zero is None else a.sub(made, b.convert(zero, "f32")), call.input(place + 1))


def _of_many(call: Call, values: Value, place: int, dtype: str) -> Value:
    """`values` by the scale and the zero point at `place`; without that they are of `dtype`."""
    zero = call.maybe(place + 1)
    made = call.builder.map("divide", values, call.input(place))
    return quantized(call, made, zero, zero.dtype if zero is not None else dtype)


@operator("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def _qlinear_pair(call: Call) -> Value:
    opcode = "add" if call.op == "QLinearAdd" else "multiply"
    made = call.builder.map(opcode, _between(call, 0), _between(call, 3))
    return _of_many(call, made, 6, call.input(0).dtype)


_SINGLES = {
    "QLinearAveragePool": "AveragePool",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
    "QLinearLeakyRelu": "LeakyRelu",
    "QLinearReduceMean": "ReduceMean",
    "QLinearSigmoid": "Sigmoid",
}


@operator(*_SINGLES, domain=MICROSOFT)
def _qlinear_single(call: Call) -> Value:
    if call.whole("channels_last", 0):
        raise call.fault("channels in the last axis")
    op = _SINGLES[call.op]
    if op == "GlobalAveragePool" and (mean := _whole_mean(call)) is not None:
        return mean
    made = OPERATORS["ai.onnx", op](call.like(op, _between(call, 0)))
    assert isinstance(made, Value)
    return _of_many(call, made, 3, call.input(0).dtype)


def _whole_mean(call: Call) -> Value | None:
    """The mean of bytes over images of known sizes: a sum of integers times a factor."""
    b, x, zero = call.builder, call.input(0), call.maybe(4)
    count = count_of(x.sizes[2:])
    if count is None or zero is None:
        return None
    sums = total(b, centered(b, x, call.maybe(2), -1), range(2, x.rank), keep=True)
    step = call.input(3)
    return requantized(call, sums, b.map("divide", call.input(1), Arithmetic(b, step).mul(step, count)), zero)


_MOST_SUMMED = 1 << 22
"""Bytes minus a zero point whose sum is in int32 for sure."""


def count_of(sizes: Sequence[Size]) -> int | None:
    """How many numbers are added, if that is known and their sum is in int32."""
    count = math.prod(number_of(size) or 0 for size in sizes)
    return count if 0 < count < _MOST_SUMMED else None


@operator("QLinearSoftmax", domain=MICROSOFT)
def _qlinear_softmax(call: Call) -> Value:
    x = _between(call, 0)
    made = softmax(call.builder, x, call.axis(call.whole("axis", -1), x.rank))
    return _of_many(call, made, 3, call.input(0).dtype)


@operator("QLinearConcat", domain=MICROSOFT)
def _qlinear_concat(call: Call) -> Value:
    parts = [_of_many(call, _between(call, place), 0, "u8") for place in range(2, len(call.inputs), 3)]
    return join(call.builder, parts, call.axis(call.whole("axis"), parts[0].rank))


@operator("QGemm", domain=MICROSOFT)
def _qgemm(call: Call) -> Value:
    b, is_turned, added = call.builder, bool(call.whole("transB", 0)), call.maybe(6)
    x = centered(b, call.input(0), call.input(2), -1)
    y = b.convert(call.input(3), "s32")
    y = Arithmetic(b, y).sub(y, b.convert(spread_along(b, call.input(5), y, 0 if is_turned else 1), "s32"))
    x, y = (
        b.transpose(each, [1, 0]) if turned else each for each, turned in ((x, call.whole("transA", 0)), (y, is_turned))
    )
    made = matmul(b, x, y)
    made = made if added is None else b.map("add", made, added)
    factor = b.map("multiply", call.input(1), call.input(4))
    factor = Arithmetic(b, factor).mul(factor, call.real("alpha", 1))
    scale, zero = call.maybe(7), call.maybe(8)
    if scale is None or zero is None:
        return b.map("multiply", b.convert(made, "f32"), factor)
    return requantized(call, made, b.map("divide", factor, scale), zero)


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_integer_to_float(call: Call) -> Value:
    return _to_float(call, [call.maybe(place) for place in range(7)])


def _to_float(call: Call, given: list[Value | None]) -> Value:
    b, (x, y, x_scale, y_scale, x_zero, y_zero, bias) = call.builder, given
    assert x is not None and y is not None and x_scale is not None and y_scale is not None
    made = b.convert(matmul(b, centered(b, x, x_zero, -2), centered(b, y, y_zero, -1)), "f32")
    a = Arithmetic(b, made)
    made = a.mul(made, a.mul(x_scale, y_scale))
    return made if bias is None else a.add(made, bias)


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_quantize_matmul(call: Call) -> Value:
    x, scale, zero = _by_range(call)
    return _to_float(call, [x, call.input(1), scale, call.input(2), zero, call.maybe(3), call.maybe(4)])
