"""Loops whose vectors run along the last axis, or which compute one element after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfaot_pkg.compiler.affine import address_terms, cpp
from tfaot_pkg.compiler.body import Elements, Inner, Lanes
from tfaot_pkg.compiler.elements import Counted, Statement, Store, invariant
from tfaot_pkg.compiler.loops import Code, Lambda, Lines
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
            codes = inside(lines, inner, len(inner.extents))
            with lines.block(head_of(inner.extents, inner)):
                for code in codes:
                    lines.line(code)
                for store in self.stores:
                    lines.line(stored(store))


def head_of(extents: Sequence[Size], inner: Inner) -> Lambda:
    """The head of the loop over the last of `extents`."""
    function = _FUNCTIONS[inner.lanes]
    if inner.by_words and inner.overlaps:
        function = "eachWhole"
    size = extents[-1] if extents else ONE
    call = f"{with_multiple(function, size) if function == 'each' else function}({cpp(size)}, "
    if function == "each" and size.is_constant:
        call = f"eachOf<{size.constant}>("
    return Lambda((call,))


def with_multiple(function: str, size: Size) -> str:
    """A loop's function for a number of elements that is known to be a multiple of a vector, or of half of one."""
    multiple = math.gcd(_LONGEST_VECTOR, *(factor for _, factor in size.terms))
    return f"{function}<{multiple}>" if multiple >= _SHORTEST_HALF else function


def inside(lines: Lines, inner: Inner, rank: int) -> list[Code]:
    """The statements of the inner loop. Those that are equal in all its iterations are written before it, here."""
    codes = [*_loads(lines, inner), *counts(inner.counted, rank)]
    once = once_in(inner)
    for statement in once:
        lines.line(inner.code(statement, "filled" if inner.by_words else ""))
    return [*codes, *(inner.code(each) for each in inner.statements if each not in once)]


def once_in(inner: Inner) -> list[Statement]:
    """The statements that are equal in all iterations of the inner loop."""
    if inner.is_typed:  # compilers move what does not change
        return []
    changing = {access.element for access in inner.accesses if (access.index.factors or (ZERO,))[-1] != ZERO}
    return invariant(inner.statements, {*changing, *(each.name for each in inner.counted)})


def _loads(lines: Lines, inner: Inner) -> Iterator[Code]:
    for access in inner.accesses:
        last = access.index.factors[-1] if access.index.factors else ZERO
        name = access.element
        if last == ZERO and inner.is_typed:
            yield Code(f"const auto {name} = at.fill(*{access.variable});")
        # The same in each iteration of the inner loop: read once, before it.
        elif last == ZERO:
            value = f"filled(*{access.variable})" if inner.by_words else f"*{access.variable}"
            lines.declare(name, value)
        else:
            stride = "" if last == ONE else f", {cpp(last)}"
            yield Code(f"const auto {name} = at.load({access.variable}{stride});")


def counts(counted: Sequence[Counted], rank: int) -> Iterator[Code]:
    for each in counted:
        name, index = each.name, each.index
        start = " + ".join(address_terms(index, rank - 1)) or "0"
        step = cpp(index.factors[-1]) if index.factors else "0"
        first, rest = (f"static_cast<std::int32_t>({number})" for number in (start, step))
        yield Code(f"const auto {name} = at.count({first}, {rest});", others=index.bases)


def stored(store: Store) -> Code:
    access = store.access
    last = access.index.factors[-1] if access.index.factors else ONE
    stride = "" if last in (ONE, ZERO) else f", {cpp(last)}"
    return Code(f"at.store({access.variable}, {store.result.text()}{stride});", (store.result,))
