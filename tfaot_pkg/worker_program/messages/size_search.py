"""Searches for the sizes that a model takes: most models that leave an axis open need some."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from .graph import FoundSizes, Symbol, SymbolSizes

Fault = Callable[[Mapping[str, int]], str]
"""Why the model does not run at these sizes of its symbols; "" if it does."""

_OTHER_MAXIMA = (64, 224, 32, 256, 16, 512, 8, 1024)
"""Sizes to try if the model does not run at its maxima."""
_LARGE = (4096, 16384, 65536)
"""Those of a single axis, as of signals: of two, an image would have too many elements."""
_MOST_LIKELY = 24


def search(symbols: Sequence[Symbol], fault_at: Fault, likely: Sequence[int] = ()) -> FoundSizes:
    """The ranges of sizes at which the model runs: `least` and `most` are the same if it takes no other ones nearby.

    `likely` sizes, as of the model's weights, are tried beside usual ones. If it runs at none that was tried, there are
    none, and `fault` says why.
    """
    tried = _Search(fault_at)
    most = {symbol.name: symbol.maximum for symbol in symbols}
    fault = tried.fault(most)
    if fault:
        others = (*_OTHER_MAXIMA, *dict.fromkeys(likely[:_MOST_LIKELY]), *(_LARGE if len(most) == 1 else ()))
        other = next((size for size in others if tried.runs(dict.fromkeys(most, size))), None)
        if other is None:
            return FoundSizes(sizes=(), fault=fault)
        start = dict.fromkeys(most, other)
        # No size up to its maximum may be enough: the size that runs is the maximum then.
        most = {name: tried.largest(start, name, size) if size > other else other for name, size in most.items()}
        if not tried.runs(most):  # each alone may be larger, all together not
            most = dict.fromkeys(most, other)
    least = {symbol.name: tried.smallest(most, symbol.name, symbol.minimum) for symbol in symbols}
    # Each alone may be smaller, all together not.
    while not tried.runs(least) and least != most:
        least = {name: min(2 * size, most[name]) for name, size in least.items()}
    sizes = tuple(SymbolSizes(name=name, least=least[name], most=most[name]) for name in most)
    return FoundSizes(sizes=sizes, fault=fault or tried.fault({each.name: each.minimum for each in symbols}))


class _Search:
    """Asks once for each combination of sizes."""

    def __init__(self, fault_at: Fault) -> None:
        self._fault_at = fault_at
        self._known: dict[tuple[tuple[str, int], ...], str] = {}

    def runs(self, sizes: Mapping[str, int]) -> bool:
        return not self.fault(sizes)

    def fault(self, sizes: Mapping[str, int]) -> str:
        key = tuple(sorted(sizes.items()))
        if key not in self._known:
            self._known[key] = self._fault_at(sizes)
        return self._known[key]

    def largest(self, start: Mapping[str, int], name: str, end: int) -> int:
        """The largest size of `name` up to `end` that runs, if all from `start` on up to it do."""
        return _boundary(lambda size: self.runs({**start, name: size}), start[name], end)

    def smallest(self, most: Mapping[str, int], name: str, end: int) -> int:
        """The smallest size of `name` from `end` on, if all from it on up to the maximum do."""
        return _boundary(lambda size: self.runs({**most, name: size}), most[name], end)


def _boundary(runs: Callable[[int], bool], good: int, end: int) -> int:
    """The number next to `end` that runs, as all between it and `good` do."""
    runs = functools.cache(runs)
    step = 1 if end > good else -1
    # A multiple of something: its neighbours do not run, and other multiples would mislead.
    if good == end or not runs(good + step):
        return good
    if runs(end):
        return end
    bad = end
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if runs(middle) else (good, middle)
    return good
