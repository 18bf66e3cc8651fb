"""Operators that move, join and cut arrays."""

from __future__ import annotations

import numpy as np

from tfaot_pkg.compiler.program import ONE, ZERO, Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.elementwise import converted
from tfaot_pkg.frontends.aten_lowering.table import MINUS, Call, Results, axis_of, operator, promoted, sizes_value
from tfaot_pkg.frontends.lowering.folding import MOST_FOLDED
from tfaot_pkg.frontends.lowering.values import Value, known, product
from tfaot_pkg.frontends.onnx_lowering.indexing import take
from tfaot_pkg.frontends.onnx_lowering.moving import cut, join, reshaped, reverse, squeezed, stretched, tiled


@operator("view", "reshape", "_unsafe_view")
def _view(call: Call) -> Results:
    return reshaped(call.builder, call.value("self"), call.sizes("shape" if "reshape" in call.op else "size"))


@operator("expand")
def _expand(call: Call) -> Results:
    x, wanted = call.value("self"), call.sizes("size")
    lead = len(wanted) - x.rank
    # -1 keeps the size of an axis.
    sizes = [x.sizes[axis - lead] if size == MINUS else size for axis, size in enumerate(wanted)]
    return call.builder.spread(x, sizes)


@operator("permute")
def _permute(call: Call) -> Results:
    x = call.value("self")
    return call.builder.transpose(x, [axis_of(each, x.rank) for each in call.wholes("dims")])


@operator("transpose.int", "t", "numpy_T")
def _transpose(call: Call) -> Results:
    x = call.value("self")
    order = list(range(x.rank))
    if "transpose" in call.op:
        one, two = call.axis("dim0", x.rank), call.axis("dim1", x.rank)
        order[one], order[two] = order[two], order[one]
    else:
        order.reverse()
    return call.builder.transpose(x, order)


@operator("squeeze", "squeeze.dim", "squeeze.dims")
def _squeeze(call: Call) -> Results:
    x = call.value("self")
    axes = call.axes("dim", x.rank) if call.wholes("dim") else range(x.rank) if call.op.endswith("default") else ()
    # Axes of another size stay.
    return squeezed(call.builder, x, [axis for axis in axes if x.sizes[axis] == ONE])


@operator("unsqueeze")
def _unsqueeze(call: Call) -> Results:
    x = call.value("self")
    return stretched(call.builder, x, [call.axis("dim", x.rank + 1)])


@operator("flatten.using_ints")
def _flatten(call: Call) -> Results:
    x = call.value("self")
    first, last = call.axis("start_dim", x.rank, 0), call.axis("end_dim", x.rank, -1)
    return call.builder.reshape(x, [*x.sizes[:first], product(x.sizes[first : last + 1]), *x.sizes[last + 1 :]])


@operator("unflatten.int")
def _unflatten(call: Call) -> Results:
    x = call.value("self")
    axis = call.axis("dim", x.rank)
    return reshaped(call.builder, x, [*x.sizes[:axis], *call.sizes("sizes"), *x.sizes[axis + 1 :]])


@operator("cat", "stack")
def _cat(call: Call) -> Results:
    parts = call.values("tensors")
    # An array without elements and of one axis counts as nothing, whatever the others are.
    parts = [each for each in parts if each.sizes != (ZERO,)] or parts[:1]
    dtype = promoted(parts)
    parts = converted(call, parts, dtype)
    rank = parts[0].rank
    if "stack" in call.op:
        axis = call.axis("dim", rank + 1, 0)
        parts = [stretched(call.builder, each, [axis]) for each in parts]
    else:
        axis = call.axis("dim", rank, 0)
    return join(call.builder, parts, axis)


