"""Loops that run until no row of the batch needs another iteration: the carried arrays whose rows are independent.

Each row needs its own number of iterations; other rows of the batch may cause more. These do not matter to an array
that they leave unchanged in rows that are done. For every possible state of the loop, two things are proved:

- In rows that are done, an iteration leaves the array unchanged.
- A row that is done is still done after the iteration.

So at the end of the loop, a row of the array is what it was after the row's own iterations, or after the limit of
iterations, which is the same for all batches. Counters of iterations, and arrays that change in rows that are done,
depend on other rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tfaot_pkg.analysis.program.hlo import FLOATS, INTEGERS, Size
from tfaot_pkg.analysis.program.loop_conditions import GoingOn, Wish, going_on, is_of_no_row, is_of_rows
from tfaot_pkg.analysis.program.terms import MOVING, Node, Term, Terms
from tfaot_pkg.analysis.program.values import Value

Statement = tuple[str, tuple[Term, ...]]
"""A statement about elements: "LT", "LE" or "EQ" of two terms, or "is" for a term that is true."""

_ZEROS = ("0", "0.0")
"""The constants c with c + c = c. It holds for -0.0 as well, which is another constant."""

_OF_ANOTHER = frozenset("broadcast concatenate dynamic-slice reshape reverse slice transpose".split())
"""Opcodes whose result consists of elements of their operands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank:
    """An array that a loop fills with slices of `sizes`, one after the other: from `starts` on, all is `single`."""

    starts: tuple[Term, ...]
    sizes: tuple[Size, ...]
    single: tuple[str, str]


def statement(terms: Terms, term: Term) -> tuple[Statement, bool]:
    """The statement that `term` makes about the elements of its rows; False if `term` is its negation."""
    # One form for equivalent comparisons, so that they are found as the same fact.
    positive = True
    term = terms.unmoved(term)
    while terms[term].opcode == "not":
        positive = not positive
        term = terms.unmoved(terms[term].operands[0])
    node = terms[term]
    if node.opcode != "compare":
        return ("is", (term,)), positive
    one, two = _compared(terms, *node.operands)
    integer = terms[one].is_integer
    # a <= b is not(b < a) for integers only: both are false for NaN.
    kind, swapped, kept = {
        "LT": ("LT", False, True),
        "GT": ("LT", True, True),
        "LE": ("LT", True, False) if integer else ("LE", False, True),
        "GE": ("LT", False, False) if integer else ("LE", True, True),
        "EQ": ("EQ", one > two, True),
        "NE": ("EQ", one > two, False),
    }[node.attributes.direction]
    return (kind, (two, one) if swapped else (one, two)), positive == kept


def _compared(terms: Terms, one: Term, two: Term) -> tuple[Term, Term]:
    """Both without the moves that they share. A scalar is compared with all elements of a row."""
    plain = terms.unmoved(one), terms.unmoved(two)
    if any(not terms[each].shape.sizes for each in plain):
        return plain
    while (first := terms[one]).opcode in MOVING and first.value.mixed is None:
        second = terms[two]
        same = (first.opcode, first.detail) == (second.opcode, second.detail) and second.value.mixed is None
        if not same or terms[first.operands[0]].shape != terms[second.operands[0]].shape:
            break
        (one,), (two,) = first.operands, second.operands
    return one, two


