"""Evaluate programs with NumPy: for folding constants, and for tests. Plain and slow."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler import arithmetic
from tfaot_pkg.compiler.attributes import (
    Constant,
    Convolution,
    Dimensions,
    Dot,
    Element,
    Feature,
    Gather,
    Indexed,
    Pad,
    Scatter,
    Slices,
    Trees,
    Windows,
)
from tfaot_pkg.compiler.program import (
    NO_SYMBOLS,
    NUMPY_TYPES,
    Binding,
    Literal,
    Number,
    Operation,
    Program,
    Region,
    Size,
    Unsupported,
    reducer,
)
from tfaot_pkg.worker_program.messages.forest import margins

Value = Array | tuple[Array, ...]


def run(program: Program, batch: int, inputs: Sequence[Array], sizes: Mapping[str, int] = NO_SYMBOLS) -> list[Array]:
    """The outputs at batch size `batch` and `sizes` of the other symbols.

    Raises Unsupported for an unknown opcode.
    """
    with np.errstate(all="ignore"):
        return _Run(batch, sizes).call(program.entry, inputs)


def evaluate(operation: Operation, operands: Sequence[Value], batch: int = 0) -> Value:
    """The result of one operation."""
    with np.errstate(all="ignore"):
        return _Run(batch, NO_SYMBOLS).apply(operation, operands)


class _Run:
    def __init__(self, batch: int, sizes: Mapping[str, int]) -> None:
        self.at = Binding(batch, sizes)
        self._known: ChainMap[int, Any] = ChainMap()

    def call(self, region: Region, arguments: Sequence[Array]) -> list[Array]:
        # A region may read values of the regions around it.
        self._known = self._known.new_child()
        try:
            for operation in region.operations:
                if operation.opcode == "parameter":
                    made: Value = arguments[Number.of(operation).number]
                else:
                    made = self.apply(operation, [self._known[operand] for operand in operation.operands])
                self._known[operation.id] = made
            return [self._known[result] for result in region.results]
        finally:
            self._known = self._known.parents

    def apply(self, operation: Operation, operands: Sequence[Value]) -> Value:
        function = _OPERATIONS.get(operation.opcode)
        if function is None:
            raise Unsupported(f"the interpreter does not know {operation.opcode}")
        result = function(self, operation, *operands)
        if isinstance(result, tuple):
            return result
        # NumPy promotes types and drops axes, but a folded constant must have HLO's type.
        made = np.asarray(result, NUMPY_TYPES[operation.shape.dtype])
        if made.shape != self.sizes(operation):
            raise ValueError(f"%{operation.id} {operation.opcode} gives {made.shape}, not {self.sizes(operation)}")
        return made

    def sizes(self, operation: Operation) -> tuple[int, ...]:
        return self.at.numbers(operation.shape.sizes)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _run, _operation, *operands: function(*operands)


def _constant(run: _Run, operation: Operation) -> Array:
    literal: Literal = Constant.of(operation).literal
    values = literal.constant
    for monomial, factor in literal.growing:
        values = values + factor * values.dtype.type(run.at.number(Size.of([(monomial, 1)])))
    return values


def _broadcast(run: _Run, operation: Operation, operand: Array) -> Array:
    sizes = [1] * operation.shape.rank
    for axis, size in zip(Dimensions.of(operation).dimensions, operand.shape, strict=True):
        sizes[axis] = size
    return np.broadcast_to(operand.reshape(sizes), run.sizes(operation))


def _iota(run: _Run, operation: Operation) -> Array:
    (axis,), sizes = Dimensions.of(operation).dimensions, run.sizes(operation)
    shape = [size if i == axis else 1 for i, size in enumerate(sizes)]
    return np.broadcast_to(np.arange(sizes[axis]).reshape(shape), sizes)


def _slice(run: _Run, operation: Operation, operand: Array) -> Array:
    return operand[tuple(slice(*each) for each in run.at.table(Slices.of(operation).slices))]


def _pad(run: _Run, operation: Operation, operand: Array, value: Array) -> Array:
    padding = run.at.table(Pad.of(operation).padding)
    if not padding:  # a number, which np.pad does not take
        return operand
    spread = np.full(
        [max(0, s + (s - 1) * inner) for s, (_, _, inner) in zip(operand.shape, padding, strict=True)], value
    )
    if spread.size:
        spread[tuple(slice(None, None, inner + 1) for _, _, inner in padding)] = operand
    wide = np.pad(spread, [(max(low, 0), max(high, 0)) for low, high, _ in padding], constant_values=value)
    cut = [slice(max(-low, 0), size - max(-high, 0)) for size, (low, high, _) in zip(wide.shape, padding, strict=True)]
    return wide[tuple(cut)]


def _dot(_run: _Run, operation: Operation, first: Array, second: Array) -> Array:
    (left, right), (left_batch, right_batch) = Dot.of(operation).contracting, Dot.of(operation).batch
    # Numbers as labels, which NumPy's einsum accepts: letters would end at 52 axes.
    names = iter(range(100))
    batch = [next(names) for _ in left_batch]
    contracted = [next(names) for _ in left]

    def labels(rank: int, batches: Sequence[int], contracting: Sequence[int]) -> tuple[list[int], list[int]]:
        known = {**dict(zip(batches, batch, strict=True)), **dict(zip(contracting, contracted, strict=True))}
        free = [axis for axis in range(rank) if axis not in known]
        known |= {axis: next(names) for axis in free}
        return [known[axis] for axis in range(rank)], [known[axis] for axis in free]

    one, free_one = labels(first.ndim, left_batch, left)
    two, free_two = labels(second.ndim, right_batch, right)
    return np.asarray(np.einsum(first, one, second, two, [*batch, *free_one, *free_two]))


def _reduce(run: _Run, operation: Operation, *operands: Array) -> Value:
    """A reduction, of several arrays together if there are several operands; element by element."""
    half = len(operands) // 2
    arrays, starts = operands[:half], operands[half:]
    axes = Dimensions.of(operation).dimensions
    ufunc = _UFUNCS.get(reducer(operation) or "") if half == 1 else None
    if ufunc is not None:
        return np.asarray(ufunc.reduce(arrays[0], axis=tuple(axes), initial=starts[0][()]))
    moved = [np.moveaxis(array, axes, range(len(axes))) for array in arrays]
    rest = moved[0].shape[len(axes) :]
    flat = [array.reshape(-1, *rest) for array in moved]
    results = [np.empty(rest, array.dtype) for array in flat]
    for place in np.ndindex(*rest):
        state = [np.asarray(start) for start in starts]
        for row in range(flat[0].shape[0]):
            state = run.call(operation.regions[0], [*state, *(np.asarray(array[row][place]) for array in flat)])
        for result, value in zip(results, state, strict=True):
            result[place] = value
    return tuple(results) if isinstance(operation.type, tuple) else results[0]


_UFUNCS: Mapping[str, np.ufunc] = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def _while(run: _Run, operation: Operation, *state: Array) -> tuple[Array, ...]:
    body, condition = operation.regions
    values = list(state)
    while bool(run.call(condition, values)[0]):
        values = run.call(body, values)
    return tuple(values)


def _call(run: _Run, operation: Operation, *operands: Array) -> Value:
    results = run.call(operation.regions[0], operands)
    return tuple(results) if isinstance(operation.type, tuple) else results[0]


def _starts(operand: Array, starts: Sequence[Array], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The slices at `starts`, clamped as in HLO so that they lie within the array."""
    clamped = [
        min(max(int(start), 0), length - size) for start, length, size in zip(starts, operand.shape, sizes, strict=True)
    ]
    return tuple(slice(start, start + size) for start, size in zip(clamped, sizes, strict=True))


