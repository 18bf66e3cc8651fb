"""Arithmetic of polynomials in sizes for shape_transfer.py and shape_modules.py: exact, or None if there is none.

Each function takes a step, which has the `ranges` of sizes: some results follow from these. A model's numbers have
types, which wrap around or round: what is decided by a number that may have done so is no polynomial.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from polynomials import BATCH, Polynomial
from shape_values import Choice, Known

_MOST_ROWS = 1 << 20
"""Up to so many rows, types are known not to wrap around or round."""
_EXACT = {"int64": (1 << 63) - 1, "float64": 1 << 53, "float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}
"""The largest integer below which each type has all integers."""
_EXACT_INT32 = (1 << 31) - 1


@dataclass(frozen=True)
class _Several:
    """A step of at least two rows."""

    ranges: dict


def computed(step, function, contents: list, dtype: str = "int32") -> Known:
    """`function(step, *polynomials)` of each element, with a Choice where it gives None. Operands have type `dtype`."""

    def element(*elements):
        if found := next((each for each in elements if isinstance(each, Choice)), None):
            return replace(found, of_several=None)
        found = function(step, *elements)
        if found is not None and _is_reliable(step, function, elements, found, dtype):
            return found
        several = function(_Several({**step.ranges, BATCH: (2, math.inf)}), *elements)
        made = step.choice(frozenset().union(*(each.names for each in elements)))
        return made if several is None or several.names else replace(made, of_several=several)

    values = np.frompyfunc(element, len(contents), 1)(*(each.values for each in contents))
    return Known(np.asarray(values, object))


def is_exact(step, one: Polynomial, dtype: str) -> bool:
    """Whether a number of this type is the polynomial, without rounding or wrapping around."""
    if not one.names:
        return True
    ranges = {name: (least, min(most, _MOST_ROWS)) for name, (least, most) in step.ranges.items()}
    return one.is_integer and max(map(abs, one.bounds(ranges))) <= _EXACT.get(dtype, _EXACT_INT32)


def _is_reliable(step, function, operands, found: Polynomial, dtype: str) -> bool:
    """Whether the model gets `found`, and not what rounded operands would give: a decision, or an integer."""
    # Integers that wrapped around may do so again: sums and products are right if the result fits.
    if function in _MODULAR and not dtype.startswith(("float", "bfloat")):
        return True
    return all(is_exact(step, each, dtype) for each in operands) or (
        bool(found.names) and not is_exact(step, found, dtype)
    )


def _may_be_zero(step, one: Polynomial) -> bool:
    low, high = one.bounds(step.ranges)
    return low <= 0 <= high


def added(step, *operands) -> Polynomial:
    return sum(operands[1:], start=operands[0])


def subtracted(step, one: Polynomial, two: Polynomial) -> Polynomial:
    return one - two


def multiplied(step, one: Polynomial, two: Polynomial) -> Polynomial:
    return one * two


def negated(step, one: Polynomial) -> Polynomial:
    return -one


_MODULAR = frozenset({added, subtracted, multiplied, negated})


def larger(step, one: Polynomial, two: Polynomial):
    low, high = (one - two).bounds(step.ranges)
    return one if low >= 0 else two if high <= 0 else None


def smaller(step, one: Polynomial, two: Polynomial):
    low, high = (one - two).bounds(step.ranges)
    return two if low >= 0 else one if high <= 0 else None


def floored(step, one: Polynomial, two: Polynomial):
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


def toward_zero(step, one: Polynomial, two: Polynomial):
    """The quotient of integers, rounded toward zero."""
    if _may_be_zero(step, two):
        return None
    if not one.names and not two.names:
        return Polynomial.number(math.trunc(one.constant / two.constant))
    if (exact := one.quotient(two)) is not None and exact.is_integer:
        return exact
    is_positive = one.bounds(step.ranges)[0] >= 0 and two.bounds(step.ranges)[0] > 0
    return floored(step, one, two) if is_positive else None


def remainder(quotient):
    """The remainder of one of the quotients."""

    def found(step, one: Polynomial, two: Polynomial):
        times = quotient(step, one, two)
        return None if times is None else one - times * two

    return found


def true_quotient(step, one: Polynomial, two: Polynomial):
    return None if _may_be_zero(step, two) else one.quotient(two)


def absolute(step, one: Polynomial):
    low, high = one.bounds(step.ranges)
    return one if low >= 0 else -one if high <= 0 else None


def sign(step, one: Polynomial):
    low, high = one.bounds(step.ranges)
    return Polynomial.number(1) if low > 0 else Polynomial.number(-1) if high < 0 else None if one.terms else one


def truth(step, one: Polynomial):
    """Whether it is not 0."""
    low, high = one.bounds(step.ranges)
    return _bool(True) if low > 0 or high < 0 else None if one.terms else _bool(False)


def power(step, one: Polynomial, two: Polynomial):
    if two.names or two.constant.denominator != 1:
        return None
    exponent = int(two.constant)
    if not one.names and abs(exponent) < 64 and (one.terms or exponent >= 0):
        return Polynomial.number(one.constant**exponent)
    return math.prod([one] * exponent, start=Polynomial.number(1)) if 0 <= exponent <= 2 else None


def _compared(is_true, is_false):
    """A comparison, from functions of the least and the greatest difference."""

    def compared(step, one: Polynomial, two: Polynomial):
        low, high = (one - two).bounds(step.ranges)
        return _bool(True) if is_true(low, high) else _bool(False) if is_false(low, high) else None

    return compared


def _bool(value: bool) -> Polynomial:
    return Polynomial.number(int(value))


def _logical(function):
    def found(step, *operands):
        return None if any(each.names for each in operands) else _bool(function(*(bool(e.constant) for e in operands)))

    return found


def _rounded(function):
    """A rounding: integers stay."""

    def found(step, one: Polynomial):
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