@dataclass(slots=True, kw_only=True)
class DoneRows:
    """What is known about rows that are done. Terms older than `since` do not depend on the iteration, and are kept.

    Each key of `risen` is a number that is at least its value; `blank` arrays are blank before the iteration.
    """

    terms: Terms
    since: Term
    risen: Mapping[Term, Term]
    blank: Mapping[Term, Blank] = field(default_factory=dict)
    _facts: dict[Statement, bool] = field(default_factory=dict)
    _simple: dict[Term, Term] = field(default_factory=dict)
    _truth: dict[Term, bool | None] = field(default_factory=dict)

    def assume(self, wish: Wish, *, holds: bool) -> None:
        """Assume that in done rows all elements of `wish` hold, or none of them."""
        waiting = [(wish.term, holds == wish.positive)]
        while waiting:
            term, truth = waiting.pop()
            (kind, about), positive = statement(self.terms, term)
            truth = truth == positive
            self._facts[kind, about] = truth
            node = self.terms[about[0]]
            decisive = node.attributes.reducer if node.opcode == "reduce" else node.opcode
            # A conjunction that is true says that all its parts are, a false disjunction that none is.
            if kind == "is" and node.value.mixed is None and decisive == ("and" if truth else "or"):
                waiting += [(each, truth) for each in node.operands[: 1 if node.opcode == "reduce" else 2]]

    def holds(self, wish: Wish) -> bool | None:
        """True if all elements in done rows hold, False if none does, None if neither is known."""
        truth = self._truth_of(self.simple(wish.term))
        return None if truth is None else truth == wish.positive

    def are_equal(self, one: Term, two: Term) -> bool:
        """Whether both arrays are equal in done rows."""
        one, two = self.simple(one), self.simple(two)
        truth = self._truth_of(one)
        return one == two or (truth is not None and truth == self._truth_of(two))

    def simple(self, term: Term) -> Term:
        """An array that is equal to `term` in done rows."""
        for each in self.terms.below([term], stop=self.since):
            if each not in self._simple:
                self._simple[each] = self._simplified(each)
        return self._simple.get(term, term)

    def _simplified(self, term: Term) -> Term:
        node = self.terms[term]
        if node.value.mixed is not None:
            return term
        operands = [self._simple.get(each, each) for each in node.operands]
        found = self._shorter(node, operands)
        if found is None:
            found = term if tuple(operands) == node.operands else self.terms.rebuilt(term, operands)
        self._simple.setdefault(found, found)
        self._truth_of(found)  # now that its operands are known
        return found

    def _shorter(self, node: Node, operands: Sequence[Term]) -> Term | None:
        """One of the operands, if it is the result in done rows."""
        if node.opcode == "select":
            pred, one, two = operands
            truth = self._truth_of(pred)
            if truth is None:
                return one if one == two else None
            return one if truth else two
        if node.opcode in ("and", "or") and node.shape.dtype == "pred":
            for each, other in (operands, operands[::-1]):
                if self._truth_of(each) is (node.opcode == "and"):
                    return other
        # Of floats, -0.0 + 0.0 is 0.0: not the operand.
        if node.opcode in ("add", "subtract") and node.is_integer:
            one, two = operands
            if self._is_zero(two):
                return one
            return two if node.opcode == "add" and self._is_zero(one) else None
        if node.opcode == "dynamic-update-slice":
            return operands[0] if self._writes_what_is_there(operands) else None
        return None

    def _writes_what_is_there(self, operands: Sequence[Term]) -> bool:
        array, written, *starts = operands
        node, blank = self.terms[written], self.blank.get(array)
        # What was read at the same position, or the constant that the rest of the array still has.
        if node.opcode == "dynamic-slice" and node.operands == (array, *starts):
            return True
        return blank is not None and blank.starts == tuple(starts) and self._single(written) == blank.single

    def _single(self, term: Term) -> tuple[str, str] | None:
        """Type and value of the constant that all elements in done rows are equal to, if there is one."""
        term = self.terms.unmoved(term)
        node = self.terms[term]
        if node.opcode == "dynamic-slice":
            blank = self.blank.get(node.operands[0])
            same = blank is not None and (blank.starts, blank.sizes) == (node.operands[1:], node.shape.sizes)
            return blank.single if blank is not None and same else None
        if node.opcode == "add":
            one, two = (self._single(each) for each in node.operands)
            return one if one == two and one is not None and one[1] in _ZEROS else None
        return self.terms.single(term)

    def _is_zero(self, term: Term) -> bool:
        term = self.terms.unmoved(term)
        node = self.terms[term]
        if node.opcode == "convert" and self.terms[node.operands[0]].shape.dtype == "pred":
            return self._truth_of(node.operands[0]) is False
        found = self.terms.single(term)
        return found is not None and found[1] in _ZEROS

    def _truth_of(self, term: Term) -> bool | None:
        """True if all elements in done rows hold, False if none does, None if neither is known."""
        if term not in self._truth:
            self._truth[term] = self._found_truth(term) if self.terms[term].shape.dtype == "pred" else None
        return self._truth[term]

    def _found_truth(self, term: Term) -> bool | None:
        (kind, about), positive = statement(self.terms, term)
        fact = self._facts.get((kind, about))
        if fact is None and kind in ("LT", "LE"):
            fact = self._after_rise(kind, *about)
        if fact is not None:
            return fact == positive
        single = self.terms.single(term)
        if single is not None:
            return single[1] == "True"
        node = self.terms[term]
        # If rows are mixed, elements belong to no row, so what is known about done rows says nothing about them.
        if term < self.since or node.value.mixed is not None:
            return None
        if node.opcode == "not":
            truth = self._truth_of(node.operands[0])
            return None if truth is None else not truth
        truths = [self._truth_of(each) for each in node.operands if self.terms[each].shape.dtype == "pred"]
        if node.opcode in ("and", "or"):
            decisive = node.opcode == "or"
            return decisive if decisive in truths else (not decisive if None not in truths else None)
        if node.opcode == "reduce" and node.attributes.reducer in ("and", "or"):
            return truths[0] if truths[0] == truths[1] else None
        if node.opcode == "select":
            chosen, one, two = truths
            return (one if one == two else None) if chosen is None else (one if chosen else two)
        return truths[0] if node.opcode in _OF_ANOTHER and len(set(truths)) == 1 else None

    def _after_rise(self, kind: str, one: Term, two: Term) -> bool | None:
        """Whether `one` is less than `two`, if one of them has risen: i + 1 < n is false if i < n already is."""
        if one in self.risen and self._facts.get((kind, (self.risen[one], two))) is False:
            return False
        return True if two in self.risen and self._facts.get((kind, (one, self.risen[two]))) else None


