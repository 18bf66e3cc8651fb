"""Convolutions over any number of axes, in any layout, and sums of windows: nested loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfaot_pkg.compiler.attributes import Along, Convolution, Resample
from tfaot_pkg.compiler.each import each_lane
from tfaot_pkg.compiler.elements import Place, Stored, Variable
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import C_TYPES
from tfaot_pkg.compiler.instructions import Accumulate, StoreLanes
from tfaot_pkg.compiler.loops import View
from tfaot_pkg.compiler.pieces import Entry, Loaded, Piece, Total, Unsigned
from tfaot_pkg.compiler.plain import address, counting, targets
from tfaot_pkg.compiler.program import ONE, Operation, Shape, Size, Unsupported
from tfaot_pkg.compiler.window_loops import store_totals, totals, window_loops


@dataclass(frozen=True, slots=True, kw_only=True)
class _Convolved:
    """The arrays of a convolution: their addresses, and their strides along batch, features (or filters), and places.

    `to` is the place of an output; `made` are the filters of a group, and `features` the features.
    """

    source: str
    filters: str
    target: str
    to: Place
    into: Sequence[Size]
    over: Sequence[Size]
    out: Sequence[Size]
    made: Size
    features: Size
    lengths: Sequence[Size]
    counters: Sequence[tuple[str, Size]]


def convolution(emitter: Emitter, operation: Operation) -> str:
    """Each output element adds up its window, feature by feature; the innermost loop is over a group's filters."""
    attributes, dtype = Convolution.of(operation), operation.shape.dtype
    array, kernel = (emitter.known[operand].shape for operand in operation.operands)
    if attributes.batch_groups != 1:
        raise Unsupported(f"a convolution with groups of the batch (node {operation.node!r})")
    if {array.dtype, kernel.dtype} != {dtype}:
        raise Unsupported(f"a convolution of several types (node {operation.node!r})")
    arrays = _convolved(emitter, operation)
    # Groups of one feature and one filter would leave nothing to the inner loop: features fill the vectors instead.
    is_of_vectors = dtype == "f32" and arrays.into[1] == arrays.over[0] == arrays.out[1] == ONE
    with counting(emitter, arrays.counters):
        if is_of_vectors and arrays.made == arrays.features == ONE:
            _depthwise(emitter, operation, arrays)
        else:
            _by_filters(emitter, operation, arrays)
    for pointer in (arrays.source, arrays.filters, arrays.target):
        emitter.touch(pointer)
    return arrays.target


def _convolved(emitter: Emitter, operation: Operation) -> _Convolved:
    attributes = Convolution.of(operation)
    array, kernel = (emitter.known[operand].shape for operand in operation.operands)
    source, filters = map(emitter.stored, operation.operands)
    (target,) = targets(emitter, operation)
    into, over, out = (
        [shape.strides[axis] for axis in axes]
        for shape, axes in (
            (array, attributes.input),
            (kernel, attributes.kernel),
            (operation.shape, attributes.output),
        )
    )
    sizes, groups = [operation.shape.sizes[axis] for axis in attributes.output], attributes.feature_groups
    made = _divided(sizes[1], groups)
    places = [(f"o{axis}", size) for axis, size in enumerate(sizes[2:])]
    steps = [("b", out[0]), *((f"o{axis}", stride) for axis, stride in enumerate(out[2:]))]
    return _Convolved(
        source=source, filters=filters, target=target,
        to=address(target, *steps, elements=made * Size(groups), stride=out[1]), into=into, over=over, out=out,
        made=made, features=kernel.sizes[attributes.kernel[1]],
        lengths=[array.sizes[axis] for axis in attributes.input[2:]], counters=[("b", sizes[0]), *places],
    )  # fmt: skip


