"""Polynomials in the sizes of a model, with exact arithmetic; what they are at all sizes that a call may have."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

BATCH = ""
"""The batch among the names of sizes: no symbol has this name."""
_INFINITE = math.inf


Monomial: TypeAlias = tuple[str, ...]
"""Names of sizes, sorted; one that has a power is repeated."""

Number: TypeAlias = Fraction | int


@dataclass(frozen=True)
class Polynomial:
    """A sum of `terms`: pairs of a monomial, which is a sorted tuple of names of sizes, and its factor."""

    terms: tuple[tuple[Monomial, Fraction], ...] = ()

    @classmethod
    def of(cls, terms: Iterable[tuple[Monomial, Number]]) -> Polynomial:
        total: dict[Monomial, Fraction] = {}
        for monomial, factor in terms:
            total[monomial] = total.get(monomial, Fraction(0)) + Fraction(factor)
        return cls(tuple(sorted((monomial, factor) for monomial, factor in total.items() if factor)))

    @classmethod
    def number(cls, value: Number) -> Polynomial:
        return cls.of([((), value)])

    @property
    def names(self) -> frozenset[str]:
        """The sizes that it depends on."""
        return frozenset(itertools.chain.from_iterable(monomial for monomial, _ in self.terms))

    @property
    def constant(self) -> Fraction:
        return next((factor for monomial, factor in self.terms if not monomial), Fraction(0))

    @property
    def is_integer(self) -> bool:
        """Whether all factors are integers."""
        return all(factor.denominator == 1 for _, factor in self.terms)

    @property
    def varying(self) -> Polynomial:
        """Without the constant."""
        return Polynomial(tuple(term for term in self.terms if term[0]))

    def __add__(self, other: Polynomial) -> Polynomial:
        return Polynomial.of([*self.terms, *other.terms])

    def __neg__(self) -> Polynomial:
        return self.scaled(-1)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        return Polynomial.of(
            (tuple(sorted((*one, *two))), first * second)
            for (one, first), (two, second) in itertools.product(self.terms, other.terms)
        )

    def scaled(self, factor: Number) -> Polynomial:
        return Polynomial.of((monomial, factor * each) for monomial, each in self.terms)

    def quotient(self, other: Polynomial) -> Polynomial | None:
        """The polynomial that gives this one when multiplied by `other`; None if it is not known to exist."""
        if len(other.terms) != 1:
            return Polynomial.number(1) if self == other and self.terms else None
        divisor, factor = other.terms[0]
        terms: list[tuple[Monomial, Fraction]] = []
        for monomial, each in self.terms:
            left = list(monomial)
            for name in divisor:
                if name not in left:
                    return None
                left.remove(name)
            terms.append((tuple(left), each / factor))
        return Polynomial.of(terms)

    def bounds(self, ranges: Mapping[str, tuple[int, float]]) -> tuple[Fraction | float, Fraction | float]:
        """(the least, the greatest) value that it may have, while each size is in its range: (minimum, maximum)."""
        low: Fraction | float = Fraction(0)
        high: Fraction | float = Fraction(0)
        for monomial, factor in self.terms:
            ends = [
                factor * math.prod(Fraction(ranges[name][0]) for name in monomial),
                math.copysign(_INFINITE, factor)
                if any(ranges[name][1] == _INFINITE for name in monomial)
                else factor * math.prod(Fraction(ranges[name][1]) for name in monomial),
            ]
            low, high = low + min(ends), high + max(ends)
        # Sizes are at least 1, so `batch * n - n` is not negative, although its terms alone do not show it.
        shifted = self._from_least(ranges).varying
        least = self._from_least(ranges).constant
        if all(factor > 0 for _, factor in shifted.terms):
            low = max(low, least)
        if all(factor < 0 for _, factor in shifted.terms):
            high = min(high, least)
        return low, high

    def _from_least(self, ranges: Mapping[str, tuple[int, float]]) -> Polynomial:
        """In terms of how much each size exceeds its minimum."""
        total = Polynomial()
        for monomial, factor in self.terms:
            product = Polynomial.number(factor)
            for name in monomial:
                product = product * Polynomial.of([((name,), 1), ((), ranges[name][0])])
            total = total + product
        return total

    def at(self, sizes: Mapping[str, int]) -> Fraction:
        return sum((factor * math.prod(sizes[name] for name in each) for each, factor in self.terms), start=Fraction(0))

    def degree(self, *, of_batch: bool) -> int:
        """The highest power of the batch, or of the other sizes together."""
        return max((sum((name == BATCH) is of_batch for name in monomial) for monomial, _ in self.terms), default=0)


class Fit:
    """Finds polynomials, linear in the batch and of a degree in the symbols, from values at `points`."""

    def __init__(self, points: Sequence[Mapping[str, int]], degree: int) -> None:
        """`points` are dictionaries of all sizes."""
        self._points = points
        symbols = sorted(name for name in points[0] if name != BATCH)
        inner = [
            each
            for power in range((degree if symbols else 0) + 1)
            for each in itertools.combinations_with_replacement(symbols, power)
        ]
        self._monomials = [tuple(sorted((*batch, *each))) for batch in ((), (BATCH,)) for each in inner]
        self._known: dict[tuple[int, ...], Polynomial | None] = {}

    def polynomial(self, values: tuple[int, ...]) -> Polynomial | None:
        """With integer factors; None if there is none."""
        if len(set(values)) == 1:
            return Polynomial.number(values[0])
        if values not in self._known:
            self._known[values] = self._found(values)
        result: Polynomial | None = self._known[values]
        return result

    def _found(self, values: tuple[int, ...]) -> Polynomial | None:
        import numpy as np

        rows = [[math.prod(point[name] for name in each) for each in self._monomials] for point in self._points]
        factors, *_ = np.linalg.lstsq(np.array(rows, np.float64), np.array(values, np.float64), rcond=None)
        found = [round(float(each)) for each in factors]
        # In integers: the solution of floats only proposes.
        for row, value in zip(rows, values, strict=True):
            if sum(factor * each for factor, each in zip(found, row, strict=True)) != value:
                return None
        return Polynomial.of(zip(self._monomials, found, strict=True))
