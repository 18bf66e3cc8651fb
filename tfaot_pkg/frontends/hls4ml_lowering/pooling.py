"""Pooling (nnet_pooling.h): what lies outside is the least number of the type, or 0 that an average does not count."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from tfaot_pkg.frontends.hls4ml_lowering.convolutions import Side, padded, sides_of, windows
from tfaot_pkg.frontends.hls4ml_lowering.numbers import Fixed
from tfaot_pkg.frontends.hls4ml_lowering.sums import unlimited
from tfaot_pkg.frontends.hls4ml_lowering.table import Call, layer
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.fixed_network import FixedType


@layer("Pooling1D")
def _pooling_1d(call: Call) -> Fixed:
    return _pooled(call, sides_of(call, "pool", ("", "n_in"), ("", "n_out")))


@layer("Pooling2D")
def _pooling_2d(call: Call) -> Fixed:
    return _pooled(call, sides_of(call, "pool", ("in_height", "in_width"), ("out_height", "out_width")))


@layer("GlobalPooling1D", "GlobalPooling2D")
def _global_pooling(call: Call) -> Fixed:
    sides = [Side(size=size, window=size, stride=1, before=0, after=0, results=1) for size in call.x.shape[:-1]]
    return _pooled(call, sides)


def _pooled(call: Call, sides: list[Side]) -> Fixed:
    if call.text("data_format", "channels_last") != "channels_last":
        raise call.fault("channels first", "convert the network with channels last")
    a, given, accum = call.a, call.given[0].type, call.type("accum_t")
    if call.text("pool_op") == "max":
        # The highest bit alone: of an unsigned type that is no small number, as in hls4ml.
        outside = given.low if given.signed else 1 << (given.width - 1)
        parts = windows(call, padded(call, call.x, sides, outside), sides)
        return a.cast(a.cast(reduce(a.maximum, parts), accum), call.output.type)
    parts = windows(call, padded(call, call.x, sides, 0), sides)
    total = _total(call, parts, accum)
    return a.cast(a.cast(_divided(call, total, _counts(call, sides)), accum), call.output.type)


def _total(call: Call, parts: Sequence[Fixed], accum: FixedType) -> Fixed:
    """The sum, converted after each addition."""
    a = call.a
    lost = parts[0].fraction - accum.fraction
    low, high = ((len(parts) * end) << max(-lost, 0) for end in (min(parts[0].low, 0), max(parts[0].high, 0)))
    stays = accum.overflow == "WRAP" or (accum.least << max(lost, 0) <= low and high <= accum.high << max(lost, 0))
    if stays and (lost <= 0 or accum.rounding in ("TRN", "RND", "RND_MIN_INF")):
        # A number that has its last place already does not change how another one is rounded.
        return a.cast(reduce(a.add, (a.cast(each, unlimited(accum)) if lost > 0 else each for each in parts)), accum)
    return reduce(lambda made, each: a.cast(a.add(made, each), accum), parts, a.whole(0, accum.fraction))


def _counts(call: Call, sides: list[Side]) -> Array:
    """How many numbers each average is of, [results..., 1]."""
    made = np.ones([1] * len(sides), np.int64)
    for axis, each in enumerate(sides):
        starts = np.arange(each.results) * each.stride - each.before
        inside = np.minimum(starts + each.window, each.size) - np.maximum(starts, 0)
        counts = np.full_like(inside, each.window) if call.whole("count_pad", 0) else inside
        made = made * counts.reshape([-1 if place == axis else 1 for place in range(len(sides))])
    return made[..., None]


def _divided(call: Call, x: Fixed, counts: Array) -> Fixed:
    """Cut off towards zero."""
    a = call.a
    least = int(counts.min())
    if least < 1:
        raise call.fault("an average of nothing")
    divisor = a.constant(counts, FixedType(width=32, integer=32, signed=False))
    return a.divide(x, divisor, least)
