"""What operations compute, in NumPy: plain and slow. The table (operations.py) says which operation has which meaning.

A meaning gets the run, the operation and the values of its operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any, Protocol

import numpy as np

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
from tfaot_pkg.compiler.bfloat16 import products
from tfaot_pkg.compiler.program import Binding, Operation, Region, Size, Unsupported, reducer
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.forest import margins

Value = Array | tuple[Array, ...]


class Run(Protocol):
    """A run of a program (interpret.py): the sizes of symbols in it, and calls of regions."""

    at: Binding

    def call(self, region: Region, arguments: Sequence[Array]) -> list[Array]: ...

    def sizes(self, operation: Operation) -> tuple[int, ...]: ...


Meaning = Callable[..., Value]


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _run, _operation, *operands: function(*operands)


def constant(run: Run, operation: Operation) -> Array:
    literal = Constant.of(operation).literal
    values = literal.constant
    for monomial, factor in literal.growing:
        values = values + factor * values.dtype.type(run.at.number(Size.of([(monomial, 1)])))
    return values


def broadcast(run: Run, operation: Operation, operand: Array) -> Array:
    sizes = [1] * operation.shape.rank
    for axis, size in zip(Dimensions.of(operation).dimensions, operand.shape, strict=True):
        sizes[axis] = size
    # Axes may come in any order (layouts.py).
    turned = operand.transpose(np.argsort(Dimensions.of(operation).dimensions))
    return np.broadcast_to(turned.reshape(sizes), run.sizes(operation))


def iota(run: Run, operation: Operation) -> Array:
    (axis,), sizes = Dimensions.of(operation).dimensions, run.sizes(operation)
    shape = [size if i == axis else 1 for i, size in enumerate(sizes)]
    return np.broadcast_to(np.arange(sizes[axis]).reshape(shape), sizes)


def slice_(run: Run, operation: Operation, operand: Array) -> Array:
    return operand[tuple(slice(*each) for each in run.at.table(Slices.of(operation).slices))]


def pad(run: Run, operation: Operation, operand: Array, value: Array) -> Array:
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


def dot(_run: Run, operation: Operation, first: Array, second: Array) -> Array:
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
    if Dot.of(operation).in_bfloat16:
        rows, columns = (
            np.transpose(each, [known.index(name) for name in (*batch, *order)])
            for each, known, order in ((first, one, [*free_one, *contracted]), (second, two, [*contracted, *free_two]))
        )
        made = _in_bfloat16(rows, columns, len(batch))
    else:
        made = np.asarray(np.einsum(first, one, second, two, [*batch, *free_one, *free_two]))
    return made.transpose(Dot.of(operation).order) if Dot.of(operation).order else made


def _in_bfloat16(rows: Array, columns: Array, batches: int) -> Array:
    """Products of a batch, [*batch, *rows, k] by [*batch, k, *columns], k being the axis behind the batch."""
    sizes = (*rows.shape[:-1], *columns.shape[batches + 1 :])
    count, inner = math.prod(rows.shape[:batches]), rows.shape[-1]
    pairs = zip(rows.reshape(count, -1, inner), columns.reshape(count, inner, -1), strict=True)
    return np.reshape([products(one, other) for one, other in pairs], sizes)


def reduce(run: Run, operation: Operation, *operands: Array) -> Value:
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


def loop(run: Run, operation: Operation, *state: Array) -> tuple[Array, ...]:
    body, condition = operation.regions
    values = list(state)
    while bool(run.call(condition, values)[0]):
        values = run.call(body, values)
    return tuple(values)


def call(run: Run, operation: Operation, *operands: Array) -> Value:
    results = run.call(operation.regions[0], operands)
    return tuple(results) if isinstance(operation.type, tuple) else results[0]


def _starts(operand: Array, starts: Sequence[Array], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The slices at `starts`, clamped as in HLO so that they lie within the array."""
    clamped = [
        min(max(int(start), 0), length - size) for start, length, size in zip(starts, operand.shape, sizes, strict=True)
    ]
    return tuple(slice(start, start + size) for start, size in zip(clamped, sizes, strict=True))


def dynamic_slice(run: Run, operation: Operation, operand: Array, *starts: Array) -> Array:
    return operand[_starts(operand, starts, run.sizes(operation))]


def dynamic_update_slice(_run: Run, _operation: Operation, operand: Array, update: Array, *starts: Array) -> Array:
    result: Array = operand.copy()
    result[_starts(operand, starts, update.shape)] = update
    return result


