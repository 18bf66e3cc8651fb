"""`DoneRows`: what a turn of a loop makes of the rows that want no further turn.

For such a row the conditions under which it goes on do not hold, and terms become simpler: where a select asks for one
of them, it gives the other operand. What is said of a term here holds for its elements in those rows only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfaot_pkg.program.going_on import Wish
from tfaot_pkg.program.hlo import Size
from tfaot_pkg.program.terms import MOVING, Node, Term, Terms

Statement = tuple[str, tuple[Term, ...]]
"""What may hold for elements: "LT", "LE" and "EQ" of two terms, or "is", that one holds."""

_ZEROS = ("0", "0.0")
"""The constants that change no sum with themselves; -0.0 is another one."""

_OF_ANOTHER = frozenset("broadcast concatenate dynamic-slice reshape reverse slice transpose".split())
"""Opcodes of which each element of the result is one of an operand's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank:
    """An array that a loop fills with slices of `sizes`, one behind the other: from `starts` on it is `single`."""

    starts: tuple[Term, ...]
    sizes: tuple[Size, ...]
    single: tuple[str, str]


def statement(terms: Terms, term: Term) -> tuple[Statement, bool]:
    """What `term` says of the elements of its rows, and whether it says that it holds, or that it does not."""
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
    """Both without the moves that are the same for both; a number against an array is compared with all of its row."""
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
    """`since`: terms that are older do not depend on the turn, and are left as they are.

    `risen` are numbers that are the other number, or more; `blank` arrays are blank before the turn.
    """

    terms: Terms
    since: Term
    risen: Mapping[Term, Term]
    blank: Mapping[Term, Blank] = field(default_factory=dict)
    _facts: dict[Statement, bool] = field(default_factory=dict)
    _simple: dict[Term, Term] = field(default_factory=dict)
    _truth: dict[Term, bool | None] = field(default_factory=dict)

    def assume(self, wish: Wish, *, holds: bool) -> None:
        """Take it that in done rows all elements of `wish` hold, or none."""
        waiting = [(wish.term, holds == wish.positive)]
        while waiting:
            term, truth = waiting.pop()
            (kind, about), positive = statement(self.terms, term)
            truth = truth == positive
            self._facts[kind, about] = truth
            node = self.terms[about[0]]
            decisive = node.attributes.reducer if node.opcode == "reduce" else node.opcode
            if kind == "is" and node.value.mixed is None and decisive == ("and" if truth else "or"):
                waiting += [(each, truth) for each in node.operands[: 1 if node.opcode == "reduce" else 2]]

    def holds(self, wish: Wish) -> bool | None:
        """Whether all elements in done rows hold, or none; None if that is not known."""
        truth = self._truth_of(self.simple(wish.term))
        return None if truth is None else truth == wish.positive

    def are_equal(self, one: Term, two: Term) -> bool:
        """Whether both are the same array in done rows."""
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
        if node.opcode == "dynamic-slice" and node.operands == (array, *starts):
            return True
        return blank is not None and blank.starts == tuple(starts) and self._single(written) == blank.single

    def _single(self, term: Term) -> tuple[str, str] | None:
        """Type and value of all elements in done rows, if they are one constant."""
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
        """Whether all elements in done rows hold, or none."""
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
        """Whether `one` is less than `two`, if one of them is a number that has risen."""
        if one in self.risen and self._facts.get((kind, (self.risen[one], two))) is False:
            return False
        return True if two in self.risen and self._facts.get((kind, (one, self.risen[two]))) else None
