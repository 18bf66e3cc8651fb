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
from dataclasses import dataclass

import numpy as np

from tfaot_pkg.analysis.program.done_rows import Blank, DoneRows, statement
from tfaot_pkg.analysis.program.hlo import FLOATS, INTEGERS, Size
from tfaot_pkg.analysis.program.loop_conditions import GoingOn, Wish, going_on, is_of_no_row, is_of_rows
from tfaot_pkg.analysis.program.terms import Term, Terms
from tfaot_pkg.analysis.program.values import Value

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
    limits = _limits(loop.terms, counters, condition)
    found = {}
    for term, i in loop.varying.items():
        begin, filling = loop.initial[i].term, _filling(loop.terms, term, loop.after[i].term)
        single = None if begin is None else loop.terms.single(begin)
        if single is None or filling is None or not filling.takes_single_places:
            continue
        first = counters.get(filling.start)
        # HLO clamps starts, so past the end the last slice would be written again: the limit must prevent that.
        if first is not None and first >= 0 and limits.get(filling.start, _MOST) <= filling.whole[filling.axis][0]:
            found[term] = Blank(starts=filling.starts, sizes=filling.part, single=single)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filling:
    """A slice that an iteration writes: its starts are 0 except along `axis`. `whole` and `part` are sizes."""

    starts: tuple[Term, ...]
    axis: int
    whole: tuple[Size, ...]
    part: tuple[Size, ...]

    @property
    def start(self) -> Term:
        return self.starts[self.axis]

    @property
    def takes_single_places(self) -> bool:
        """Whether the slice is all that the array has at one place along the axis, whose size is known."""
        pairs = [pair for d, pair in enumerate(zip(self.part, self.whole, strict=True)) if d != self.axis]
        small, large = self.whole[self.axis]
        return self.part[self.axis] == (1, 1) and small == large and all(part == whole for part, whole in pairs)


def _filling(terms: Terms, before: Term, after: Term | None) -> _Filling | None:
    """What an iteration writes into the array `before` to make `after`; None if it does something else."""
    node = None if after is None else terms[after]
    if node is None or node.opcode != "dynamic-update-slice" or node.operands[0] != before:
        return None
    _, written, *starts = node.operands
    moving = [d for d, start in enumerate(starts) if (terms.single(start) or ("", ""))[1] != "0"]
    if len(moving) != 1:
        return None
    return _Filling(starts=tuple(starts), axis=moving[0], whole=node.shape.sizes, part=terms[written].shape.sizes)
