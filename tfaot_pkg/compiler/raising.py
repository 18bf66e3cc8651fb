"""Rules that raise operations to layers of the kernel library (operations.py has these), which passes.py applies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import (
    Along,
    Comparison,
    Constant,
    Conv2d,
    Conv2dMaxPool,
    Dense,
    Dimensions,
    Dot,
    Element,
    Gather,
    Indexed,
    MaxPool,
    Resample,
    Slices,
    TopK,
    Windows,
    in_total_order,
    numbers,
)
from tfaot_pkg.compiler.convolutions import window_of
from tfaot_pkg.compiler.program import (
    NO_ATTRIBUTES,
    Attributes,
    Operation,
    Region,
    Shape,
    Size,
    reducer,
    used,
)
from tfaot_pkg.compiler.use_def import Look


def resample(look: Look, operation: Operation) -> Operation | None:
    """TensorFlow's resizing of images: a window for each pixel of the output, gathered, times the pixel's weights."""
    # As a gather and a product for each pixel, bilinear resizing took nearly four times XLA's time (decision 069).
    if operation.opcode != "transpose" or Dimensions.of(operation).dimensions != (2, 0, 1, 3):
        return None
    dot = look.made_by(operation.operands[0], "dot", once=True)
    gather = look.made_by(dot.operands[1], "gather", once=True) if dot else None
    if dot is None or gather is None or dot.shape.dtype != "f32":
        return None
    (of_weights, over), (left, right) = Dot.of(dot).batch, Dot.of(dot).contracting
    weights, image = (look.known[value].shape for value in (dot.operands[0], gather.operands[0]))
    starts = look.constant(gather.operands[1])
    if over != (4, 5) or sorted(right) != [1, 2] or weights.rank != 4 or image.rank != 4 or starts is None:
        return None
    if Indexed.of(gather).indexed != (1, 2) or Gather.of(gather).offset != (0, 1, 2, 3) or starts.ndim != 3:
        return None
    sizes = tuple(as_size(size) for size in Gather.of(gather).sizes)
    if Indexed.of(gather).vector != 2 or (sizes[0], sizes[3]) != (image.sizes[0], image.sizes[3]):
        return None
    if not all(size.is_constant for size in (*image.sizes[1:], *sizes[1:])):
        return None
    height, width, channels = (size.constant for size in image.sizes[1:])
    # HLO's gather clamps starts so that windows lie inside the image.
    most = np.array([height - sizes[1].constant, width - sizes[2].constant])
    begin = np.clip(starts.astype(np.int64), 0, most)
    places = ((begin[..., 0] * width + begin[..., 1]) * channels).astype(np.int32)
    return replace(
        operation, opcode="resample",
        operands=(gather.operands[0], dot.operands[0], look.add_constant(places, operation)),
        attributes=Resample(axes=(*of_weights, left[right.index(1)], left[right.index(2)])),
    )  # fmt: skip


def interpolated(look: Look, operation: Operation) -> Operation | None:
    """A sum of elements that are gathered along an axis by constant places, each times its weight."""
    if operation.opcode != "reduce" or isinstance(operation.type, tuple) or operation.shape.dtype != "f32":
        return None
    axis, product = (
        Dimensions.of(operation).dimensions[0] - 1,
        look.made_by(operation.operands[0], "multiply", once=True),
    )
    if reducer(operation) != "add" or look.scalar(operation.operands[1]) != 0 or product is None or axis < 0:
        return None
    gather, spread = (look.known[value] for value in product.operands)
    if gather.opcode != "gather" or spread.opcode != "broadcast" or look.uses[gather.id] > 1:
        return None
    weights, starts, shape = look.constant(spread.operands[0]), look.constant(gather.operands[1]), product.shape
    along, source = (axis, axis + 1), look.known[gather.operands[0]].shape
    if Dimensions.of(spread).dimensions != along or len(Dimensions.of(operation).dimensions) > 1:
        return None
    given = Gather.of(gather)
    wanted = replace(
        given, indexed=(axis,), collapsed=(axis,), operand_batch=(), vector=2,
        offset=tuple(other for other in range(shape.rank) if other not in along),
    )  # fmt: skip
    if weights is None or starts is None or given != wanted:
        return None
    sizes = tuple(as_size(size) for size in Gather.of(gather).sizes)
    if sizes != (*source.sizes[:axis], Size(1), *source.sizes[axis + 1 :]) or not source.sizes[axis].is_constant:
        return None
    # HLO's gather clamps places so that they lie inside the array.
    places = np.clip(starts.reshape(weights.shape), 0, source.sizes[axis].constant - 1).astype(np.int32)
    return replace(
        operation, opcode="interpolate", attributes=Along(axis=axis), regions=(),
        operands=(gather.operands[0], spread.operands[0], look.add_constant(places, operation)),
    )  # fmt: skip


def dense(look: Look, operation: Operation) -> Operation | None:
    """A product with constant weights on either side. Other axes than the last one are transposed first."""
    if operation.opcode != "dot" or Dot.of(operation).batch != ((), ()):
        return None
    operands, contracting = operation.operands, Dot.of(operation).contracting
    is_left = look.constant(operands[1]) is None
    if is_left:
        operands, contracting = operands[::-1], contracting[::-1]
    (given, of_weights), (left, right) = operands, contracting
    weights, first = look.constant(of_weights), look.known[given].shape
    if weights is None or weights.dtype != np.float32 or not left or look.constant(given) is not None:
        return None
    free = [axis for axis in range(first.rank) if axis not in left]
    if not is_left and weights.ndim == 2 and left == (first.rank - 1,):
        return replace(operation, opcode="dense", attributes=Dense(weights_axis=right[0]))
    columns = [axis for axis in range(weights.ndim) if axis not in right]
    sizes = (math.prod(weights.shape[axis] for axis in axes) for axes in (right, columns))
    matrix = weights.transpose(*right, *columns).reshape(*sizes)
    rows, inner = [first.sizes[axis] for axis in free], [first.sizes[axis] for axis in left]
    made = [Size(weights.shape[axis]) for axis in columns]

    def added(opcode: str, sizes: Sequence[Size], *of: int, attributes: Attributes = NO_ATTRIBUTES) -> int:
        shape = Shape("f32", tuple(sizes))
        return look.add(
            Operation(
                id=look.fresh(), opcode=opcode, type=shape, operands=of, attributes=attributes, node=operation.node
            )
        ).id  # fmt: skip

    if (*free, *left) != tuple(range(first.rank)):
        given = added("transpose", (*rows, *inner), given, attributes=Dimensions(dimensions=(*free, *left)))
    if len(left) > 1:
        given = added("reshape", (*rows, Size(matrix.shape[0])), given)
    layer = (given, look.add_constant(np.ascontiguousarray(matrix), operation))
    value = added("dense", (*rows, Size(matrix.shape[1])), *layer, attributes=Dense(weights_axis=0))
    if not is_left:
        return replace(operation, opcode="reshape", operands=(value,), attributes=NO_ATTRIBUTES)
    value = added("reshape", (*rows, *made), value)
    order = (*range(len(rows), operation.shape.rank), *range(len(rows)))
    return replace(operation, opcode="transpose", operands=(value,), attributes=Dimensions(dimensions=order))


def result_order(look: Look, operation: Operation) -> Operation | None:
    """A product that is transposed: written in that order if its columns stay innermost, or with operands exchanged."""
    # (A B) transposed is B' A': if the rows become innermost, they are the columns of the exchanged product.
    dot = look.made_by(operation.operands[0], "dot", once=True) if operation.opcode == "transpose" else None
    if dot is None or (given := Dot.of(dot)).order:
        return None
    shapes = [look.known[operand].shape for operand in dot.operands]
    contracting, batch = given.contracting, given.batch
    shared = len(batch[0])
    rows, columns = (shape.rank - shared - len(axes) for shape, axes in zip(shapes, contracting, strict=True))
    if any(shape.dtype != "f32" for shape in shapes) or any(size.grows for size in dot.shape.sizes[shared:]):
        return None
    order: tuple[int, ...] = Dimensions.of(operation).dimensions
    of_rows = range(shared, shared + rows)
    of_columns = range(shared + rows, shared + rows + columns)
    if columns and order[-columns:] == tuple(of_columns):
        return replace(dot, id=operation.id, type=operation.type, attributes=replace(given, order=order))
    if not rows or order[-rows:] != tuple(of_rows):
        return None
    place = {axis: number for number, axis in enumerate((*range(shared), *of_columns, *of_rows))}
    exchanged = replace(
        given, contracting=contracting[::-1], batch=batch[::-1], order=tuple(place[axis] for axis in order)
    )
    return replace(dot, id=operation.id, type=operation.type, operands=dot.operands[::-1], attributes=exchanged)


def max_pool(look: Look, operation: Operation) -> Operation | None:
    if operation.opcode != "reduce-window" or len(operation.operands) != 2:
        return None
    if operation.shape.rank != 4 or operation.shape.dtype != "f32":
        return None
    sides = Windows.of(operation).window
    # Windows over the batch or over channels are not those of image pooling.
    plain = all(tuple(sides[axis]) == (1, 1, 0, 0, 1, 1) for axis in (0, 3))
    if not plain or reducer(operation) != "maximum" or look.scalar(operation.operands[1]) != -np.inf:
        return None
    window = window_of(look.known[operation.operands[0]].shape, operation.shape, sides[1:3])
    known = None if window is None else numbers(window)
    if known is None:
        return None
    return replace(
        operation, opcode="max_pool", operands=operation.operands[:1], attributes=MaxPool(window=known), regions=()
    )


def pooled(look: Look, operation: Operation) -> Operation | None:
    """A convolution and the pooling of its result as one: the image between them is never complete in memory."""
    conv = look.made_by(operation.operands[0], "conv2d", once=True) if operation.opcode == "max_pool" else None
    if conv is None:
        return None
    layer = Conv2d.of(conv)
    attributes = Conv2dMaxPool(
        window=layer.window, groups=layer.groups, activation=layer.activation, pool=MaxPool.of(operation).window
    )
    return replace(conv, id=operation.id, opcode="conv2d_max_pool", type=operation.type, attributes=attributes)


def one_nan(look: Look, operation: Operation) -> Operation | None:
    """A choice of a NaN for each NaN, as what reads ONNX's TopK writes it."""
    if operation.opcode != "select" or operation.shape.dtype not in ("f32", "f64"):
        return None
    compare, x = look.made_by(operation.operands[0], "compare"), operation.operands[2]
    number = look.scalar(operation.operands[1])
    if compare is None or Comparison.of(compare).direction != "NE" or compare.operands != (x, x):
        return None
    if number is None or not math.isnan(number) or math.copysign(1, number) < 0:
        return None
    return replace(operation, opcode="one-nan", operands=(x,))


