"""Loops that write elements in another order than they read them, as a transpose does (decision 069)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfaot_pkg.compiler.affine import Axes, Index, cpp
from tfaot_pkg.compiler.elements import Access, Store
from tfaot_pkg.compiler.program import ONE, ZERO, Size
from tfaot_pkg.compiler.writer import Body, Writer

_INTERLEAVED = 4
"""The longest rows that are interleaved by exchanging lanes; blocks of longer ones are transposed."""
_LEAST = 4
"""The least number of elements for vectors."""
_NEAR = (ZERO, *map(Size, (-1, 1, 2, 3, 4)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """The axes along which a loop's elements are contiguous: `rows` where they are written, `columns` where read."""

    rows: Size
    columns: Size
    column: int
    """The axis of `columns`; that of `rows` is the last one."""
    is_interleaved: bool


def tile(axes: Axes, body: Body, accesses: Sequence[Access], outputs: Sequence[Access]) -> Tile | None:
    """How to compute the loop by tiles; None unless its vectors would be assembled from single elements."""
    if len(axes.extents) < 2 or not body.by_vectors or body.counted or len(outputs) != 1:
        return None
    (written,), rows = outputs, axes.extents[-1]
    factors = written.index.factors
    is_few = rows.is_constant and rows.constant <= _INTERLEAVED
    near = (ZERO, ONE) if is_few else _NEAR
    far = [access for access in accesses if access.index.factors[-1] not in near]
    if written.dtype in ("pred", "u16") or factors[-1] != ONE or not far:
        return None
    # From the innermost axis outwards: it has the best chance to be contiguous where elements are read.
    for column in reversed(range(len(axes.extents) - 1)):
        columns = axes.extents[column]
        if columns.is_constant and columns.constant < _LEAST:
            continue
        is_interleaved = is_few and factors[column] == rows
        if is_interleaved:
            fits = all(access.index.factors[column] in _NEAR for access in accesses)
        else:
            fits = all(access.index.factors[column] in (ZERO, ONE) for access in accesses) and not is_few
            fits = fits and all(access.index.factors[column] == ONE for access in far)
        if fits:
            return Tile(rows=rows, columns=columns, column=column, is_interleaved=is_interleaved)
    return None


def write_tile(writer: Writer, axes: Axes, found: Tile, body: Body, accesses: Sequence[Access], store: Store) -> None:
    """Write the loop `body`, which has one `store`, by tiles."""

    def outside(index: Index) -> Index:
        kept = (*index.factors[: found.column], *index.factors[found.column + 1 : -1])
        return replace(index, factors=(*kept, ZERO))

    written = store.access
    extents = (*axes.extents[: found.column], *axes.extents[found.column + 1 : -1])
    with writer.nest((*extents, ONE)):
        for access in (*accesses, written):
            writer.address(replace(access, index=outside(access.index)), is_written=access is written)
        rows, columns = cpp(found.rows), cpp(found.columns)
        to, apart = written.variable, cpp(written.index.factors[found.column])
        if found.is_interleaved:
            call = f"eachInterleaved<{rows}>({columns}, {to}"
        elif found.rows.is_constant and found.columns.is_constant:
            call = f"eachTransposed<{rows}, {columns}>({to}, {apart}"
        else:
            call = f"eachTransposed({rows}, {columns}, {to}, {apart}"
        head = f"{call}, [&]([[maybe_unused]] auto at, [[maybe_unused]] std::size_t i)"
        with writer.braces(head, "});"):
            for access in accesses:
                row, step = access.index.factors[-1], access.index.factors[found.column]
                place = access.variable if row == ZERO else f"{access.variable} + {_times('i', row)}"
                stride = "" if step == ONE else f", {cpp(step)}"
                value = f"filled(*({place}))" if step == ZERO else f"at.load({place}{stride})"
                writer.line(f"const auto {access.element} = {value};")
            for line in body.texts():
                writer.line(line)
            writer.line(f"return {store.result.text()};")


def _times(counter: str, factor: Size) -> str:
    if factor.is_constant:
        return f"static_cast<std::ptrdiff_t>({counter}) * {factor.constant}"
    return f"{counter} * {cpp(factor)}"
