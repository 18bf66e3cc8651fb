"""What a condition says of integers: in `where(0 <= i & i < n, i + k, 0)`, `i + k` is k to n - 1 + k.

Conditions are comparisons of elements with what is the same for all of them, and `and`, `or`, `not` of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.analysis.program import integers
from tfaot_pkg.analysis.program.integers import Integers
from tfaot_pkg.analysis.program.terms import Term, Terms
from tfaot_pkg.analysis.program.values import Value

_Bounds = tuple[float, float]
_Facts = Mapping[Term, _Bounds]
"""The least and the largest r of each element (see `Integers`) for which a condition is true."""

_DEEPEST = 6
"""Operations between a condition and what it compares, or between this and a number computed of it."""
_OPPOSITE = {"LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT", "EQ": "NE", "NE": "EQ"}
_EXCHANGED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}
_SAME = frozenset("convert copy".split())
_EXTREMES = ("clamp", "maximum", "minimum")
_WHOLE = ("ceil", "floor", "round-nearest-afz", "round-nearest-even")
_BINARY: Mapping[str, Callable[[Integers, Integers], Integers | None]] = {
    "add": integers.add,
    "maximum": integers.maximum,
    "minimum": integers.minimum,
    "multiply": integers.multiply,
    "subtract": integers.subtract,
}


def guarded(terms: Terms, operands: Sequence[Value]) -> tuple[Value, ...]:
    """The operands of a select: each of both choices with what the condition says of it."""
    pred, *choices = operands
    found = [_guarded(terms, pred, each, truth=truth) for each, truth in zip(choices, (True, False), strict=True)]
    return (pred, *found)


def _guarded(terms: Terms, pred: Value, chosen: Value, *, truth: bool) -> Value:
    if pred.term is None or chosen.term is None or chosen.mixed is not None or chosen.known.leaves:
        return chosen
    if not terms[chosen.term].is_integer:
        return chosen
    condition, term = pred.term, chosen.term
    # Reshaped alike, elements belong together as they did before.
    while _are_reshaped_alike(terms, condition, term):
        (condition,), (term,) = terms[condition].operands, terms[term].operands
    if terms[condition].shape.sizes != terms[term].shape.sizes:
        return chosen
    guards = _Guards(terms)
    facts = guards.facts(condition, truth=truth)
    found = guards.bounded(term, facts) if facts else None
    if found is None or found.leaves or not _is_tighter(found, chosen.known):
        return chosen
    return replace(chosen, integers=found)


def _are_reshaped_alike(terms: Terms, one: Term, two: Term) -> bool:
    first, second = terms[one], terms[two]
    if (first.opcode, second.opcode) != ("reshape", "reshape") or first.shape.sizes != second.shape.sizes:
        return False
    return terms[first.operands[0]].shape.sizes == terms[second.operands[0]].shape.sizes


def _is_tighter(found: Integers, known: Integers) -> bool:
    same = all((x == y).all() for x, y in zip(found.parts[:3], known.parts[:3], strict=True))
    return same and bool((found.low >= known.low).all() and (found.high <= known.high).all())


@dataclass(frozen=True, slots=True)
class _Guards:
    terms: Terms

    def facts(self, pred: Term, *, truth: bool, depth: int = _DEEPEST) -> _Facts:
        """What holds where `pred` is `truth`."""
        node = self.terms[pred]
        if depth == 0 or node.value.mixed is not None:
            return {}
        if node.opcode == "not":
            return self.facts(node.operands[0], truth=not truth, depth=depth - 1)
        if node.opcode in ("and", "or"):
            parts = [self.facts(each, truth=truth, depth=depth - 1) for each in node.operands]
            return _both(*parts) if (node.opcode == "and") == truth else _either(*parts)
        if node.opcode not in ("compare", "xor"):
            return {}
        one, two = node.operands
        stated = "NE" if node.opcode == "xor" else node.attributes.direction
        direction = stated if truth else _OPPOSITE[stated]
        if self.terms[one].shape.dtype == "pred":
            return self._of_truths(direction, one, two, depth)
        # NaN is neither less than a number nor not less, so the opposite of a comparison of floats says nothing.
        if not self.terms[one].is_integer:
            return {}
        return _both(self._compared(direction, one, two), self._compared(_EXCHANGED[direction], two, one))

    def _of_truths(self, direction: str, one: Term, two: Term, depth: int) -> _Facts:
        """Of a truth value that equals, or differs from, a known one."""
        if direction not in ("EQ", "NE"):
            return {}
        for known, other in ((one, two), (two, one)):
            found = self._all(known)
            if found is not None and not found.placed and found.low == found.high:
                return self.facts(other, truth=bool(found.low) == (direction == "EQ"), depth=depth - 1)
        return {}

    def _compared(self, direction: str, one: Term, two: Term) -> _Facts:
        """What the comparison with `two` says of `one`."""
        limit, known = self._all(two), self._all(one)
        coefficients = integers.UNKNOWN if known is None else known
        if limit is None or any(x != y for x, y in zip(limit.parts[:3], coefficients.parts[:3], strict=True)):
            return {}
        low, high = float(limit.low), float(limit.high)
        found = {
            "LT": (-math.inf, high - 1), "LE": (-math.inf, high), "GT": (low + 1, math.inf), "GE": (low, math.inf),
            "EQ": (low, high),
        }.get(direction)  # fmt: skip
        return {} if found is None else {one: found}

    def _all(self, term: Term) -> Integers | None:
        """What holds of each element, whose r is one number."""
        value = self.terms[term].value
        if value.integers is None or value.integers.leaves or value.placed is not None:
            return None
        return value.integers.whole

    def bounded(self, term: Term, facts: _Facts, depth: int = _DEEPEST) -> Integers | None:
        """What holds of each element of `term` where `facts` hold."""
        if term not in facts:
            return (self._computed(term, facts, depth) if depth > 0 else None) or self._all(term)
        low, high = facts[term]
        known = self._all(term) or integers.UNKNOWN
        return integers.between(
            np.maximum(known.low, low), np.minimum(known.high, high),
            row=known.row, batch=known.batch, iteration=known.iteration,
        )  # fmt: skip

    def _computed(self, term: Term, facts: _Facts, depth: int) -> Integers | None:
        node = self.terms[term]
        if node.opcode not in (*_SAME, *_BINARY) or not all(self.terms[each].is_integer for each in node.operands):
            return None
        parts = [each for each in (self.bounded(each, facts, depth - 1) for each in node.operands) if each is not None]
        if len(parts) < len(node.operands):
            return None
        found = parts[0] if node.opcode in _SAME else _BINARY[node.opcode](*parts)
        # Other types wrap around sooner.
        return found if node.shape.dtype in ("s32", "s64") else None


def _both(one: _Facts, two: _Facts) -> _Facts:
    everything = (-math.inf, math.inf)
    pairs = {term: (one.get(term, everything), two.get(term, everything)) for term in {**one, **two}}
    return {term: (max(a[0], b[0]), min(a[1], b[1])) for term, (a, b) in pairs.items()}


def _either(one: _Facts, two: _Facts) -> _Facts:
    return {term: (min(one[term][0], two[term][0]), max(one[term][1], two[term][1])) for term in one if term in two}


def converted(terms: Terms, value: Value) -> Integers | None:
    """What holds of integers that truth values are converted to, or floats within known limits, toward zero."""
    if value.mixed is not None or value.term is None:
        return None
    if terms[value.term].shape.dtype == "pred":
        return integers.between(0, 1)
    bounds = None if terms[value.term].is_integer else _limits(terms, value.term, _DEEPEST)
    if bounds is None or math.isinf(bounds[0]) or math.isinf(bounds[1]):
        return None
    return integers.between(min(0, math.trunc(bounds[0])), max(0, math.trunc(bounds[1])))  # NaN becomes 0


def _limits(terms: Terms, term: Term, depth: int) -> _Bounds | None:
    """The least and the largest number of an array of floats, unless it is NaN."""
    single = terms.single(term)
    if single is not None:
        number = float(single[1])
        return None if math.isnan(number) else (number, number)
    node = terms[term]
    if depth == 0 or node.opcode not in (*_EXTREMES, *_WHOLE):
        return None
    parts = [_limits(terms, each, depth - 1) or (-math.inf, math.inf) for each in node.operands]
    if node.opcode in _WHOLE:
        ((low, high),) = parts
        return (low if math.isinf(low) else math.floor(low), high if math.isinf(high) else math.ceil(high))
    if node.opcode == "clamp":
        least, (low, high), most = parts
        # HLO's: the minimum of `most` and the maximum of `least` and the number.
        return (min(max(least[0], low), most[0]), min(max(least[1], high), most[1]))
    choose = min if node.opcode == "minimum" else max
    return (choose(low for low, _ in parts), choose(high for _, high in parts))
