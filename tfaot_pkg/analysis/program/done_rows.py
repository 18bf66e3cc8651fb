"""What is known about rows that are done in a loop: which arrays are equal there, and which statements hold.

loops.py asks whether an iteration leaves an array unchanged in such rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfaot_pkg.analysis.program.hlo import Size
from tfaot_pkg.analysis.program.loop_conditions import Wish
from tfaot_pkg.analysis.program.terms import MOVING, Node, Term, Terms

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
        # If rows are mixed, elements belong to no row, so what is known about done rows says nothing about them.
        node = self.terms[term]
        if term < self.since or node.value.mixed is not None:
            return None
        truths = (each for each in node.operands if self.terms[each].shape.dtype == "pred")
        return _follows(node, [self._truth_of(each) for each in truths])

    def _after_rise(self, kind: str, one: Term, two: Term) -> bool | None:
        """Whether `one` is less than `two`, if one of them has risen: i + 1 < n is false if i < n already is."""
        if one in self.risen and self._facts.get((kind, (self.risen[one], two))) is False:
            return False
        return True if two in self.risen and self._facts.get((kind, (one, self.risen[two]))) else None


def _follows(node: Node, truths: Sequence[bool | None]) -> bool | None:
    """The truth of all elements of `node`, if it follows from the `truths` of its operands that are truth values."""
    match node.opcode:
        case "not":
            return None if truths[0] is None else not truths[0]
        case "and" | "or":
            decisive = node.opcode == "or"
            if decisive in truths:
                return decisive
            return None if None in truths else not decisive
        case "select":
            chosen, one, two = truths
            if chosen is None:
                return one if one == two else None
            return one if chosen else two
        case "reduce" if node.attributes.reducer in ("and", "or"):
            return truths[0] if truths[0] == truths[1] else None
        case opcode if opcode in _OF_ANOTHER and len(set(truths)) == 1:
            return truths[0]
    return None