def windows(array: Array, window: Sequence[Sequence[int]], fill: Any) -> Array:
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


def convolution(run: Run, operation: Operation, array: Array, kernel: Array) -> Array:
    attributes = Convolution.of(operation)
    groups = attributes.feature_groups
    if attributes.batch_groups != 1:
        raise Unsupported("a convolution with groups of the batch")
    data = array.transpose(attributes.input)  # batch, features, space
    filters = kernel.transpose(attributes.kernel)  # filters, features, space
    window = run.at.table(attributes.window)
    rank = len(window)
    whole = [(1, 1, 0, 0, 1, 1)] * 2
    seen = windows(data, [*whole, *window], 0)
    seen = seen.reshape(*seen.shape[: 2 + rank], *seen.shape[4 + rank :])
    parts = []
    for inputs, weights in zip(np.split(seen, groups, 1), np.split(filters, groups, 0), strict=True):
        parts.append(np.tensordot(inputs, weights, ([1, *range(2 + rank, 2 + 2 * rank)], [1, *range(2, 2 + rank)])))
    made = np.moveaxis(np.concatenate(parts, -1), -1, 1)  # batch, filters, space
    return np.transpose(made, np.argsort(attributes.output))


def reduce_window(run: Run, operation: Operation, *operands: Array) -> Value:
    """As `reduce`, window by window; elements outside the array are left out."""
    half, window = len(operands) // 2, run.at.table(Windows.of(operation).window)
    arrays, starts = operands[:half], operands[half:]
    inside = windows(np.ones(arrays[0].shape, np.bool_), window, np.False_)
    seen = [windows(array, window, start) for array, start in zip(arrays, starts, strict=True)]
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


def sort(run: Run, operation: Operation, *arrays: Array) -> Value:
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


def gather(run: Run, operation: Operation, array: Array, indices: Array) -> Array:
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


def scatter(run: Run, operation: Operation, *operands: Array) -> Value:
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


def conditional(run: Run, operation: Operation, which: Array, *operands: Array) -> Value:
    # As in HLO: true takes the first branch, and a number out of range the last one.
    number = (0 if which else 1) if which.dtype == np.bool_ else int(which)
    number = number if 0 <= number < len(operation.regions) else len(operation.regions) - 1
    start = sum(len(region.parameters) for region in operation.regions[:number])
    region = operation.regions[number]
    results = run.call(region, operands[start : start + len(region.parameters)])
    return tuple(results) if isinstance(operation.type, tuple) else results[0]


def set_dimension_size(_run: Run, operation: Operation, operand: Array, size: Array) -> Array:
    (axis,) = Dimensions.of(operation).dimensions
    if int(size) != operand.shape[axis]:
        raise Unsupported("an array with fewer elements than it has room for")
    return operand


def batch_norm(_run: Run, operation: Operation, x: Array, *vectors: Array) -> Array:
    sizes = [1] * x.ndim
    sizes[Feature.of(operation).feature] = -1
    scale, offset, mean, variance = (each.reshape(sizes) for each in vectors)
    deviation = np.sqrt(variance + np.asarray(Feature.of(operation).epsilon, x.dtype))
    return np.asarray((x - mean) * (scale / deviation) + offset)


def bitcast(_run: Run, operation: Operation, x: Array) -> Array:
    return arithmetic.bitcast(operation, x)


def compare(_run: Run, operation: Operation, first: Array, second: Array) -> Array:
    return arithmetic.compare(operation, first, second)


def convert(_run: Run, operation: Operation, x: Array) -> Array:
    return arithmetic.convert(operation, x)


def concatenate(_run: Run, operation: Operation, *parts: Array) -> Array:
    return np.concatenate(parts, Dimensions.of(operation).dimensions[0])


def element(_run: Run, operation: Operation, value: tuple[Array, ...]) -> Array:
    return value[Element.of(operation).index]


def reshape(run: Run, operation: Operation, x: Array) -> Array:
    return x.reshape(run.sizes(operation))


def reverse(_run: Run, operation: Operation, x: Array) -> Array:
    return np.asarray(np.flip(x, Dimensions.of(operation).dimensions))


def transpose(_run: Run, operation: Operation, x: Array) -> Array:
    return np.asarray(x.transpose(Dimensions.of(operation).dimensions))


def trees(_run: Run, operation: Operation, x: Array) -> Array:
    return np.asarray(margins(Trees.of(operation).forest, x))
