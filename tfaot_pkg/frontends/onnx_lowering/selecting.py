"""Operators whose number of rows depends on values: computed now for constants, else padded (counted.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.program import ONE, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.loops import repeated
from tfaot_pkg.frontends.lowering.values import Padded, Value, known, product
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.indexing import in_order, take
from tfaot_pkg.frontends.onnx_lowering.moving import element, join
from tfaot_pkg.frontends.onnx_lowering.reductions import maximum, minimum, place_of_extreme, total
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator

_INSIDE = "which rows are different depends on the values of the inputs"


def _chosen(b: Builder, mask: Value) -> tuple[Value, Value]:
    """The places of a vector's true elements, these before all others in their order, and how many are true."""
    _, order = in_order(b, b.convert(b.op("not", mask), "s32"), largest=False)
    return order, total(b, b.convert(mask, "s32"), [0], keep=False)


def _flat(b: Builder, x: Value) -> Value:
    return b.reshape(x, [product(x.sizes)])


@operator("NonZero")
def _non_zero(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    if x.numbers is not None:
        return known(np.stack(np.nonzero(x.numbers)), "s64")
    _require_all(call, x)
    mask = x if x.dtype == "pred" else b.compare("NE", x, b.constant(0, x.dtype))
    places, count = _chosen(b, _flat(b, mask))
    places = b.convert(places, "s64")
    axes: list[Value] = []
    # Flat positions become coordinates, the last axis first, because elements are row-major.
    for size in reversed(x.sizes):
        axes.insert(0, b.map("remainder", places, b.size(size)))
        places = b.map("divide", places, b.size(size))
    rows = [b.reshape(each, [ONE, *each.sizes]) for each in axes]
    return replace(join(b, rows, 0), padded=Padded(axis=1, count=count))


@operator("Compress")
def _compress(call: Call) -> Value:
    b, x, condition = call.builder, call.input(0), call.input(1)
    axis = call.axis(call.whole("axis"), x.rank) if call.has("axis") else 0
    if not call.has("axis"):
        x = _flat(b, x)
    if condition.numbers is not None:
        return take(b, x, known(np.nonzero(condition.numbers)[0], "s64"), axis)
    _require_all(call, x, condition)
    places, count = _chosen(b, condition)
    return replace(take(b, x, places, axis), short=x.short, padded=Padded(axis=axis, count=count))


def _require_all(call: Call, *values: Value) -> None:
    if any(each.padded is not None for each in values):
        raise call.fault("it reads rows whose number depends on values, and so does the number of its own")


@operator("Unique")
def _unique(call: Call) -> tuple[Value, ...]:
    values = call.input(0).numbers
    if values is None:
        return _kinds(call)
    axis = call.whole("axis") if call.has("axis") else None
    made, first, inverse, counts = np.unique(
        values, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not call.whole("sorted", 1):
        order = np.argsort(first)
        back = np.argsort(order)
        made = np.take(made, order, axis=axis or 0)
        first, inverse, counts = first[order], back[inverse], counts[order]
    dtype = call.input(0).dtype
    return (known(made, dtype), *(known(np.ravel(each), "s64") for each in (first, inverse, counts)))


def _kinds(call: Call) -> tuple[Value, ...]:
    """Each element is compared with each other one: such arrays are short."""
    b, x = call.builder, call.input(0)
    if call.has("axis") and x.rank != 1:
        raise call.fault(_INSIDE, "give the numbers of rows as inputs")
    _require_all(call, x)
    x, is_sorted = _flat(b, x), bool(call.whole("sorted", 1))
    (size,) = x.sizes
    at, square = b.iota("s64", [size], 0), [size, size]

    def pairs(opcode: str, left: Value, right: Value) -> Value:
        """[i, j]: the comparison of element i of one with element j of the other."""
        return b.compare(opcode, b.spread(left, square, [0]), b.spread(right, square, [1]))

    same, earlier = pairs("EQ", x, x), pairs("GT", at, at)
    is_repeated = b.convert(b.op("and", same, earlier), "s32")
    first = b.op("not", b.convert(maximum(b, is_repeated, [1], keep=False), "pred"))
    own = minimum(b, Arithmetic(b, at).where(same, b.spread(at, square, [1]), b.size(size)), [1], keep=False)
    # For each element, the number of distinct values before its own.
    before = pairs("GT", x, x) if is_sorted else pairs("GT", own, at)
    inverse = total(b, b.convert(b.op("and", before, b.spread(first, square, [1])), "s64"), [1], keep=False)
    many = total(b, b.convert(same, "s64"), [1], keep=False)
    if is_sorted:
        _, order = in_order(b, x, largest=False)
        x, first, at, many = (take(b, each, order, 0) for each in (x, first, at, many))
    places, count = _chosen(b, first)
    rows = Padded(axis=0, count=count)
    values, at, many = (replace(take(b, each, places, 0), padded=rows) for each in (x, at, many))
    return values, at, inverse, many


@operator("NonMaxSuppression")
def _non_max_suppression(call: Call) -> Value:
    b, boxes, scores = call.builder, call.input(0), call.input(1)
    _require_all(call, boxes, scores)
    most = 0 if call.maybe(2) is None else call.integers(2, "how many boxes it takes")[0]
    batch, classes, many = scores.sizes
    steps = min(most, call.number(many, "the number of its boxes"))
    if steps <= 0:
        return known(np.zeros((0, 3), np.int64), "s64")
    overlap = b.constant(0, "f32") if call.maybe(3) is None else b.reshape(call.input(3), [])
    centered = bool(call.whole("center_point_box", 0))
    overlaps = b.compare("GT", _overlaps(b, boxes, centered=centered), overlap)
    least = call.maybe(4)
    alive = scores
    if least is not None:
        is_enough = b.compare("GT", scores, b.reshape(least, []))
        alive = Arithmetic(b, scores).where(is_enough, scores, -np.inf)
    places, taken = _suppressed(b, overlaps, alive, steps)
    slots = [batch, classes, Size(steps)]
    # A table of all slots, of which the rows that are taken come first.
    columns = [b.iota("s64", slots, 0), b.iota("s64", slots, 1), places]
    rows = join(b, [b.reshape(each, [product(slots), ONE]) for each in columns], 1)
    order, count = _chosen(b, _flat(b, taken))
    return replace(take(b, rows, order, 0), padded=Padded(axis=0, count=count))


def _suppressed(b: Builder, overlaps: Value, alive: Value, steps: int) -> tuple[Value, Value]:
    """[batch, classes, steps]: the place of the box that each step takes, and whether it takes one."""
    batch, classes, many = alive.sizes
    slots = [batch, classes, Size(steps)]

    def step(number: Value, state: Sequence[Value]) -> list[Value]:
        left, places, taken = state
        best = place_of_extreme(b, left, 2, largest=True)  # of equal ones the first
        slot = b.compare("EQ", b.iota("s32", slots, 2), number)
        # A class whose boxes are all suppressed takes none in the steps that are left.
        is_one = b.compare("GT", maximum(b, left, [2], keep=True), b.constant(-np.inf, left.dtype))
        wide = b.reshape(best, [batch, classes, ONE])
        itself = b.compare("EQ", b.iota("s64", alive.sizes, 2), wide)
        whole = [batch, classes, many, many]
        # The overlaps of the best box, without a gather of each row's own.
        of_best = b.op("and", b.spread(overlaps, whole, [0, 2, 3]), b.spread(itself, whole, [0, 1, 2]))
        near = b.op("or", b.convert(maximum(b, b.convert(of_best, "s32"), [2], keep=False), "pred"), itself)
        return [
            Arithmetic(b, left).where(near, -np.inf, left),
            b.map("select", slot, wide, places),
            b.map("or", taken, b.map("and", slot, is_one)),
        ]

    zeros = b.spread(b.constant(0, "s64"), slots)
    none = b.spread(b.constant(False, "pred"), slots)
    _, places, taken = repeated(b, Size(steps), [alive, zeros, none], step)
    return places, taken


def _overlaps(b: Builder, boxes: Value, *, centered: bool) -> Value:
    """[batch, count, count]: intersection over union of each two boxes."""
    a = Arithmetic(b, boxes)
    first, second, third, fourth = (element(b, boxes, 2, place) for place in range(4))
    if centered:  # x, y, width, height
        edges = [
            (a.sub(middle, a.div(width, 2)), a.add(middle, a.div(width, 2)))
            for middle, width in ((second, fourth), (first, third))
        ]
    else:  # two opposite corners, whichever
        edges = [(a.min(one, two), a.max(one, two)) for one, two in ((first, third), (second, fourth))]
    batch, many = first.sizes

    def rows(x: Value) -> Value:
        return b.reshape(x, [batch, many, ONE])

    def columns(x: Value) -> Value:
        return b.reshape(x, [batch, ONE, many])

    common = [a.max(a.sub(a.min(rows(high), columns(high)), a.max(rows(low), columns(low))), 0) for low, high in edges]
    both = a.mul(*common)
    area = a.mul(*(a.sub(high, low) for low, high in edges))
    union = a.sub(a.add(rows(area), columns(area)), both)
    return a.where(a.compare("EQ", union, 0), 0, a.div(both, union))
