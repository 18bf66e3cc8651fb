"""Loops whose vectors run along the last axis, or which compute one element after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfaot_pkg.compiler.affine import address_terms, cpp
from tfaot_pkg.compiler.body import Elements, Inner, Lanes
from tfaot_pkg.compiler.elements import Counted, Place, Pointed, Statement, Store, invariant
from tfaot_pkg.compiler.instructions import Declare, StoreLanes
from tfaot_pkg.compiler.loops import Lambda, Lines
from tfaot_pkg.compiler.pieces import Code, Loaded, Piece, code_of
from tfaot_pkg.compiler.program import ONE, ZERO, Size

_LONGEST_VECTOR, _SHORTEST_HALF = 16, 4
"""Floats of a vector of AVX-512, and of half a vector of AVX2."""
_FUNCTIONS = {Lanes.ALONE: "eachAlone", Lanes.TRUTH: "eachTruth", Lanes.WORDS: "each", Lanes.WIDE: "eachWide"}
"""Of the kernel library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EachLoop(Elements):
    """A loop by vectors, or by elements, along the last axis."""

    def lower(self, lines: Lines) -> None:
        inner = self.inner
        with lines.nest(inner.extents):
            for access in inner.accesses:
                lines.address(access, is_written=False)
            for store in self.stores:
                lines.address(store.access, is_written=True)
            computed = inside(lines, inner, len(inner.extents))
            with lines.block(head_of(inner.extents, inner)):
                for each in computed:
                    lines.put(each)
                for store in self.stores:
                    lines.put(stored(store))


def head_of(extents: Sequence[Size], inner: Inner) -> Lambda:
    """The head of the loop over the last of `extents`."""
    function = _FUNCTIONS[inner.lanes]
    if inner.by_words and inner.overlaps:
        function = "eachWhole"
    size = extents[-1] if extents else ONE
    if function == "each" and size.is_constant:
        return Lambda((f"eachOf<{size.constant}>(",), over=(size,))
    return each_lane(with_multiple(function, size) if function == "each" else function, size)


def each_lane(function: str, size: Size, parameters: str = "[[maybe_unused]] auto at") -> Lambda:
    """The head of a loop by lanes over `size` elements."""
    return Lambda((f"{function}(", size, ", "), parameters, over=(size,))


def with_multiple(function: str, size: Size) -> str:
    """A loop's function for a number of elements that is known to be a multiple of a vector, or of half of one."""
    multiple = math.gcd(_LONGEST_VECTOR, *(factor for _, factor in size.terms))
    return f"{function}<{multiple}>" if multiple >= _SHORTEST_HALF else function


def inside(lines: Lines, inner: Inner, rank: int) -> list[Declare]:
    """What the inner loop reads and computes. What is equal in all its iterations is written before it, here."""
    computed = [*_loads(lines, inner), *counts(inner.counted, rank)]
    once = once_in(inner)
    for statement in once:
        lines.put(inner.declared(statement, "filled" if inner.by_words else ""))
    return [*computed, *(inner.declared(each) for each in inner.statements if each not in once)]


def element(name: str, *value: Piece) -> Declare:
    """What a loop reads or counts."""
    return Declare(name=name, kind="const auto", value=value)


def once_in(inner: Inner) -> list[Statement]:
    """The statements that are equal in all iterations of the inner loop."""
    if inner.is_typed:  # compilers move what does not change
        return []
    changing = {access.element for access in inner.accesses if (access.index.factors or (ZERO,))[-1] != ZERO}
    return invariant(inner.statements, {*changing, *(each.name for each in inner.counted)})


def _loads(lines: Lines, inner: Inner) -> Iterator[Declare]:
    for access in inner.accesses:
        last = access.index.factors[-1] if access.index.factors else ZERO
        first = Pointed(access.variable)
        if last == ZERO and inner.is_typed:
            yield element(access.element, "at.fill(", first, ")")
        # The same in each iteration of the inner loop: read once, before it.
        elif last == ZERO:
            lines.put(element(access.element, *(("filled(", first, ")") if inner.by_words else (first,))))
        else:
            yield element(access.element, Loaded(Place(access.variable), (last,)))


def counts(counted: Sequence[Counted], rank: int) -> Iterator[Declare]:
    for each in counted:
        name, index = each.name, each.index
        start = " + ".join(address_terms(index, rank - 1)) or "0"
        step = cpp(index.factors[-1]) if index.factors else "0"
        first, rest = (f"static_cast<std::int32_t>({number})" for number in (start, step))
        yield element(name, Code(f"at.count({first}, {rest})", indices=(index,)))


def stored(store: Store) -> StoreLanes:
    access = store.access
    last = access.index.factors[-1] if access.index.factors else ONE
    steps = (ONE if last == ZERO else last,)
    return StoreLanes(to=Place(access.variable), value=(code_of(store.result),), steps=steps)