_MOST = 1 << 31
"""Above the largest number that integers of all types that count iterations can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop's arrays: `initial` before it, `state` before an iteration, `after` it.

    Arrays that vary have symbols as terms in `state`, which are younger than all terms from outside the iteration.
    """

    terms: Terms
    initial: Sequence[Value]
    state: Sequence[Value]
    after: Sequence[Value]
    condition: Value

    @property
    def varying(self) -> dict[Term, int]:
        """The symbols of the arrays that an iteration changes, with the numbers of these arrays."""
        pairs = enumerate(zip(self.state, self.after, strict=True))
        return {before.term: i for i, (before, after) in pairs if before.term is not None and before.term != after.term}


def independent_of_iterations(loop: Loop) -> frozenset[int]:
    """The numbers of the carried arrays whose rows do not depend on how many iterations other rows need."""
    terms, varying = loop.terms, loop.varying
    condition = None if loop.condition.term is None else going_on(terms, loop.condition.term)
    # A loop over the rows is around this one.
    in_rows = any(each.iteration or each.known.iteration.any() for each in loop.state)
    # In loops of any other form, all arrays count as dependent on other rows.
    if condition is None or not varying or in_rows:
        return frozenset()
    changed = {term: after for term, i in varying.items() if (after := loop.after[i].term) is not None}
    counters = _counters(loop, condition)
    done = DoneRows(
        terms=terms,
        # Terms that depend on the iteration are younger than the symbols of its state.
        since=min(varying),
        risen={changed[each]: each for each in counters},
        blank=_blank(loop, counters, condition),
    )
    for wish in condition.rows:
        done.assume(wish, holds=False)
    # The condition after the iteration: a row that is done must still be done.
    later = terms.substituted([wish.term for wish in condition.rows], changed)
    for wish in condition.rows:
        if done.holds(Wish(later.get(wish.term, wish.term), wish.positive)) is not False:
            return frozenset()
    return frozenset(
        i for term, i in varying.items() if is_of_rows(loop.state[i]) and done.are_equal(term, changed[term])
    )


