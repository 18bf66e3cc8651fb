"""Loops whose vectors hold several rows: of few elements, or the last elements of longer ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tfaot_pkg.compiler.affine import Axes, address_terms, cpp
from tfaot_pkg.compiler.elements import Access, Counted, Store
from tfaot_pkg.compiler.expressions import C_TYPES, LONG
from tfaot_pkg.compiler.program import ONE, ZERO, Size
from tfaot_pkg.compiler.writer import Body, Writer

LONGEST = 8
"""Elements of a row at most: two rows fill a vector of AVX-512."""
_FARTHEST = 1 << 20
"""Elements between two rows at most."""
IN_ROWS = ("f32", "s32")
"""Types of elements."""
_LANES = (4, 8, 16)
"""Elements of the vectors of all targets."""


def are_rows(extents: Sequence[Size], body: Body, accesses: Sequence[Access]) -> bool:
    """Whether the last axis of a loop holds rows so short that vectors should take several, along the axis before."""
    if len(extents) < 2 or extents[-2] == ONE or not body.by_vectors or not accesses:
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


def have_tails(extents: Sequence[Size], body: Body, accesses: Sequence[Access]) -> bool:
    """Whether whole vectors leave at most half of one of each row, with so much work that rows should share it."""
    if len(extents) < 2 or extents[-2] == ONE or not extents[-1].is_constant or not body.by_vectors:
        return False
    if body.opcodes.isdisjoint(LONG) or not any(0 < 2 * (extents[-1].constant % each) <= each for each in _LANES):
        return False
    # What is the same for all elements of a row is computed for each vector, so it should only be read.
    varied = [access for access in accesses if access.index.factors[-1] != ZERO]
    return body.varies(varied) and all(
        access.dtype in IN_ROWS
        and access.index.factors[-1] in (ZERO, ONE)
        and access.index.factors[-2].is_constant
        and 0 <= access.index.factors[-2].constant <= _FARTHEST
        for access in accesses
    )


def write_rows(
    writer: Writer,
    axes: Axes,
    body: Body,
    accesses: Sequence[Access],
    outputs: Sequence[Store],
    counted: Sequence[Counted] = (),
    *,
    each: str = "eachOfRows",
) -> None:
    """The loop `body` by vectors of several rows, or of their last elements (`eachWithTails`)."""
    with writer.nest(axes.extents[:-1]):
        for store in outputs:
            first_row(writer, store.access, is_written=True)
        lines = loads(writer, axes.extents[-1], accesses)
        with writer.braces(head(axes.extents, each), "});"):
            for line in (*lines, *_counts(counted), *body.texts()):
                writer.line(line)
            for store in outputs:
                row = store.access.index.factors[-2]
                where = "" if row == axes.extents[-1] else f", Apart<{cpp(row)}, 1>{{}}"
                writer.line(f"at.store({store.access.variable}, {store.result.text()}{where});")


def _counts(counted: Sequence[Counted]) -> Iterator[str]:
    for each in counted:
        name, index = each.name, each.index
        start = " + ".join(address_terms(index, len(index.factors) - 2)) or "0"
        numbers = (start, *(cpp(factor) for factor in index.factors[-2:]))
        yield f"const auto {name} = at.count({', '.join(f'static_cast<std::int32_t>({each})' for each in numbers)});"


def head(extents: Sequence[Size], each: str = "eachOfRows") -> str:
    """Of the loop over the last two axes."""
    return f"{each}<{cpp(extents[-1])}>({cpp(extents[-2])}, [&]([[maybe_unused]] auto at)"


def first_row(writer: Writer, access: Access, *, is_written: bool) -> None:
    """The address of an access before the last two axes are counted."""
    inner = replace(access.index, factors=(*access.index.factors[:-2], ZERO, ZERO))
    writer.address(replace(access, index=inner), is_written=is_written)


def loads(writer: Writer, size: Size, accesses: Sequence[Access]) -> list[str]:
    """What loads `accesses` in a vector of several rows of `size` elements; their addresses are written here."""
    lines = []
    for access in accesses:
        first_row(writer, access, is_written=False)
        row, column = access.index.factors[-2:]
        name = f"const auto {access.element}"
        if row == column == ZERO:
            writer.line(f"{name} = filled(*{access.variable});")
        elif row == ZERO:
            same = f"same{access.variable[1:]}"
            writer.line(f"const SameRow<{cpp(size)}, {C_TYPES[access.dtype]}> {same}({access.variable});")
            lines.append(f"{name} = at.load({same});")
        else:
            lines.append(f"{name} = at.load({access.variable}, Apart<{cpp(row)}, {cpp(column)}>{{}});")
    return lines
