"""Operators that make arrays of numbers and places: ranges, diagonals, ones at given places."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfaot_pkg.compiler.program import ZERO, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.folding import MOST_FOLDED
from tfaot_pkg.frontends.lowering.values import Undecided, Value, known
from tfaot_pkg.frontends.onnx_lowering.moving import element, stretched
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator

_MOST_PARTS = 1 << 20
"""Of limits and steps beside sizes: finer ones are no fractions that an author wrote."""


@operator("Range")
def _range(call: Call) -> Value:
    b, values = call.builder, call.all()
    dtype = values[0].dtype
    if all(each.numbers is not None for each in values):
        start, limit, delta = (each.numbers.reshape(()) for each in values if each.numbers is not None)
        if not delta:
            raise call.fault("a step of 0")
        count = max(int(np.ceil((limit - start) / delta)), 0)
        if count > MOST_FOLDED:
            raise call.fault(f"its result would have {count} elements")
        return known(start + np.arange(count).astype(start.dtype) * delta, dtype)
    if any(each.known is None for each in values):
        raise call.fault("its limits depend on the values of the model's inputs")
    found = [each.known.reshape(())[()] for each in values if each.known is not None]
    parts = max(map(_parts, found))
    first, last, step = (each * Size(parts) if isinstance(each, Size) else Size(int(each * parts)) for each in found)
    try:
        if parts > _MOST_PARTS:
            raise Undecided
        size = b.ranges.divide(last + first * Size(-1), step)
    except Undecided:
        raise call.fault("its number of elements is no polynomial in the sizes of the inputs") from None
    made = b.iota(dtype, [size], 0)
    made = made if step == Size(parts) else b.map("multiply", made, b.reshape(values[2], []))
    return made if first == ZERO else b.map("add", made, b.reshape(values[0], []))


def _parts(number: Any) -> int:
    """How many equal parts of one `number` is a multiple of: a power of two."""
    return 1 if isinstance(number, Size) else float(number).as_integer_ratio()[1]


def distance(b: Builder, rows: Size, columns: Size) -> Value:
    """[rows, columns]: the number of a column minus that of its row."""
    return b.op("subtract", b.iota("s64", [rows, columns], 1), b.iota("s64", [rows, columns], 0))


@operator("EyeLike")
def _eye_like(call: Call) -> Value:
    x, b = call.input(0), call.builder
    dtype = call.dtype(call.whole("dtype")) if call.has("dtype") else x.dtype
    is_there = b.compare("EQ", distance(b, *x.sizes), b.constant(call.whole("k", 0), "s64"))
    return b.convert(is_there, dtype)


@operator("Trilu")
def _trilu(call: Call) -> Value:
    x, b = call.input(0), call.builder
    offset = b.constant(0, "s64") if call.maybe(1) is None else b.reshape(b.convert(call.input(1), "s64"), [])
    kept = b.compare("GE" if call.whole("upper", 1) else "LE", distance(b, *x.sizes[-2:]), offset)
    return b.map("select", kept, x, call.constant(0, x))


@operator("OneHot")
def _one_hot(call: Call) -> Value:
    b, indices = call.builder, call.input(0)
    (depth,) = call.sizes(1, "the depth")
    axis = call.axis(call.whole("axis", -1), indices.rank + 1)
    off, on = (element(b, call.input(2), 0, place) for place in range(2))
    indices = b.convert(indices, "s64")
    # Negative indices count from the end.
    indices = b.map("select", b.compare("LT", indices, b.constant(0, "s64")),
                    b.map("add", indices, b.size(depth)), indices)  # fmt: skip
    wide = stretched(b, indices, [axis])
    sizes = [depth if each == axis else size for each, size in enumerate(wide.sizes)]
    return b.map("select", b.compare("EQ", wide, b.iota("s64", sizes, axis)), on, off)
