"""Numbers that inputs are drawn from: ranges that the spec states, and those that the model's operations show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfaot_pkg.analysis.program.ranges import Range
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.spec.rules import Limit
from tfaot_pkg.spec.types import Validation
from tfaot_pkg.worker_program.messages.sources import CategoryColumn, TreesFacts

_LARGEST = float(1 << 53)
"""The largest integer in a range: all smaller ones are floats, too."""
_BEYOND = (1, 2)
"""How far numbers of the class `integers` are beyond the end of a range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The least and largest number of each element; arrays that broadcast with an input's shape, NaN for no limit."""

    low: Array
    high: Array
    is_index: bool

    @property
    def given(self) -> Array:
        """Mask of the elements that have a range."""
        found: Array = ~(np.isnan(self.low) & np.isnan(self.high))
        return found

    def whole(self, dtype: DType) -> tuple[Array, Array]:
        """The ends for integers of `dtype`; without a range, 0 and 1."""
        low = np.where(np.isnan(self.low), np.fmin(0, self.high), self.low)
        low = np.where(np.isnan(low), 0, np.ceil(low))
        high = np.where(np.isnan(self.high), low + 1, np.floor(self.high))
        limits = None if dtype.is_inexact else np.iinfo(dtype.value)
        least, most = (-_LARGEST, _LARGEST) if limits is None else (float(limits.min), float(limits.max))
        low, high = (np.clip(each, max(least, -_LARGEST), min(most, _LARGEST)) for each in (low, np.maximum(low, high)))
        return low.astype(np.int64), high.astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How inputs are drawn. `found` are the model's own ranges, `stated` those of the spec, which replace them.

    If `positive`, numbers without a range are greater than zero. With `is_long`, a row of the model takes so long that
    subnormal numbers stand among usual ones: CPUs take a hundred times as long for them. `categories` are columns of
    the one input of decision trees.
    """

    found: Mapping[str, Range] = field(default_factory=dict)
    stated: Mapping[str, tuple[Limit, Limit]] = field(default_factory=dict)
    positive: bool = False
    is_long: bool = False
    categories: tuple[CategoryColumn, ...] = ()

    def with_categories(self, drawn: dict[str, Array], seed: int) -> dict[str, Array]:
        """`drawn`, with known categories in the columns that have lists of them.

        Random numbers are no categories: some libraries reject them, and for others all of them are one category.
        """
        for column in self.categories:
            # A stream per column, so that without one column the others still get the same categories.
            generator = np.random.default_rng([seed, column.column])
            values = column.values if column.given == "values" else range(len(column.values))
            for array in drawn.values() if len(values) else ():
                array[:, column.column] = generator.choice(np.array(values, np.float64), len(array))
        return drawn

    def ends(self, tensor: Tensor, sizes: Mapping[str, int]) -> Ends | None:
        """The ends of one input at `sizes` of symbols; None if it has no range."""
        if tensor.name in self.stated and tensor.dtype is not DType.BOOL:
            low, high = (np.full([1] * len(tensor.shape), limit.at(sizes)) for limit in self.stated[tensor.name])
            return Ends(low=low, high=np.maximum(low, high), is_index=not tensor.dtype.is_inexact)
        found = self.found.get(tensor.name)
        if found is None:
            return None
        low, high = found.at(tensor, sizes)
        return Ends(low=low, high=high, is_index=found.is_index)

    def is_stated(self, tensor: Tensor) -> bool:
        return tensor.name in self.stated


USUAL = Drawing()
"""Numbers of a model that nothing is known of."""


def drawing_of(validation: Validation, found: Sequence[Range], trees: TreesFacts | None = None) -> Drawing:
    categories = () if trees is None else trees.categories
    return Drawing(found={each.name: each for each in found}, stated=validation.ranges, categories=categories)


def require_inputs(validation: Validation, signature: Signature) -> None:
    """Raise SpecError if `validation.ranges` name what is no input of the model, or has no order."""
    inputs = {tensor.name: tensor for tensor in signature.inputs}
    for name in validation.ranges:
        if name not in inputs:
            raise SpecError(
                f"validation.ranges: the model has no input {name!r}", hint=f"its inputs are: {', '.join(inputs)}"
            )
        if inputs[name].dtype in (DType.BOOL, DType.COMPLEX64, DType.COMPLEX128):
            raise SpecError(
                f"validation.ranges: {name!r} is {inputs[name].dtype.value}, whose values have no order",
                hint="give ranges of integers and floats",
            )


def sizes_of(signature: Signature) -> dict[str, int]:
    """The sizes of symbols in `signature`."""
    return {
        axis: size
        for tensor in signature.inputs
        for axis, size in zip(tensor.axes, tensor.shape, strict=False)
        if axis and size is not None
    }


def whole_numbers(generator: np.random.Generator, ends: Ends, dtype: DType, shape: Sequence[int]) -> Array:
    """Integers between the `ends`, as int64; 0 and 1 where there are none."""
    low, high = ends.whole(dtype)
    found: Array = generator.integers(low, high + 1, shape)
    return found


def beyond(generator: np.random.Generator, ends: Ends, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """Integers just out of range: as many below zero as there are places, or fewer or more by one."""
    # An index beyond either end; frameworks count -1 to -size from the end, if they take negative indices at all.
    size = np.where(np.isnan(ends.high), 1, ends.high) + 1
    least = np.where(np.isnan(ends.low), 0, ends.low)
    near = [least - 1, -size, -size - 1, *(size - 1 + step for step in _BEYOND)]
    limits = np.iinfo(dtype)
    chosen = generator.integers(0, len(near), shape)
    values = np.choose(chosen, [np.broadcast_to(each, shape) for each in near])
    found: Array = np.clip(values, float(limits.min), min(limits.max, _LARGEST)).astype(dtype)
    return found


def below_zero(generator: np.random.Generator, ends: Ends, shape: Sequence[int]) -> Array:
    """Integers from minus the number of places up to the end: negative ones count from the end, in some frameworks."""
    _, high = ends.whole(DType.INT64)
    found: Array = generator.integers(-(high + 1), high + 1, shape)
    return np.where(ends.given, found, generator.integers(0, 2, shape))
