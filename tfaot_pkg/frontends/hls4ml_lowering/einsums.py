"""Products of arrays by their axes (nnet_einsum.h, nnet_einsum_dense.h): attention is made of them."""

from __future__ import annotations

from dataclasses import replace

from tfaot_pkg.compiler.attributes import Dot
from tfaot_pkg.compiler.program import Size
from tfaot_pkg.frontends.hls4ml_lowering.dense import scaled_weights
from tfaot_pkg.frontends.hls4ml_lowering.numbers import Fixed
from tfaot_pkg.frontends.hls4ml_lowering.sums import Weights, product_of, summed, weighted
from tfaot_pkg.frontends.hls4ml_lowering.table import Call, layer

_SHIFTED = ("TRN", "RND", "RND_MIN_INF")
"""Roundings for which it does not matter whether a number is rounded before or after it is added to others."""


def _axes(call: Call, name: str) -> tuple[int, ...]:
    found = call.layer.lists.get(name)
    if found is None:
        raise call.fault(f"it has no {name}")
    return found


def _taken(call: Call, x: Fixed, name: str, shape: tuple[int, ...]) -> Fixed:
    """X with its axes in the order of a transposition, as another shape."""
    return call.a.reshape(call.a.transpose(x, _axes(call, name)), shape)


def _given(call: Call, made: Fixed) -> Fixed:
    interpreted = call.a.reshape(made, _axes(call, "out_interpert_shape"))
    return call.a.transpose(interpreted, _axes(call, "out_tpose_idxs"))


@layer("EinsumDense")
def _einsum_dense(call: Call) -> Fixed:
    a = call.a
    if call.text("strategy", "latency") != "latency":
        raise call.fault(f"the strategy {call.text('strategy')!r}", "choose the strategy Latency for it")
    free, outputs, inputs, places = (
        call.whole(f"n_{name}") for name in ("free_data", "free_kernel", "contract", "inplace")
    )
    x = _taken(call, call.x, "inp_tpose_idxs", (places, free, inputs))
    weights = scaled_weights(call, "weight", (places * inputs, outputs), call.given[0].type)
    bias = call.constant("bias", places, free, outputs)
    numbers = bias.value.numbers
    assert numbers is not None
    made = []
    for place in range(places):
        one = a.reshape(a.cut(x, {0: (place, place + 1, 1)}), (free, inputs))
        values = weights.values[place * inputs : (place + 1) * inputs]
        own = a.constant(numbers[place], call.type("bias_t"))
        sums = weighted(call, one, Weights(values=values, fraction=weights.fraction), own, call.type("accum_t"))
        made.append(a.reshape(a.cast(sums, call.output.type), (1, free, outputs)))
    return _given(call, a.join(made, 0) if len(made) > 1 else made[0])


@layer("Einsum")
def _einsum(call: Call) -> Fixed:
    """Of two arrays that are both computed."""
    a, accum, b = call.a, call.type("accum_t"), call.a.builder
    if product_of(call.given[0].type, call.given[1].type) != "mult":
        raise call.fault("numbers of few bits")
    left, right, inner, places = (call.whole(f"n_{name}") for name in ("free0", "free1", "contract", "inplace"))
    first = _taken(call, call.inputs[0], "inp0_tpose_idxs", (places, left, inner))
    second = _taken(call, call.inputs[1], "inp1_tpose_idxs", (places, right, inner))
    lost = first.fraction + second.fraction - accum.fraction
    ends = [x * y for x in (first.low, first.high) for y in (second.low, second.high)]
    low, high = inner * min(*ends, 0), inner * max(*ends, 0)
    fits = (
        accum.overflow == "WRAP" or (accum.least <= low << -lost and high << -lost <= accum.high)
        if lost <= 0
        else False
    )
    if fits:
        dtype = "s32" if max(-low, high, first.largest, second.largest) < 1 << 31 else "s64"
        values = (b.convert(each.value, dtype) for each in (first, second))
        made = b.op("dot", *values, attributes=Dot(contracting=((3,), (3,)), batch=((0, 1), (0, 1))))
        sums = a.cast(Fixed(value=made, fraction=first.fraction + second.fraction, low=low, high=high), accum)
    else:
        if lost > 0 and accum.rounding not in _SHIFTED:
            raise call.fault(f"an accumulator that rounds by {accum.rounding}", f"choose one of {', '.join(_SHIFTED)}")
        batch = first.value.sizes[0]
        shapes = [(batch, *map(Size, each)) for each in ((places, left, 1, inner), (places, 1, right, inner))]
        wide = [replace(x, value=b.reshape(x.value, shape)) for x, shape in zip((first, second), shapes, strict=True)]
        sums = summed(call, a.multiply(*wide), accum)
    return _given(call, a.cast(a.reshape(sums, (places, left, right)), call.output.type))
