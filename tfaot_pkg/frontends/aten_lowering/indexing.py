"""Operators that read and write elements by their indices, that sort, and that search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.attributes import Gather, Scatter
from tfaot_pkg.compiler.program import ONE, ZERO, Shape, Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.document import Reference
from tfaot_pkg.frontends.aten_lowering.elementwise import converted, floor_of_integers, operand
from tfaot_pkg.frontends.aten_lowering.table import MINUS, Call, Resolved, Results, operator, sizes_value
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Undecided, Value, product
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic, cast
from tfaot_pkg.frontends.onnx_lowering.indexing import take, wrapped
from tfaot_pkg.frontends.onnx_lowering.moving import cut, join, squeezed, stretched
from tfaot_pkg.frontends.onnx_lowering.products import dot
from tfaot_pkg.frontends.onnx_lowering.reductions import extreme, maximum, mean, running, total


@operator("index_select")
def _index_select(call: Call) -> Results:
    x, index, b = call.value("self"), call.value("index"), call.builder
    axis = call.axis("dim", x.rank)
    return take(b, x, wrapped(b, index, b.size(x.sizes[axis])), axis)


@operator("embedding")
def _embedding(call: Call) -> Results:
    return take(call.builder, call.value("weight"), call.value("indices"), 0)


@operator("gather")
def _gather(call: Call) -> Results:
    x = call.value("self")
    return call.onnx_one("GatherElements", x, call.value("index"), axis=call.axis("dim", x.rank))


# -- x[i, j] -------------------------------------------------------------------------------------------------------


def _indices(call: Call, x: Value) -> tuple[list[int], list[Value]]:
    """The axes that have indices, and these, in one shape."""
    b, axes, found = call.builder, [], []
    for axis, each in enumerate(call.optional_values("indices")):
        if each is None:
            continue
        if each.dtype == "pred":
            raise Unsupported(
                "a mask as an index: the number of its results depends on the values of the model's inputs; use "
                "torch.where"
            )
        axes.append(axis)
        found.append(wrapped(b, b.convert(each, "s64"), b.size(x.sizes[axis])))
    if not axes:
        raise Unsupported("it has no indices")
    sizes = b.together(*found)
    return axes, [b.spread(each, sizes) for each in found]


def _are_adjacent(axes: Sequence[int]) -> bool:
    return list(axes) == list(range(axes[0], axes[0] + len(axes)))


def _vectors(b: Builder, found: Sequence[Value]) -> Value:
    return join(b, [stretched(b, each, [each.rank]) for each in found], found[0].rank)


@operator("index.Tensor", "_unsafe_index.Tensor")
def _index(call: Call) -> Results:
    b, x = call.builder, call.value("self")
    axes, found = _indices(call, x)
    if len(axes) == 1:
        return take(b, x, found[0], axes[0])
    rank, first = found[0].rank, axes[0] if _are_adjacent(axes) else 0
    others = [axis for axis in range(x.rank) if axis not in axes]
    before = sum(axis < first for axis in others)
    offset = (*range(before), *range(before + rank, len(others) + rank))
    attributes = Gather(
        indexed=tuple(axes), vector=rank, operand_batch=(), index_batch=(), collapsed=tuple(axes), offset=offset,
        sizes=tuple(1 if axis in axes else plain(size) for axis, size in enumerate(x.sizes)),
    )  # fmt: skip
    return b.op("gather", x, _vectors(b, found), attributes=attributes)


@operator("index_put", "_unsafe_index_put")
def _index_put(call: Call) -> Results:
    b, x = call.builder, call.value("self")
    axes, found = _indices(call, x)
    rank, first = found[0].rank, axes[0] if _are_adjacent(axes) else 0
    others = [axis for axis in range(x.rank) if axis not in axes]
    before = sum(axis < first for axis in others)
    window = (*range(before), *range(before + rank, len(others) + rank))
    sizes = [x.sizes[axis] for axis in others]
    sizes[before:before] = found[0].sizes
    updates = b.spread(cast(b, call.value("values"), x.dtype), sizes)
    attributes = Scatter(
        indexed=tuple(axes), vector=rank, operand_batch=(), index_batch=(), inserted=tuple(axes), window=window
    )
    return scattered(b, x, _vectors(b, found), updates, attributes, "add" if call.flag("accumulate") else "")


@operator("index_add")
def _index_add(call: Call) -> Results:
    b, x = call.builder, call.value("self")
    axis, source, alpha = call.axis("dim", x.rank), call.value("source"), call.real("alpha", 1)
    index = wrapped(b, call.value("index"), b.size(x.sizes[axis]))
    source = source if alpha == 1 else b.map("multiply", source, b.constant(alpha, source.dtype))
    attributes = Scatter(
        indexed=(axis,), vector=index.rank, operand_batch=(), index_batch=(), inserted=(axis,),
        window=tuple(each for each in range(x.rank) if each != axis),
    )  # fmt: skip
    return scattered(b, x, stretched(b, index, [index.rank]), source, attributes, "add")


def scattered(b: Builder, x: Value, indices: Value, updates: Value, attributes: Scatter, opcode: str) -> Value:
    """`updates` written to places of `x`, or combined with them by `opcode`."""
    if x.dtype == "pred" and opcode:
        opcode = "or"
    number = Shape(x.dtype, ())
    region = b.region([number, number], lambda pair: [b.op(opcode, *pair) if opcode else pair[1]])
    return b.op("scatter", x, indices, updates, attributes=attributes, regions=[region])


_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min", "": "none"}


@operator("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add")
def _scatter(call: Call) -> Results:
    x = call.value("self")
    kind = "add" if "scatter_add" in call.op else _REDUCTIONS.get(call.text("reduce"))
    if kind is None:
        raise Unsupported(f"its reduction {call.text('reduce')!r}")
    return _by_element(call, x, _source(call, x), kind)


def _source(call: Call, x: Value) -> Value:
    """What is written: an array of the sizes of the indices, which are the first elements of a larger one."""
    b, index = call.builder, call.value("index")
    if call.has("value"):
        (value,) = converted(call, [operand(call, "value")], x.dtype)
        return b.spread(value, index.sizes)
    source = call.value("src")
    for axis, size in enumerate(index.sizes):
        source = cut(b, source, axis, ZERO, size)
    return source


def _by_element(call: Call, x: Value, source: Value, kind: str, index: Value | None = None) -> Value:
    axis, index = call.axis("dim", max(x.rank, 1)), call.value("index") if index is None else index
    return call.onnx_one("ScatterElements", x, index, source, axis=axis, reduction=kind)


@operator("scatter_reduce.two", "index_reduce")
def _scatter_reduce(call: Call) -> Results:
    b, x = call.builder, call.value("self")
    name, index = call.text("reduce"), call.value("index")
    if "index_reduce" in call.op:
        # Each index is that of a whole slice.
        source, axis = call.value("source"), call.axis("dim", x.rank)
        index = b.spread(index, source.sizes, [axis])
    else:
        source = _source(call, x)
    a = Arithmetic(b, x)
    starts = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": extreme(x.dtype, largest=True),
              "amin": extreme(x.dtype, largest=False)}  # fmt: skip
    if name not in starts:
        raise Unsupported(f"its reduction {name!r}")
    if not call.flag("include_self"):
        # Places that are written begin anew.
        x = _by_element(call, x, b.spread(b.constant(starts[name], x.dtype), source.sizes), "none", index)
    made = _by_element(call, x, source, "add" if name == "mean" else _REDUCTIONS[name], index)
    if name != "mean":
        return made
    ones = b.spread(b.constant(1, x.dtype), x.sizes)
    if not call.flag("include_self"):
        ones = _by_element(call, ones, b.spread(b.constant(0, x.dtype), source.sizes), "none", index)
    count = _by_element(call, ones, b.spread(b.constant(1, x.dtype), source.sizes), "add", index)
    return a.div(made, count) if x.is_float else floor_of_integers(b, made, count)


@operator("masked_scatter")
def _masked_scatter(call: Call) -> Results:
    """`self` with the first elements of `source`, one after the other, where the mask is true."""
    b, x = call.builder, call.value("self")
    mask = call.value("mask")
    x, mask = (b.spread(each, b.together(x, mask)) for each in (x, mask))
    count = product(x.sizes)
    counted = b.convert(b.reshape(mask, [count]), "s64")
    number = running(b, counted, 0, "add", 0)
    source = call.value("source")
    source = b.reshape(source, [product(source.sizes)])
    first = b.constant(0, "s64")
    place = b.map("maximum", b.map("add", number, b.constant(-1, "s64")), first)
    place = b.map("minimum", place, b.size(source.sizes[0] + MINUS))
    return Arithmetic(b, x).where(mask, b.reshape(take(b, source, place, 0), x.sizes), x)


# -- bags of embeddings --------------------------------------------------------------------------------------------


@operator("embedding_bag.padding_idx")
def _embedding_bag(call: Call) -> Results:
    """The sums, means (1) or maxima (2) of the rows of bags; the other results are for training."""
    b, weight, indices = call.builder, call.value("weight"), call.value("indices")
    mode, offsets = call.whole("mode", 0), call.value("offsets")
    count = offsets.sizes[0] + Size(-1 if call.flag("include_last_offset") else 0)
    weights, padding = call.maybe("per_sample_weights"), call.whole("padding_idx", -1)
    is_row = None if padding < 0 else b.compare("NE", indices, b.constant(padding, indices.dtype))
    each = _equal_bags(call, count, indices.sizes[0])
    if each is None:
        inside = _membership(call, offsets, count, indices.sizes[0])
        made = _of_membership(b, take(b, weight, indices, 0), inside, is_row, weights, mode)
        return made, None, None, None
    shape = [count, each]
    rows = take(b, weight, b.reshape(indices, shape), 0)
    a = Arithmetic(b, rows)
    if weights is not None:
        rows = a.mul(rows, b.reshape(weights, [*shape, ONE]))
    if is_row is None:
        return (maximum if mode == 2 else mean if mode == 1 else total)(b, rows, [1], keep=False), None, None, None
    mask = b.reshape(is_row, [*shape, ONE])
    if mode == 2:
        most = maximum(b, a.where(mask, rows, -math.inf), [1], keep=False)
        return a.where(a.compare("EQ", most, -math.inf), 0, most), None, None, None
    sums = total(b, a.where(mask, rows, 0), [1], keep=False)
    return (sums if mode == 0 else a.div(sums, _filled(b, mask, sums.dtype))), None, None, None


def _filled(b: Builder, mask: Value, dtype: str) -> Value:
    """How many elements of each bag count, and 1 for an empty one."""
    count = total(b, b.convert(mask, dtype), [1], keep=False)
    return Arithmetic(b, count).max(count, 1)


def _equal_bags(call: Call, bags: Size, elements: Size) -> Size | None:
    """The number of elements of every bag, if offsets are those of rows of a matrix: 0, n, 2n ..."""
    reference = call.node.arguments["offsets"]
    origin = call.origins.get(reference.name) if isinstance(reference, Reference) else None
    if origin is None or not origin.op.startswith("aten.arange") or call.flag("include_last_offset"):
        return None
    start = origin.size("start") if origin.has("start") else ZERO
    step = origin.size("step") if origin.has("step") else ONE
    try:
        each = call.builder.ranges.divide(elements, bags)
    except Undecided:
        return None
    return each if start == ZERO and step == each else None


def _membership(call: Call, offsets: Value, count: Size, elements: Size) -> Value:
    """[bags, elements]: whether an element is in a bag."""
    b = call.builder
    places = b.iota("s64", [count, elements], 1)
    first = b.reshape(b.convert(cut(b, offsets, 0, ZERO, count), "s64"), [count, ONE])
    end = b.reshape(b.size(elements), [ONE])
    if call.flag("include_last_offset"):
        last = cut(b, b.convert(offsets, "s64"), 0, ONE, offsets.sizes[0])
    else:
        last = join(b, [cut(b, b.convert(offsets, "s64"), 0, ONE, count), end], 0)
    after = b.reshape(last, [count, ONE])
    return b.map("and", b.compare("GE", places, first), b.compare("LT", places, after))


def _of_membership(
    b: Builder, rows: Value, inside: Value, is_row: Value | None, weights: Value | None, mode: int
) -> Value:
    a = Arithmetic(b, rows)
    if is_row is not None:
        inside = b.map("and", inside, is_row)
    if mode == 2:
        wide = a.where(stretched(b, inside, [2]), rows, -math.inf)
        most = maximum(b, wide, [1], keep=False)
        return a.where(a.compare("EQ", most, -math.inf), 0, most)
    if weights is not None:
        rows = a.mul(rows, stretched(b, weights, [1]))
    sums = dot(b, b.convert(inside, rows.dtype), rows, ([1], [0]))
    return sums if mode == 0 else a.div(sums, stretched(b, _filled(b, inside, rows.dtype), [1]))


# -- order ---------------------------------------------------------------------------------------------------------


@operator("topk")
def _topk(call: Call) -> Results:
    return _ordered(call, call.size("k"), largest=call.get("largest") is not False)


@operator("sort", "sort.stable")
def _sort(call: Call) -> Results:
    x = call.value("self")
    size = x.sizes[call.axis("dim", x.rank, -1)] if x.rank else ONE
    return _ordered(call, size, largest=call.flag("descending"))


@operator("kthvalue")
def _kth_value(call: Call) -> Results:
    b, x, count = call.builder, call.value("self"), call.size("k")
    axis, ordered = call.axis("dim", x.rank, -1), _ordered(call, count, largest=False)
    assert isinstance(ordered, tuple)
    found = (cut(b, each, axis, count + MINUS, count) for each in ordered if isinstance(each, Value))
    return tuple(each if call.flag("keepdim") else squeezed(b, each, [axis]) for each in found)


@operator("nanmedian.dim")
def _nan_median(call: Call) -> Results:
    """The lower one of the two in the middle of what is no NaN, which comes last in the order."""
    b, x = call.builder, call.value("self")
    axis = call.axis("dim", x.rank)
    ordered = _ordered(call, x.sizes[axis], largest=False)
    assert isinstance(ordered, tuple)
    count = total(b, b.convert(b.compare("EQ", x, x), "s64"), [axis], keep=True)
    middle = b.map("divide", b.map("maximum", b.map("add", count, b.constant(-1, "s64")), b.constant(0, "s64")),
                   b.constant(2, "s64"))  # fmt: skip
    found = (call.onnx_one("GatherElements", each, middle, axis=axis) for each in ordered if isinstance(each, Value))
    return tuple(each if call.flag("keepdim") else squeezed(b, each, [axis]) for each in found)


@operator("median", "nanmedian")
def _median_of_all(call: Call) -> Results:
    x = call.value("self")
    flat = call.builder.reshape(x, [product(x.sizes)])
    arguments: dict[str, Resolved] = {"self": flat, "dim": 0, "keepdim": False}
    of_axis = replace(call, arguments=arguments, used=frozenset((0, 1)))
    found = _nan_median(of_axis) if "nan" in call.op else _median(of_axis)
    assert isinstance(found, tuple)
    return found[0]


@operator("median.dim")
def _median(call: Call) -> Results:
    """The lower one of two; NaN if there is one."""
    b, x = call.builder, call.value("self")
    axis, size = call.axis("dim", x.rank), x.sizes[call.axis("dim", x.rank)]
    middle = b.op("divide", b.size(size + MINUS), b.constant(2, "s64"))
    ordered = _ordered(call, size, largest=False)
    assert isinstance(ordered, tuple) and all(isinstance(each, Value) for each in ordered)
    values, places = (take(b, each, middle, axis) for each in ordered if isinstance(each, Value))
    if x.is_float:
        is_nan = b.compare("NE", x, x)
        values = Arithmetic(b, x).where(b.reduce("or", is_nan, [axis], 0), math.nan, values)
    return tuple(stretched(b, each, [axis]) if call.flag("keepdim") else each for each in (values, places))


def _ordered(call: Call, count: Size, *, largest: bool) -> Results:
    """Values and places; of equal elements the first comes first."""
    x = call.value("self")
    axis = call.axis("dim", x.rank, -1)
    given = call.builder.convert(x, "s32") if x.dtype == "pred" else x
    found, places = call.onnx("TopK", given, sizes_value([count]), axis=axis, largest=int(largest))
    return cast(call.builder, found, x.dtype) if found is not None else None, places


@operator("bucketize.Tensor", "bucketize.Scalar", "searchsorted.Tensor", "searchsorted.Scalar")
def _search(call: Call) -> Results:
    """How many limits are below each number, or, to the right, not above it."""
    b = call.builder
    is_buckets = "bucketize" in call.op
    limits = call.value("boundaries" if is_buckets else "sorted_sequence")
    if call.has("sorter"):
        raise Unsupported("its limits are in the order of a sorter: sort them before")
    given = call.value("self")
    to_right = call.flag("right") or call.text("side") == "right"
    # [..., limits] and [..., numbers] become [..., numbers, limits]; limits of one axis are for all numbers.
    wide = stretched(b, given, [given.rank])
    if limits.rank > 1:
        limits = stretched(b, limits, [limits.rank - 1])
    dtype = "f64" if limits.is_float != given.is_float else None
    limits, wide = (each if dtype is None else b.convert(each, dtype) for each in (limits, wide))
    # So that NaN comes behind all limits.
    above = b.compare("GT" if to_right else "GE", limits, wide)
    below = b.op("not", above)
    if limits.is_float and (limits.numbers is None or np.isnan(limits.numbers).any()):
        # NaN among the limits is behind all numbers.
        below = b.map("and", below, b.map("or", b.compare("EQ", limits, limits), b.compare("NE", wide, wide)))
    counted = b.convert(below, "s32")
    found = total(b, counted, [counted.rank - 1], keep=False)
    return b.convert(found, "s32" if call.flag("out_int32") else "s64")


@operator("one_hot")
def _one_hot(call: Call) -> Results:
    x, classes = call.value("self"), call.whole("num_classes", -1)
    if classes < 0:
        raise Unsupported("the number of classes depends on the values of the model's inputs: give it")
    b, wide = call.builder, stretched(call.builder, x, [x.rank])
    numbers = b.reshape(b.iota("s64", [Size(classes)], 0), [*[ONE] * x.rank, Size(classes)])
    return b.convert(b.compare("EQ", wide, numbers), "s64")


@operator("histc")
def _histogram(call: Call) -> Results:
    """How many numbers are in each of equal parts of a range, the last with its end; others count nowhere."""
    b, x, bins = call.builder, call.value("self"), call.whole("bins", 100)
    low, high = call.real("min", 0), call.real("max", 0)
    if low >= high:
        raise Unsupported("its range is that of the model's inputs: give it min and max")
    a = Arithmetic(b, flat := b.reshape(x, [product(x.sizes)]))
    place = a.unary("floor", a.div(a.mul(a.sub(flat, low), bins), high - low))
    place = a.where(b.map("and", a.compare("GE", flat, low), a.compare("LE", flat, high)), a.min(place, bins - 1), -1)
    part = b.convert(b.iota("s32", [Size(bins), ONE], 0), x.dtype)
    return total(b, b.convert(b.compare("EQ", part, stretched(b, place, [0])), x.dtype), [1], keep=False)