def _by_filters(emitter: Emitter, operation: Operation, arrays: _Convolved) -> None:
    """Filters are contiguous in most models, so the innermost loop reads and writes neighbours."""
    attributes, dtype = Convolution.of(operation), operation.shape.dtype
    into, over, out, made, features = arrays.into, arrays.over, arrays.out, arrays.made, arrays.features
    x, is_filled = Variable("x"), dtype == "f32"
    each, fill = ("each", ("filled(", x, ")")) if is_filled else ("eachAlone", (x,))
    with counting(emitter, [("f", operation.shape.sizes[attributes.output[1]])]):
        to = replace(arrays.to, steps=(*arrays.to.steps, ("f", out[1])), elements=ONE, stride=ONE)
        emitter.store(Stored(to), "0")
    with (
        window_loops(emitter, attributes.window, arrays.lengths),
        counting(emitter, [("g", Size(attributes.feature_groups)), ("c", features)]),
    ):
        at = [(f"p{axis}", stride) for axis, stride in enumerate(into[2:])]
        read = address(arrays.source, ("b", into[0]), *at, ("c", into[1]), ("g", features * into[1]))
        emitter.declare("x", Stored(read), kind=f"const {C_TYPES[dtype]}")
        steps = [(f"k{axis}", stride) for axis, stride in enumerate(over[2:])]
        weights = address(arrays.filters, *steps, ("c", over[1]), ("g", made * over[0]), elements=made, stride=over[0])
        emitter.declare("weights_at", weights, kind="const auto* const")
        sums = replace(arrays.to, steps=(*arrays.to.steps, ("g", made * out[1])), elements=made)
        emitter.declare("sums", sums, kind="auto* const")
        with emitter.block(each_lane(each, made, "auto at")):
            loaded, old = Loaded(Place("weights_at"), (over[0],)), Loaded(Place("sums"), (out[1],))
            value = _added(dtype, fill, loaded, old)
            emitter.put(StoreLanes(to=Place("sums"), value=value, steps=(out[1],)))


def resample(emitter: Emitter, operation: Operation) -> str:
    """Each output pixel adds up its window, row by row; each lane has a channel."""
    image, weights, places = (emitter.stored(operand) for operand in operation.operands)
    target = emitter.target(operation)
    array, factors = (emitter.known[operand].shape for operand in operation.operands[:2])
    of_row, of_column, in_rows, in_columns = (factors.strides[axis] for axis in Resample.of(operation).axes)
    batch, rows, columns, channels = operation.shape.sizes
    sizes = [
        ("k0", factors.sizes[Resample.of(operation).axes[2]]),
        ("k1", factors.sizes[Resample.of(operation).axes[3]]),
    ]
    with counting(emitter, [("b", batch), ("o0", rows), ("o1", columns)]):
        starts, pixels = (
            address(places, elements=rows * columns),
            address(image, ("b", array.strides[0]), elements=array.strides[0]),
        )
        start = ("(", starts, ")[", Variable("o0"), " * ", columns, " + ", Variable("o1"), "]")
        emitter.declare("in", pixels, " + ", *start, kind="const float* const")
        steps = (("o0", of_row), ("o1", of_column))
        window = (sizes[0][1], sizes[1][1])
        emitter.add(View("in", (*array.strides[1:3], ONE), (*window, channels)))
        reach = (window[0] + Size(-1)) * in_rows + (window[1] + Size(-1)) * in_columns + ONE
        emitter.declare("weights_at", address(weights, *steps, elements=reach), kind="const float* const")
        out = zip(("b", "o0", "o1"), operation.shape.strides, strict=False)
        emitter.declare("row", address(target, *out, elements=channels), kind="float* const")
        with totals(emitter, channels, "0.0f", "at"):
            with counting(emitter, sizes):
                element = address("in", ("k0", array.strides[1]), ("k1", array.strides[2]), elements=channels)
                emitter.declare("element", element, kind="const float* const")
                weight = address("weights_at", ("k0", in_rows), ("k1", in_columns))
                emitter.declare("weight", "filled(", Stored(weight), ")", kind="const Vector")
                _add_weighed(emitter)
            store_totals(emitter, "at")
    for pointer in (image, weights, places, target):
        emitter.touch(pointer)
    return target


_UNROLLED = 4
"""Elements of a window of `interpolate` that are written out: a loop over two takes longer than the sum."""