@operator("split.Tensor", "split_with_sizes", "chunk", "unbind.int")
def _split(call: Call) -> Results:
    b, x = call.builder, call.value("self")
    axis, size = call.axis("dim", x.rank, 0), x.sizes[call.axis("dim", x.rank, 0)]
    if "unbind" in call.op:
        parts = [cut(b, x, axis, Size(place), Size(place + 1)) for place in range(size.constant)]
        return tuple(squeezed(b, each, [axis]) for each in parts)
    if "split_with_sizes" in call.op:
        lengths = call.sizes("split_sizes")
    else:
        whole = call.number(size, "the size of the axis that it divides")
        part = call.whole("split_size") if "split" in call.op else -(-whole // call.whole("chunks"))
        lengths = [Size(min(part, whole - start)) for start in range(0, whole, part)]
    found, start = [], ZERO
    for length in lengths:
        found.append(cut(b, x, axis, start, start + length))
        start += length
    return tuple(found)


@operator("slice.Tensor", "narrow")
def _slice(call: Call) -> Results:
    x = call.value("self")
    axis = call.axis("dim", x.rank, 0)
    if "narrow" in call.op:
        return cut(call.builder, x, axis, call.size("start"), call.size("start") + call.size("length"))
    start = call.size("start") if call.has("start") else ZERO
    end = call.size("end") if call.has("end") else Size(2**63 - 1)
    vectors = [sizes_value([each]) for each in (start, end, Size(axis), Size(call.whole("step", 1)))]
    return call.onnx_one("Slice", x, *vectors)


@operator("slice_scatter")
def _slice_scatter(call: Call) -> Results:
    """`self` with `src` in place of a slice."""
    b, x, written = call.builder, call.value("self"), call.value("src")
    axis, step = call.axis("dim", x.rank, 0), call.whole("step", 1)
    ends = Size(2**63 - 1)
    start, end = (call.size(name) if call.has(name) else usual for name, usual in (("start", ZERO), ("end", ends)))
    if step != 1:
        size = call.number(x.sizes[axis], "the size of an axis that is written to in steps")
        first, last = (call.number(each, "where it is written to") for each in (start, end))
        places = np.arange(size)
        places[first:last:step] = size + np.arange(len(places[first:last:step]))
        return take(b, join(b, [x, written], axis), known(places, "s64"), axis)

    def part(first: Size, last: Size) -> Value:
        return call.onnx_one("Slice", x, *(sizes_value([each]) for each in (first, last, Size(axis), ONE)))

    return join(b, [part(ZERO, start), written, part(end, ends)], axis)


@operator("select_scatter")
def _select_scatter(call: Call) -> Results:
    """`self` with `src` in place of one element of an axis."""
    b, x, place = call.builder, call.value("self"), call.size("index")
    axis = call.axis("dim", x.rank)
    if b.ranges.most(place) < 0:
        place += x.sizes[axis]
    ends = [cut(b, x, axis, ZERO, place), cut(b, x, axis, place + ONE, x.sizes[axis])]
    return join(b, [ends[0], stretched(b, call.value("src"), [axis]), ends[1]], axis)


@operator("unfold")
def _unfold(call: Call) -> Results:
    """Windows of an axis; their elements are the last axis."""
    x, width, step = call.value("self"), call.whole("size"), call.whole("step")
    axis = call.axis("dimension", x.rank)
    size = call.number(x.sizes[axis], "the size of the axis that it cuts into windows")
    places = np.arange((size - width) // step + 1)[:, None] * step + np.arange(width)
    made = take(call.builder, x, known(places, "s64"), axis)
    order = [each for each in range(made.rank) if each != axis + 1]
    return call.builder.transpose(made, [*order, axis + 1])


@operator("diagonal")
def _diagonal(call: Call) -> Results:
    """Elements of two axes at equal places; the diagonal is the last axis."""
    b, x, offset = call.builder, call.value("self"), call.whole("offset", 0)
    one, two = call.axis("dim1", x.rank, 0), call.axis("dim2", x.rank, 1)
    others = [axis for axis in range(x.rank) if axis not in (one, two)]
    x = b.transpose(x, [*others, one, two])
    rows, columns = (call.number(size, "the sizes of the matrix") for size in x.sizes[-2:])
    places = np.diagonal(np.arange(rows * columns).reshape(rows, columns), offset)
    return take(b, b.reshape(x, [*x.sizes[:-2], Size(rows * columns)]), known(places, "s64"), len(others))


@operator("diagonal_scatter")
def _diagonal_scatter(call: Call) -> Results:
    """`self` with `src` in place of a diagonal."""
    b, x, offset = call.builder, call.value("self"), call.whole("offset", 0)
    one, two = call.axis("dim1", x.rank, 0), call.axis("dim2", x.rank, 1)
    order = [*(axis for axis in range(x.rank) if axis not in (one, two)), one, two]
    moved = b.transpose(x, order)
    rows, columns = (call.number(size, "the sizes of the matrix") for size in moved.sizes[-2:])
    places = np.arange(rows * columns)
    diagonal = np.diagonal(places.reshape(rows, columns), offset).copy()
    places[diagonal] = rows * columns + np.arange(len(diagonal))
    both = join(b, [b.reshape(moved, [*moved.sizes[:-2], Size(rows * columns)]), call.value("src")], x.rank - 2)
    made = b.reshape(take(b, both, known(places, "s64"), x.rank - 2), moved.sizes)
    return b.transpose(made, [order.index(axis) for axis in range(x.rank)])


@operator("select.int")
def _select(call: Call) -> Results:
    x = call.value("self")
    axis, place = call.axis("dim", x.rank), call.size("index")
    if call.builder.ranges.most(place) < 0:
        place += x.sizes[axis]
    return squeezed(call.builder, cut(call.builder, x, axis, place, place + ONE), [axis])


@operator("flip")
def _flip(call: Call) -> Results:
    x = call.value("self")
    axes = [axis_of(each, x.rank) for each in call.wholes("dims")]
    return reverse(call.builder, x, *axes) if axes else x


@operator("roll")
def _roll(call: Call) -> Results:
    b, x = call.builder, call.value("self")
    axes, shifts = call.wholes("dims"), call.sizes("shifts")
    if not axes:
        raise Unsupported("it rolls the flattened array: name the axes")
    for axis, shift in zip((axis_of(each, x.rank) for each in axes), shifts, strict=True):
        size = x.sizes[axis]
        number = call.number(shift, "how far it rolls")
        if size.is_constant:
            number %= max(size.constant, 1)
        start = size + Size(-number) if number >= 0 else Size(-number)
        x = join(b, [cut(b, x, axis, start, size), cut(b, x, axis, ZERO, start)], axis)
    return x


@operator("repeat", "tile")
def _repeat(call: Call) -> Results:
    x, repeats = call.value("self"), call.sizes("repeats" if "repeat" in call.op else "dims")
    repeats = [*[ONE] * (x.rank - len(repeats)), *repeats]
    x = call.builder.reshape(x, [*[ONE] * (len(repeats) - x.rank), *x.sizes])
    return tiled(call.builder, x, repeats)


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@operator("constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
          "replication_pad2d", "replication_pad3d")  # fmt: skip
def _pad(call: Call) -> Results:
    x, name = call.value("self"), call.op.split(".")[1]
    given = call.sizes("padding" if "_pad" in name and name != "constant_pad_nd" else "pad")
    mode = call.text("mode") if name == "pad" else ""
    mode = mode or ("reflect" if "reflection" in name else "replicate" if "replication" in name else "constant")
    if mode not in _MODES:
        raise Unsupported(f"its mode {mode!r}")
    lows, highs = [ZERO] * x.rank, [ZERO] * x.rank
    # Pairs are from the last axis on.
    for place in range(len(given) // 2):
        lows[x.rank - 1 - place], highs[x.rank - 1 - place] = given[2 * place], given[2 * place + 1]
    if mode == "constant":
        return _constant_pad(call, x, lows, highs)
    return call.onnx_one("Pad", x, sizes_value([*lows, *highs]), mode=_MODES[mode])


def _constant_pad(call: Call, x: Value, lows: list[Size], highs: list[Size]) -> Value:
    filler = call.builder.constant(call.real("value", 0.0), x.dtype)
    return call.onnx_one("Pad", x, sizes_value([*lows, *highs]), filler)


@operator("pixel_shuffle")
def _pixel_shuffle(call: Call) -> Results:
    return call.onnx_one("DepthToSpace", call.value("self"), blocksize=call.whole("upscale_factor"), mode="CRD")


@operator("tril_indices", "triu_indices")
def _triangle_indices(call: Call) -> Results:
    rows, columns, offset = call.whole("row"), call.whole("col"), call.whole("offset", 0)
    if min(rows, columns) < 0 or rows * columns > MOST_FOLDED:
        raise Unsupported(f"a triangle of {rows} rows and {columns} columns")
    found = (np.triu_indices if "triu" in call.op else np.tril_indices)(rows, offset, columns)
    return known(np.array(found), call.dtype() or "s64")


@operator("tril", "triu")
def _triangle(call: Call) -> Results:
    offset = call.builder.constant(call.whole("diagonal", 0), "s64")
    return call.onnx_one("Trilu", call.value("self"), offset, upper=1 if "triu" in call.op else 0)