def top_k(region: Region, outside: Mapping[int, Operation], ids: Iterator[int]) -> Region:
    """Sorts of elements and their indices by value become `top_k`; all elements if not only the first ones are used."""
    look = Look(region, outside, ids)
    changed: dict[int, Operation] = {}
    for sort in region.operations:
        largest = _is_sort_with_indices(look, sort)
        if largest is None:
            continue
        elements = [each for each in region.operations if each.operands == (sort.id,)]
        slices = {each.id: [s for s in region.operations if s.operands == (each.id,)] for each in elements}
        # Only if slices are all uses: k is then the largest end of a slice.
        sliced = all(s.opcode == "slice" for found in slices.values() for s in found) and not any(
            each.id in region.results or look.uses[each.id] != len(slices[each.id]) for each in elements
        )
        size = look.known[sort.operands[0]].shape.sizes[-1]
        ends = [as_size(Slices.of(s).slices[-1][1]) for found in slices.values() for s in found] if sliced else []
        k = max(ends, key=lambda end: end.constant) if ends and all(end.is_constant for end in ends) else size
        shapes = tuple(Shape(t.dtype, (*t.sizes[:-1], k)) for t in sort.shapes)
        signed = _of_one_zero(look, sort.operands[0])
        zeros, source = ("signed", sort.operands[0]) if signed is None else ("equal", signed)
        changed[sort.id] = replace(
            sort, opcode="top_k", type=shapes, operands=(source,), regions=(),
            attributes=TopK(k=k, largest=largest, zeros=zeros),
        )  # fmt: skip
        for each in elements:
            changed[each.id] = replace(each, type=shapes[Element.of(each).index])
    made = [changed.get(each.id, each) for each in region.operations]
    return Region(operations=used(made, region.results), results=region.results)