def interpolate(emitter: Emitter, operation: Operation) -> str:
    """Each element along the axis adds up those at its places; each lane has an element of the axes behind."""
    source, weights, places = (emitter.stored(operand) for operand in operation.operands)
    target, axis = emitter.target(operation), Along.of(operation).axis
    array, (elements, count) = (
        emitter.known[operation.operands[0]].shape,
        emitter.known[operation.operands[1]].shape.sizes,
    )
    inner = array.strides[axis]
    before = Shape("f32", array.sizes[:axis]).elements
    with counting(emitter, [("b", before), ("o", elements)]):
        whole = array.sizes[axis] * inner
        emitter.declare("in", address(source, ("b", whole), elements=whole), kind="const float* const")
        emitter.declare("weights_at", address(weights, ("o", count), elements=count), kind="const float* const")
        emitter.declare("places_at", address(places, ("o", count), elements=count), kind="const std::int32_t* const")
        out = (("b", elements * inner), ("o", inner))
        emitter.declare("row", address(target, *out, elements=inner), kind="float* const")
        with totals(emitter, inner, "0.0f", "at"):
            if count.constant <= _UNROLLED:
                for number in range(count.constant):
                    with emitter.block():
                        _weighed(emitter, number, inner, array.sizes[axis])
            else:
                with counting(emitter, [("k", count)]):
                    _weighed(emitter, "k", inner, array.sizes[axis])
            store_totals(emitter, "at")
    for pointer in (source, weights, places, target):
        emitter.touch(pointer)
    return target


def _weighed(emitter: Emitter, number: str | int, inner: Size, size: Size) -> None:
    """Add the elements at a place, which is one of `size`."""
    place = Unsigned(Entry("places_at", number), size)
    emitter.declare("element", Variable("in"), " + ", place, " * ", inner, kind="const float* const")
    emitter.add(View("element", (ONE,), (inner,)))
    emitter.declare("weight", "filled(", Entry("weights_at", number), ")", kind="const Vector")
    _add_weighed(emitter)


def _add_weighed(emitter: Emitter) -> None:
    """Add elements, each multiplied by `weight`, to the totals of all lanes."""
    emitter.declare("total", Variable("totals"), kind="Vector*")
    product = ("multiplyAdd(", Loaded(Place("element")), ", ", Variable("weight"), ", ", Total(), ")")
    emitter.put(Accumulate(value=product))


def _depthwise(emitter: Emitter, operation: Operation, arrays: _Convolved) -> None:
    """One filter per feature, and contiguous features: each lane has one."""
    attributes, into, over = Convolution.of(operation), arrays.into, arrays.over
    emitter.declare("row", arrays.to, kind="float* const")
    size = operation.shape.sizes[attributes.output[1]]
    with totals(emitter, size, "0.0f"):
        with window_loops(emitter, attributes.window, arrays.lengths):
            at = [(f"p{axis}", stride) for axis, stride in enumerate(into[2:])]
            emitter.declare("in", address(arrays.source, ("b", into[0]), *at, elements=size), kind="const float* const")
            steps = [(f"k{axis}", stride) for axis, stride in enumerate(over[2:])]
            emitter.declare("weights_at", address(arrays.filters, *steps, elements=size), kind="const float* const")
            emitter.declare("total", Variable("totals"), kind="Vector*")
            one, other = (Loaded(Place(name), by="places") for name in ("in", "weights_at"))
            emitter.put(Accumulate(value=("multiplyAdd(", one, ", ", other, ", ", Total(), ")")))
        store_totals(emitter)


def _added(dtype: str, one: Sequence[Piece], other: Piece, total: Piece) -> tuple[Piece, ...]:
    """The C++ of `total` plus the product of two numbers: float32 is rounded once, integers wrap around."""
    if dtype == "f32":
        return ("multiplyAdd(", *one, ", ", other, ", ", total, ")")
    if dtype[0] == "f":
        return (total, " + ", *one, " * ", other)
    return ("sumOf(", total, ", productOf(", *one, ", ", other, "))")


def _divided(size: Size, by: int) -> Size:
    divided = size.divided(by)
    if divided is None:
        raise Unsupported("groups of different sizes")
    return divided
