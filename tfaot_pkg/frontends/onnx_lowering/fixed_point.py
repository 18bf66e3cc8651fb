"""Operators of QONNX: numbers of few bits, held as floats, as its executor (QONNX 1.0) computes them.

`Quant` and the like divide by a scale, bound, round and multiply again. Here these are the same operations of float32,
so that results have the executor's bits. Where the numbers are integers of at most 8 bits times a scale, they are
`Scaled` too: layers of them sum integers (decision 094).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.quantized import quantized
from tfaot_pkg.frontends.onnx_lowering.scaled_values import Scaled, of_bytes
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.from_onnx.graphs import QONNX

_LARGEST = 1 << 30
"""Constants up to this are held as int32."""


def _away(a: Arithmetic, x: Value, whole: Value) -> Value:
    """`whole` with the sign of x."""
    return a.mul(a.unary("sign", x), whole)


_ROUNDINGS: Mapping[str, Callable[[Arithmetic, Value], Value]] = {
    "ROUND": lambda a, x: a.unary("round-nearest-even", x),
    "HALF_EVEN": lambda a, x: a.unary("round-nearest-even", x),
    "CEIL": lambda a, x: a.unary("ceil", x),
    "FLOOR": lambda a, x: a.unary("floor", x),
    "UP": lambda a, x: _away(a, x, a.unary("ceil", a.unary("abs", x))),
    "DOWN": lambda a, x: a.where(a.compare("LT", x, 0), a.unary("ceil", x), a.unary("floor", x)),
    "HALF_UP": lambda a, x: _away(a, x, a.unary("floor", a.add(a.unary("abs", x), 0.5))),
    "HALF_DOWN": lambda a, x: _away(a, x, a.unary("ceil", a.sub(a.unary("abs", x), 0.5))),
}
"""As `resolve_rounding_mode` of QONNX."""


def _rounding(call: Call, default: str) -> Callable[[Arithmetic, Value], Value]:
    mode = call.text("rounding_mode", default).upper()
    if mode not in _ROUNDINGS:
        raise call.fault(f"the rounding mode {mode!r}", f"QONNX has {', '.join(_ROUNDINGS)}")
    return _ROUNDINGS[mode]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """What the numbers of a node are: integers between `low` and `high`, minus `zero`, times `scale`."""

    scale: Value
    zero: Value
    low: float
    high: float
    rounding: Callable[[Arithmetic, Value], Value]


def _floats(call: Call, place: int) -> Value:
    """An input that is float32: QONNX computes with another type in that type."""
    found = call.input(place)
    if found.dtype != "f32" or found.short:
        raise call.fault(f"its input {place + 1} is not of float32")
    return found


def _bits(call: Call, place: int) -> Array:
    """A number of bits, of the type that it has in the file."""
    found = call.input(place).numbers
    if found is None or found.size != 1:
        raise call.fault("a number of bits that is no constant")
    bits: Array = found.reshape(())
    if not 0 < bits <= 64:
        raise call.fault(f"{bits} bits")
    return bits


def _ends(bits: Array, *, signed: bool, narrow: bool) -> tuple[float, float]:
    """As `min_int` and `max_int` of QONNX, in its type."""
    with np.errstate(all="ignore"):
        half = 2 ** (bits - 1) if signed else 2**bits
        low = -half + (1 if narrow else 0) if signed else 0 * bits
        high = half - 1 - (1 if narrow and not signed else 0)
    return float(np.float32(low)), float(np.float32(high))


@operator("IntQuant", "Quant", domain=QONNX)
def _quant(call: Call) -> Value:
    x, scale, zero, bits = _floats(call, 0), _floats(call, 1), _floats(call, 2), _bits(call, 3)
    signed, narrow = bool(call.whole("signed", 1)), bool(call.whole("narrow", 1))
    if bits == 1 and signed:
        return _bipolar_of(call, x, scale, zero)
    low, high = _ends(bits, signed=signed, narrow=narrow)
    form = _Form(scale=scale, zero=zero, low=low, high=high, rounding=_rounding(call, "ROUND"))
    if (made := _of_sums(call, x, form)) is not None:
        return made
    a = Arithmetic(call.builder, x)
    whole = form.rounding(a, _bounded(a, a.add(a.div(x, scale), zero), form))
    return _result(call, a, whole, form)


def _bounded(a: Arithmetic, x: Value, form: _Form) -> Value:
    return a.max(a.min(x, form.high), form.low)


@operator("BipolarQuant", domain=QONNX)
def _bipolar(call: Call) -> Value:
    return _bipolar_of(call, _floats(call, 0), _floats(call, 1), None)


def _bipolar_of(call: Call, x: Value, scale: Value, zero: Value | None) -> Value:
    """The sign of x, 1 for 0; a `Quant` of one bit adds its zero point first."""
    a, nothing = Arithmetic(call.builder, x), call.constant(0, x)
    moved = x if zero is None else a.add(a.div(x, scale), zero)
    whole = a.where(a.compare("GE", moved, 0), call.constant(1, x), call.constant(-1, x))
    form = _Form(scale=scale, zero=zero or nothing, low=-1, high=1, rounding=_ROUNDINGS["ROUND"])
    return _result(call, a, whole, form)


@operator("Trunc", domain=QONNX)
def _trunc(call: Call) -> Value:
    """Fewer bits: of a number of them (version 1), or of another scale (version 2)."""
    x, scale, zero, rounding = _floats(call, 0), _floats(call, 1), _floats(call, 2), _rounding(call, "FLOOR")
    a = Arithmetic(call.builder, x)
    whole = a.unary("round-nearest-even", a.add(a.div(x, scale), zero))
    if call.version < 2:
        lost = float(_bits(call, 3)) - float(_bits(call, 4))
        whole = rounding(a, a.div(whole, float(np.float32(2) ** np.float32(lost))))
        return a.mul(a.sub(whole, zero), scale)
    made = _floats(call, 4)
    if made.numbers is None or scale.numbers is None:
        raise call.fault("a scale that is no constant")
    with np.errstate(all="ignore"):
        step = known(np.asarray(2 ** np.round(np.log2(made.numbers / scale.numbers)), np.float32), "f32")
    signed, narrow = bool(call.whole("signed", 1)), bool(call.whole("narrow", 0))
    low, high = _ends(_bits(call, 5), signed=signed, narrow=narrow)
    form = _Form(scale=made, zero=a.div(zero, step), low=low, high=high, rounding=rounding)
    return _result(call, a, rounding(a, _bounded(a, a.div(whole, step), form)), form)


# -- integers ----------------------------------------------------------------------------------------------------------


def _result(call: Call, a: Arithmetic, whole: Value, form: _Form) -> Value:
    """Whole numbers as the floats that they stand for, and as integers, if they are few bits times scales."""
    b, made = call.builder, a.mul(a.sub(whole, form.zero), form.scale)
    along, zero = _along(form.scale, whole), _number(form.zero)
    if along is None or zero is None or made.rank != whole.rank or not _are_whole(form):
        return made
    factor, axis = along
    if whole.numbers is not None:
        if not whole.numbers.size or not np.abs(whole.numbers - zero).max() <= _LARGEST:
            return made
        integers = known((whole.numbers - zero).astype(np.int32), "s32")
        return Scaled(shape=made.shape, known=made.known, id=made.id, whole=integers, factor=factor, axis=axis)
    dtype = _dtype(form, zero)
    if dtype is None or axis is not None:
        return made
    few = b.convert(b.convert(whole, "s32"), dtype)
    point = None if zero == 0 else known(np.asarray(zero), dtype)
    held = of_bytes(b, few, point, factor, None)
    return replace(held, shape=made.shape, known=made.known, id=made.id)


def _of_sums(call: Call, x: Value, form: _Form) -> Value | None:
    """Few bits of sums of integers, rounded once, as `QuantizeLinear` has them; None if x is no such sum."""
    if not isinstance(x, Scaled) or x.bytes is not None or x.known is not None:
        return None
    along, zero = _along(form.scale, x), _number(form.zero)
    dtype = None if zero is None else _dtype(form, zero)
    if along is None or along[1] is not None or zero is None or dtype is None:
        return None
    with np.errstate(all="ignore"):
        factor = np.asarray(x.factor / along[0], np.float32)
    if not np.all(np.isfinite(factor)):
        return None
    shape = [-1 if place == x.axis else 1 for place in range(x.rank)] if factor.ndim else []
    b = call.builder
    values = b.map("multiply", b.convert(x.whole, "f32"), known(factor.reshape(shape), "f32"))
    point = None if zero == 0 else known(np.asarray(zero), dtype)
    bounds = int(form.low), int(form.high)
    return of_bytes(b, quantized(call, values, point, dtype, bounds, form.rounding), point, along[0], None)


def _are_whole(form: _Form) -> bool:
    return form.low == math.floor(form.low) and form.high == math.floor(form.high)


def _dtype(form: _Form, zero: int) -> str | None:
    """The type of bytes that holds the numbers and the zero point."""
    low, high = min(form.low, zero), max(form.high, zero)
    if not _are_whole(form) or form.low > form.high:
        return None
    if low >= -128 and high <= 127:
        return "s8"
    return "u8" if low >= 0 and high <= 255 else None


def _number(zero: Value) -> int | None:
    """A zero point that is one whole number for all; None for others."""
    found = zero.numbers
    if found is None or not found.size or not np.all(found == found.reshape(-1)[0]):
        return None
    number = float(found.reshape(-1)[0])
    return int(number) if math.isfinite(number) and number == math.floor(number) and abs(number) < 1 << 20 else None


def _along(scale: Value, x: Value) -> tuple[Array, int | None] | None:
    """Constant scales, one for all or one for each element along an axis of x; None for others."""
    numbers = scale.numbers
    if numbers is None or numbers.ndim > x.rank or not np.all(np.isfinite(numbers)) or not np.all(numbers > 0):
        return None
    axes = [axis for axis, size in enumerate(numbers.shape, x.rank - numbers.ndim) if size != 1]
    if len(axes) > 1:
        return None
    return (numbers.reshape(-1), axes[0]) if axes else (numbers.reshape(()), None)