def _dynamic_slice(run: _Run, operation: Operation, operand: Array, *starts: Array) -> Array:
    return operand[_starts(operand, starts, run.sizes(operation))]


def _dynamic_update_slice(_run: _Run, _operation: Operation, operand: Array, update: Array, *starts: Array) -> Array:
    result: Array = operand.copy()
    result[_starts(operand, starts, update.shape)] = update
    return result


def _windows(array: Array, window: Sequence[Sequence[int]], fill: Any) -> Array:
    """The windows over an array: axes that count windows, then as many axes for the elements of a window.

    `window` has for each axis a size, a stride, two paddings, a dilation of the window and one of the array.
    """
    spread = np.full(
        [max(0, (n - 1) * side[5] + 1) if n else 0 for n, side in zip(array.shape, window, strict=True)], fill
    )
    spread = spread.astype(array.dtype)
    spread[tuple(slice(None, None, side[5]) for side in window)] = array
    # Negative padding removes elements, after zeros were inserted between them.
    low_high = [(max(side[2], 0), max(side[3], 0)) for side in window]
    wide = np.pad(spread, low_high, constant_values=fill)
    cut = [slice(max(-side[2], 0), n - max(-side[3], 0)) for n, side in zip(wide.shape, window, strict=True)]
    wide = wide[tuple(cut)]
    reach = [(side[0] - 1) * side[4] + 1 for side in window]
    if any(n < length for n, length in zip(wide.shape, reach, strict=True)):
        outer = [max(n - length + 1, 0) for n, length in zip(wide.shape, reach, strict=True)]
        every = np.empty([*outer, *reach], wide.dtype)  # no window fits
    else:
        every = np.lib.stride_tricks.sliding_window_view(wide, reach)
    places = tuple(slice(None, None, side[1]) for side in window)
    inside = tuple(slice(None, None, side[4]) for side in window)
    return np.asarray(every[places + inside])


