"""`Integers`: knowledge about the integers in an array, as far as indices into the batch need it.

Each element is `row * R + batch * B + iteration * T + r`: R is the number of its row in the batch, B the batch size, T
the number of the iteration of a loop over the rows; r does not depend on the position in the batch, `low <= r <= high`.

An index that a scatter leaves out, as in `where(mask, index, -1)` or `where(mask, index, B * limit)`, is not of this
form. If `limit` is finite, only elements from 0 to `B * limit - 1` are, with `least <= r <= most`, and no arithmetic is
followed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# float64, because bounds may be infinite; it holds integers up to 2**53 exactly, far more than any index.
Array = npt.NDArray[np.float64]

NEGATIVE = float(np.finfo(np.float64).max)
"""`limit` if the only elements of another form are negative."""

# The eight arrays of one `Integers` of this size take 64 MiB.
LARGEST = 1 << 20
"""The largest array, in elements, whose elements are tracked one by one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Integers:
    """Arrays of the shape of one row (its axis has the elements per row), or of the shape () for all elements."""

    row: Array
    batch: Array
    iteration: Array
    low: Array
    high: Array
    least: Array
    most: Array
    limit: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.low.shape

    @property
    def parts(self) -> tuple[Array, ...]:
        return (self.row, self.batch, self.iteration, self.low, self.high, self.least, self.most, self.limit)

    @property
    def placed(self) -> bool:
        """Whether any element depends on its position in the batch, or on the batch size."""
        return bool(self.coefficients.any() or self.leaves)

    @property
    def leaves(self) -> bool:
        """Whether elements may be outside on purpose: their r may depend on the position in the batch."""
        return bool(np.isfinite(self.limit).any())

    @property
    def coefficients(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = (self.row != 0) | (self.batch != 0) | (self.iteration != 0)
        return found

    def is_exactly(
        self, *, row: float = 0, batch: float = 0, iteration: float = 0, low: float = 0, high: float = 0
    ) -> bool:
        """Whether all elements have these coefficients, and r lies between `low` and `high`."""
        return bool(
            (self.row == row).all()
            and (self.batch == batch).all()
            and (self.iteration == iteration).all()
            and (self.low >= low).all()
            and (self.high <= high).all()
        )

    def equals(self, other: Integers) -> bool:
        return self.shape == other.shape and all(
            np.array_equal(one, two) for one, two in zip(self.parts, other.parts, strict=True)
        )

    def mapped(self, change: Callable[[Array], Array]) -> Integers:
        """All parts, changed in shape by the same function."""
        return _of([change(part) for part in self.parts])

    def expanded(self, shape: Sequence[int]) -> Integers:
        """Broadcast to `shape`."""
        return self if self.shape == tuple(shape) else self.mapped(lambda part: np.broadcast_to(part, shape))

    def reduced(self, axis: int | tuple[int, ...]) -> Integers | None:
        """What holds of any element along `axis`; None if coefficients differ."""
        if self.shape == ():
            return self
        lower = (part.min(axis=axis) for part in (self.low, self.least, self.limit))
        upper = (part.max(axis=axis) for part in (self.high, self.most))
        (low, least, limit), (high, most) = lower, upper
        coefficients = self.parts[:3]
        # One set of coefficients describes all elements, so elements with different ones have no common description.
        if any((part.min(axis=axis) != part.max(axis=axis)).any() for part in coefficients):
            return None
        return _of([*(part.min(axis=axis) for part in coefficients), low, high, least, most, limit])

    @property
    def whole(self) -> Integers | None:
        """What holds of any element; None if coefficients differ."""
        return self.reduced(tuple(range(len(self.shape))))

    def inside(self, limit: float) -> Integers:
        """What holds of those elements that are 0 to `B * limit - 1`."""
        if (self.limit < limit).any():
            return self
        return _of([*self.parts[:3], self.least, self.most])

    def bounds(self) -> tuple[Array, Array]:
        """The least and the largest value over all rows, iterations and batch sizes."""
        lower, upper = np.full(self.shape, np.inf), np.full(self.shape, -np.inf)
        # Linear in row and iteration, so the extremes are at the first and last ones; B is 1 or more, without a limit.
        for last_row in (0, 1):
            for last_iteration in (0, 1):  # of B rows the last one is B - 1
                slope = self.batch + self.row * last_row + self.iteration * last_iteration
                constant = -self.row * last_row - self.iteration * last_iteration
                # Opposite infinities add up to NaN, which becomes "no bound" below.
                with np.errstate(invalid="ignore"):
                    lower = np.minimum(lower, np.where(slope < 0, -np.inf, slope) + constant + self.low)
                    upper = np.maximum(upper, np.where(slope > 0, np.inf, slope) + constant + self.high)
        return np.nan_to_num(lower, nan=-np.inf, neginf=-np.inf, posinf=np.inf), np.nan_to_num(
            upper, nan=np.inf, neginf=-np.inf, posinf=np.inf
        )


def _of(parts: Sequence[Any]) -> Integers:
    """Of all parts, or of the first five: nothing more is known of some elements then."""
    row, batch, iteration, low, high, *inside = parts
    least, most, limit = inside or (low, high, np.inf)
    arrays = [np.asarray(part, np.float64) for part in (row, batch, iteration, low, high, least, most, limit)]
    row, batch, iteration, low, high, least, most, limit = np.broadcast_arrays(*arrays)
    return Integers(
        row=row, batch=batch, iteration=iteration, low=low, high=high, least=least, most=most, limit=limit
    )  # fmt: skip


def between(low: Any, high: Any, *, row: Any = 0, batch: Any = 0, iteration: Any = 0) -> Integers:
    return _of([row, batch, iteration, low, high])


UNKNOWN = between(-np.inf, np.inf)
"""Elements of unknown value that do not depend on the position in the batch."""


def add(one: Integers, two: Integers) -> Integers:
    return _of([first + second for first, second in zip(one.parts[:5], two.parts[:5], strict=True)])


def negate(one: Integers) -> Integers:
    return _of([-one.row, -one.batch, -one.iteration, -one.high, -one.low])


def subtract(one: Integers, two: Integers) -> Integers:
    return add(one, negate(two))


def multiply(one: Integers, two: Integers) -> Integers | None:
    """None if both depend on the position, or if one does and the other is not known exactly."""
    for known, other in ((one, two), (two, one)):
        if not known.placed and np.array_equal(known.low, known.high):
            factor = known.low
            # 0 times an unknown bound is 0, but 0 times infinity is NaN in IEEE 754.
            with np.errstate(invalid="ignore"):
                ends = np.nan_to_num(np.stack(np.broadcast_arrays(other.low * factor, other.high * factor)), nan=0.0,
                                     neginf=-np.inf, posinf=np.inf)  # fmt: skip
            return _of([*(part * factor for part in other.parts[:3]), ends.min(axis=0), ends.max(axis=0)])
    return None if one.placed or two.placed else UNKNOWN


def divide(one: Integers, two: Integers) -> Integers | None:
    """The quotient, if the divisor is known, positive, and divides the coefficients of row, batch and iteration."""
    if not _divides(two, one):
        return None
    divisor = two.low
    # Nothing is negative here, so floor equals HLO's division, which rounds toward zero.
    return _of([*(part / divisor for part in one.parts[:3]), *(np.floor(part / divisor) for part in one.parts[3:5])])


def absolute(one: Integers) -> Integers | None:
    """None if an element depends on the position, or may be the least integer of its type, which has no opposite."""
    if one.placed or (one.low <= np.iinfo(np.int32).min).any():
        return None
    least = np.maximum(np.maximum(one.low, -one.high), 0)
    return between(least, np.maximum(np.abs(one.low), np.abs(one.high)))


def remainder(one: Integers, two: Integers) -> Integers | None:
    """HLO's, which has the sign of the dividend."""
    if not _divides(two, one):
        return _remainder_of_any(one, two)
    divisor = two.low
    # The coefficients are multiples of the divisor, so they vanish: only r counts. A smaller r is its own remainder.
    small = one.high < divisor
    return between(np.where(small, one.low, 0), np.where(small, one.high, divisor - 1))


def _remainder_of_any(one: Integers, two: Integers) -> Integers | None:
    if one.placed or two.placed or (two.low <= 0).any():
        return None
    most = two.high - 1
    return between(np.where(one.low >= 0, 0, -most), np.where(one.high <= 0, 0, most))


def _divides(two: Integers, one: Integers) -> bool:
    if two.placed or not np.array_equal(two.low, two.high) or (two.low <= 0).any() or (one.low < 0).any():
        return False
    if any((part < 0).any() for part in one.parts[:3]):
        return False
    return all((np.mod(part, two.low) == 0).all() for part in one.parts[:3])


def minimum(one: Integers, two: Integers) -> Integers | None:
    lower, upper = subtract(one, two).bounds()
    return _chosen(upper <= 0, lower >= 0, one, two, (np.minimum, np.minimum))


def maximum(one: Integers, two: Integers) -> Integers | None:
    lower, upper = subtract(one, two).bounds()
    return _chosen(lower >= 0, upper <= 0, one, two, (np.maximum, np.maximum))


def _chosen(
    first: npt.NDArray[np.bool_],
    second: npt.NDArray[np.bool_],
    one: Integers,
    two: Integers,
    of_both: tuple[Callable[[Array, Array], Array], Callable[[Array, Array], Array]],
) -> Integers | None:
    """`one` if `first` is known to hold, `two` if `second` is, otherwise both by `of_both`; None if unknown."""
    same = np.logical_and.reduce([x == y for x, y in zip(one.parts[:3], two.parts[:3], strict=True)])
    if not (first | second | same).all():
        return None
    coefficients = [np.where(first | same, x, y) for x, y in zip(one.parts[:3], two.parts[:3], strict=True)]
    ends = [
        np.where(first, x, np.where(second, y, end(x, y)))
        for end, x, y in zip(of_both, one.parts[3:5], two.parts[3:5], strict=True)
    ]
    return _of([*coefficients, *ends])


def join(one: Integers, two: Integers) -> Integers | None:
    """What holds for elements of either; None if they depend on the position in different ways."""
    if one.shape != two.shape and () not in (one.shape, two.shape):
        return None
    if any((x != y).any() for x, y in zip(one.parts[:3], two.parts[:3], strict=True)):
        return _or_outside(one, two)
    return _of([
        *one.parts[:3],
        np.minimum(one.low, two.low), np.maximum(one.high, two.high),
        np.minimum(one.least, two.least), np.maximum(one.most, two.most),
        np.minimum(one.limit, two.limit),
    ])  # fmt: skip


def _or_outside(one: Integers, two: Integers) -> Integers | None:
    """What holds for elements of either, if all of one of them are negative, or at least a multiple of B."""
    for inside, other in ((one, two), (two, one)):
        beyond = (other.row == 0) & (other.iteration == 0) & (other.batch > 0) & (other.low >= 0)
        negative = other.bounds()[1] < 0
        if (negative | beyond).all():
            limit = np.where(negative, NEGATIVE, other.batch)
            least, most = inside.least, inside.most
            return _of([*inside.parts[:3], -np.inf, np.inf, least, most, np.minimum(inside.limit, limit)])
    return None


def widened(before: Integers, after: Integers) -> Integers:
    """`after`, without the bounds that grew since `before`: the search for a fixed point would not end."""
    before = before.expanded(after.shape) if before.shape == () else before
    low = np.where(after.low < before.low, -np.inf, after.low)
    high = np.where(after.high > before.high, np.inf, after.high)
    least = np.where(after.least < before.least, -np.inf, after.least)
    most = np.where(after.most > before.most, np.inf, after.most)
    limit = np.where(after.limit < before.limit, 0, after.limit)
    return _of([*after.parts[:3], low, high, least, most, limit])


def select(pred: Integers, one: Integers, two: Integers) -> Integers | None:
    first, second = pred.low >= 1, pred.high <= 0
    if one.leaves or two.leaves or not (first | second).any():
        return join(one, two)
    return _chosen(first, second, one, two, (np.minimum, np.maximum))


def compare(direction: str, one: Integers, two: Integers) -> tuple[Integers, bool]:
    """The truth values as 0 and 1, and whether unknown ones among them depend on the position."""
    difference = subtract(one, two)
    lower, upper = difference.bounds()
    true, false = {
        "LT": (upper < 0, lower >= 0),
        "LE": (upper <= 0, lower > 0),
        "GT": (lower > 0, upper <= 0),
        "GE": (lower >= 0, upper < 0),
        "EQ": ((lower == 0) & (upper == 0), (lower > 0) | (upper < 0)),
        "NE": ((lower > 0) | (upper < 0), (lower == 0) & (upper == 0)),
    }[direction]
    known = true | false
    return between(np.where(true, 1, 0), np.where(false, 0, 1)), bool((difference.coefficients & ~known).any())


def of_literals(small: Array, large: Array, sizes: tuple[int, int]) -> Integers | None:
    """Constants without an axis of rows at two batch sizes: a line through both."""
    slope = (large - small) / (sizes[1] - sizes[0])
    constant = small - slope * sizes[0]
    # A fraction is not linear: batch // 2 is 2 at batch size 5 and 3 at 7, but 1 at 3.
    if not np.array_equal(slope, np.round(slope)):
        return None
    return between(constant, constant, batch=slope)


def of_rows(small: Array, large: Array, sizes: tuple[int, int]) -> Integers | None:
    """Constants whose first axis is that of rows; None if they are not linear in the number of the row."""
    steps = [values[1] - values[0] for values in (small, large)]
    if not np.array_equal(*steps):
        return None
    for values in (small, large):
        numbers = np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1))
        if not np.array_equal(values, values[0] + numbers * steps[0]):
            return None
    start = of_literals(small[0], large[0], sizes)
    return None if start is None else add(start, between(0, 0, row=steps[0]))
