"""Softmax by tables of exponentials and inverses (nnet_activation.h)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.program import Size
from tfaot_pkg.frontends.hls4ml_lowering.numbers import Fixed, bits_of
from tfaot_pkg.frontends.hls4ml_lowering.table import Call, layer
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.worker_program.messages.fixed_network import FixedType, inverse_type, norm_type


@layer("Softmax")
def _softmax(call: Call) -> Fixed:
    x, outer, inner = call.x, call.whole("n_outer", 1), call.whole("n_inner", 1)
    a, shape = call.a, x.shape
    size = int(np.prod(shape)) // (outer * inner)
    # The axis of the sum last.
    lines = a.transpose(a.reshape(x, (outer, size, inner)), (0, 2, 1))
    kind = call.text("implementation", "stable")
    if kind not in ("stable", "latency", "argmax"):
        raise call.fault(f"the implementation {kind!r}", "choose stable, latency or argmax in hls4ml's configuration")
    made = _largest(call, lines) if kind == "argmax" else _by_tables(call, lines, kind == "stable")
    return a.reshape(a.transpose(made, (0, 2, 1)), shape)


def _by_tables(call: Call, x: Fixed, is_stable: bool) -> Fixed:
    a, given, accum = call.a, call.given[0].type, call.type("accum_t")
    address = given
    if is_stable:
        address = norm_type(call.layer, given)
        x = a.cast(replace(a.subtract(_maximum(call, x), x), low=0), address)
    exponentials, inverses = call.array("exp_table"), call.array("inv_table")
    table = a.cast(a.constant(exponentials, call.type("exp_table_t")), accum)
    assert table.value.numbers is not None
    powers = a.looked_up(table.value.numbers, table.fraction, _upper_bits(call, x, address, len(exponentials)))
    sum_type = inverse_type(call.layer)
    total = a.cast(_tree(call, powers, accum), sum_type)
    type_ = call.type("inv_table_t")
    inverse = a.looked_up(inverses, type_.fraction, _upper_bits(call, total, sum_type, len(inverses)))
    return a.cast(a.multiply(powers, inverse), call.output.type)


def _maximum(call: Call, x: Fixed) -> Fixed:
    b, dtype = call.a.builder, f"s{bits_of(x.low, x.high)}"
    made = b.reduce("maximum", b.convert(x.value, dtype), [x.value.rank - 1], x.low, keep=True)
    return replace(x, value=made)


def _upper_bits(call: Call, x: Fixed, type_: FixedType, size: int) -> Value:
    """The upper bits of a number of a type, as many as address a table."""
    bits = max(1, (size - 1).bit_length())
    if 1 << bits != size or bits > type_.width:
        raise call.fault(f"a table of {size} entries, addressed by {type_.width} bits", "choose a power of two")
    a, b = call.a, call.a.builder
    upper = a.cast(x, FixedType(width=999, integer=999 - (x.fraction - (type_.width - bits)), signed=True))
    if upper.low >= 0:
        return upper.value
    return b.map("and", upper.value, known(np.asarray(size - 1), upper.value.dtype))


def _tree(call: Call, x: Fixed, accum: FixedType) -> Fixed:
    """`reduce<N, Op_add>`: halves are added, of which the left one has the largest power of two below N."""
    a, rank, count = call.a, x.value.rank, x.value.sizes[-1].constant
    ends = min(x.low, 0) * count, max(x.high, 0) * count
    if accum.overflow == "WRAP" or (accum.least <= ends[0] and ends[1] <= accum.high):
        made = a.cast(a.total(x, rank - 2, ends), accum)
        return replace(made, value=a.builder.reshape(made.value, [*made.value.sizes, Size(1)]))

    def added(start: int, size: int) -> Fixed:
        if size == 1:
            return a.last(x, start)
        left = 1 << ((size - 1).bit_length() - 1)
        return a.cast(a.add(added(start, left), added(start + left, size - left)), accum)

    return added(0, count)


def _largest(call: Call, x: Fixed) -> Fixed:
    """1 for the first of the largest numbers."""
    a, b, size = call.a, call.a.builder, x.value.sizes[-1].constant
    places = known(np.arange(size), "s32")
    is_largest = b.compare("EQ", x.value, _maximum(call, x).value)
    first = b.reduce("minimum", b.map("select", is_largest, places, known(np.asarray(size), "s32")),
                     [x.value.rank - 1], size, keep=True)  # fmt: skip
    chosen = a.select(b.compare("EQ", b.spread(first, x.value.sizes), b.spread(places, x.value.sizes)),
                      a.whole(1), a.whole(0))  # fmt: skip
    return a.cast(chosen, call.output.type)
