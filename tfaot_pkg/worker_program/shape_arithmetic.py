"""Arithmetic of polynomials in sizes for shape_transfer.py and shape_modules.py: exact, or None if there is none.

Each function takes a step, which has the `ranges` of sizes: some results follow from these. A model's numbers have
types, which wrap around or round: what is decided by a number that may have done so is no polynomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from polynomials import Polynomial
from shape_values import Choice, Known

if TYPE_CHECKING:
    from fractions import Fraction


_MOST_ROWS = 1 << 20
"""Up to so many rows, types are known not to wrap around or round."""
_EXACT = {"int64": (1 << 63) - 1, "float64": 1 << 53, "float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}
"""The largest integer below which each type has all integers."""
_EXACT_INT32 = (1 << 31) - 1


_ANY = (1, math.inf)
Ranges: TypeAlias = Mapping[str, tuple[int, float]]
"""The least and the largest size of each symbol; infinity for no limit."""


Bound: TypeAlias = "Fraction | float"


class Ranged(Protocol):
    """What rules ask for: the ranges of sizes."""

    @property
    def ranges(self) -> Ranges: ...


class Step(Ranged, Protocol):
    """An operation that computes with sizes."""

    def choice(self, sizes: Iterable[str]) -> Choice: ...


Function: TypeAlias = Callable[..., "Polynomial | None"]
"""`function(step, *polynomials)`: the polynomial that the model computes; None if there is none."""


@dataclass(frozen=True)
class _Several:
    """A step at sizes of at least two."""

    ranges: Ranges


def computed(step: Step, function: Function, contents: Sequence[Known], dtype: str = "int32") -> Known:
    """`function(step, *polynomials)` of each element, with a Choice where it gives None. Operands have type `dtype`."""

    def element(*elements: Polynomial | Choice) -> Polynomial | Choice:
        if choice := next((each for each in elements if isinstance(each, Choice)), None):
            return replace(choice, of_several=None)
        operands = [each for each in elements if isinstance(each, Polynomial)]
        found = function(step, *operands)
        if found is not None and _is_reliable(step, function, operands, found, dtype):
            return found
        names = frozenset().union(*(each.names for each in operands))
        least = {name: (max(2, low), high) for name in names for low, high in [step.ranges.get(name, _ANY)]}
        several = function(_Several({**step.ranges, **least}), *operands)
        made = step.choice(names)
        return made if several is None or several.names else replace(made, of_several=several)

    values = np.frompyfunc(element, len(contents), 1)(*(each.values for each in contents))
    return Known(np.asarray(values, object))


def is_exact(step: Ranged, one: Polynomial, dtype: str) -> bool:
    """Whether a number of this type is the polynomial, without rounding or wrapping around."""
    if not one.names:
        return True
    ranges = {name: (least, min(most, _MOST_ROWS)) for name, (least, most) in step.ranges.items()}
    low, high = one.bounds(ranges)
    return one.is_integer and max(-low, high) <= _EXACT.get(dtype, _EXACT_INT32)


def _is_reliable(
    step: Ranged, function: Function, operands: Sequence[Polynomial], found: Polynomial, dtype: str
) -> bool:
    """Whether the model gets `found`, and not what rounded operands would give: a decision, or an integer."""
    # Integers that wrapped around may do so again: sums and products are right if the result fits.
    if function in _MODULAR and not dtype.startswith(("float", "bfloat")):
        return True
    return all(is_exact(step, each, dtype) for each in operands) or (
        bool(found.names) and not is_exact(step, found, dtype)
    )


def _may_be_zero(step: Ranged, one: Polynomial) -> bool:
    low, high = one.bounds(step.ranges)
    return low <= 0 <= high


def added(step: Ranged, *operands: Polynomial) -> Polynomial:
    return sum(operands[1:], start=operands[0])


def subtracted(step: Ranged, one: Polynomial, two: Polynomial) -> Polynomial:
    return one - two


def multiplied(step: Ranged, one: Polynomial, two: Polynomial) -> Polynomial:
    return one * two


def negated(step: Ranged, one: Polynomial) -> Polynomial:
    return -one


_MODULAR = frozenset({added, subtracted, multiplied, negated})


def larger(step: Ranged, one: Polynomial, two: Polynomial) -> Polynomial | None:
    low, high = (one - two).bounds(step.ranges)
    return one if low >= 0 else two if high <= 0 else None


def smaller(step: Ranged, one: Polynomial, two: Polynomial) -> Polynomial | None:
    low, high = (one - two).bounds(step.ranges)
    return two if low >= 0 else one if high <= 0 else None


def floored(step: Ranged, one: Polynomial, two: Polynomial) -> Polynomial | None:
    """The quotient, rounded down."""
    if _may_be_zero(step, two):
        return None
    if (exact := one.quotient(two)) is not None and exact.is_integer:
        return exact
    low, _ = one.bounds(step.ranges)
    if low >= 0 and (two - one).bounds(step.ranges)[0] > 0:
        return Polynomial()
    if two.names:
        return None
    varying = one.varying.scaled(1 / two.constant)
    return varying + Polynomial.number(math.floor(one.constant / two.constant)) if varying.is_integer else None


def toward_zero(step: Ranged, one: Polynomial, two: Polynomial) -> Polynomial | None:
    """The quotient of integers, rounded toward zero."""
    if _may_be_zero(step, two):
        return None
    if not one.names and not two.names:
        return Polynomial.number(math.trunc(one.constant / two.constant))
    if (exact := one.quotient(two)) is not None and exact.is_integer:
        return exact
    is_positive = one.bounds(step.ranges)[0] >= 0 and two.bounds(step.ranges)[0] > 0
    return floored(step, one, two) if is_positive else None


def remainder(quotient: Function) -> Function:
    """The remainder of one of the quotients."""

    def found(step: Ranged, one: Polynomial, two: Polynomial) -> Polynomial | None:
        times = quotient(step, one, two)
        return None if times is None else one - times * two

    return found


def true_quotient(step: Ranged, one: Polynomial, two: Polynomial) -> Polynomial | None:
    return None if _may_be_zero(step, two) else one.quotient(two)


def absolute(step: Ranged, one: Polynomial) -> Polynomial | None:
    low, high = one.bounds(step.ranges)
    return one if low >= 0 else -one if high <= 0 else None


def sign(step: Ranged, one: Polynomial) -> Polynomial | None:
    low, high = one.bounds(step.ranges)
    return Polynomial.number(1) if low > 0 else Polynomial.number(-1) if high < 0 else None if one.terms else one


def truth(step: Ranged, one: Polynomial) -> Polynomial | None:
    """Whether it is not 0."""
    low, high = one.bounds(step.ranges)
    return _bool(True) if low > 0 or high < 0 else None if one.terms else _bool(False)


def power(step: Ranged, one: Polynomial, two: Polynomial) -> Polynomial | None:
    if two.names or two.constant.denominator != 1:
        return None
    exponent = int(two.constant)
    if not one.names and abs(exponent) < 64 and (one.terms or exponent >= 0):
        return Polynomial.number(one.constant**exponent)
    return math.prod([one] * exponent, start=Polynomial.number(1)) if 0 <= exponent <= 2 else None


def _compared(is_true: Callable[[Bound, Bound], bool], is_false: Callable[[Bound, Bound], bool]) -> Function:
    """A comparison, from functions of the least and the greatest difference."""

    def compared(step: Ranged, one: Polynomial, two: Polynomial) -> Polynomial | None:
        low, high = (one - two).bounds(step.ranges)
        return _bool(True) if is_true(low, high) else _bool(False) if is_false(low, high) else None

    return compared


def _bool(value: bool) -> Polynomial:
    return Polynomial.number(int(value))


def _logical(function: Callable[..., bool]) -> Function:
    def found(step: Ranged, *operands: Polynomial) -> Polynomial | None:
        return None if any(each.names for each in operands) else _bool(function(*(bool(e.constant) for e in operands)))

    return found


def _rounded(function: Callable[[Fraction], int]) -> Function:
    """A rounding: integers stay."""

    def found(step: Ranged, one: Polynomial) -> Polynomial | None:
        if one.is_integer:
            return one
        return None if one.names else Polynomial.number(function(one.constant))

    return found


COMPARED = {
    "EQ": _compared(lambda low, high: low == high == 0, lambda low, high: low > 0 or high < 0),
    "GE": _compared(lambda low, high: low >= 0, lambda low, high: high < 0),
    "GT": _compared(lambda low, high: low > 0, lambda low, high: high <= 0),
    "LE": _compared(lambda low, high: high <= 0, lambda low, high: low > 0),
    "LT": _compared(lambda low, high: high < 0, lambda low, high: low >= 0),
    "NE": _compared(lambda low, high: low > 0 or high < 0, lambda low, high: low == high == 0),
}
LOGICAL = {
    "and": _logical(lambda one, two: one and two),
    "not": _logical(lambda one: not one),
    "or": _logical(lambda one, two: one or two),
}
ROUNDED = {"ceil": _rounded(math.ceil), "floor": _rounded(math.floor), "round": _rounded(round)}
