"""`Range`: the numbers that a model takes for elements of one input, as functions of its sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfaot_pkg.analysis.program.input_bounds import Taken, taken
from tfaot_pkg.analysis.program.tracking import Array
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.worker_program.messages.listing import ArrayShape, HloListing, Module

_BATCH = "batch"
_MOST = 1 << 22
"""Elements of all inputs of the largest listing that is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A number that is a polynomial in sizes: a factor by product of sizes, whose names are joined by `*`."""

    terms: Mapping[str, int]

    def at(self, sizes: Mapping[str, int]) -> int:
        """Its value at `sizes` of symbols, for a single row."""
        known = {_BATCH: 1, **sizes}
        return sum(factor * math.prod(known[name] for name in term.split("*") if name)
                   for term, factor in self.terms.items())  # fmt: skip

    def __str__(self) -> str:
        named = [(term, factor) for term, factor in sorted(self.terms.items()) if term]
        shown = " + ".join(term if factor == 1 else f"{factor} * {term}" for term, factor in named)
        constant = self.terms.get("", 0)
        if not shown:
            return str(constant)
        return shown if not constant else f"{shown} {'-' if constant < 0 else '+'} {abs(constant)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The numbers that the input `name` takes, from `low` to `high`, both of them included.

    There is one pair for each position along `axes`, which have fixed sizes, row-major; all other axes have the same.
    None if nothing bounds such elements. `is_index` says whether numbers beyond `high` are out of range; otherwise
    they are just unusual.
    """

    name: str
    axes: tuple[int, ...]
    low: tuple[Bound | None, ...]
    high: tuple[Bound | None, ...]
    is_index: bool

    def at(self, tensor: Tensor, sizes: Mapping[str, int]) -> tuple[Array, Array]:
        """The least and largest numbers at `sizes`, NaN if there is no bound; both broadcast with `tensor`'s shape."""
        shape = [size if axis in self.axes and size else 1 for axis, size in enumerate(tensor.shape)]
        low, high = (
            np.array([math.nan if bound is None else bound.at(sizes) for bound in bounds], np.float64).reshape(shape)
            for bounds in (self.low, self.high)
        )
        # No array has such elements at these sizes, or two uses contradict one another: indices count.
        high = np.maximum(high, 0)
        return np.where(low > high, high, low), high

    def __str__(self) -> str:
        """The widest numbers, for users: `0 to v - 1`."""
        pairs = dict.fromkeys(
            f"{0 if low is None else low} to {'any' if high is None else high}"
            for low, high in zip(self.low, self.high, strict=True)
            if (low, high) != (None, None)
        )
        return " or ".join(pairs)


def ranges_of(listing: HloListing | None, signature: Signature) -> tuple[Range, ...]:
    """The ranges of inputs that are used as indices, lengths, divisors or the like.

    `signature` is that of the model whose listing this is. Empty if it has no listing.
    """
    if listing is None or not listing.modules:
        return ()
    modules = _few(listing)
    inputs = signature.inputs
    shapes = [[_carried(tensor, module) for tensor in inputs] for module in modules]
    if max(sum(math.prod(shape.sizes) for shape in each) for each in shapes) > _MOST:
        return ()
    points = [{_BATCH: module.batch_size, **module.sizes} for module in modules]
    found = [taken(module, each) for module, each in zip(modules, shapes, strict=True)]
    starts = [np.cumsum([0, *(math.prod(shape.sizes) for shape in each)]) for each in shapes]
    ranges = []
    for number, tensor in enumerate(inputs):
        if tensor.dtype is DType.BOOL or tensor.carried is not tensor:
            continue
        cells = [
            _cells(one, each[number].sizes, int(start[number]))
            for each, one, start in zip(shapes, found, starts, strict=True)
        ]
        made = _range(tensor, cells, points)
        if made is not None:
            ranges.append(made)
    return tuple(ranges)


def _few(listing: HloListing) -> Sequence[Module]:
    """Modules at small sizes: two batch sizes, and samples of symbols."""
    return [*listing.modules[:2], *listing.samples[:-1]]


def _carried(tensor: Tensor, module: Module) -> ArrayShape:
    carried = tensor.carried
    axes = carried.axes or ("",) * len(carried.shape)
    sizes = tuple(
        module.batch_size if size is None else module.sizes.get(axis, size)
        for axis, size in zip(axes, carried.shape, strict=True)
    )
    return ArrayShape(dtype=carried.dtype.value, sizes=sizes)


_Cells = tuple[Array, Array, Array]
"""The bounds on each element of one input (input_bounds.Taken)."""


def _cells(found: Taken, sizes: Sequence[int], start: int) -> _Cells:
    part = slice(start, start + math.prod(sizes))
    return found.low[part].reshape(sizes), found.high[part].reshape(sizes), found.usual[part].reshape(sizes)


def _differing(tensor: Tensor, modules: Sequence[_Cells]) -> tuple[int, ...]:
    """The axes of fixed size along which bounds differ."""
    axes = tensor.axes or ("",) * len(tensor.shape)
    fixed = [number for number, size in enumerate(tensor.shape) if size and not axes[number]]
    # In a module whose symbols have one size, bounds may be equal that differ elsewhere.
    return tuple(
        axis for axis in fixed if any((each != each.take([0], axis)).any() for cells in modules for each in cells)
    )


def _range(tensor: Tensor, modules: Sequence[_Cells], points: Sequence[Mapping[str, int]]) -> Range | None:
    axes = _differing(tensor, modules)
    others = tuple(axis for axis in range(len(tensor.shape)) if axis not in axes)
    # The narrowest bounds along all other axes; a column for each module.
    low, high, usual = (
        np.stack([narrowest(cells[place], axis=others, initial=none).reshape(-1) for cells in modules], axis=1)
        for place, (narrowest, none) in enumerate(((np.max, -np.inf), (np.min, np.inf), (np.max, -np.inf)))
    )
    is_index = bool(np.isfinite(high).any())
    # Where nothing bounds an element, what it is compared with does.
    high = np.where(np.isfinite(high), high, np.where(np.isfinite(usual), usual, np.inf))
    limits = _limits(tensor)
    lows, highs = (
        tuple(None if not np.isfinite(cell).all() else _bound(np.clip(cell, *limits), points) for cell in cells)
        for cells in (np.where(np.isinf(low) & np.isfinite(high), 0, low), high)
    )
    if not any(each is not None for each in (*lows, *highs)):
        return None
    return Range(name=tensor.name, axes=axes, low=lows, high=highs, is_index=is_index)


def _limits(tensor: Tensor) -> tuple[float, float]:
    if tensor.dtype.is_inexact:
        return 0, 1 << 24
    limits = np.iinfo(tensor.dtype.value)
    return 0, float(min(limits.max, 1 << 53))


def _bound(values: Array, points: Sequence[Mapping[str, int]]) -> Bound:
    """The simplest polynomial with these values at `points`; if there is none, the least of them."""
    names = [*points[0]]
    pairs = ["*".join(pair) for pair in itertools.combinations_with_replacement(names, 2)]
    for terms in ([], *([name] for name in names), names, *([pair] for pair in pairs), [*names, *pairs]):
        wanted = ["", *terms]
        columns = [[math.prod(point[name] for name in term.split("*") if name) for term in wanted] for point in points]
        factors = np.linalg.lstsq(np.array(columns, np.float64), values, rcond=None)[0].round()
        if np.array_equal(np.array(columns) @ factors, values):
            return Bound(terms={term: int(factor) for term, factor in zip(wanted, factors, strict=True) if factor})
    return Bound(terms={"": int(values.min())})
