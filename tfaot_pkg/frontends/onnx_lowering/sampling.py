"""Operators that read images at points between their elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tfaot_pkg.compiler.attributes import Gather, Scatter
from tfaot_pkg.compiler.program import Shape, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known, product
from tfaot_pkg.frontends.onnx_lowering.convolutions import paddings
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.indexing import take
from tfaot_pkg.frontends.onnx_lowering.moving import cut, element, join, pad, stretched
from tfaot_pkg.frontends.onnx_lowering.products import matmul
from tfaot_pkg.frontends.onnx_lowering.reductions import maximum, mean
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator

_CUBIC = -0.75  # as in ONNX's reference implementation; no attribute sets it

_Tap = tuple[int, Value | None]
"""The distance of an element that a point reads from the element before it, and its weight."""


def _space(call: Call, x: Value) -> list[int]:
    return [call.number(size, "the sizes of its image") for size in x.sizes[2:]]


def _flat(b: Builder, x: Value) -> Value:
    """[batch, places, channels]."""
    last = b.transpose(x, [0, *range(2, x.rank), 1])
    return b.reshape(last, [x.sizes[0], Size(prod(size.constant for size in x.sizes[2:])), x.sizes[1]])


def _near(_arithmetic: Arithmetic, _fraction: Value) -> list[_Tap]:
    return [(0, None)]


def _linear(a: Arithmetic, fraction: Value) -> list[_Tap]:
    return [(0, a.sub(1, fraction)), (1, fraction)]


def _cubic(a: Arithmetic, fraction: Value) -> list[_Tap]:
    def near(x: Value) -> Value:
        return a.add(a.mul(a.mul(a.sub(a.mul(x, _CUBIC + 2), _CUBIC + 3), x), x), 1)

    def far(x: Value) -> Value:
        inner = a.mul(a.sub(a.mul(x, _CUBIC), 5 * _CUBIC), x)
        return a.sub(a.mul(a.add(inner, 8 * _CUBIC), x), 4 * _CUBIC)

    return [
        (-1, far(a.add(fraction, 1))), (0, near(fraction)), (1, near(a.sub(1, fraction))),
        (2, far(a.sub(2, fraction))),
    ]  # fmt: skip


_TAPS: dict[str, Callable[[Arithmetic, Value], list[_Tap]]] = {"nearest": _near, "linear": _linear, "cubic": _cubic}

_Place = tuple[Value, Value | None]
"""An index of an axis, and whether it is inside of the image (None: always)."""
Index = Callable[[Value, int], _Place]
"""What is read at a place, a whole number, of an axis of that size."""


@operator("GridSample")
def _grid_sample(call: Call) -> Value:
    b, x, grid = call.builder, call.input(0), call.input(1)
    mode = call.text("mode", "linear").removeprefix("bi")
    aligned, padding = bool(call.whole("align_corners", 0)), call.text("padding_mode", "zeros")
    if mode not in _TAPS or padding not in ("zeros", "border", "reflection"):
        raise call.fault(f"the mode {mode!r} with padding {padding!r}")

    def point(place: Value, size: int) -> Value:
        a = Arithmetic(b, place)
        found = a.add(a.mul(place, (size - 1) / 2 if aligned else size / 2), (size - 1) / 2)
        return found if padding == "reflection" else _near_image(a, found, size)

    return at_points(b, x, _space(call, x), grid, point, mode, _padding(b, padding, aligned=aligned))


def at_points(
    b: Builder,
    x: Value,
    space: Sequence[int],
    grid: Value,
    point: Callable[[Value, int], Value],
    mode: str,
    index: Index,
    *,
    is_masked_last: bool = False,
) -> Value:
    """The images `x`, of the sizes `space`, at the points of `grid`.

    Its last axis has a coordinate for each axis of an image, the last one first; `point` gives the place along an axis
    of that size.
    """
    count = len(space)
    places = b.reshape(grid, [grid.sizes[0], product(grid.sizes[1:-1]), Size(count)])
    points = [point(element(b, places, 2, count - 1 - axis), size) for axis, size in enumerate(space)]
    made = sampled(b, _flat(b, x), space, points, mode, index, is_masked_last=is_masked_last)
    made = b.reshape(made, [*grid.sizes[:-1], x.sizes[1]])
    return b.transpose(made, [0, count + 1, *range(1, count + 1)])


def _near_image(a: Arithmetic, point: Value, size: int) -> Value:
    """Points farther away than any kernel reaches read padding alone; infinite ones have no fraction."""
    return a.min(a.max(point, -4.0), size + 3.0)


def _rows(b: Builder, flat: Value, indices: Value) -> Value:
    """[batch, points, channels]: the places `indices`, [batch, points], of each row's own image."""
    attributes = Gather(
        indexed=(1,), vector=2, operand_batch=(0,), index_batch=(0,), collapsed=(1,), offset=(2,),
        sizes=(1, 1, flat.sizes[2].constant if flat.sizes[2].is_constant else flat.sizes[2]),
    )  # fmt: skip
    return b.op("gather", flat, indices, attributes=attributes)