def _of_one_zero(look: Look, value: int) -> int | None:
    """The array that `value` is, with 0.0 for -0.0 (rewrites.py), if it is one.

    The kernel library gives its elements instead: they are equal, and zeros keep their signs, as in TensorFlow.
    """
    select = look.made_by(value, "select")
    if select is None:
        return None
    compare, x = look.known[select.operands[0]], select.operands[2]
    if compare.opcode != "compare" or compare.operands[0] != x or Comparison.of(compare).direction != "EQ":
        return None
    is_zero = not in_total_order(compare) and look.scalar(compare.operands[1]) == 0
    return x if is_zero and look.scalar(select.operands[1]) == 0 else None


def _is_sort_with_indices(look: Look, sort: Operation) -> bool | None:
    """Whether the largest come first; None if it is not a sort of float32 values with their indices."""
    if sort.opcode != "sort" or len(sort.operands) != 2 or not isinstance(sort.type, tuple):
        return None
    values, numbers = (look.known[operand] for operand in sort.operands)
    axis = values.shape.rank - 1
    if values.shape.dtype != "f32" or Dimensions.of(sort).dimensions != (axis,) or values.shape.sizes[-1].grows:
        return None
    if numbers.opcode != "iota" or numbers.shape.dtype != "s32" or Dimensions.of(numbers).dimensions != (axis,):
        return None
    region = sort.regions[0]
    # Constants of the comparison may stand outside its region.
    known, parameters = {**look.known, **region.by_id()}, [parameter.id for parameter in region.parameters]
    root = known[region.results[0]]
    if root.opcode == "select" and known[root.operands[0]].opcode == "constant":
        chosen = 1 if Constant.of(known[root.operands[0]]).literal.constant else 2
        root = known[root.operands[chosen]]
    if (
        root.opcode != "compare"
        or root.operands != tuple(parameters[:2])
        # Without a total order the position of NaN is undefined, and the kernel library's order might differ.
        or not in_total_order(root)
    ):
        return None
    return {"GT": True, "LT": False}.get(Comparison.of(root).direction)


