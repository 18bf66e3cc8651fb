"""Reductions of rows and columns by the kernel library, as loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from tfaot_pkg.compiler.affine import Axes, Index, address_terms, cpp, cut, merged
from tfaot_pkg.compiler.body import Inner, along, moved_access
from tfaot_pkg.compiler.each import each_lane, element, inside, stored, with_multiple
from tfaot_pkg.compiler.elements import Access, Element, Operand, Place, Store, Stored, Variable
from tfaot_pkg.compiler.expressions import VECTOR_TYPES
from tfaot_pkg.compiler.instructions import Accumulate, Advance, ForAllLanes, StoreLanes
from tfaot_pkg.compiler.loops import Lambda, Lines
from tfaot_pkg.compiler.pieces import Code, Loaded, Piece, Row, Spread, Total, code_of
from tfaot_pkg.compiler.program import ONE, ZERO, Size
from tfaot_pkg.compiler.rows import are_rows, first_row, loads

_FEW, _BESIDE = 4, 4
"""Rows of at most so many elements are reduced with a row in each lane, if at least so many results lie side by side
(decision 069)."""

PARTIAL = 16
"""Partial sums of a row (kPartial of the kernel library): what they do to shorter rows of doubles is written out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """`value` of a loop, combined from `start` along all axes behind the first `kept`.

    `target` has an index in all axes. By rows, vectors run along the last axis, which is reduced; otherwise they hold
    neighbouring results.
    """

    combine: str
    start: str
    inner: Inner
    value: Operand
    target: Access
    kept: int
    is_by_rows: bool

    @property
    def bases(self) -> frozenset[str]:
        return self.inner.bases | self.target.bases | self.value.bases

    @property
    def names(self) -> frozenset[str]:
        return self.inner.names | self.target.names | self.value.names

    @property
    def written(self) -> frozenset[str]:
        return frozenset([self.target.base])

    @property
    def reached(self) -> list[tuple[Access, tuple[Size, ...]]]:
        return [*self.inner.reached, (self.target, self.inner.extents)]

    @property
    def operands(self) -> list[Operand]:
        return [*self.inner.operands, self.value]

    @property
    def outer(self) -> Axes:
        """The merged axes of results."""
        inner, kept = self.inner, self.kept
        places = [cut(each.index, 0, kept) for each in (*inner.accesses, self.target)]
        return merged(inner.extents[:kept], places, [cut(each.index, 0, kept) for each in inner.counted])

    @property
    def within(self) -> Axes:
        """Those of what is reduced for each result."""
        inner, kept = self.inner, self.kept
        places = [cut(each.index, kept, None) for each in inner.accesses]
        return merged(inner.extents[kept:], places, [cut(each.index, kept, None) for each in inner.counted])

    @property
    def axes(self) -> Axes:
        outer, inner = self.outer, self.within
        return Axes((*outer.extents, *inner.extents), (*outer.chosen, *(self.kept + axis for axis in inner.chosen)))

    def lower(self, lines: Lines) -> None:
        if self.is_by_rows:
            _by_rows(lines, self)
        else:
            _by_columns(lines, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionOfFew(Reduction):
    """Of rows of few elements, with a row in each lane."""

    def lower(self, lines: Lines) -> None:
        _by_few(lines, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionOfShortRows(Reduction):
    """Several rows in a vector."""

    def lower(self, lines: Lines) -> None:
        _by_short_rows(lines, self)


def reduction_by_lanes(reduction: Reduction) -> Reduction:
    """The reduction with several short rows in a vector, if they are so short."""
    outer, within = reduction.outer, reduction.within
    if not reduction.is_by_rows or len(within.extents) != 1:
        return reduction
    made: type[Reduction] = Reduction
    if not reduction.inner.is_wide and _is_few(within.extents[0], outer.extents):
        made = ReductionOfFew
    elif not reduction.inner.counted and _are_short_rows(*_merged(reduction)):
        made = ReductionOfShortRows
    return made(**{each.name: getattr(reduction, each.name) for each in fields(reduction)})


def _merged(reduction: Reduction) -> tuple[Inner, Access]:
    """What is combined, and the result, along merged axes."""
    return along(reduction.inner, reduction.axes), moved_access(reduction.target, reduction.axes)


def _by_rows(lines: Lines, reduction: Reduction) -> None:
    """Along the innermost axis, by vectors."""
    inner, result = _merged(reduction)
    depth, rank = len(reduction.outer.extents), len(inner.extents)
    with lines.nest((*reduction.outer.extents, ONE)):
        lines.declare("total", reduction.start, kind="auto")
        with lines.counted(inner.extents, range(depth, rank - 1)):
            for access in inner.accesses:
                lines.address(access, is_written=False)
            computed = inside(lines, inner, rank)
            call, function = _reduced(reduction.combine, inner.extents[-1], is_wide=inner.is_wide)
            total = Variable("total")
            head = Lambda((total, f" = {function}{{}}(", total, ", ", *call), end="));", over=inner.extents[-1:])
            with lines.block(head):
                for each in computed:
                    lines.put(each)
                lines.give(code_of(reduction.value))
        truth = (" != 0",) if result.dtype == "pred" else ()
        lines.store(Row(result, depth, ()), Variable("total"), *truth)


def _by_short_rows(lines: Lines, reduction: Reduction) -> None:
    inner, result = _merged(reduction)
    with lines.nest(inner.extents[:-1]):
        first_row(lines, result, is_written=True)
        loaded, rows = loads(lines, inner), inner.extents[-2]
        sums = Spread(result.variable, ((rows, ONE),))
        call = (
            f"reduceRows<{reduction.combine}, {cpp(inner.extents[-1])}>(",
            rows,
            f", {reduction.start}, ",
            sums,
            ", ",
        )
        with lines.block(Lambda(call, over=inner.extents[-2:])):
            for each in (*loaded, *inner.computed()):
                lines.put(each)
            lines.give(code_of(reduction.value))


def _reduced(combine: str, size: Size, *, is_wide: bool) -> tuple[tuple[Piece, ...], str]:
    """The head of a call that reduces a row, up to the function of its elements, and its function of two values."""
    if not is_wide:
        return (f"reduced<{combine}>(", size, ", "), combine
    function = f"OfWide<{combine}>"
    if size.is_constant and size.constant <= PARTIAL:
        return (f"reducedWideFew<{combine}, {size.constant}>(",), function
    return (f"reducedWide<{combine}>(", size, ", "), function


def _are_short_rows(inner: Inner, result: Access) -> bool:
    """Whether several rows go into one vector, whose results lie side by side."""
    beside = result.dtype == "f32" and len(inner.extents) > 1 and result.index.factors[-2] == ONE
    return beside and are_rows(inner, inner.accesses)


def _is_few(size: Size, outer: Sequence[Size]) -> bool:
    """Whether rows are so short, and so many results lie side by side, that each lane gets a row of its own."""
    if not outer or not size.is_constant or size.constant > _FEW:
        return False
    return are_beside(outer[-1])


def are_beside(size: Size) -> bool:
    """Whether so many results are worth vectors."""
    beside = size.per_row if size.grows else size
    return beside.is_constant and beside.constant >= _BESIDE


def _by_few(lines: Lines, reduction: Reduction) -> None:
    """Short rows in the same tree as long ones, with neighbouring rows in the lanes of a vector."""
    inner, outer, within, kept = reduction.inner, reduction.outer, reduction.within, reduction.kept
    depth = len(outer.extents)

    def among_results(index: Index) -> tuple[Index, Size]:
        """The index in the outer axes, and the step to the next element of a row."""
        return outer.index(cut(index, 0, kept)), index.factors[kept + within.chosen[0]]

    results = replace(reduction.target, index=among_results(reduction.target.index)[0])
    with lines.nest(outer.extents):
        lines.address(results, is_written=True)
        found = []
        for access in inner.accesses:
            index, step = among_results(access.index)
            lines.address(replace(access, index=index), is_written=False)
            place, last = Place(access.variable, (("k", step),)), index.factors[-1]
            loaded: tuple[Piece, ...] = (Loaded(place, (last,)),)
            found.append(element(access.element, *(("filled(", Stored(place), ")") if last == ZERO else loaded)))
        for each in inner.counted:
            index, step = among_results(each.index)
            first = " + ".join([*address_terms(index, depth - 1), f"k * {cpp(step)}"])
            numbers = (f"static_cast<std::int32_t>({number})" for number in (first, cpp(index.factors[-1])))
            found.append(element(each.name, Code(f"at.count({', '.join(numbers)})", indices=(index,))))
        size, combine = within.extents[0], reduction.combine
        with lines.block(each_lane("eachWhole", outer.extents[-1])):
            head = Lambda((), "[[maybe_unused]] auto k", end=";", counts=(("k", size),), name="element")
            with lines.block(head):
                for made in (*found, *inner.computed()):
                    lines.put(made)
                lines.give(code_of(reduction.value))
            row = (f"reducedOfFew<{combine}, {cpp(size)}>(", Variable("element"), ")")
            lines.declare("total", f"{combine}{{}}(filled({reduction.start}), ", *row, ")")
            lines.put(stored(Store(results, Element("total"))))


def _by_columns(lines: Lines, reduction: Reduction) -> None:
    """Along outer axes: neighbouring results by vectors, each in the order of the axes."""
    kept, rank = reduction.kept, len(reduction.inner.extents)
    # The kept axis that is innermost comes last.
    order = (*range(kept - 1), *range(kept, rank), kept - 1)
    axes = Axes(tuple(reduction.inner.extents[axis] for axis in order), order)
    inner, sums = along(reduction.inner, axes), moved_access(reduction.target, axes)
    extents, combine = inner.extents, reduction.combine
    together, type_ = "eachAlone", "float"
    if inner.by_words:
        together, type_ = with_multiple("eachTogether", extents[-1]), VECTOR_TYPES[sums.dtype]
    with lines.nest((*extents[: kept - 1], ONE)):
        lines.address(sums, is_written=True)
        with lines.block(each_lane(together, extents[-1], "[[maybe_unused]] auto... places")):
            start = (Variable("places"), f".fill({reduction.start})")
            lines.declare("totals", *start, kind=type_, form="lanes")
            with lines.counted(extents, range(kept - 1, rank - 1)):
                for access in inner.accesses:
                    lines.address(access, is_written=False)
                computed, total = inside(lines, inner, rank), Total()
                lines.declare("total", Variable("totals"), kind="auto*")
                with lines.block(Lambda(end=";", over=extents[-1:], name="step")):
                    for each in computed:
                        lines.put(each)
                    added = (f"{combine}{{}}(", total, ", ", code_of(reduction.value), ")")
                    lines.put(Accumulate(value=added, folded=False))
                    lines.put(Advance(total=total))
                lines.put(ForAllLanes(function="step", by="places"))
            lines.declare("total", Variable("totals"), kind="auto*")
            left = Total(is_left=True)
            lines.put(StoreLanes(to=Place(sums.variable), value=(left,), by="places", folded=True))