def sampled(
    b: Builder, flat: Value, space: Sequence[int], points: Sequence[Value], mode: str = "linear",
    index: Index | None = None, *, is_masked_last: bool = False,
) -> Value:  # fmt: skip
    """[batch, points, channels]: `flat` at `points`, one coordinate of [batch, points] for each axis of `space`.

    What is outside counts as 0; its weight, too, if it `is_masked_last`.
    """
    a, taps = Arithmetic(b, points[0]), []
    index = index or inside_or_zero(b)
    for size, point in zip(space, points, strict=True):
        first = a.unary("round-nearest-even" if mode == "nearest" else "floor", point)
        taps.append([(index(a.add(first, step), size), weight) for step, weight in _TAPS[mode](a, a.sub(point, first))])
    whole: Value | None = None
    for chosen in itertools.product(*taps):
        part = _tap(b, flat, space, chosen, is_masked_last=is_masked_last)
        whole = part if whole is None else b.op("add", whole, part)
    assert whole is not None
    return whole


def _tap(
    b: Builder,
    flat: Value,
    space: Sequence[int],
    chosen: Sequence[tuple[_Place, Value | None]],
    *,
    is_masked_last: bool = False,
) -> Value:
    """The element at an index of each axis, times the product of their weights."""
    index: Value | None = None
    weight: Value | None = None
    inside: Value | None = None
    for size, ((place, within), factor) in zip(space, chosen, strict=True):
        index = place if index is None else b.map("add", b.map("multiply", index, b.constant(size, "s32")), place)
        inside = within if inside is None or within is None else b.op("and", inside, within)
        if factor is not None:
            weight = factor if weight is None else b.op("multiply", weight, factor)
    assert index is not None
    part = _rows(b, flat, index)
    a = Arithmetic(b, part)

    def masked(part: Value) -> Value:
        # Not a product with 0: what is read outside is an element of the image, maybe NaN.
        return part if inside is None else a.where(stretched(b, inside, [2]), part, 0)

    def weighted(part: Value) -> Value:
        return part if weight is None else a.mul(part, stretched(b, weight, [2]))

    return masked(weighted(part)) if is_masked_last else weighted(masked(part))


def inside_or_zero(b: Builder) -> Index:
    def index(place: Value, size: int) -> _Place:
        a = Arithmetic(b, place)
        inside = b.op("and", a.compare("GE", place, 0), a.compare("LE", place, size - 1))
        return nearest_index(b, place, size), inside

    return index


def nearest_index(b: Builder, place: Value, size: int) -> Value:
    a = Arithmetic(b, place)
    return b.convert(a.min(a.max(place, 0), size - 1), "s32")


def _padding(b: Builder, padding: str, *, aligned: bool) -> Index:
    if padding == "zeros":
        return inside_or_zero(b)

    def index(place: Value, size: int) -> _Place:
        a = Arithmetic(b, place)
        if padding == "reflection":
            # With aligned corners, images are reflected at the centers of the edge elements, else at their outer edges.
            period = float(max(2 * (size - 1), 1) if aligned else 2 * size)
            rest = b.map("remainder", place, a.value(period))
            place = a.where(a.compare("LT", rest, 0), a.add(rest, period), rest)
            place = a.min(place, a.sub(period if aligned else period - 1, place))
        return nearest_index(b, place, size), None

    return index


