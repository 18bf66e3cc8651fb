"""Proofs about sizes: that a polynomial is not negative, whatever the batch and the sizes of a call are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tfaot_pkg.compiler.program import BATCH, Monomial, Size, Symbol

_MOST_BOXES = 4096
"""The most boxes of sizes that a proof looks at: most need one, and 4,096 take 50 ms."""

_Ranges = Mapping[str, tuple[int, int]]


def is_never_negative(size: Size, symbols: Sequence[Symbol]) -> bool:
    """Whether `size` is at least 0 for every batch from 1 on and all values of `symbols`.

    False if it is negative for some of them, or if no proof was found.
    """
    if size.is_constant:
        return size.constant >= 0
    ranges = {symbol.name: (symbol.minimum, symbol.maximum) for symbol in symbols}
    # Linear in the batch: never negative if it is not so for one row, and no further row takes something off.
    first = size.per_row + Size.of((m, c) for m, c in size.terms if BATCH not in m)
    return _is_proven(size.per_row, ranges) and _is_proven(first, ranges)


def _is_proven(size: Size, ranges: _Ranges) -> bool:
    """Whether a polynomial is at least 0 in a box; by halves of it, if its terms do not say so."""
    used = {symbol for monomial, _ in size.terms for symbol in monomial}
    boxes: list[_Ranges] = [{symbol: ranges[symbol] for symbol in used}]
    for _ in range(_MOST_BOXES):
        if not boxes:
            return True
        box = boxes.pop()
        if _least(size, box) >= 0:
            continue
        widest = max(box, key=lambda symbol: box[symbol][1] - box[symbol][0], default=None)
        if widest is None or box[widest][0] == box[widest][1]:
            return False
        low, high = box[widest]
        middle = (low + high) // 2
        boxes += ({**box, widest: (low, middle)}, {**box, widest: (middle + 1, high)})
    return False


def _least(size: Size, box: _Ranges) -> int:
    """A lower bound in a box, exact if all coefficients have one sign counted from its lowest corner."""
    found: dict[Monomial, int] = {}
    for monomial, coefficient in size.terms:
        # Each symbol is its least value plus the rest: (a + x) * (b + y) has four terms.
        parts: list[tuple[Monomial, int]] = [((), coefficient)]
        for symbol in monomial:
            low = box[symbol][0]
            parts = [part for m, c in parts for part in ((m, c * low), ((*m, symbol), c))]
        for m, c in parts:
            found[m] = found.get(m, 0) + c
    rest = {symbol: high - low for symbol, (low, high) in box.items()}
    return found.pop((), 0) + sum(c * prod(rest[symbol] for symbol in m) for m, c in found.items() if c < 0)
