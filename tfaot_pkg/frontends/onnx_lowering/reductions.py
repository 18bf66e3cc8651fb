"""Reductions along axes, places of extreme elements, and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.attributes import Side, Windows
from tfaot_pkg.compiler.program import NUMPY_TYPES, ONE, ZERO, Shape, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import cut, element, join, squeezed
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator

WHOLE: Side = (1, 1, 0, 0, 1, 1)
"""A window of one element: an axis that stays."""


def extreme(dtype: str, *, largest: bool) -> float:
    """The number that a maximum (or minimum) begins with: no element is smaller (or larger)."""
    kind = NUMPY_TYPES[dtype]
    if kind.kind == "f":
        return -math.inf if largest else math.inf
    if kind.kind == "b":
        return not largest
    return int(np.iinfo(kind).min if largest else np.iinfo(kind).max)


def total(b: Builder, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    return b.reduce("add", x, axes, 0, keep=keep)


def maximum(b: Builder, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    return b.reduce("maximum", x, axes, extreme(x.dtype, largest=True), keep=keep)


def minimum(b: Builder, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    return b.reduce("minimum", x, axes, extreme(x.dtype, largest=False), keep=keep)


def mean(b: Builder, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    count = b.count([x.sizes[axis] for axis in axes], x.dtype)
    return b.map("divide", total(b, x, axes, keep=keep), count)


@operator(
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
)  # fmt: skip
def _reduce(call: Call) -> Value:
    x, keep = call.input(0), bool(call.whole("keepdims", 1))
    axes = call.axes(1, x.rank)
    if not axes:
        # An empty list means all axes, or none.
        axes = [] if call.whole("noop_with_empty_axes", 0) else list(range(x.rank))
    return _reduced(call.builder, call.op, x, sorted(set(axes)), keep=keep)


def _reduced(b: Builder, op: str, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    a = Arithmetic(b, x)
    if x.dtype == "pred":  # the largest and smallest of truth values
        return b.reduce("or" if op == "ReduceMax" else "and", x, axes, op != "ReduceMax", keep=keep)
    if op == "ReduceMax":
        return maximum(b, x, axes, keep=keep)
    if op == "ReduceMin":
        return minimum(b, x, axes, keep=keep)
    if op == "ReduceProd":
        return b.reduce("multiply", x, axes, 1, keep=keep)
    if op == "ReduceMean":
        return mean(b, x, axes, keep=keep)
    if op == "ReduceLogSumExp":
        return _log_sum_exp(b, x, axes, keep=keep)
    if op == "ReduceL1":
        x = x if x.dtype.startswith("u") else a.unary("abs", x)
    if op in ("ReduceL2", "ReduceSumSquare"):
        x = a.mul(x, x)
    made = total(b, x, axes, keep=keep)
    if op not in ("ReduceL2", "ReduceLogSum"):
        return made
    wide = made if x.is_float else b.convert(made, "f64")
    return b.convert(b.op("sqrt" if op == "ReduceL2" else "log", wide), x.dtype)


def _log_sum_exp(b: Builder, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    wide = x if x.is_float else b.convert(x, "f64")
    a = Arithmetic(b, wide)
    most = maximum(b, wide, axes, keep=True)
    # An infinite maximum would give NaN as its difference to itself.
    most = a.where(b.op("is-finite", most), most, 0)
    made = a.log(total(b, a.exp(a.sub(wide, most)), axes, keep=True))
    made = a.add(made, most)
    return b.convert(made if keep else squeezed(b, made, axes), x.dtype)


@operator("ArgMax", "ArgMin")
def _arg(call: Call) -> Value:
    x = call.input(0)
    axis = call.axis(call.whole("axis", 0), x.rank)
    found = place_of_extreme(
        call.builder, x, axis, largest=call.op == "ArgMax", last=bool(call.whole("select_last_index", 0))
    )
    if call.whole("keepdims", 1):
        return call.builder.reshape(found, [ONE if each == axis else size for each, size in enumerate(x.sizes)])
    return found


def place_of_extreme(b: Builder, x: Value, axis: int, *, largest: bool, last: bool = False) -> Value:
    """As ONNX Runtime finds it: from the first element on, and nothing is larger than NaN, or smaller."""
    a = Arithmetic(b, x)
    numbers = x
    if x.is_float:
        numbers = a.where(b.compare("NE", x, x), extreme(x.dtype, largest=largest), x)
    best = (maximum if largest else minimum)(b, numbers, [axis], keep=True)
    places = b.iota("s64", x.sizes, axis)
    # An element is the best one, so other elements may count as the worst place: thus all places are within the axis.
    nowhere = b.constant(0, "s64") if last else b.size(x.sizes[axis] + Size(-1))
    chosen = b.map("select", b.compare("EQ", x, best), places, nowhere)
    found = (maximum if last else minimum)(b, chosen, [axis], keep=False)
    if x.is_float:
        first = element(b, x, axis, 0)
        found = b.map("select", b.compare("NE", first, first), b.constant(0, "s64"), found)
    return found


@operator("CumSum", "CumProd")
def _cumulated(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    (number,) = call.integers(1, "the axis")
    axis = call.axis(number, x.rank)
    opcode, start = ("add", 0) if call.op == "CumSum" else ("multiply", 1)
    is_reverse = bool(call.whole("reverse", 0))
    if call.whole("exclusive", 0):
        x = _moved_on(b, x, axis, b.constant(start, x.dtype), back=is_reverse)
    return running(b, x, axis, opcode, start, back=is_reverse)


def _moved_on(b: Builder, x: Value, axis: int, start: Value, *, back: bool) -> Value:
    """`x` with each element one place later (or, `back`, earlier), and `start` in the place that is left."""
    size = x.sizes[axis]
    one = b.spread(start, [ONE if each == axis else other for each, other in enumerate(x.sizes)])
    if back:
        return join(b, [cut(b, x, axis, ONE, size), one], axis)
    return join(b, [one, cut(b, x, axis, ZERO, size + Size(-1))], axis)


def running(b: Builder, x: Value, axis: int, opcode: str, start: float, *, back: bool = False) -> Value:
    """Each element combined with all before it, or all behind it."""
    if x.sizes[axis] == ZERO:
        return x
    return windowed(b, opcode, x, up_to_each(x, axis, back=back), start)


def up_to_each(x: Value, axis: int, *, back: bool = False) -> list[Side]:
    """Windows of the whole axis that end (or, `back`, begin) at each element; what is outside of it does not count."""
    size, others = plain(x.sizes[axis]), plain(x.sizes[axis] + Size(-1))
    window = [WHOLE] * x.rank
    window[axis] = (size, 1, 0, others, 1, 1) if back else (size, 1, others, 0, 1, 1)
    return window


def windowed(b: Builder, opcode: str, x: Value, window: Sequence[Side], start: float) -> Value:
    """A reduction of windows over `x`."""
    number = Shape(x.dtype, ())
    region = b.region([number, number], lambda pair: [b.op(opcode, *pair)])
    attributes = Windows(window=tuple(window))
    return b.op("reduce-window", x, b.constant(start, x.dtype), attributes=attributes, regions=[region])


def windowed_places(
    b: Builder, x: Value, places: Value, window: Sequence[Side], start: float, better: Callable[[Value, Value], Value]
) -> tuple[Value, Value]:
    """One element of each window, and that of `places` beside it; a later one replaces it if it is `better`."""
    number, place = Shape(x.dtype, ()), Shape(places.dtype, ())

    def chosen(four: Sequence[Value]) -> list[Value]:
        is_better = better(four[2], four[0])
        return [b.op("select", is_better, four[2 + each], four[each]) for each in (0, 1)]

    region = b.region([number, place, number, place], chosen)
    starts = [b.constant(start, x.dtype), b.constant(0, places.dtype)]
    values, found = b.ops(
        "reduce-window", x, places, *starts, attributes=Windows(window=tuple(window)), regions=[region]
    )
    return values, found