@operator("RoiAlign")
def _roi_align(call: Call) -> Value:
    b, x, regions, owners = call.builder, call.input(0), call.input(1), call.input(2)
    ratio = call.whole("sampling_ratio", 0)
    if ratio < 1:
        raise call.fault("how many points it reads depends on the inputs (sampling_ratio 0)")
    half = call.text("coordinate_transformation_mode", "half_pixel") == "half_pixel" and call.version >= 16
    space, lengths = _space(call, x), (call.whole("output_height", 1), call.whole("output_width", 1))
    a, scale = Arithmetic(b, x), call.real("spatial_scale", 1.0)
    points = []
    for axis, length in enumerate(lengths):
        start, end = (
            a.sub(a.mul(element(b, regions, 1, place), scale), 0.5 if half else 0.0) for place in (1 - axis, 3 - axis)
        )
        # Before half_pixel, a region had at least one element.
        extent = a.sub(end, start) if half else a.max(a.sub(end, start), 1)
        steps = known((np.arange(length * ratio) + 0.5) / (length * ratio), x.dtype)
        points.append(a.add(stretched(b, start, [1]), a.mul(stretched(b, extent, [1]), steps)))
    # Points outside by less than an element read the edge; those farther away read 0.
    inside = [
        b.op("and", a.compare("GE", p, -1), a.compare("LE", p, size)) for p, size in zip(points, space, strict=True)
    ]
    points = [a.min(a.max(p, 0), size - 1) for p, size in zip(points, space, strict=True)]
    down, across = (known(each.reshape(-1), "s64") for each in np.indices([length * ratio for length in lengths]))
    grids = [take(b, points[0], down, 1), take(b, points[1], across, 1)]
    images = take(b, _flat(b, x), owners, 0)
    within = b.op("and", take(b, inside[0], down, 1), take(b, inside[1], across, 1))
    is_largest = call.text("mode", "avg") == "max"
    made = _largest_corner(b, images, space, grids) if is_largest else sampled(b, images, space, grids)
    made = a.where(stretched(b, within, [2]), made, 0)
    sizes = [Size(lengths[0]), Size(ratio), Size(lengths[1]), Size(ratio)]
    made = b.reshape(made, [regions.sizes[0], *sizes, x.sizes[1]])
    return b.transpose((maximum if is_largest else mean)(b, made, [2, 4], keep=False), [0, 3, 1, 2])


def _largest_corner(b: Builder, flat: Value, space: Sequence[int], points: Sequence[Value]) -> Value:
    """The largest product of an element and its weight, which is the maximum of ONNX and ONNX Runtime."""
    a = Arithmetic(b, points[0])
    floors = [a.unary("floor", point) for point in points]
    whole: Value | None = None
    for steps in itertools.product((0, 1), repeat=2):
        taps = []
        for size, point, first, step in zip(space, points, floors, steps, strict=True):
            place = b.convert(a.min(a.add(first, step), size - 1), "s32")
            fraction = a.sub(point, first)
            taps.append(((place, None), fraction if step else a.sub(1, fraction)))
        part = _tap(b, flat, space, taps)
        whole = part if whole is None else b.op("maximum", whole, part)
    assert whole is not None
    return whole


