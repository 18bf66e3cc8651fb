"""Conditions of loops that hold as long as any row of the batch needs another iteration.

`any(p)` over rows, `not all(q)`, and comparisons of an integer with the largest or smallest of all rows, also within
other limits: `i < min(10, max(n))` is `i < 10 and any(i < n)`. Only of integers: the maximum of floats is NaN if one
of them is, so one row would decide for all.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfaot_pkg.analysis.program.terms import Node, Term, Terms
from tfaot_pkg.analysis.program.values import Value

_OPPOSITE = {"LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}


@dataclass(frozen=True, slots=True)
class Wish:
    """A term that must be true, or false if `positive` is False."""

    term: Term
    positive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GoingOn:
    """The loop continues if all `limits` hold, and at least one of `others` or one element of one of `rows`.

    `rows` are arrays with an axis of rows; `limits` and `others` are the same for all rows and batch sizes.
    """

    rows: tuple[Wish, ...] = ()
    others: tuple[Wish, ...] = ()
    limits: tuple[Wish, ...] = ()


def is_of_rows(value: Value) -> bool:
    """Whether the value has rows, each of which depends on the same row of the inputs alone, not on its position."""
    return value.mixed is None and value.axis is not None and not value.iteration and _is_without_place(value)


def is_of_no_row(value: Value) -> bool:
    return value.uniform and _is_without_place(value)


def _is_without_place(value: Value) -> bool:
    return value.placed is None and not value.below_batch and not value.known.placed


def going_on(terms: Terms, condition: Term) -> GoingOn | None:
    """The condition in this form; None if it does not have this form, or does not depend on rows."""
    found = _Reader(terms).read(condition, positive=True)
    return found if found is not None and found.rows else None


@dataclass(frozen=True, slots=True)
class _Reader:
    terms: Terms

    def read(self, term: Term, *, positive: bool) -> GoingOn | None:
        """`term` in this form, or its negation unless `positive`: negations move inwards by De Morgan's laws."""
        node = self.terms[term]
        if is_of_no_row(node.value):
            return GoingOn(others=(Wish(term, positive),))
        if not _is_single(node) or node.shape.dtype != "pred":
            return None
        if node.opcode in ("reshape", "broadcast"):
            return self.read(node.operands[0], positive=positive)
        if node.opcode == "not":
            return self.read(node.operands[0], positive=not positive)
        if node.opcode in ("and", "or"):
            parts = (self.read(each, positive=positive) for each in node.operands)
            return _all(*parts) if (node.opcode == "and") == positive else _any(*parts)
        if node.opcode == "reduce" and node.attributes.reducer == ("or" if positive else "and"):
            array, starts = self._reduced(node)
            if not self._is_of_rows(array):
                return None
            return _any(
                GoingOn(rows=(Wish(array, positive),)), *(self.read(each, positive=positive) for each in starts)
            )
        return self._compared(node, positive=positive) if node.opcode == "compare" else None

    def _reduced(self, node: Node) -> tuple[Term, list[Term]]:
        """The array that a reduction, possibly in several steps, reduces, and the values that it starts from."""
        array, start = node.operands
        inner = self.terms[array]
        # Only while the inner result mixes rows: a reduction within rows is part of what is computed for each row.
        if inner.opcode != "reduce" or inner.attributes.reducer != node.attributes.reducer or not inner.value.mixed:
            return array, [start]
        found, starts = self._reduced(inner)
        return found, [start, *starts]

    def _is_of_rows(self, array: Term) -> bool:
        return is_of_rows(self.terms[array].value)

    def _compared(self, node: Node, *, positive: bool) -> GoingOn | None:
        one, two = node.operands
        direction = node.attributes.direction
        if direction not in _OPPOSITE or not self.terms[one].is_integer:
            return None
        direction = direction if positive else _OPPOSITE[direction]
        if direction == "GT":
            one, two, direction = two, one, "LT"
        return self._less(one, two) if direction == "LT" else None

    def _less(self, one: Term, two: Term) -> GoingOn | None:
        """`one` < `two`: numbers, at least one of which is the same for all rows."""
        fixed = [is_of_no_row(self.terms[each].value) for each in (one, two)]
        if all(fixed):
            return GoingOn(others=(Wish(self.terms.less(one, two, array=two)),))
        node = self.terms[two if fixed[0] else one]
        opcode = node.attributes.reducer if node.opcode == "reduce" else node.opcode
        if not any(fixed) or opcode not in ("maximum", "minimum"):
            return None

        def against(other: Term) -> GoingOn | None:
            return self._less(one, other) if fixed[0] else self._less(other, two)

        # x < max(a, b) if x is less than one of them; max(a, b) < x if both are less. For minima it is the reverse.
        one_suffices = (opcode == "maximum") == fixed[0]
        if node.opcode != "reduce":
            parts = [against(each) for each in node.operands]
            return _any(*parts) if one_suffices else _all(*parts)
        array, starts = self._reduced(node)
        if not one_suffices or not self._is_of_rows(array):
            return None
        less = self.terms.less(*((one, array) if fixed[0] else (array, two)), array=array)
        return _any(GoingOn(rows=(Wish(less),)), *map(against, starts))


def _is_single(node: Node) -> bool:
    """Whether the array has one element."""
    return all(size == (1, 1) for size in node.shape.sizes)


def _all(one: GoingOn | None, two: GoingOn | None) -> GoingOn | None:
    """The conjunction of both, one of which is a limit."""
    if one is None or two is None:
        return None
    if not one.rows:
        one, two = two, one
    # Two conditions on rows may hold for different rows: their conjunction does not have this form.
    if two.rows or two.limits or len(two.others) != 1:
        return None
    return GoingOn(rows=one.rows, others=one.others, limits=one.limits + two.others)


def _any(*parts: GoingOn | None) -> GoingOn | None:
    """The disjunction of all; a limit of one would not hold for another."""
    rows: tuple[Wish, ...] = ()
    others: tuple[Wish, ...] = ()
    for part in parts:
        if part is None or part.limits:
            return None
        rows, others = rows + part.rows, others + part.others
    return GoingOn(rows=rows, others=others)
