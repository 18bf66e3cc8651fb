"""Sizes that are computed from others, as text: `n - 4`, `2*n*m + 1`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

FORMULA = re.compile(r"-?[\w*]+(?: [+-] [\w*]+)*")
_TERM = re.compile(r"(-?)([\w*]+)")
_LONGEST = 500
"""Characters: documents of strangers hold formulas, too."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A polynomial with integer coefficients: the sum of `terms`, sorted symbols with the factor of their product."""

    terms: tuple[tuple[tuple[str, ...], int], ...]

    @classmethod
    @lru_cache
    def read(cls, text: str) -> Formula:
        """The formula that `text` states. Raises ValueError for other text."""
        if len(text) > _LONGEST or not FORMULA.fullmatch(text):
            raise ValueError(f"{text[:_LONGEST]} is no size")
        terms = []
        for sign, product in _TERM.findall(text.replace(" + ", " ").replace(" - ", " -")):
            factors = product.split("*")
            number = int(factors.pop(0)) if factors[0].isdecimal() else 1
            terms.append((tuple(sorted(factors)), -number if sign else number))
        return cls(tuple(terms))

    @classmethod
    def sum(cls, terms: Iterable[tuple[tuple[str, ...], int]]) -> Formula:
        """The sum of `terms`, some of which may have the same symbols."""
        total: dict[tuple[str, ...], int] = {}
        for symbols, factor in terms:
            key = tuple(sorted(symbols))
            total[key] = total.get(key, 0) + factor
        return cls(tuple((symbols, factor) for symbols, factor in sorted(total.items()) if factor))

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(symbol for symbols, _ in self.terms for symbol in symbols)

    @property
    def is_symbol(self) -> bool:
        """Whether it is one symbol, without a factor."""
        return len(self.terms) == 1 and len(self.terms[0][0]) == 1 and self.terms[0][1] == 1

    @property
    def never_falls(self) -> bool:
        """Whether it is largest where all symbols are."""
        return all(factor > 0 for symbols, factor in self.terms if symbols)

    def at(self, sizes: Mapping[str, int]) -> int:
        return sum(factor * prod(sizes[symbol] for symbol in symbols) for symbols, factor in self.terms)

    def __str__(self) -> str:
        made = ""
        # The highest powers first, the constant last.
        for symbols, factor in sorted(self.terms, key=lambda term: (-len(term[0]), term[0])):
            factors = [*([str(abs(factor))] if abs(factor) != 1 or not symbols else []), *symbols]
            sign = ("-" if factor < 0 else "") if not made else " - " if factor < 0 else " + "
            made += sign + "*".join(factors)
        return made or "0"