def _convolution(run: _Run, operation: Operation, array: Array, kernel: Array) -> Array:
    attributes = Convolution.of(operation)
    groups = attributes.feature_groups
    if attributes.batch_groups != 1:
        raise Unsupported("a convolution with groups of the batch")
    data = array.transpose(attributes.input)  # batch, features, space
    filters = kernel.transpose(attributes.kernel)  # filters, features, space
    window = run.at.table(attributes.window)
    rank = len(window)
    whole = [(1, 1, 0, 0, 1, 1)] * 2
    seen = _windows(data, [*whole, *window], 0)
    seen = seen.reshape(*seen.shape[: 2 + rank], *seen.shape[4 + rank :])
    parts = []
    for inputs, weights in zip(np.split(seen, groups, 1), np.split(filters, groups, 0), strict=True):
        parts.append(np.tensordot(inputs, weights, ([1, *range(2 + rank, 2 + 2 * rank)], [1, *range(2, 2 + rank)])))
    made = np.moveaxis(np.concatenate(parts, -1), -1, 1)  # batch, filters, space
    return np.transpose(made, np.argsort(attributes.output))


def _reduce_window(run: _Run, operation: Operation, *operands: Array) -> Value:
    """As `_reduce`, window by window; elements outside the array are left out."""
    half, window = len(operands) // 2, run.at.table(Windows.of(operation).window)
    arrays, starts = operands[:half], operands[half:]
    inside = _windows(np.ones(arrays[0].shape, np.bool_), window, np.False_)
    seen = [_windows(array, window, start) for array, start in zip(arrays, starts, strict=True)]
    rank = arrays[0].ndim
    ufunc = _UFUNCS.get(reducer(operation) or "") if half == 1 else None
    if ufunc is not None:
        axes = tuple(range(rank, 2 * rank))
        return np.asarray(ufunc.reduce(seen[0], axis=axes, initial=starts[0][()], where=inside))
    results = [np.empty(each.shape[:rank], each.dtype) for each in seen]
    for place in np.ndindex(*results[0].shape):
        state = [np.asarray(start) for start in starts]
        for each in np.argwhere(inside[place]):
            state = run.call(operation.regions[0], [*state, *(np.asarray(array[place][tuple(each)]) for array in seen)])
        for result, value in zip(results, state, strict=True):
            result[place] = value
    return tuple(results) if isinstance(operation.type, tuple) else results[0]


def _sort(run: _Run, operation: Operation, *arrays: Array) -> Value:
    (axis,) = Dimensions.of(operation).dimensions
    moved = [np.moveaxis(array, axis, -1) for array in arrays]
    results = [np.empty_like(array) for array in moved]

    for place in np.ndindex(*moved[0].shape[:-1]):
        rows = [array[place] for array in moved]

        # Both ways, because HLO's comparator is "less than": equal elements are less in neither, and keep their order.
        def before(i: int, j: int, rows: Sequence[Array] = rows) -> int:
            first, second = (
                run.call(operation.regions[0], [np.asarray(row[k]) for row in rows for k in pair])[0]
                for pair in ((i, j), (j, i))
            )
            return int(second) - int(first)

        order = sorted(range(rows[0].size), key=cmp_to_key(before))
        for result, row in zip(results, rows, strict=True):
            result[place] = row[order]
    back = tuple(np.moveaxis(result, -1, axis) for result in results)
    return back if isinstance(operation.type, tuple) else back[0]


def _gather(run: _Run, operation: Operation, array: Array, indices: Array) -> Array:
    attributes = Gather.of(operation)
    sizes, vectors = run.at.numbers(attributes.sizes), _vectors(indices, attributes.vector)
    gone = (*attributes.collapsed, *attributes.operand_batch)
    kept = [size for axis, size in enumerate(sizes) if axis not in gone]
    made = np.empty((*vectors.shape[:-1], *kept), array.dtype)
    for place in np.ndindex(*vectors.shape[:-1]):
        starts = _window_starts(operation, array.ndim, vectors[place], place)
        made[place] = array[_starts(array, [np.asarray(start) for start in starts], sizes)].reshape(kept)
    count = vectors.ndim - 1
    outer = [axis for axis in range(operation.shape.rank) if axis not in attributes.offset]
    return np.moveaxis(made, range(count), outer) if count else made


