"""Quantizers of HGQ, which convert each number of a result to a type of its own (hgq_proxy_model.py of hls4ml)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import numpy as np

from tfaot_pkg.frontends.hls4ml_lowering.numbers import Fixed, bits_of
from tfaot_pkg.frontends.hls4ml_lowering.table import Call, layer
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.fixed_network import Overflow, Rounding

_MOST_BITS = 62
"""Of a type, and of its places before and behind the point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Types:
    """A type for each number, of the shape of them: integers from `low` to `high`, times 2**-fraction.

    Conversions give none below `least`. A type without bits has 0 alone.
    """

    width: Array
    fraction: Array
    low: Array
    high: Array
    least: Array


@layer("FixedPointQuantizer")
def _quantizer(call: Call) -> Fixed:
    rounding, overflow = (call.layer.texts.get(name, "") for name in ("RND", "SAT"))
    if rounding not in get_args(Rounding) or overflow not in get_args(Overflow):
        raise call.fault(f"the modes {rounding!r} and {overflow!r}")
    types = _types(call, overflow)
    common = max(call.x.fraction, int(types.fraction.max()))
    x = call.a.shifted(call.x, common - call.x.fraction)
    lost = common - types.fraction
    if lost.max() > _MOST_BITS:
        raise call.fault("types of very different size", "choose types of fewer bits")
    low, high = int((types.least << lost).min()), int((types.high << lost).max())
    # Of all that is computed between.
    most = (1 << int(lost.max())) - int(types.low.min())
    dtype = f"s{bits_of(min(x.low - most, low), max(x.high + most, high))}"

    b = call.a.builder
    places = known(lost, dtype)
    made = b.map("shift-right-arithmetic", _raised(call, b.convert(x.value, dtype), lost, rounding), places)
    made = b.map("shift-left", _cut_off(call, made, types, overflow), places)
    result = Fixed(value=b.convert(made, f"s{bits_of(low, high)}"), fraction=common, low=low, high=high)
    return call.a.cast(result, call.output.type)


def _types(call: Call, overflow: str) -> _Types:
    mask, shape = call.array("mask_kbi"), call.x.shape
    if len(mask) != 3:
        raise call.fault(f"{len(mask)} numbers for each type, not 3")
    signed, width, integer = (np.broadcast_to(each.reshape(each.shape[1:]), shape).copy() for each in mask)
    integer = np.where(width > 0, integer, 0)
    if not (set(np.unique(signed)) <= {0, 1} and width.min() >= 0 and max(width.max(), *map(abs, (
        integer.min(), integer.max(), (width - integer).min(), (width - integer).max()
    ))) <= _MOST_BITS):  # fmt: skip
        raise call.fault(f"types of more than {_MOST_BITS} bits, or with as many places", "choose types of fewer bits")
    if overflow == "WRAP":
        # Bits behind the last one of the input are zeros.
        width = np.maximum(width - np.maximum(width - integer - call.x.fraction, 0), 0)
    fraction = np.where(width > 0, width - integer, call.x.fraction)
    is_signed = (signed == 1) & (width > 0)
    low = np.where(is_signed, -(1 << np.maximum(width - 1, 0)), 0)
    return _Types(
        width=width, fraction=fraction, low=low, high=(1 << (width - is_signed)) - 1,
        least=low + (is_signed & (overflow == "SAT_SYM")),
    )  # fmt: skip


def _raised(call: Call, x: Value, lost: Array, rounding: str) -> Value:
    """`x`, to which is added what makes a cut towards minus infinity the wanted rounding."""
    b, dtype = call.a.builder, x.dtype

    def add(first: Value, second: Value) -> Value:
        return b.map("add", first, second)

    def number(whole: Array) -> Value:
        return known(whole, dtype)

    is_lost = (lost > 0).astype(np.int64)
    half = np.where(lost > 0, 1 << np.maximum(lost - 1, 0), 0)
    below = number(np.maximum(half - 1, 0))
    # -1 for numbers below 0 that lose bits.
    sign = b.map("and", b.map("shift-right-arithmetic", x, number(np.asarray(int(dtype[1:]) - 1))), number(-is_lost))
    made: dict[str, Callable[[], Value]] = {
        "TRN": lambda: x,
        "TRN_ZERO": lambda: add(x, b.map("and", sign, number((1 << lost) - 1))),
        "RND": lambda: add(x, number(half)),
        "RND_MIN_INF": lambda: add(x, below),
        "RND_INF": lambda: add(add(x, number(half)), sign),
        "RND_ZERO": lambda: b.map("subtract", add(x, below), sign),
        "RND_CONV": lambda: add(
            add(x, below), b.map("and", b.map("shift-right-arithmetic", x, number(lost)), number(is_lost))
        ),
    }
    return made[rounding]()


def _cut_off(call: Call, x: Value, types: _Types, overflow: str) -> Value:
    b, dtype = call.a.builder, x.dtype
    low, high = known(types.low, dtype), known(types.high, dtype)
    match overflow:
        case "WRAP":
            kept = b.map("and", b.map("subtract", x, low), known((1 << types.width) - 1, dtype))
            return b.map("add", kept, low)
        case "SAT_ZERO":
            is_inside = b.map("and", b.compare("GE", x, low), b.compare("LE", x, high))
            return b.map("select", is_inside, x, known(np.asarray(0), dtype))
        case _:
            return b.map("minimum", b.map("maximum", x, known(types.least, dtype)), high)
