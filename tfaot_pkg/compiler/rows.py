"""Loops whose vectors hold several rows: of few elements, or the last elements of longer ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfaot_pkg.compiler.affine import address_terms, cpp
from tfaot_pkg.compiler.body import Elements, Inner
from tfaot_pkg.compiler.each import element
from tfaot_pkg.compiler.elements import Access, Counted, Place, Pointed, Store, Variable
from tfaot_pkg.compiler.expressions import C_TYPES, LONG
from tfaot_pkg.compiler.instructions import Declare, StoreLanes
from tfaot_pkg.compiler.loops import Lambda, Lines
from tfaot_pkg.compiler.pieces import Code, Loaded, Row, code_of
from tfaot_pkg.compiler.program import ONE, ZERO, Size

LONGEST = 8
"""Elements of a row at most: two rows fill a vector of AVX-512."""
_FARTHEST = 1 << 20
"""Elements between two rows at most."""
IN_ROWS = ("f32", "s32")
"""Types of elements."""
_LANES = (4, 8, 16)
"""Elements of the vectors of all targets."""


def are_rows(inner: Inner, accesses: Sequence[Access]) -> bool:
    """Whether the last axis of a loop holds rows so short that vectors should take several, along the axis before."""
    extents = inner.extents
    if len(extents) < 2 or extents[-2] == ONE or not inner.by_words or not accesses:
        return False
    return all(
        access.dtype in IN_ROWS
        and access.index.factors[-1] in (ZERO, ONE)
        and are_short(access.index.factors[-2], extents[-1])
        for access in accesses
    )


def are_short(step: Size, size: Size) -> bool:
    """Whether rows of `size` elements, which begin `step` apart, go into one vector."""
    if not size.is_constant or not step.is_constant:
        return False
    return 1 < size.constant <= LONGEST and 0 <= step.constant <= _FARTHEST


def have_tails(inner: Inner, accesses: Sequence[Access]) -> bool:
    """Whether whole vectors leave at most half of one of each row, with so much work that rows should share it."""
    extents = inner.extents
    if len(extents) < 2 or extents[-2] == ONE or not extents[-1].is_constant or not inner.by_words:
        return False
    if inner.opcodes.isdisjoint(LONG) or not any(0 < 2 * (extents[-1].constant % each) <= each for each in _LANES):
        return False
    # What is the same for all elements of a row is computed for each vector, so it should only be read.
    varied = [access for access in accesses if access.index.factors[-1] != ZERO]
    return inner.varies(varied) and all(
        access.dtype in IN_ROWS
        and access.index.factors[-1] in (ZERO, ONE)
        and access.index.factors[-2].is_constant
        and 0 <= access.index.factors[-2].constant <= _FARTHEST
        for access in accesses
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsLoop(Elements):
    """A loop by vectors of several rows, or of their last elements (`eachWithTails`)."""

    each: str = "eachOfRows"

    def lower(self, lines: Lines) -> None:
        inner, extents = self.inner, self.inner.extents
        with lines.nest(extents[:-1]):
            for store in self.stores:
                first_row(lines, store.access, is_written=True)
            loaded = loads(lines, inner)
            with lines.block(head(extents, self.each)):
                for each in (*loaded, *_counts(inner.counted), *inner.computed()):
                    lines.put(each)
                for store in self.stores:
                    lines.put(_stored(store, extents[-1]))


def _stored(store: Store, size: Size) -> StoreLanes:
    """Rows that follow one another without gaps are written as they are."""
    steps, to = (store.access.index.factors[-2], ONE), Place(store.access.variable)
    return StoreLanes(to=to, value=(code_of(store.result),), steps=steps, contiguous=steps[0] == size)


def _counts(counted: Sequence[Counted]) -> Iterator[Declare]:
    for each in counted:
        name, index = each.name, each.index
        start = " + ".join(address_terms(index, len(index.factors) - 2)) or "0"
        numbers = (start, *(cpp(factor) for factor in index.factors[-2:]))
        texts = ", ".join(f"static_cast<std::int32_t>({each})" for each in numbers)
        yield element(name, Code(f"at.count({texts})", indices=(index,)))


def head(extents: Sequence[Size], each: str = "eachOfRows") -> Lambda:
    """Of the loop over the last two axes."""
    return Lambda((f"{each}<{cpp(extents[-1])}>(", extents[-2], ", "), over=tuple(extents[-2:]))


def first_row(lines: Lines, access: Access, *, is_written: bool, extents: tuple[Size, ...] = ()) -> None:
    """The address of an access before the last two axes are counted; `extents` are those of all axes."""
    const = "" if is_written else "const "
    row = Row(access, len(access.index.factors) - 2, extents)
    lines.declare(access.variable, row, kind=f"{const}{C_TYPES[access.dtype]}* const")


def loads(lines: Lines, inner: Inner, extents: tuple[Size, ...] = ()) -> list[Declare]:
    """What loads the accesses in a vector of several rows; their addresses are written here."""
    found = []
    for access in inner.accesses:
        first_row(lines, access, is_written=False, extents=extents)
        row, column = access.index.factors[-2:]
        if row == column == ZERO:
            lines.put(element(access.element, "filled(", Pointed(access.variable), ")"))
        elif row == ZERO:
            same, size = f"same{access.variable[1:]}", inner.extents[-1]
            kind = f"const SameRow<{cpp(size)}, {C_TYPES[access.dtype]}>"
            lines.put(Declare(name=same, kind=kind, value=(Place(access.variable, elements=size),), form="constructed"))
            found.append(element(access.element, "at.load(", Variable(same), ")"))
        else:
            found.append(element(access.element, Loaded(Place(access.variable), (row, column))))
    return found
