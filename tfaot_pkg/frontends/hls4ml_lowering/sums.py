"""Sums of products by constant weights, as hls4ml accumulates them.

Each product is converted to the type of the accumulator before it is added. If that loses bits, the layer is no product
of matrices but a sum of shifted products. An accumulator that wraps around does so once, at the end; one that
saturates gives a sum if its range cannot be left, and else depends on the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from tfaot_pkg.compiler.attributes import Dot
from tfaot_pkg.compiler.program import Size
from tfaot_pkg.frontends.hls4ml_lowering.numbers import Fixed
from tfaot_pkg.frontends.hls4ml_lowering.table import Call
from tfaot_pkg.frontends.lowering.values import known
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.fixed_network import FixedType

_MOST_STEPS = 4096
"""Of a sum whose order matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Integers [inputs, outputs] times 2**-fraction."""

    values: Array
    fraction: int


def unlimited(type_: FixedType) -> FixedType:
    """A type that rounds as `type_` does, and holds all numbers."""
    return FixedType(width=1000, integer=1000 - type_.fraction, signed=True, rounding=type_.rounding)


def product_of(data: FixedType, weights: FixedType) -> str:
    """As `product_type` of hls4ml's backend."""
    if weights.binary:
        return "both_binary" if data.binary else "weight_binary"
    if data.binary:
        return "data_binary"
    is_ternary = weights.whole and weights.signed and weights.width == 2
    return "weight_ternary" if is_ternary else "mult"


def weighted(call: Call, x: Fixed, weights: Weights, bias: Fixed | None, accum: FixedType, reuse: int = 1) -> Fixed:
    """Sums over the last axis of x, with a bias [outputs], as numbers of the type `accum`."""
    a, values = call.a, weights.values
    fraction = x.fraction + weights.fraction
    lost = fraction - accum.fraction
    start = a.whole(0, accum.fraction) if bias is None else a.cast(bias, accum)
    # The least and the largest number of each product, and of each converted one.
    ends = np.stack([_times(values, x.low), _times(values, x.high)])
    low, high = ends.min(0), ends.max(0)
    if lost > 0:
        low, high = low >> lost, (high + (1 << lost) - 1) >> lost
    else:
        low, high = low << -lost, high << -lost
    if accum.overflow != "WRAP":
        is_safe = _stays(low, high, start, accum)
        if not is_safe:
            return _step_by_step(call, x, weights, start, accum, reuse)
    bounds = int(low.sum(0).min()), int(high.sum(0).max())
    if lost > 0:
        total = _of_shifted(call, x, weights, accum, bounds)
    else:
        total = _of_products(call, x, weights, (bounds[0] >> -lost, -((-bounds[1]) >> -lost)))
    return a.cast(a.add(total, start), accum)


def weighted_each(call: Call, parts: Sequence[Fixed], weights: Weights, bias: Fixed, accum: FixedType) -> Fixed:
    """Sums over `parts`, each times a row of the weights [parts, channels], with a bias [channels]."""
    a = call.a
    numbers = [
        a.constant(row, FixedType(width=64, integer=64 - weights.fraction, signed=True)) for row in weights.values
    ]
    products = [a.multiply(part, number) for part, number in zip(parts, numbers, strict=True)]
    return _added(call, [a.cast(each, unlimited(accum)) for each in products], a.cast(bias, accum), accum)


def _added(call: Call, parts: Sequence[Fixed], start: Fixed, accum: FixedType) -> Fixed:
    """The sum of numbers with the fraction of `accum`, cut off after each addition unless that is one at the end."""
    a = call.a
    low, high = (sum(f(end, 0) for end in ends) for f, ends in (
        (min, [each.low for each in (*parts, start)]), (max, [each.high for each in (*parts, start)])
    ))  # fmt: skip
    if accum.overflow == "WRAP" or (accum.least <= low and high <= accum.high):
        return a.cast(reduce(a.add, parts, start), accum)
    return reduce(lambda made, each: a.cast(a.add(made, a.cast(each, accum)), accum), parts, start)


