"""Layer normalization (nnet_layernorm.h): inverse square roots of variances by a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.frontends.hls4ml_lowering.numbers import Fixed
from tfaot_pkg.frontends.hls4ml_lowering.sums import product_of, summed
from tfaot_pkg.frontends.hls4ml_lowering.table import Call, layer
from tfaot_pkg.worker_program.messages.fixed_network import INT, converted


@layer("LayerNormalization")
def _layer_normalization(call: Call) -> Fixed:
    """Over the numbers of each place of a sequence; all that is between is of the accumulator's type."""
    a, accum, places = call.a, call.type("accum_t"), call.whole("seq_len")
    if product_of(call.given[0].type, call.type("scale_t")) != "mult":
        raise call.fault("inputs or scales of one or two bits")
    size = call.x.shape[-1]
    x = a.cast(a.reshape(call.x, (places, size)), accum)
    part = a.constant(converted(np.asarray(1.0 / size), accum), accum)

    def mean(values: Fixed) -> Fixed:
        return a.cast(a.multiply(summed(call, values, accum), part), accum)

    rest = a.cast(a.subtract(x, mean(x)), accum)
    squares = a.cast(replace(a.multiply(rest, rest), low=0), accum)
    scaled = a.multiply(a.multiply(rest, _inverse_root(call, mean(squares))), call.constant("scale", size))
    made = a.cast(a.add(scaled, call.constant("bias", size)), call.output.type)
    return a.reshape(made, call.x.shape)


def _inverse_root(call: Call, variance: Fixed) -> Fixed:
    a, table, type_ = call.a, call.array("inverse_roots"), call.type("table_t")
    factor = len(table) << call.whole("table_range_power2", 0)
    place = a.cast(a.multiply(variance, a.whole(factor)), INT)
    bounded = a.minimum(a.maximum(place, a.whole(0)), a.whole(len(table) - 1))
    return a.looked_up(table, type_.fraction, bounded.value)
