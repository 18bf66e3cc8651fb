"""Operators that create, move, join and cut arrays, and those of shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.attributes import Cut, Dimensions, Edge, Pad, Slices
from tfaot_pkg.compiler.program import ONE, ROWS, ZERO, Size, Unsupported
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import NO_LIMIT, Undecided, Value, known, number_of, product
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator

_CONSTANTS = {"value_float": "f32", "value_floats": "f32", "value_int": "s64", "value_ints": "s64"}
"""Attributes with the value of a constant that have no type of their own -> their type."""
_MINUS = Size(-1)


def _dims(*axes: int) -> Dimensions:
    return Dimensions(dimensions=axes)


# -- parts of arrays -----------------------------------------------------------------------------------------------


def cut(b: Builder, x: Value, axis: int, start: Size, end: Size, step: int = 1) -> Value:
    """Elements `start`, `start` + `step` ... before `end` of an axis."""
    if (start, end, step) == (ZERO, x.sizes[axis], 1):
        return x
    whole: list[Cut] = [(0, plain(size), 1) for size in x.sizes]
    whole[axis] = (plain(start), plain(end), step)
    return b.op("slice", x, attributes=Slices(slices=tuple(whole)))


def element(b: Builder, x: Value, axis: int, place: int) -> Value:
    """One element of an axis, which is dropped."""
    found = cut(b, x, axis, Size(place), Size(place + 1))
    return b.reshape(found, [size for each, size in enumerate(found.sizes) if each != axis])


def join(b: Builder, parts: Sequence[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else b.op("concatenate", *parts, attributes=_dims(axis))


def reverse(b: Builder, x: Value, *axes: int) -> Value:
    return b.op("reverse", x, attributes=_dims(*axes))


def pad(b: Builder, x: Value, padding: Sequence[Edge], filler: Value) -> Value:
    """`padding` has for each axis what is added before, after and between its elements."""
    if all(each == (0, 0, 0) for each in padding):
        return x
    return b.op("pad", x, filler, attributes=Pad(padding=tuple(padding)))


def squeezed(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    return b.reshape(x, [size for axis, size in enumerate(x.sizes) if axis not in axes])


def stretched(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """`x` with axes of size 1 at these places of the result. Raises Unsupported for places that it does not have."""
    if not set(axes) <= set(range(x.rank + len(set(axes)))) or len(set(axes)) < len(axes):
        raise Unsupported(f"new axes {[*axes]} of an array of {x.rank} axes")
    given = iter(x.sizes)
    return b.reshape(x, [ONE if axis in axes else next(given) for axis in range(x.rank + len(axes))])


# -- constants and shapes ------------------------------------------------------------------------------------------


@operator("Constant")
def _constant(call: Call) -> Value:
    for name in ("value", "sparse_value"):
        if (found := call.constant_in(name)) is not None:
            return found
    for name, dtype in _CONSTANTS.items():
        if call.has(name):
            numbers = call.reals(name) if name.endswith("s") else call.real(name, 0)
            whole = call.wholes(name) if name == "value_ints" else numbers
            return known(np.asarray(call.whole(name) if name == "value_int" else whole), dtype)
    raise call.fault("element type text" if call.has("value_string") or call.has("value_strings") else "it is empty")


@operator("ConstantOfShape")
def _constant_of_shape(call: Call) -> Value:
    b, value = call.builder, call.constant_in("value")
    filler = b.constant(0, "f32") if value is None else b.reshape(value, []).short_as(value)
    return b.spread(filler, call.sizes(0, "the sizes of its result")).short_as(filler)


@operator("Shape")
def _shape(call: Call) -> Value:
    sizes = call.input(0).sizes
    start, end = (_within(call.whole(name, end), len(sizes)) for name, end in (("start", 0), ("end", len(sizes))))
    found = np.empty(max(end - start, 0), object)
    found[:] = sizes[start:end]
    return known(found, "s64")


def _within(place: int, count: int) -> int:
    return min(max(place + count if place < 0 else place, 0), count)


@operator("Size")
def _size(call: Call) -> Value:
    return call.builder.count(call.input(0).sizes, "s64")


@operator("Reshape")
def _reshape(call: Call) -> Value:
    x = call.input(0)
    attribute = call.wholes("shape") if call.maybe(1) is None else None
    wanted = [Size(each) for each in attribute] if attribute is not None else list(call.sizes(1, "the new shape"))
    if not call.whole("allowzero", 0):
        wanted = [x.sizes[place] if each == ZERO else each for place, each in enumerate(wanted)]
    if call.by_row and wanted and x.rank and x.sizes[0] == ROWS and wanted[0] == ONE:
        wanted[0] = ROWS  # the exporter wrote the batch of its example, 1, into the shape
    return reshaped(call.builder, x, wanted)


def reshaped(b: Builder, x: Value, wanted: Sequence[Size]) -> Value:
    """`x` with the sizes `wanted`, of which one may be -1: what is left. Raises Unsupported through the rule."""
    open_ = [place for place, each in enumerate(wanted) if each == _MINUS]
    if not open_:
        return b.reshape(x, wanted)
    rest = [each for place, each in enumerate(wanted) if place not in open_[:1]]
    try:
        left = b.ranges.divide(_uncommon(x.sizes, rest), _uncommon(rest, x.sizes))
    except Undecided:
        left = ZERO  # the rule says what does not fit
    return b.reshape(x, [left if place == open_[0] else each for place, each in enumerate(wanted)])


def _uncommon(sizes: Sequence[Size], others: Sequence[Size]) -> Size:
    """The product of `sizes` without those that are also in `others`."""
    left = list(others)
    made = []
    for size in sizes:
        if size in left:
            left.remove(size)
        else:
            made.append(size)
    return product(made)


@operator("Flatten")
def _flatten(call: Call) -> Value:
    x = call.input(0)
    axis = call.whole("axis", 1)
    axis += x.rank if axis < 0 else 0
    return call.builder.reshape(x, [product(x.sizes[:axis]), product(x.sizes[axis:])])


@operator("Squeeze")
def _squeeze(call: Call) -> Value:
    x = call.input(0)
    axes = call.axes(1, x.rank)
    if axes is None:
        axes = [axis for axis, size in enumerate(x.sizes) if size == ONE]
    if any(x.sizes[axis] != ONE for axis in axes):
        raise call.fault(f"an axis of {', '.join(str(x.sizes[axis]) for axis in axes)} elements")
    return squeezed(call.builder, x, axes)


@operator("Unsqueeze")
def _unsqueeze(call: Call) -> Value:
    x = call.input(0)
    given = call.wholes("axes") if call.maybe(1) is None else call.integers(1, "the axes")
    if given is None:
        raise call.fault("it has no axes")
    rank = x.rank + len(given)
    return stretched(call.builder, x, [call.axis(each, rank) for each in given])


@operator("Transpose")
def _transpose(call: Call) -> Value:
    x = call.input(0)
    order = call.wholes("perm")
    return call.builder.transpose(x, list(range(x.rank))[::-1] if order is None else order)


@operator("Concat")
def _concat(call: Call) -> Value:
    parts = call.all()
    axis = call.axis(call.whole("axis"), parts[0].rank)
    return join(call.builder, parts, axis)


@operator("Split")
def _split(call: Call) -> tuple[Value, ...]:
    x = call.input(0)
    axis = call.axis(call.whole("axis", 0), x.rank)
    given = call.wholes("split")
    if call.maybe(1) is not None:
        sizes = list(call.sizes(1, "the sizes of its parts"))
    elif given is not None:
        sizes = list(map(Size, given))
    else:
        sizes = _even(call, x.sizes[axis], call.whole("num_outputs", len(call.node.outputs)))
    parts, start = [], ZERO
    for size in sizes:
        parts.append(cut(call.builder, x, axis, start, start + size))
        start += size
    return tuple(parts)


def _even(call: Call, size: Size, count: int) -> list[Size]:
    try:
        return [call.builder.ranges.divide(size, Size(count))] * count
    except Undecided:
        length = call.number(size, "the size of the axis that it divides")
    part = -(-length // count)
    return [Size(part)] * (length // part) + ([Size(length % part)] if length % part else [])


@operator("Slice")
def _slice(call: Call) -> Value:
    x = call.input(0)
    if call.maybe(1) is None:
        starts, ends = (list(map(Size, call.wholes(name) or [])) for name in ("starts", "ends"))
        axes, steps = call.wholes("axes") or list(range(len(starts))), [1] * len(starts)
    else:
        starts, ends = (list(call.sizes(place, "where it begins and ends")) for place in (1, 2))
        axes = list(range(len(starts))) if call.maybe(3) is None else call.integers(3, "the axes")
        steps = [1] * len(starts) if call.maybe(4) is None else call.integers(4, "the steps")
    for named, start, end, step in zip(axes, starts, ends, steps, strict=True):
        x = _sliced(call, x, call.axis(named, x.rank), start, end, step)
    return x


def _sliced(call: Call, x: Value, axis: int, start: Size, end: Size, step: int) -> Value:
    b, size = call.builder, x.sizes[axis]
    if step == 0:
        raise call.fault("a step of 0")
    if step < 0:
        # The same elements of the reversed axis: element i is element size - 1 - i there.
        first = _bound(b, start, size, size + _MINUS)
        last = _bound(b, end, size, size + _MINUS, least=_MINUS)
        there = [size + _MINUS + each * _MINUS for each in (first, last)]
        return _cut_in_order(b, reverse(b, x, axis), axis, there[0], there[1], -step)
    return _cut_in_order(b, x, axis, _bound(b, start, size, size), _bound(b, end, size, size), step)


def _cut_in_order(b: Builder, x: Value, axis: int, start: Size, end: Size, step: int) -> Value:
    try:
        end = b.ranges.largest(start, end)
    except Undecided:
        pass  # the rule rejects an end before the start
    return cut(b, x, axis, start, end, step)


def _bound(b: Builder, place: Size, size: Size, most: Size, least: Size = ZERO) -> Size:
    """A place that may be negative, counted from the end, or beyond the axis: it is then `least` or `most`."""
    number = number_of(place)
    if number is not None and number >= NO_LIMIT:
        return most
    if number is not None and number <= -NO_LIMIT:
        return least
    try:
        if b.ranges.compare("LT", place, ZERO):
            place += size
    except Undecided:
        pass
    try:
        place = b.ranges.largest(place, least)
    except Undecided:
        pass
    try:
        return b.ranges.smallest(place, most)
    except Undecided:
        return place


@operator("Expand")
def _expand(call: Call) -> Value:
    x = call.input(0)
    wanted = call.sizes(1, "the sizes that it expands to")
    # Both ways: a size of 1 in the shape leaves that of x.
    rank = max(x.rank, len(wanted))
    before, after = ((*[ONE] * (rank - len(each)), *each) for each in (x.sizes, wanted))
    return call.builder.spread(x, [old if new == ONE else new for old, new in zip(before, after, strict=True)])


@operator("Tile")
def _tile(call: Call) -> Value:
    return tiled(call.builder, call.input(0), call.sizes(1, "the numbers of repetitions"))


def tiled(b: Builder, x: Value, repeats: Sequence[Size]) -> Value:
    if all(each == ONE for each in repeats):
        return x
    pairs = list(zip(repeats, x.sizes, strict=True))
    axes = [2 * axis + 1 for axis in range(x.rank)]
    wide = b.spread(x, [size for pair in pairs for size in pair], axes)
    return b.reshape(wide, [many * size for many, size in pairs])


@operator("DepthToSpace", "SpaceToDepth")
def _blocks(call: Call) -> Value:
    x, b, size = call.input(0), call.builder, call.whole("blocksize")
    batch, channels, height, width = x.sizes
    block, square = Size(size), Size(size * size)
    divide = b.ranges.divide
    try:
        if call.op == "SpaceToDepth":
            low, narrow = divide(height, block), divide(width, block)
            is_deep = call.text("mode", "DCR") == "DCR"
            x = b.reshape(x, [batch, channels, low, block, narrow, block])
            x = b.transpose(x, [0, 3, 5, 1, 2, 4] if is_deep else [0, 1, 3, 5, 2, 4])
            return b.reshape(x, [batch, channels * square, low, narrow])
        depth = divide(channels, square)
    except Undecided:
        raise call.fault("a size is no multiple of its blocks") from None
    # Elements of a block are the outer part of the channels (depth, column, row), or the inner one (CRD).
    if call.text("mode", "DCR") == "DCR":
        x = b.transpose(b.reshape(x, [batch, block, block, depth, height, width]), [0, 3, 4, 1, 5, 2])
    else:
        x = b.transpose(b.reshape(x, [batch, depth, block, block, height, width]), [0, 1, 4, 2, 5, 3])
    return b.reshape(x, [batch, depth, height * block, width * block])


@operator("Pad")
def _pad(call: Call) -> Value:
    x, b = call.input(0), call.builder
    given = call.wholes("pads") if call.maybe(1) is None else None
    amounts = list(map(Size, given)) if given is not None else list(call.sizes(1, "the amounts of padding"))
    axes = call.axes(3, x.rank) if call.maybe(3) is not None else list(range(x.rank))
    assert axes is not None
    lows, highs = [ZERO] * x.rank, [ZERO] * x.rank
    for place, axis in enumerate(axes):
        lows[axis], highs[axis] = amounts[place], amounts[place + len(axes)]
    mode = call.text("mode", "constant")
    if mode == "constant":
        filler = call.constant(call.real("value", 0), x) if given is not None else (
            b.reshape(call.input(2), []) if call.maybe(2) is not None else call.constant(0, x)
        )  # fmt: skip
        edges: list[Edge] = [(plain(low), plain(high), 0) for low, high in zip(lows, highs, strict=True)]
        return pad(b, x, edges, filler)
    for axis, pair in enumerate(zip(lows, highs, strict=True)):
        low, high = (call.number(each, "the amounts of padding") for each in pair)
        size = x.sizes[axis]
        x = cut(b, x, axis, Size(max(-low, 0)), size + Size(min(high, 0)))  # negative padding cuts off
        x = _copied(call, x, axis, max(low, 0), max(high, 0), mode)
    return x


def _copied(call: Call, x: Value, axis: int, low: int, high: int, mode: str) -> Value:
    """Padding with copies: of elements in reverse order, of the edge, or of the other end."""
    b, size = call.builder, x.sizes[axis]
    if mode not in ("reflect", "edge", "wrap"):
        raise call.fault(f"its mode {mode!r}")

    def before() -> Value:
        if mode == "edge":
            return _repeated(b, cut(b, x, axis, ZERO, ONE), axis, low)
        if mode == "wrap":
            return cut(b, x, axis, size + Size(-low), size)
        return reverse(b, cut(b, x, axis, ONE, Size(low + 1)), axis)

    def behind() -> Value:
        if mode == "edge":
            return _repeated(b, cut(b, x, axis, size + _MINUS, size), axis, high)
        if mode == "wrap":
            return cut(b, x, axis, ZERO, Size(high))
        return reverse(b, cut(b, x, axis, size + Size(-1 - high), size + _MINUS), axis)

    return join(b, [*([before()] if low else []), x, *([behind()] if high else [])], axis)


def _repeated(b: Builder, x: Value, axis: int, many: int) -> Value:
    return b.spread(x, [Size(many) if each == axis else size for each, size in enumerate(x.sizes)])
