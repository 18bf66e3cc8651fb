"""Loops that go on until no row of the batch wants another turn: which of the carried arrays may count as independent.

A row has its own number of turns. The others of the batch decide how many more there are, which does not matter to an
array that they leave as it is in rows that are done. Two things are shown, for every state that the loop may be in:

- What a turn makes of the array is the array itself in rows that are done (done_rows.py).
- A row that is done is done after the turn, too.

So the array is, when the loop ends, what it was after the row's own turns, or at the limit of turns that holds for all
batches: at the end all rows are done, or a limit is reached that does not depend on rows. Numbers that count turns, and
arrays that change in rows that are done, depend on other rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfaot_pkg.program.done_rows import Blank, DoneRows, statement
from tfaot_pkg.program.going_on import GoingOn, Wish, going_on, is_of_no_row, is_of_rows
from tfaot_pkg.program.hlo import FLOATS, INTEGERS
from tfaot_pkg.program.terms import Term, Terms
from tfaot_pkg.program.values import Value

_MOST = 1 << 31
"""Above the largest number that integers of all types that count turns can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """What is known of a loop: the arrays that it begins with, those that a turn gets, and those that a turn makes.

    Those that vary have symbols as terms in `state`, which are younger than all else that is not made in the turn.
    """

    terms: Terms
    initial: Sequence[Value]
    state: Sequence[Value]
    after: Sequence[Value]
    condition: Value

    @property
    def varying(self) -> dict[Term, int]:
        """The symbols, and of which array."""
        pairs = enumerate(zip(self.state, self.after, strict=True))
        return {before.term: i for i, (before, after) in pairs if before.term is not None and before.term != after.term}


def independent_of_turns(loop: Loop) -> frozenset[int]:
    """The carried arrays whose rows do not depend on how long other rows keep the loop going."""
    terms, varying = loop.terms, loop.varying
    condition = None if loop.condition.term is None else going_on(terms, loop.condition.term)
    in_rows = any(each.turn or each.known.turn.any() for each in loop.state)  # a loop over the rows is around this one
    if condition is None or not varying or in_rows:
        return frozenset()
    changed = {term: after for term, i in varying.items() if (after := loop.after[i].term) is not None}
    counters = _counters(loop, condition)
    done = DoneRows(
        terms=terms,
        since=min(varying),
        risen={changed[each]: each for each in counters},
        blank=_blank(loop, counters, condition),
    )
    for wish in condition.rows:
        done.assume(wish, holds=False)
    later = terms.substituted([wish.term for wish in condition.rows], changed)
    for wish in condition.rows:
        if done.holds(Wish(later.get(wish.term, wish.term), wish.positive)) is not False:
            return frozenset()
    return frozenset(
        i for term, i in varying.items() if is_of_rows(loop.state[i]) and done.are_equal(term, changed[term])
    )


def _counters(loop: Loop, condition: GoingOn) -> dict[Term, int | None]:
    """Numbers that each turn raises, with the first one if it is known: integers by one, never beyond their type."""
    found: dict[Term, int | None] = {}
    for term, i in loop.varying.items():
        step = _step(loop, term, loop.after[i].term)
        dtype = loop.terms[term].shape.dtype
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
    """What a turn adds to a number; None if that is no constant, or less than zero."""
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
    """Whether a turn only comes if `counter` is less than another number of its type, so that it can be raised."""

    def below(wish: Wish) -> bool:
        (kind, about), positive = statement(terms, wish.term)
        return kind == "LT" and about[0] == counter and positive == wish.positive

    return any(map(below, condition.limits)) or all(map(below, condition.rows + condition.others))


def _limits(terms: Terms, counters: Mapping[Term, int | None], condition: GoingOn) -> dict[Term, int]:
    """The number that each counter is less than in any turn; those that rise alike have limits that differ alike."""
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
            limit = int(most) + (begin or 0) - first
            if begin is not None and terms[term].is_integer and limit < _MOST:
                found[term] = min(limit, found.get(term, limit))
    return found


def _blank(loop: Loop, counters: Mapping[Term, int | None], condition: GoingOn) -> dict[Term, Blank]:
    """Arrays that begin as one constant, and that each turn writes to at the next place."""
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
        full = node.shape.sizes
        counter, first = starts[d], counters.get(starts[d])
        others = [(size, whole) for k, (size, whole) in enumerate(zip(sizes, full, strict=True)) if k != d]
        fits = sizes[d] == (1, 1) and full[d][0] == full[d][1] and all(size == whole for size, whole in others)
        if fits and first is not None and first >= 0 and limits.get(counter, _MOST) <= full[d][0]:
            found[term] = Blank(starts=tuple(starts), sizes=sizes, single=single)
    return found