def _vectors(indices: Array, vector: int) -> Array:
    """Indices with their vectors along the last axis."""
    return np.moveaxis(indices[..., None] if vector == indices.ndim else indices, vector, -1)


def _window_starts(operation: Operation, rank: int, vector: Array, place: Sequence[int]) -> list[int]:
    attributes = Indexed.of(operation)
    starts = [0] * rank
    for axis, start in zip(attributes.indexed, vector, strict=True):
        starts[axis] = int(start)
    for axis, among in zip(attributes.operand_batch, attributes.index_batch, strict=True):
        starts[axis] = place[among - (among > attributes.vector)]
    return starts


def _scatter(run: _Run, operation: Operation, *operands: Array) -> Value:
    """One update after the other; a window that reaches outside changes nothing."""
    half, attributes = len(operands) // 2, Scatter.of(operation)
    results, vectors = [each.copy() for each in operands[:half]], _vectors(operands[half], attributes.vector)
    updates, rank = operands[half + 1 :], operands[0].ndim
    outer = [axis for axis in range(updates[0].ndim) if axis not in attributes.window]
    gone = {*attributes.inserted, *attributes.operand_batch}
    sizes = iter(updates[0].shape[axis] for axis in attributes.window)
    window = [1 if axis in gone else next(sizes) for axis in range(rank)]
    moved = [np.moveaxis(each, outer, range(len(outer))) for each in updates]
    for place in np.ndindex(*vectors.shape[:-1]):
        starts = _window_starts(operation, rank, vectors[place], place)
        if any(s < 0 or s + w > n for s, w, n in zip(starts, window, results[0].shape, strict=True)):
            continue
        parts = [each[place].reshape(window) for each in moved]
        for inner in np.ndindex(*window):
            at = tuple(s + i for s, i in zip(starts, inner, strict=True))
            arguments = [np.asarray(each[at]) for each in results] + [np.asarray(each[inner]) for each in parts]
            for result, value in zip(results, run.call(operation.regions[0], arguments), strict=True):
                result[at] = value
    return tuple(results) if isinstance(operation.type, tuple) else results[0]


def _conditional(run: _Run, operation: Operation, which: Array, *operands: Array) -> Value:
    # As in HLO: true takes the first branch, and a number out of range the last one.
    number = (0 if which else 1) if which.dtype == np.bool_ else int(which)
    number = number if 0 <= number < len(operation.regions) else len(operation.regions) - 1
    start = sum(len(region.parameters) for region in operation.regions[:number])
    region = operation.regions[number]
    results = run.call(region, operands[start : start + len(region.parameters)])
    return tuple(results) if isinstance(operation.type, tuple) else results[0]


def _set_dimension_size(_run: _Run, operation: Operation, operand: Array, size: Array) -> Array:
    (axis,) = Dimensions.of(operation).dimensions
    if int(size) != operand.shape[axis]:
        raise Unsupported("an array with fewer elements than it has room for")
    return operand


def _batch_norm(_run: _Run, operation: Operation, x: Array, *vectors: Array) -> Array:
    sizes = [1] * x.ndim
    sizes[Feature.of(operation).feature] = -1
    scale, offset, mean, variance = (each.reshape(sizes) for each in vectors)
    deviation = np.sqrt(variance + np.asarray(Feature.of(operation).epsilon, x.dtype))
    return np.asarray((x - mean) * (scale / deviation) + offset)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{opcode: _elementwise(function) for opcode, function in arithmetic.FUNCTIONS.items()},
    "batch-norm-inference": _batch_norm,
    "bitcast-convert": lambda _run, operation, x: arithmetic.bitcast(operation, x),
    "compare": lambda _run, operation, first, second: arithmetic.compare(operation, first, second),
    "convert": lambda _run, operation, x: arithmetic.convert(operation, x),
    "broadcast": _broadcast,
    "call": _call,
    "concatenate": lambda _run, operation, *parts: np.concatenate(parts, Dimensions.of(operation).dimensions[0]),
    "conditional": _conditional,
    "constant": _constant,
    "convolution": _convolution,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "get-tuple-element": lambda _run, operation, value: value[Element.of(operation).index],
    "iota": _iota,
    "pad": _pad,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "reshape": lambda run, operation, x: x.reshape(run.sizes(operation)),
    "reverse": lambda _run, operation, x: np.flip(x, Dimensions.of(operation).dimensions),
    "scatter": _scatter,
    "set-dimension-size": _set_dimension_size,
    "slice": _slice,
    "sort": _sort,
    "trees": lambda _run, operation, x: margins(Trees.of(operation).forest, x),
    "transpose": lambda _run, operation, x: x.transpose(Dimensions.of(operation).dimensions),
    "while": _while,
}