def _counters(loop: Loop, condition: GoingOn) -> dict[Term, int | None]:
    """Numbers that no iteration lowers or lets overflow, with their first values if known."""
    found: dict[Term, int | None] = {}
    for term, i in loop.varying.items():
        step = _step(loop, term, loop.after[i].term)
        dtype = loop.terms[term].shape.dtype
        # A float that grows stops growing at some size, but never falls; an integer would wrap around.
        rises = dtype in FLOATS or (step == 1 and dtype in INTEGERS)
        if step is not None and rises and is_of_no_row(loop.state[i]):
            found[term] = _exact(loop.initial[i])
    limits = _limits(loop.terms, found, condition)
    return {
        term: first
        for term, first in found.items()
        if not loop.terms[term].is_integer or term in limits or _is_below_something(loop.terms, term, condition)
    }


def _step(loop: Loop, term: Term, after: Term | None) -> float | None:
    """The constant that an iteration adds to a number; None if it is not constant, or negative."""
    node = None if after is None else loop.terms[after]
    if node is None or node.opcode != "add" or term not in node.operands or node.shape.sizes:
        return None
    one, two = node.operands
    added = loop.terms.single(two if one == term else one)
    if added is None or one == two:
        return None
    step = float(added[1]) if added[0] != "pred" else -1.0
    return step if 0 <= step < np.inf else None


def _exact(value: Value) -> int | None:
    known = value.known
    exact = value.uniform and value.placed is None and not known.placed and known.shape == ()
    return int(known.low) if exact and known.low == known.high else None


def _is_below_something(terms: Terms, counter: Term, condition: GoingOn) -> bool:
    """Whether each iteration requires `counter` to be less than a number of its type: adding 1 does not overflow."""

    def below(wish: Wish) -> bool:
        (kind, about), positive = statement(terms, wish.term)
        return kind == "LT" and about[0] == counter and positive == wish.positive

    # All limits hold in an iteration, but only one of the others: so one limit suffices, or else all others are needed.
    return any(map(below, condition.limits)) or all(map(below, condition.rows + condition.others))


def _limits(terms: Terms, counters: Mapping[Term, int | None], condition: GoingOn) -> dict[Term, int]:
    """An upper limit of each counter in every iteration, which the counter is less than."""
    found: dict[Term, int] = {}
    for wish in condition.limits:
        (kind, about), positive = statement(terms, wish.term)
        first, bound = counters.get(about[0]), terms[about[-1]].value
        if kind != "LT" or positive != wish.positive or first is None or not terms[about[0]].is_integer:
            continue
        most = bound.known.high.max() if is_of_no_row(bound) else np.inf
        if not -_MOST < most < _MOST:
            continue
        for term, begin in counters.items():
            # All counters rise by one per iteration, so the difference of two counters is constant.
            limit = int(most) + (begin or 0) - first
            if begin is not None and terms[term].is_integer and limit < _MOST:
                found[term] = min(limit, found.get(term, limit))
    return found


def _blank(loop: Loop, counters: Mapping[Term, int | None], condition: GoingOn) -> dict[Term, Blank]:
    """Arrays that begin with equal elements, and whose next slice each iteration writes."""
    terms, limits = loop.terms, _limits(loop.terms, counters, condition)
    found = {}
    for term, i in loop.varying.items():
        after, begin = loop.after[i].term, loop.initial[i].term
        node = None if after is None else terms[after]
        if node is None or begin is None or node.opcode != "dynamic-update-slice" or node.operands[0] != term:
            continue
        single, (written, *starts) = terms.single(begin), node.operands[1:]
        sizes = terms[written].shape.sizes
        moving = [d for d, start in enumerate(starts) if (terms.single(start) or ("", ""))[1] != "0"]
        if single is None or len(moving) != 1:
            continue
        (d,) = moving
        # HLO clamps starts, so past the end the last slice would be written again: the limit must prevent that.
        full = node.shape.sizes
        counter, first = starts[d], counters.get(starts[d])
        others = [(size, whole) for k, (size, whole) in enumerate(zip(sizes, full, strict=True)) if k != d]
        fits = sizes[d] == (1, 1) and full[d][0] == full[d][1] and all(size == whole for size, whole in others)
        if fits and first is not None and first >= 0 and limits.get(counter, _MOST) <= full[d][0]:
            found[term] = Blank(starts=tuple(starts), sizes=sizes, single=single)
    return found
