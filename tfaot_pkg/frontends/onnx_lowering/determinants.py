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
    return determinant(b, x, call.number(x.sizes[-1], "the size of its matrices"))


def determinant(b: Builder, x: Value, size: int) -> Value:
    """That of each matrix."""
    a, matrices = Arithmetic(b, x), b.reshape(x, [product(x.sizes[:-2]), *x.sizes[-2:]])

    def step(number: Value, state: Sequence[Value]) -> list[Value]:
        left, pivot = eliminated(b, number, state[0])
        return [left, a.mul(state[1], pivot)]

    ones = b.spread(b.constant(1, x.dtype), matrices.sizes[:1])
    return b.reshape(stepwise(b, size, [matrices, ones], step)[1], x.sizes[:-2])


def stepwise(b: Builder, count: int, state: Sequence[Value], step: loops.Body) -> Sequence[Value]:
    """The state after a step for each column: few are written one after the other, many are a loop."""
    if count > _MOST_UNROLLED:
        return loops.repeated(b, Size(count), state, step)
    for number in range(count):
        state = step(b.constant(number, "s32"), state)
    return state


def eliminated(b: Builder, step: Value, x: Value, *, all_rows: bool = False) -> tuple[Value, Value]:
    """[n, rows, columns] with zeros below the diagonal in column `step`, and [n], pivots, negated after an exchange.

    With `all_rows` the column is that of the unit matrix.
    """
    a, (count, size) = Arithmetic(b, x), x.sizes[:2]
    now = b.convert(step, "s64")
    place, row = b.iota("s64", [size], 0), b.iota("s64", [count, size, ONE], 1)
    is_now = b.compare("EQ", b.iota("s64", [x.sizes[2]], 0), now)
    column = total(b, a.where(is_now, x, 0), [2], keep=False)
    heights = a.where(b.compare("GE", place, now), a.unary("abs", column), -1)
    best = b.reshape(place_of_extreme(b, heights, 1, largest=True), [count, ONE, ONE])
    is_best = b.compare("EQ", row, best)
    upper = total(b, a.where(is_best, x, 0), [1], keep=True)
    # The other row comes to the pivot's place; if nothing reads that row later, it stands there alone.
    exchanged = a.where(is_best, total(b, a.where(b.compare("EQ", row, now), x, 0), [1], keep=True), x)
    pivot = total(b, a.where(is_now, upper, 0), [2], keep=True)
    below = total(b, a.where(is_now, exchanged, 0), [2], keep=True)
    signed = b.reshape(a.where(b.compare("EQ", best, now), pivot, a.unary("negate", pivot)), [count])
    if all_rows:
        unit = a.div(upper, pivot)
        return a.where(b.compare("EQ", row, now), unit, a.sub(exchanged, a.mul(below, unit))), signed
    # A column of zeros alone makes the determinant 0.
    factor = a.where(a.compare("EQ", pivot, 0), 0, a.div(below, pivot))
    return a.sub(exchanged, a.mul(factor, upper)), signed