_COLUMNS = 4
"""The least distance of neighbours along an inner axis for a softmax along it: each of these columns fills a lane."""


def softmax(look: Look, operation: Operation) -> Operation | None:
    """exp(x - max(x)) / sum(exp(x - max(x))) over the last axis."""
    if operation.opcode != "divide" or operation.shape.dtype != "f32":
        return None
    exponential = look.made_by(operation.operands[0], "exponential")
    total = _reduced(look, operation.operands[1], "add")
    # exp has two uses: the sum, and the quotient itself.
    if exponential is None or total != exponential.id or look.uses[exponential.id] != 2:
        return None
    difference = look.made_by(exponential.operands[0], "subtract", once=True)
    if difference is None or _reduced(look, difference.operands[1], "maximum") != difference.operands[0]:
        return None
    source = look.known[difference.operands[0]]
    if source.opcode == "transpose" and look.uses[source.id] == 2:
        whole, axis = look.known[source.operands[0]], Dimensions.of(source).dimensions[-1]
        columns = whole.shape.strides[axis]
        if columns.is_constant and columns.constant >= _COLUMNS:
            # TensorFlow has a softmax over the last axis only, and transposes before and after it for other axes.
            made = look.add(
                replace(
                    operation,
                    id=look.fresh(),
                    opcode="softmax",
                    type=whole.type,
                    operands=(whole.id,),
                    attributes=Along(axis=axis),
                )
            )
            return replace(source, id=operation.id, operands=(made.id,))
    last = Along(axis=operation.shape.rank - 1)
    return replace(operation, opcode="softmax", operands=(source.id,), attributes=last, regions=())


def _reduced(look: Look, value: int, by: str) -> int | None:
    """The array whose reduction over the last axis `value` repeats along that axis; None if it is something else."""
    broadcast = look.made_by(value, "broadcast", once=True)
    if broadcast is None or Dimensions.of(broadcast).dimensions != tuple(range(broadcast.shape.rank - 1)):
        return None
    reduce = look.made_by(broadcast.operands[0], "reduce", once=True)
    if reduce is None or Dimensions.of(reduce).dimensions != (broadcast.shape.rank - 1,) or reducer(reduce) != by:
        return None
    start = {"add": 0.0, "maximum": -np.inf}[by]
    return reduce.operands[0] if look.scalar(reduce.operands[1]) == start else None


_KEEP_SIGNS = frozenset({"broadcast", "negate", "reshape", "reverse", "slice", "transpose"})
"""Operations that compute no NaN, and change no signs or all of them."""


def with_one_nan(region: Region, outside: Mapping[int, Operation], ids: Iterator[int]) -> Region:
    """`region` with `one-nan` after the operations that compute operands of sorts and of comparisons in total order."""
    # Computed NaN are negative on x86-64 and positive on AArch64, and a total order sorts by sign (decision 039).
    look = Look(region, outside, ids)
    computed: set[int] = set()
    for operation in region.operations:
        if operation.opcode in ("sort", "top_k") or in_total_order(operation):
            computed.update(_computed(look, operand) for operand in operation.operands)
    operations: list[Operation] = []
    for operation in region.operations:
        if operation.id in computed and _makes_floats(operation):
            inner = replace(operation, id=next(ids))
            one = Operation(
                id=operation.id, opcode="one-nan", type=operation.type, operands=(inner.id,), node=operation.node
            )
            operations += [inner, one]
        else:
            operations.append(operation)
    return replace(region, operations=tuple(operations))


def _computed(look: Look, value: int) -> int:
    """The value that `value` is computed from by operations that keep signs of NaN."""
    while True:
        operation, signed = look.known[value], _of_one_zero(look, value)
        if signed is None and operation.opcode not in _KEEP_SIGNS:
            return value
        value = operation.operands[0] if signed is None else signed


def _makes_floats(operation: Operation) -> bool:
    return operation.opcode not in ("constant", "one-nan", "parameter") and operation.shape.dtype in ("f32", "f64")