def summed(call: Call, products: Fixed, accum: FixedType) -> Fixed:
    """The sum over the last axis of products, each converted to `accum` before it is added."""
    a, b, count = call.a, call.a.builder, products.value.sizes[-1].constant
    kept = a.cast(products, unlimited(accum))
    ends = min(kept.low, 0) * count, max(kept.high, 0) * count
    if accum.overflow == "WRAP" or (accum.least <= ends[0] and ends[1] <= accum.high):
        made = a.cast(a.total(kept, kept.value.rank - 2, ends), accum)
        return replace(made, value=b.reshape(made.value, [*made.value.sizes, Size(1)]))
    if count > _MOST_STEPS:
        raise call.fault("an accumulator that saturates, over too many products", "choose the mode WRAP for accum_t")
    return _added(call, [a.last(kept, place) for place in range(count)], a.whole(0, accum.fraction), accum)


def _times(values: Array, factor: int) -> Array:
    """Exact products: Python's integers, if int64 may not hold them."""
    most = int(np.abs(values).max(initial=0)) * abs(factor) * (len(values) + 1)
    return values.astype(object) * factor if most >= 1 << 60 else values * factor


def _stays(low: Array, high: Array, start: Fixed, accum: FixedType) -> bool:
    """Whether no partial sum, whatever the order, leaves the range of `accum`."""
    negative, positive = np.minimum(low, 0).sum(0), np.maximum(high, 0).sum(0)
    return bool(negative.min() + min(start.low, 0) >= accum.least and positive.max() + max(start.high, 0) <= accum.high)


def _of_products(call: Call, x: Fixed, weights: Weights, bounds: tuple[int, int]) -> Fixed:
    a = call.a
    largest = max(x.largest * int(np.abs(weights.values).sum(0).max(initial=0)), x.largest, *map(abs, bounds))
    dtype = "s32" if largest < 1 << 31 else "s64"
    if largest >= 1 << 63:
        raise call.fault("sums of more than 64 bits", "choose fewer bits for weights or inputs")
    made = a.builder.op(
        "dot", a.builder.convert(x.value, dtype), known(weights.values, dtype),
        attributes=Dot(contracting=((x.value.rank - 1,), (0,)), batch=((), ())),
    )  # fmt: skip
    return Fixed(value=made, fraction=x.fraction + weights.fraction, low=bounds[0], high=bounds[1])


def _of_shifted(call: Call, x: Fixed, weights: Weights, accum: FixedType, bounds: tuple[int, int]) -> Fixed:
    a, b = call.a, call.a.builder
    low, high = int(weights.values.min(initial=0)), int(weights.values.max(initial=0))
    column = replace(x, value=b.reshape(x.value, [*x.value.sizes, Size(1)]))
    values = a.constant(weights.values, FixedType(width=64, integer=64 - weights.fraction, signed=True))
    products = a.multiply(column, replace(values, low=low, high=high))
    # What leaves a type that wraps around is cut off from the sum.
    kept = a.cast(products, unlimited(accum))
    ends = kept.low, kept.high
    wraps = accum.overflow == "WRAP" and accum.width <= 32
    if wraps and max(map(abs, ends)) < 1 << 31 and not -(1 << 31) <= bounds[0] <= bounds[1] < 1 << 31:
        bounds = -(1 << 31), (1 << 31) - 1  # sums of int32 wrap around themselves
    return a.total(kept, kept.value.rank - 3, bounds)


def _step_by_step(call: Call, x: Fixed, weights: Weights, start: Fixed, accum: FixedType, reuse: int) -> Fixed:
    """Products one after the other, each sum cut off."""
    a, b = call.a, call.a.builder
    count, outputs = weights.values.shape
    if count > _MOST_STEPS:
        raise call.fault(
            f"an accumulator that saturates, over {count} products",
            "choose more bits for accum_t, so that it cannot overflow, or the mode WRAP",
        )
    sizes = x.value.sizes
    made = replace(start, value=b.spread(start.value, [*sizes[:-1], Size(outputs)]))
    for place in (each for first in range(reuse) for each in range(first, count, reuse)):
        row = weights.values[place]
        if not row.any():
            continue
        number = a.constant(row, FixedType(width=64, integer=64 - weights.fraction, signed=True))
        made = a.cast(a.add(made, a.cast(a.multiply(a.last(x, place), number), accum)), accum)
    return made