@operator("DeformConv")
def _deform_conv(call: Call) -> Value:
    b, x, w, offset = call.builder, call.input(0), call.input(1), call.input(2)
    bias, mask = call.maybe(3), call.maybe(4)
    space, (outputs, inputs, *kernel) = _space(call, x), (call.number(size, "its weights") for size in w.sizes)
    if len(kernel) != 2:
        raise call.fault("images of other than two axes")
    groups, owners = call.whole("group", 1), call.whole("offset_group", 1)
    strides, holes = call.wholes("strides") or [1, 1], call.wholes("dilations") or [1, 1]
    pads = paddings(call, x.sizes[2:], kernel, strides, holes)
    height, width = (call.number(size, "its offsets") for size in offset.sizes[2:])
    taps, area, batch = prod(kernel), height * width, x.sizes[0]
    each = call.number(x.sizes[1], "its channels") // owners
    moves = b.reshape(offset, [batch, Size(owners), Size(taps), Size(2), Size(height), Size(width)])
    parts = []
    for owner in range(owners):
        own = element(b, moves, 1, owner)
        points = []
        for axis, length in enumerate((height, width)):
            inner = np.unravel_index(np.arange(taps), kernel)[axis] * holes[axis]
            outer = np.arange(length) * strides[axis] - pads[axis][0]
            shape = [taps, length, 1] if axis == 0 else [taps, 1, length]
            base = known((inner[:, None] + outer[None, :]).reshape(shape), x.dtype)
            point = b.map("add", element(b, own, 2, axis), base)
            points.append(_near_image(Arithmetic(b, x), b.reshape(point, [batch, Size(taps * area)]), space[axis]))
        image = _flat(b, cut(b, x, 1, Size(owner * each), Size((owner + 1) * each)))
        part = sampled(b, image, space, points)
        if mask is not None:
            chosen = b.reshape(mask, [batch, Size(owners), Size(taps * area)])
            part = b.map("multiply", part, stretched(b, element(b, chosen, 1, owner), [2]))
        parts.append(b.reshape(part, [batch, Size(taps), Size(area), Size(each)]))
    columns = b.transpose(join(b, parts, 3), [0, 2, 1, 3])  # [batch, places, taps, channels]
    made = []
    for group in range(groups):
        column = cut(b, columns, 3, Size(group * inputs), Size((group + 1) * inputs))
        weight = cut(b, w, 0, Size(group * outputs // groups), Size((group + 1) * outputs // groups))
        rows = b.transpose(weight, [2, 3, 1, 0])
        matrix = b.reshape(rows, [Size(taps * inputs), Size(outputs // groups)])
        made.append(matmul(b, b.reshape(column, [batch, Size(area), Size(taps * inputs)]), matrix))
    whole = join(b, made, 2)
    whole = whole if bias is None else b.map("add", whole, bias)
    return b.transpose(b.reshape(whole, [batch, Size(height), Size(width), Size(outputs)]), [0, 3, 1, 2])


@operator("MaxUnpool")
def _max_unpool(call: Call) -> Value:
    b, x, places = call.builder, call.input(0), call.input(1)
    kernel, given = call.wholes("kernel_shape") or [], _space(call, x)
    strides, pads = call.wholes("strides") or [1] * len(kernel), call.wholes("pads") or [0] * (2 * len(kernel))
    shape = [
        (size - 1) * stride - pads[axis] - pads[axis + len(kernel)] + width
        for axis, (size, stride, width) in enumerate(zip(given, strides, kernel, strict=True))
    ]
    batch, channels, room = x.sizes[0], call.number(x.sizes[1], "its channels"), prod(shape)
    count = Size(channels * prod(given))
    inner = b.map("remainder", b.reshape(places, [batch, count]), b.constant(channels * room, "s64"))
    rows = b.iota("s64", [batch, count], 0)
    vectors = join(b, [stretched(b, each, [2]) for each in (rows, inner)], 2)
    number = Shape(x.dtype, ())
    region = b.region([number, number], lambda pair: [pair[1]])
    empty = b.spread(b.constant(0, x.dtype), [batch, Size(channels * room)])
    attributes = Scatter(indexed=(0, 1), vector=2, operand_batch=(), index_batch=(), inserted=(0, 1), window=())
    made = b.op("scatter", empty, vectors, b.reshape(x, [batch, count]), attributes=attributes, regions=[region])
    made = b.reshape(made, [batch, Size(channels), *map(Size, shape)])
    if call.maybe(2) is None:
        return made
    wanted = call.integers(2, "the sizes of its output")[2:]
    if any(new < old for new, old in zip(wanted, shape, strict=True)):
        raise call.fault("its output_shape is smaller than what its windows cover")
    edges = [(0, 0, 0), (0, 0, 0), *((0, new - old, 0) for new, old in zip(wanted, shape, strict=True))]
    return pad(b, made, edges, call.constant(0, x))
