"""Det: elimination with row exchanges, as LAPACK's getrf."""

from __future__ import annotations

from collections.abc import Sequence

from tfaot_pkg.compiler.program import ONE, Size
from tfaot_pkg.frontends.lowering import loops
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, product
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.reductions import place_of_extreme, total
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator

_MOST_UNROLLED = 4
"""Columns of matrices whose steps are written one after the other."""


@operator("Det")
def _det(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    if x.rank < 2 or x.sizes[-1] != x.sizes[-2]:
        raise call.fault("its input is no square matrix")
    count = call.number(x.sizes[-1], "the size of its matrices")
    matrices = b.reshape(x, [product(x.sizes[:-2]), *x.sizes[-2:]])
    ones = b.spread(b.constant(1, x.dtype), matrices.sizes[:1])
    state: Sequence[Value] = [matrices, ones]
    if count <= _MOST_UNROLLED:
        for step in range(count):
            state = _eliminated(b, b.constant(step, "s32"), state)
    else:
        state = loops.repeated(b, Size(count), state, lambda step, given: _eliminated(b, step, given))
    return b.reshape(state[1], x.sizes[:-2])


def _eliminated(b: Builder, step: Value, state: Sequence[Value]) -> list[Value]:
    """[n, size, size] with zeros below the diagonal in column `step`, too, and [n], the product of pivots."""
    x, made = state
    a, (count, size) = Arithmetic(b, x), x.sizes[:2]
    now = b.convert(step, "s64")
    place, row = b.iota("s64", [size], 0), b.iota("s64", [count, size, ONE], 1)
    is_now = b.compare("EQ", place, now)
    column = total(b, a.where(is_now, x, 0), [2], keep=False)
    heights = a.where(b.compare("GE", place, now), a.unary("abs", column), -1)
    best = b.reshape(place_of_extreme(b, heights, 1, largest=True), [count, ONE, ONE])
    is_best = b.compare("EQ", row, best)
    upper = total(b, a.where(is_best, x, 0), [1], keep=True)
    # Nothing reads the row at the pivot's place later, so the other one stands there alone.
    exchanged = a.where(is_best, total(b, a.where(b.compare("EQ", row, now), x, 0), [1], keep=True), x)
    pivot = total(b, a.where(is_now, upper, 0), [2], keep=True)
    below = total(b, a.where(is_now, exchanged, 0), [2], keep=True)
    # A column of zeros alone makes the determinant 0.
    factor = a.where(a.compare("EQ", pivot, 0), 0, a.div(below, pivot))
    signed = a.where(b.compare("EQ", best, now), pivot, a.unary("negate", pivot))
    return [a.sub(exchanged, a.mul(factor, upper)), a.mul(made, b.reshape(signed, [count]))]
