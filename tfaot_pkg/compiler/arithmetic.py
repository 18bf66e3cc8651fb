"""HLO's elementwise operations with NumPy: integers wrap around, and nothing is undefined."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfaot_pkg.compiler.attributes import Comparison, in_total_order
from tfaot_pkg.compiler.program import NUMPY_TYPES, Operation, Unsupported
from tfaot_pkg.ground.arrays import Array

Function = Callable[..., Any]

_COMPARISONS: Mapping[str, Function] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip


def compare(operation: Operation, first: Array, second: Array) -> Array:
    if in_total_order(operation) and first.dtype.kind == "f":
        first, second = in_order(first), in_order(second)
    return np.asarray(_COMPARISONS[Comparison.of(operation).direction](first, second))


def in_order(x: Array) -> Array:
    """Integers in the order of floats: -NaN, -infinity, ..., -0, 0, ..., infinity, NaN."""
    width = 8 * x.dtype.itemsize
    bits = np.asarray(x).view(f"i{x.dtype.itemsize}")
    # Floats are sign and magnitude: the bits of negative ones are inverted, except the sign.
    return np.asarray(bits ^ ((bits >> (width - 1)) & np.array(2 ** (width - 1) - 1, bits.dtype)))


def convert(operation: Operation, x: Array) -> Array:
    """Conversions to integers round towards zero and saturate; NaN becomes 0, as in generated code (decision 039)."""
    dtype = NUMPY_TYPES[operation.shape.dtype]
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return x.astype(dtype)
    range_ = np.iinfo(dtype)
    # The maximum of a wide type rounds up as a float, so equality already saturates.
    most = x >= np.asarray(range_.max, x.dtype)
    least = x <= np.asarray(range_.min, x.dtype)
    inside = np.where(most | least | np.isnan(x), 0, x).astype(dtype)
    return np.where(most, range_.max, np.where(least, range_.min, inside)).astype(dtype)


def bitcast(operation: Operation, x: Array) -> Array:
    dtype = NUMPY_TYPES[operation.shape.dtype]
    if dtype.itemsize != x.dtype.itemsize:
        raise Unsupported("a bitcast to a type of another width")
    return np.ascontiguousarray(x).view(dtype).reshape(x.shape)


def _divide(first: Array, second: Array) -> Array:
    """Rounded towards zero; a division by zero gives -1, or the largest unsigned number."""
    if first.dtype.kind == "f":
        return np.asarray(first / second)
    ones = np.array(-1).astype(first.dtype)
    if first.dtype.kind == "u":
        return np.where(second == 0, ones, first // np.where(second == 0, 1, second))
    # Division by -1 is a negation, which wraps around: NumPy's division of the most negative number would overflow.
    plain = np.where((second == 0) | (second == -1), 1, second).astype(first.dtype)
    down = first // plain
    inexact = (down * plain != first) & ((first < 0) != (plain < 0))
    quotient = np.where(second == -1, np.negative(first), down + inexact)
    return np.where(second == 0, ones, quotient).astype(first.dtype)


def _remainder(first: Array, second: Array) -> Array:
    """The remainder has the sign of the dividend; by zero, it is the dividend."""
    if first.dtype.kind == "f":
        return np.asarray(np.fmod(first, second))
    # 1 instead of -1 as well: both remainders are 0, but the most negative number by -1 overflows.
    plain = np.where((second == 0) | ((second == -1) if second.dtype.kind == "i" else False), 1, second)
    return np.where(second == 0, first, np.fmod(first, plain.astype(second.dtype)))


def _power(base: Array, exponent: Array) -> Array:
    if base.dtype.kind == "f":
        shape = np.broadcast_shapes(base.shape, exponent.shape)
        # Arrays of exponents: for a single one NumPy takes a root, which is NaN for -inf and -0.0 for -0.0.
        full = (np.array(np.broadcast_to(each, shape or (1,))) for each in (base, exponent))
        return np.asarray(np.power(*full)).reshape(shape)
    left = np.where(exponent < 0, 0, exponent).astype(exponent.dtype)
    # By squaring, because products wrap around in HLO, and NumPy rejects negative exponents of integers.
    result, factor = np.ones_like(base), base
    while np.any(left):
        result = np.where(left % 2 == 1, result * factor, result)
        factor, left = factor * factor, left // 2
    of_one = np.where(base == 1, 1, np.where(base == np.array(-1).astype(base.dtype), 1 - 2 * (exponent % 2), 0))
    return np.where(exponent < 0, of_one.astype(base.dtype), result)


def _shift(first: Array, places: Array, *, left: bool, signed: bool) -> Array:
    """A shift by at least the width of the type gives zeros, or copies of the sign."""
    width, plain = 8 * first.dtype.itemsize, f"u{first.dtype.itemsize}"
    beyond = places.view(plain) >= width  # negative numbers of places are large unsigned ones
    safe = np.where(beyond, 0, places.view(plain)).astype(plain)
    if left:
        return np.where(beyond, 0, first.view(plain) << safe).astype(plain).view(first.dtype)
    if not signed:
        return np.where(beyond, 0, first.view(plain) >> safe).astype(plain).view(first.dtype)
    number = first.view(f"i{first.dtype.itemsize}")
    most = np.where(beyond, width - 1, safe).astype(number.dtype)
    return np.asarray(number >> most).astype(number.dtype).view(first.dtype)


def _shifting(*, left: bool = False, signed: bool = False) -> Function:
    def shift(first: Array, places: Array) -> Array:
        one, other = np.ascontiguousarray(first), np.ascontiguousarray(places)
        return _shift(one, other, left=left, signed=signed).reshape(first.shape)

    return shift


def _count_leading_zeros(x: Array) -> Array:
    width = 8 * x.dtype.itemsize
    bits = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)
    return np.asarray(np.vectorize(lambda value: width - int(value).bit_length(), otypes=[x.dtype])(bits))


def _ones(x: Array) -> Array:
    bits = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)
    return np.asarray(np.vectorize(lambda value: int(value).bit_count(), otypes=[x.dtype])(bits))


def _erf(x: Array) -> Array:
    # NumPy has no erf.
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _gelu_erf(x: Array) -> Array:
    distance = x.astype(np.float64) * -math.sqrt(0.5)
    return np.asarray(x * 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(distance))


def _gelu_tanh(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.asarray(wide / (1 + np.exp(-math.sqrt(8 / math.pi) * (wide + 0.044715 * wide**3))))


def _round_away(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x.astype(np.float64)) + 0.5), x)


def _bitwise(logical: Function, bits: Function) -> Function:
    return lambda first, *rest: (logical if first.dtype == np.bool_ else bits)(first, *rest)


def _to_bfloat16(x: Array) -> Array:
    """Floats rounded to the nearest ones whose lower 16 bits are 0, ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    # Half of the last kept bit, minus one unless that bit is set: only then a tie carries.
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32))


