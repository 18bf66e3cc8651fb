"""The sizes that a model takes for its symbols, found by running it: most models that leave an axis open need some."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import freeze
import signatures
import specialize
import tensorflow as tf
from messages.graph import FindSizes, FoundSizes, SymbolSizes
from messages.requests import one_line

if TYPE_CHECKING:
    from framework_types import Report
    from messages.graph import Chosen


_BATCH = 2
_OTHER_MAXIMA = (64, 224, 32, 256, 16, 512, 8, 1024)
"""Sizes to try if the model does not run at its maxima."""


def find(request: FindSizes, report: Report) -> FoundSizes:
    """The ranges of sizes at which the model runs: `least` and `most` are the same if it takes no other ones nearby.

    If it runs at none that was tried, there are none, and `fault` says why.
    """
    search = _Search(request.model)
    most = {symbol.name: symbol.maximum for symbol in request.model.symbols}
    fault = search.fault(most)
    if fault:
        other = next((size for size in _OTHER_MAXIMA if search.runs(dict.fromkeys(most, size))), None)
        if other is None:
            return FoundSizes(sizes=(), fault=fault)
        most = {name: search.largest(dict.fromkeys(most, other), name, size) for name, size in most.items()}
        if not search.runs(most):  # each alone may be larger, all together not
            most = dict.fromkeys(most, other)
    least = {symbol.name: search.smallest(most, symbol.name, symbol.minimum) for symbol in request.model.symbols}
    # Each alone may be smaller, all together not.
    while not search.runs(least) and least != most:
        least = {name: min(2 * size, most[name]) for name, size in least.items()}
    sizes = tuple(SymbolSizes(name=name, least=least[name], most=most[name]) for name in most)
    return FoundSizes(sizes=sizes, fault=fault or search.fault({s.name: s.minimum for s in request.model.symbols}))


class _Search:
    """Runs the signature at sizes of its symbols."""

    def __init__(self, model: Chosen) -> None:
        meta_graph, found = freeze.reached_graph(model)
        signature = signatures.imported(model.folder, meta_graph, found)
        frozen = freeze.frozen_function(model.signature, signature)
        self._run = signature.function
        self._inputs = freeze.feeds_of(signature.inputs, freeze.inputs_of(frozen), model)
        self._known: dict[tuple[tuple[str, int], ...], str] = {}

    def runs(self, sizes: Mapping[str, int]) -> bool:
        return not self.fault(sizes)

    def fault(self, sizes: Mapping[str, int]) -> str:
        """Why the model does not run at `sizes`; "" if it does."""
        key = tuple(sorted(sizes.items()))
        if key not in self._known:
            shapes = [specialize.sized(each, _BATCH, sizes) for each in self._inputs]
            try:
                # Zeros: indices of the smallest table, too.
                self._run(*[tf.zeros(shape, each.dtype) for shape, each in zip(shapes, self._inputs, strict=True)])
                self._known[key] = ""
            except (tf.errors.OpError, ValueError) as error:
                self._known[key] = one_line(error)
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
