"""Searches for the sizes that a model takes: most models that leave an axis open need some."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .graph import FoundSizes, Symbol, SymbolSizes

Fault = Callable[[Mapping[str, int]], str]
"""Why the model does not run at these sizes of its symbols; "" if it does."""
_Equal = tuple[tuple[str, ...], ...]

_OTHER_MAXIMA = (64, 224, 32, 256, 16, 512, 8, 1024)
"""Sizes to try if the model does not run at its maxima."""
_LARGE = (4096, 16384, 65536)
"""Those of a single axis, as of signals: of two, an image would have too many elements."""
_MOST_LIKELY = 24
_MOST_EQUAL = 6
"""Symbols among which equal ones are looked for: the model runs for most of their subsets."""


def search(symbols: Sequence[Symbol], fault_at: Fault, likely: Sequence[int] = ()) -> FoundSizes:
    """The ranges of sizes at which the model runs: `least` and `most` are the same if it takes no other ones nearby.

    `likely` sizes, as of the model's weights, are tried beside usual ones. If it runs at none that was tried, there are
    none, and `fault` says why.
    """
    found, equal = _each(symbols, _Search(fault_at), likely)
    if not equal:
        return found
    first = {name: names[0] for names in equal for name in names}
    kept = [each for each in symbols if first.get(each.name, each.name) == each.name]

    def fault_of_all(sizes: Mapping[str, int]) -> str:
        return fault_at({each.name: sizes[first.get(each.name, each.name)] for each in symbols})

    merged, _ = _each(kept, _Search(fault_of_all), likely)
    by_name = {each.name: each for each in merged.sizes}
    sizes = tuple(replace(by_name[first.get(each.name, each.name)], name=each.name) for each in symbols)
    return FoundSizes(sizes=sizes, fault=merged.fault, equal=equal)


def _each(symbols: Sequence[Symbol], tried: _Search, likely: Sequence[int]) -> tuple[FoundSizes, _Equal]:
    """The ranges of symbols that change one by one, and those that change only together."""
    most = {symbol.name: symbol.maximum for symbol in symbols}
    fault = tried.fault(most)
    if fault:
        others = (*_OTHER_MAXIMA, *dict.fromkeys(likely[:_MOST_LIKELY]), *(_LARGE if len(most) == 1 else ()))
        other = next((size for size in others if tried.runs(dict.fromkeys(most, size))), None)
        if other is None:
            return FoundSizes(sizes=(), fault=fault), ()
        start = dict.fromkeys(most, other)
        # No size up to its maximum may be enough: the size that runs is the maximum then.
        most = {name: tried.largest(start, name, size) if size > other else other for name, size in most.items()}
        if not tried.runs(most):  # each alone may be larger, all together not
            most = dict.fromkeys(most, other)
    least = {symbol.name: tried.smallest(most, symbol.name, symbol.minimum) for symbol in symbols}
    equal = _equal(tried, most, [name for name, size in most.items() if least[name] == size > 1])
    # Each alone may be smaller, all together not.
    while not tried.runs(least) and least != most:
        least = {name: min(2 * size, most[name]) for name, size in least.items()}
    sizes = tuple(SymbolSizes(name=name, least=least[name], most=most[name]) for name in most)
    fault = fault or tried.fault({each.name: each.minimum for each in symbols})
    return FoundSizes(sizes=sizes, fault=fault), equal


def _equal(tried: _Search, most: Mapping[str, int], names: Sequence[str]) -> _Equal:
    """Those of `names` that have one size, and others than in `most`, of which none alone may be smaller."""
    names = names[:_MOST_EQUAL]

    def is_apart(part: Sequence[str]) -> bool:
        """Whether the model runs if these are smaller, and the others are not."""
        return tried.runs({**most, **{name: most[name] // 2 for name in part}})

    # Two are equal unless the model runs with one of them in a part that is smaller, and the other one not.
    parts = [part for count in range(1, len(names)) for part in itertools.combinations(names, count)]
    apart = [frozenset(part) for part in parts if is_apart(part)]
    groups: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        groups.setdefault((most[name], *(name in part for part in apart)), []).append(name)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1 and is_apart(group))


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
