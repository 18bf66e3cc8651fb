"""Arrays whose elements are known numbers, or follow from single elements of a program's inputs: how operations move
and change them. ranges.py uses them to find which values of inputs a model takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfaot_pkg.worker_program.messages.listing import ArrayShape, Gather, Instruction, Literals, Padding, Sizes, Slices

Array = np.ndarray[Any, Any]

NUMBER, UNKNOWN = -1, -2
"""Values of `Tracked.source` instead of an element: the number is `offset`, or nothing is known."""

_MOST = 1 << 21
"""Elements of the largest array that is tracked."""
_MOST_OF_FLOATS = 1 << 12
"""The same for constants of floats: larger ones are weights."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """Elements floor(scale * e + offset), where e is the element `source` of the inputs, counted through all of them.

    All arrays have the shape of the tracked array after one more axis, of alternatives: an element may be any of them.
    """

    source: Array
    scale: Array
    offset: Array

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.source.shape[1:])

    @property
    def is_known(self) -> bool:
        """Whether all elements are numbers, without alternatives."""
        return len(self.source) == 1 and bool((self.source == NUMBER).all())

    @property
    def numbers(self) -> Array:
        """The elements, if they are known."""
        found: Array = self.offset[0]
        return found

    def moved(self, move: Callable[[Array], Array]) -> Tracked:
        """The same elements in other places; `move` gets arrays with the axis of alternatives."""
        return Tracked(*(move(each) for each in (self.source, self.scale, self.offset)))

    def least(self) -> Array:
        """The least value of each element, if elements of inputs are not negative."""
        return np.where(self.source == UNKNOWN, -np.inf, np.where(self.scale < 0, -np.inf, self.offset))

    def most(self) -> Array:
        found: Array = np.where((self.source == NUMBER) | ((self.source >= 0) & (self.scale < 0)), self.offset, np.inf)
        return found

    def limited(self) -> Tracked | None:
        """`self`; None if it is too large, or nothing is known."""
        return None if self.source.size > _MOST or (self.source == UNKNOWN).all() else self


def known(numbers: Any) -> Tracked:
    """An array of numbers."""
    values = np.asarray(numbers, np.float64)[np.newaxis]
    return Tracked(np.full(values.shape, NUMBER), np.zeros(values.shape), values)


def element_of_input(first: int, sizes: Sequence[int]) -> Tracked:
    """An input whose elements have the numbers from `first` on."""
    source = first + np.arange(math.prod(sizes)).reshape(1, *sizes)
    return Tracked(source, np.ones(source.shape), np.zeros(source.shape))


def unknown(sizes: Sequence[int]) -> Tracked:
    source = np.full((1, *sizes), UNKNOWN)
    return Tracked(source, np.zeros(source.shape), np.zeros(source.shape))


def together(*parts: Tracked) -> tuple[Tracked, ...] | None:
    """`parts` of one shape with as many alternatives each; None if alternatives of two are not independent."""
    counts = {len(part.source) for part in parts} - {1}
    if len(counts) > 1 or sum(len(part.source) > 1 for part in parts) > 1:
        return None
    count = counts.pop() if counts else 1
    return tuple(part.moved(lambda each: np.broadcast_to(each, (count, *each.shape[1:]))) for part in parts)


def any_along(tracked: Tracked, axes: Sequence[int], *, keep: bool) -> Tracked | None:
    """Elements that may be any one along `axes`; of these axes, the size stays if `keep`, otherwise they vanish."""
    sizes = tracked.sizes
    count = math.prod(sizes[axis] for axis in axes)
    if len(tracked.source) * count * (math.prod(sizes) if keep else 1) > _MOST:
        return None

    def move(each: Array) -> Array:
        first = np.moveaxis(each, [axis + 1 for axis in axes], range(1, len(axes) + 1))
        flat = first.reshape(len(each) * count, *first.shape[len(axes) + 1 :])
        if not keep:
            return flat
        whole = [1 if axis - 1 in axes else size for axis, size in enumerate(each.shape)]
        return np.broadcast_to(flat.reshape(len(flat), *whole[1:]), (len(flat), *sizes))

    return tracked.moved(move)


def scaled(one: Tracked, two: Tracked) -> Tracked | None:
    """The product, if one of them is known."""
    return _with_number(one, two, lambda number, other: (other.scale * number, other.offset * number))


def added(one: Tracked, two: Tracked) -> Tracked | None:
    """The sum, if one of them is known."""
    return _with_number(one, two, lambda number, other: (other.scale, other.offset + number))


def _with_number(one: Tracked, two: Tracked, change: Callable[[Array, Tracked], tuple[Array, Array]]) -> Tracked | None:
    """The scale and the offset of a result, by `change`, of known numbers and other elements."""
    pair = together(one, two)
    if pair is None:
        return None
    number, other = _numbers_first(*pair)
    source = np.where(number.source == NUMBER, other.source, UNKNOWN)
    return Tracked(source, *change(number.offset, other)).limited()


def _numbers_first(one: Tracked, two: Tracked) -> tuple[Tracked, Tracked]:
    """The same pairs of elements, the number first if there is one."""
    swap = one.source != NUMBER

    def chosen(first: Tracked, second: Tracked) -> Tracked:
        parts = zip(
            (first.source, first.scale, first.offset), (second.source, second.scale, second.offset), strict=True
        )
        return Tracked(*(np.where(swap, b, a) for a, b in parts))

    return chosen(one, two), chosen(two, one)


def divided(one: Tracked, two: Tracked) -> Tracked | None:
    """The quotient by known positive numbers, rounded down."""
    if not two.is_known or (two.numbers <= 0).any():
        return None
    found = Tracked(one.source, one.scale / two.offset, one.offset / two.offset)
    return replace(found, offset=np.floor(found.offset)) if one.is_known else found


def selected(condition: Tracked | None, one: Tracked | None, two: Tracked | None) -> Tracked | None:
    """`one` or `two` by `condition`; where that is not known, what both have in common.

    Otherwise an author's guard, such as `where(i < n, i, 0)`, would set the bounds that it makes needless.
    """
    given = one or two
    if given is None:
        return None
    pair = together(*(unknown(given.sizes) if each is None else each for each in (one, two)))
    if pair is None:
        return None
    first, second = pair
    of = unknown(given.sizes) if condition is None or len(condition.source) > 1 else condition
    true, false = ((of.source == NUMBER) & (of.offset == flag) for flag in (1, 0))
    same = (first.source == second.source) & (first.scale == second.scale) & (first.offset == second.offset)
    takes_first = np.broadcast_to(true | (~false & same), first.source.shape)
    source = np.where(takes_first, first.source, np.where(false, second.source, UNKNOWN))
    pairs = ((first.scale, second.scale), (first.offset, second.offset))
    scale, offset = (np.where(takes_first, a, b) for a, b in pairs)
    return Tracked(source, scale, offset).limited()


def compared(direction: str, one: Tracked, two: Tracked) -> Tracked | None:
    """Truth values, 0 and 1, as far as they follow if elements of inputs are not negative."""
    pair = together(one, two)
    if pair is None:
        return None
    first, second = pair
    below, above = first.most() < second.least(), first.least() > second.most()
    not_above, not_below = first.most() <= second.least(), first.least() >= second.most()
    equal = (first.source == NUMBER) & (second.source == NUMBER) & (first.offset == second.offset)
    true, false = {
        "LT": (below, not_below),
        "LE": (not_above, above),
        "GT": (above, not_above),
        "GE": (not_below, below),
        "EQ": (equal, below | above),
        "NE": (below | above, equal),
    }[direction]
    source = np.where(true | false, NUMBER, UNKNOWN)
    return Tracked(source, np.zeros(source.shape), true.astype(np.float64)).limited()


def constant(instruction: Instruction) -> Tracked | None:
    assert isinstance(instruction.attributes, Literals)
    shape, values = instruction.shape, instruction.attributes.values
    assert isinstance(shape, ArrayShape)
    most = _MOST_OF_FLOATS if shape.dtype.startswith(("f", "bf", "c")) else _MOST
    if values is None or len(values) != math.prod(shape.sizes) or len(values) > most:
        return None
    return known(np.array(values, np.float64).reshape(shape.sizes))


def iota(shape: ArrayShape, dimension: int) -> Tracked | None:
    if math.prod(shape.sizes) > _MOST:
        return None
    steps = np.arange(shape.sizes[dimension]).reshape(-1, *[1] * (len(shape.sizes) - dimension - 1))
    return known(np.broadcast_to(steps, shape.sizes))


def broadcast(tracked: Tracked, sizes: Sequence[int], dimensions: Sequence[int]) -> Tracked | None:
    if math.prod(sizes) * len(tracked.source) > _MOST:
        return None

    def move(each: Array) -> Array:
        placed = [1] * len(sizes)
        for axis, dimension in enumerate(dimensions):
            placed[dimension] = each.shape[axis + 1]
        # Dimensions are in the order of the operand's axes, except in old listings.
        order = sorted(range(len(dimensions)), key=lambda axis: dimensions[axis])
        turned = each.transpose(0, *(axis + 1 for axis in order))
        return np.broadcast_to(turned.reshape(len(each), *placed), (len(each), *sizes))

    return tracked.moved(move)


def sliced(tracked: Tracked, slices: Slices) -> Tracked:
    cut = (slice(None), *(slice(*each) for each in slices.slices))
    return tracked.moved(lambda each: each[cut])


def padded(tracked: Tracked, value: Tracked | None, padding: Padding, sizes: Sequence[int]) -> Tracked | None:
    if any(min(each) < 0 for each in padding.padding):
        return None
    filled = unknown(()) if value is None or len(value.source) > 1 else value
    inside: Any = (
        slice(None),
        *(
            slice(low, low + (size - 1) * (inner + 1) + 1 if size else low, inner + 1)
            for (low, _, inner), size in zip(padding.padding, tracked.sizes, strict=True)
        ),
    )

    def move(each: Array, fill: Array) -> Array:
        whole: Array = np.broadcast_to(fill.reshape(()), (len(each), *sizes)).copy()
        whole[inside] = each
        return whole

    return Tracked(
        move(tracked.source, filled.source), move(tracked.scale, filled.scale), move(tracked.offset, filled.offset)
    )


def concatenated(parts: Sequence[Tracked | None], sizes: Sequence[Sequence[int]], axis: int) -> Tracked | None:
    if all(part is None for part in parts):
        return None
    given = [unknown(size) if part is None else part for part, size in zip(parts, sizes, strict=True)]
    count = max(len(part.source) for part in given)
    if any(len(part.source) not in (1, count) for part in given):
        return None
    wide = [part.moved(lambda each: np.broadcast_to(each, (count, *each.shape[1:]))) for part in given]
    found = (np.concatenate([getattr(part, name) for part in wide], axis + 1) for name in ("source", "scale", "offset"))
    return Tracked(*found).limited()


def window(tracked: Tracked, starts: Sequence[Tracked | None], sizes: Sizes) -> Tracked | None:
    """A dynamic slice; along axes whose start is not known, elements may be any."""
    found: Tracked | None = tracked
    for axis, (start, size) in enumerate(zip(starts, sizes.sizes, strict=True)):
        whole = tracked.sizes[axis]
        if found is None:
            return None
        if start is not None and start.is_known:
            at = int(np.clip(start.numbers, 0, whole - size))
            found = found.moved(lambda each, axis=axis, at=at, size=size: each.take(range(at, at + size), axis + 1))  # type: ignore[misc]
        elif size != whole:
            found = any_along(found, [axis], keep=True)
            if found is not None:
                found = found.moved(lambda each, axis=axis, size=size: each.take(range(size), axis + 1))  # type: ignore[misc]
    return found


def gathered(tracked: Tracked, indices: Tracked | None, numbers: Gather, index_sizes: Sequence[int]) -> Tracked | None:
    """Elements at known indices; otherwise elements may be any along the axes that have indices."""
    known_indices = indices if indices is not None and indices.is_known else None
    moved = tracked if known_indices is not None else any_along(tracked, list(numbers.indexed), keep=True)
    gathering = _Gathering(numbers, tracked.sizes, index_sizes)
    if moved is None or len(moved.source) * math.prod(gathering.sizes) > _MOST:
        return None
    places = gathering.places(known_indices)
    return moved.moved(lambda each: each[places])


@dataclass(frozen=True, slots=True)
class _Gathering:
    """Where a gather's result has its elements from: an array of sizes `whole`, at indices of sizes `index_sizes`."""

    numbers: Gather
    whole: Sequence[int]
    index_sizes: Sequence[int]

    @property
    def kept(self) -> list[tuple[int, int]]:
        """Axes of the result along which slices lie, each with the dimension of the array."""
        vanished = {*self.numbers.collapsed, *self.numbers.operand_batch}
        dimensions = [dimension for dimension in range(len(self.whole)) if dimension not in vanished]
        return list(zip(self.numbers.offset, dimensions, strict=True))

    @property
    def batch(self) -> list[tuple[int, int]]:
        """The other axes, each with its size: those of the indices."""
        sizes = [size for axis, size in enumerate(self.index_sizes) if axis != self.numbers.vector]
        axes = [axis for axis in range(len(sizes) + len(self.numbers.offset)) if axis not in self.numbers.offset]
        return list(zip(axes, sizes, strict=True))

    @property
    def sizes(self) -> list[int]:
        """Of the result."""
        of_slices = {axis: self.numbers.sizes[dimension] for axis, dimension in self.kept}
        return [size for _, size in sorted([*self.batch, *of_slices.items()])]

    def places(self, indices: Tracked | None) -> Any:
        """The index, after all alternatives, of each element of the result; slices begin at 0 without `indices`."""
        numbers, sizes = self.numbers, self.sizes
        grid = np.indices(sizes) if sizes else np.zeros((0,), np.int64)
        batch = [grid[axis] for axis, _ in self.batch]
        at: list[Any] = [0] * len(self.whole)
        for axis, dimension in self.kept:
            at[dimension] = grid[axis]
        for dimension, among in zip(numbers.operand_batch, numbers.index_batch, strict=True):
            at[dimension] = batch[among - (1 if numbers.vector < among else 0)]
        if indices is not None:
            for number, dimension in enumerate(numbers.indexed):
                start = component(indices, number, numbers.vector).numbers
                most = self.whole[dimension] - numbers.sizes[dimension]
                at[dimension] = at[dimension] + np.clip(start, 0, most).astype(np.int64)[tuple(batch)]
        return (slice(None), *(np.broadcast_to(each, sizes).astype(np.int64) for each in at))


def component(indices: Tracked, number: int, vector: int) -> Tracked:
    """The component `number` of vectors of indices along the axis `vector`."""
    if vector == len(indices.sizes):
        return indices
    return indices.moved(lambda each: each.take(number, vector + 1))
