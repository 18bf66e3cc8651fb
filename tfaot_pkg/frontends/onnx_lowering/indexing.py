"""Operators that read and write elements by their indices, and that sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.attributes import Comparison, Dimensions, Gather, Scatter, TopK
from tfaot_pkg.compiler.program import ONE, ZERO, Shape, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known, number_of, product, sizes_of
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import cut, join
from tfaot_pkg.frontends.onnx_lowering.reductions import place_of_extreme
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator


def wrapped(b: Builder, indices: Value, size: Value) -> Value:
    """`indices`, of which negative ones count from the end of an axis of `size`."""
    numbers = indices.numbers
    if numbers is not None and (numbers >= 0).all():
        return indices
    is_negative = b.compare("LT", indices, b.constant(0, indices.dtype))
    return b.map("select", is_negative, b.map("add", indices, b.convert(size, indices.dtype)), indices)


def take(b: Builder, x: Value, indices: Value, axis: int) -> Value:
    """numpy.take along an axis, with indices from 0 on."""
    rank = indices.rank
    return b.op(
        "gather", x, indices,
        attributes=Gather(
            indexed=(axis,), vector=rank, operand_batch=(), index_batch=(), collapsed=(axis,),
            offset=(*range(axis), *range(axis + rank, x.rank + rank - 1)),
            sizes=tuple(1 if each == axis else plain(size) for each, size in enumerate(x.sizes)),
        ),
    )  # fmt: skip


def take_along(b: Builder, x: Value, indices: Value, axis: int) -> Value:
    """numpy.take_along_axis: `indices` has the sizes of `x` in all other axes."""
    others = tuple(each for each in range(x.rank) if each != axis)
    return b.op(
        "gather", x, indices,
        attributes=Gather(
            indexed=(axis,), vector=x.rank, operand_batch=others, index_batch=others, collapsed=(axis,), offset=(),
            sizes=(1,) * x.rank,
        ),
    )  # fmt: skip


@operator("Gather")
def _gather(call: Call) -> Value:
    b, x, indices = call.builder, call.input(0), call.input(1)
    axis = call.axis(call.whole("axis", 0), x.rank)
    size = x.sizes[axis]
    if indices.known is not None and indices.rank == 0:
        # A slice, so that the compiler may compute the elements of the slice alone.
        (place,) = sizes_of(indices, "the index")
        number = number_of(place)
        start = size + place if number is not None and number < 0 else place
        found = cut(b, x, axis, start, start + ONE)
        return b.reshape(found, [other for each, other in enumerate(found.sizes) if each != axis])
    return take(b, x, wrapped(b, indices, b.size(size)), axis)


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def _array_features(call: Call) -> Value:
    """A vector counts as one row, as in ONNX Runtime."""
    b, x, indices = call.builder, call.input(0), call.input(1)
    x = x if x.rank != 1 else b.reshape(x, [ONE, *x.sizes])
    return take(b, x, b.reshape(indices, [product(indices.sizes)]), x.rank - 1)


@operator("GatherElements")
def _gather_elements(call: Call) -> Value:
    b, x, indices = call.builder, call.input(0), call.input(1)
    axis = call.axis(call.whole("axis", 0), x.rank)
    indices = wrapped(b, indices, b.size(x.sizes[axis]))
    for each, size in enumerate(indices.sizes):
        if each != axis:  # other axes of `indices` may be shorter
            x = cut(b, x, each, ZERO, size)
    return take_along(b, x, indices, axis)


def _vectors(b: Builder, indices: Value, sizes: Sequence[Size]) -> Value:
    """Vectors of indices along the last axis, of which negative ones count from the end of axes of `sizes`."""
    array = np.empty(len(sizes), object)
    array[:] = list(sizes)
    return wrapped(b, indices, known(array, "s64"))


@operator("GatherND")
def _gather_nd(call: Call) -> Value:
    b, x, indices = call.builder, call.input(0), call.input(1)
    batch, depth = call.whole("batch_dims", 0), call.number(indices.sizes[-1], "the size of its indices")
    axes, shared = tuple(range(batch, batch + depth)), tuple(range(batch))
    rank = indices.rank - 1 + x.rank - batch - depth
    return b.op(
        "gather", x, _vectors(b, indices, x.sizes[batch : batch + depth]),
        attributes=Gather(
            indexed=axes, vector=indices.rank - 1, operand_batch=shared, index_batch=shared, collapsed=axes,
            offset=tuple(range(indices.rank - 1, rank)),
            sizes=tuple(1 if each < batch + depth else plain(size) for each, size in enumerate(x.sizes)),
        ),
    )  # fmt: skip


_COMBINING = {"none": "", "": "", "add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}


def _combining(call: Call, x: Value) -> Callable[[Sequence[Value]], list[Value]]:
    name = call.text("reduction", "none")
    if name not in _COMBINING:
        raise call.fault(f"its reduction {name!r}")
    opcode = _COMBINING[name]
    if x.dtype == "pred":
        opcode = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}.get(opcode, opcode)
    return lambda pair: [call.builder.op(opcode, *pair) if opcode else pair[1]]


def _scattered(call: Call, x: Value, indices: Value, updates: Value, attributes: Scatter) -> Value:
    number = Shape(x.dtype, ())
    region = call.builder.region([number, number], _combining(call, x))
    return call.builder.op("scatter", x, indices, updates, attributes=attributes, regions=[region])


@operator("ScatterND")
def _scatter_nd(call: Call) -> Value:
    x, indices, updates = call.input(0), call.input(1), call.input(2)
    depth = call.number(indices.sizes[-1], "the size of its indices")
    axes = tuple(range(depth))
    vectors = _vectors(call.builder, indices, x.sizes[:depth])
    attributes = Scatter(
        indexed=axes, vector=indices.rank - 1, operand_batch=(), index_batch=(), inserted=axes,
        window=tuple(range(indices.rank - 1, updates.rank)),
    )  # fmt: skip
    return _scattered(call, x, vectors, updates, attributes)


@operator("Scatter", "ScatterElements")
def _scatter_elements(call: Call) -> Value:
    b, x, indices, updates = call.builder, call.input(0), call.input(1), call.input(2)
    axis = call.axis(call.whole("axis", 0), x.rank)
    indices = wrapped(b, indices, b.size(x.sizes[axis]))
    # The place of each element of `indices` itself, except along the axis.
    sizes = (*indices.sizes, ONE)
    places = [
        b.reshape(indices if each == axis else b.iota(indices.dtype, indices.sizes, each), sizes)
        for each in range(x.rank)
    ]
    every = tuple(range(x.rank))
    attributes = Scatter(
        indexed=every, vector=x.rank, operand_batch=(), index_batch=(), inserted=every, window=()
    )  # fmt: skip
    return _scattered(call, x, join(b, places, x.rank), updates, attributes)


@operator("TensorScatter")
def _tensor_scatter(call: Call) -> Value:
    """Each row's update at the row's own position of the axis: each position takes one of both arrays."""
    b, past, update, starts = call.builder, call.input(0), call.input(1), call.maybe(2)
    axis = call.axis(call.whole("axis", -2), past.rank)
    room, count, rows = past.sizes[axis], update.sizes[axis], past.sizes[0]
    places = b.iota("s64", [rows, room], 1)
    a = Arithmetic(b, places)
    if starts is not None:
        places = a.sub(places, b.reshape(b.convert(starts, "s64"), [rows, ONE]))
    if call.text("mode", "linear") == "circular":
        wide = b.size(room)
        places = a.where(a.compare("LT", places, 0), a.add(places, wide), places)
    inside = b.map("and", a.compare("GE", places, 0), a.compare("LT", places, b.size(count)))
    taken = a.where(inside, places, 0)
    shape = [ONE] * past.rank
    shape[0], shape[axis] = rows, room
    sizes = [*past.sizes]
    found = take_along(b, update, b.spread(b.reshape(taken, shape), sizes), axis)
    return b.map("select", b.reshape(inside, shape), found, past)


@operator("ReverseSequence")
def _reverse_sequence(call: Call) -> Value:
    return reversed_rows(
        call.builder, call.input(0), call.input(1), call.whole("time_axis", 0), call.whole("batch_axis", 1)
    )


def reversed_rows(b: Builder, x: Value, lengths: Value, time: int, batch: int) -> Value:
    """`x` with the first `lengths[i]` steps of row i in reverse order."""
    rank = x.rank
    place = b.iota("s64", x.sizes, time)
    a = Arithmetic(b, place)
    wide = [ONE] * rank
    wide[batch] = x.sizes[batch]
    length = b.reshape(b.convert(lengths, "s64"), wide)
    back = a.sub(a.sub(length, 1), place)
    return take_along(b, x, a.where(a.compare("LT", place, length), back, place), time)


# -- order ---------------------------------------------------------------------------------------------------------


@operator("TopK")
def _top_k(call: Call) -> tuple[Value, Value]:
    b, x = call.builder, call.input(0)
    axis = call.axis(call.whole("axis", -1), x.rank)
    number = (
        Size(call.whole("k")) if call.maybe(1) is None else call.sizes(1, "the number of elements that it takes")[0]
    )
    order = [*(each for each in range(x.rank) if each != axis), axis]
    values = b.transpose(x, order)
    if x.is_float:
        # For ONNX Runtime, NaN of both signs is the largest number.
        values = b.op("one-nan", values) if b.layers else (
            Arithmetic(b, values).where(b.compare("NE", values, values), float("nan"), values)
        )  # fmt: skip
    largest = bool(call.whole("largest", 1))
    if x.dtype == "f32" and b.layers:
        attributes = TopK(k=plain(number), largest=largest, zeros="equal")
        found, places = b.ops("top_k", values, attributes=attributes)
    else:
        found, places = (cut(b, each, x.rank - 1, ZERO, number) for each in in_order(b, values, largest=largest))
    back = [order.index(each) for each in range(x.rank)]
    return b.transpose(found, back), b.convert(b.transpose(places, back), "s64")


def in_order(b: Builder, x: Value, *, largest: bool) -> tuple[Value, Value]:
    """`x` sorted along its last axis, and the places of its elements; of equal ones the first comes first."""
    places = b.iota("s32", x.sizes, x.rank - 1)
    numbers = [Shape(dtype, ()) for dtype in (x.dtype, x.dtype, "s32", "s32")]
    direction = "GT" if largest else "LT"
    order = "TOTALORDER" if x.is_float else ""
    region = b.region(
        numbers,
        lambda four: [b.op("compare", *four[:2], attributes=Comparison(direction=direction, order=order))],
    )
    axis = Dimensions(dimensions=(x.rank - 1,))
    # 0.0 and -0.0 are equal; their own signs are taken from `x` again.
    keys = Arithmetic(b, x).where(b.compare("EQ", x, b.constant(0, x.dtype)), 0, x) if x.is_float else x
    found, where = b.ops("sort", keys, places, attributes=axis, regions=[region])
    return take_along(b, x, where, x.rank - 1) if x.is_float else found, where


@operator("Hardmax")
def _hardmax(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    axis = call.axis(call.whole("axis", -1 if call.version >= 13 else 1), x.rank)
    sizes = x.sizes
    if call.version < 13:  # up to opset 12, all axes from `axis` on count as one
        x = b.reshape(x, [*sizes[:axis], product(sizes[axis:])])
    found = place_of_extreme(b, x, axis, largest=True)
    wide = b.reshape(found, [ONE if each == axis else size for each, size in enumerate(x.sizes)])
    hit = b.compare("EQ", wide, b.iota("s64", x.sizes, axis))
    return b.reshape(b.convert(hit, x.dtype), sizes)