def _bits_of_bfloat16(x: Array) -> Array:
    bits = (np.asarray(x, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.asarray(np.where(np.isnan(x), np.uint16(0x7FC0), bits))


FUNCTIONS: Mapping[str, Function] = {
    "abs": np.abs,
    "add": np.add,
    "and": _bitwise(np.logical_and, np.bitwise_and),
    "atan2": np.arctan2,
    "bf16-of-bits": lambda x: (x.astype(np.uint32) << np.uint32(16)).view(np.float32),
    "bits-of-bf16": _bits_of_bfloat16,
    "bits-of-f16": lambda x: np.where(np.isnan(x), np.uint16(0x7E00), x.astype(np.float16).view(np.uint16)),
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "copy": lambda x: x,
    "cosine": np.cos,
    "count-leading-zeros": _count_leading_zeros,
    "divide": _divide,
    "erf": _erf,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "f16-of-bits": lambda x: np.ascontiguousarray(x).view(np.float16).reshape(x.shape).astype(np.float32),
    "floor": np.floor,
    "gelu-erf": _gelu_erf,
    "gelu-tanh": _gelu_tanh,
    "hard-swish": lambda x: x * (np.clip(x + 3, 0, 6) / 6),
    "is-finite": np.isfinite,
    "one-nan": lambda x: np.where(np.isnan(x), np.array(np.nan, x.dtype), x),
    "log": np.log,
    "log-plus-one": np.log1p,
    # In doubles: nothing is lost before the result is rounded, and the time of folding does not matter.
    "logistic": lambda x: 1 / (1 + np.exp(-x.astype(np.float64))),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    # In doubles, which hold products of floats: the interpreter rounds the sum.
    "multiply-add": lambda a, b, c: a.astype(np.float64) * b + c,
    "negate": np.negative,
    "not": lambda x: np.logical_not(x) if x.dtype == np.bool_ else np.bitwise_not(x),
    "or": _bitwise(np.logical_or, np.bitwise_or),
    "popcnt": _ones,
    "power": _power,
    "remainder": _remainder,
    "round-nearest-afz": _round_away,
    "round-nearest-even": np.rint,
    "round-to-bf16": _to_bfloat16,
    "round-to-f16": lambda x: x.astype(np.float16).astype(np.float32),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "select": np.where,
    "shift-left": _shifting(left=True),
    "shift-right-arithmetic": _shifting(signed=True),
    "shift-right-logical": _shifting(),
    "sign": np.sign,
    "sine": np.sin,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "swish": lambda x: x / (1 + np.exp(-x.astype(np.float64))),
    "tan": np.tan,
    "tanh": np.tanh,
    "xor": _bitwise(np.logical_xor, np.bitwise_xor),
}
"""The functions of elementwise operations, by opcode."""
