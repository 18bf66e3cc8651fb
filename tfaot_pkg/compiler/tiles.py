"""Loops that write elements in another order than they read them, as a transpose does (decision 069)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfaot_pkg.compiler.affine import Index, cpp
from tfaot_pkg.compiler.body import Elements, Inner
from tfaot_pkg.compiler.elements import Access
from tfaot_pkg.compiler.loops import Lines, code_of
from tfaot_pkg.compiler.program import ONE, ZERO, Size

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


def tile(inner: Inner, outputs: Sequence[Access]) -> Tile | None:
    """How to compute the loop by tiles; None unless its vectors would be assembled from single elements."""
    extents, accesses = inner.extents, inner.accesses
    if len(extents) < 2 or not inner.by_vectors or inner.counted or len(outputs) != 1:
        return None
    (written,), rows = outputs, extents[-1]
    factors = written.index.factors
    is_few = rows.is_constant and rows.constant <= _INTERLEAVED
    near = (ZERO, ONE) if is_few else _NEAR
    far = [access for access in accesses if access.index.factors[-1] not in near]
    if written.dtype in ("pred", "u16") or factors[-1] != ONE or not far:
        return None
    # From the innermost axis outwards: it has the best chance to be contiguous where elements are read.
    for column in reversed(range(len(extents) - 1)):
        columns = extents[column]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledLoop(Elements):
    """A loop with one store, by tiles."""

    tile: Tile

    def _outside(self, index: Index) -> Index:
        kept = (*index.factors[: self.tile.column], *index.factors[self.tile.column + 1 : -1])
        return replace(index, factors=(*kept, ZERO))

    def lower(self, lines: Lines) -> None:
        inner, tile, (store,) = self.inner, self.tile, self.stores
        written = store.access
        outer = (*inner.extents[: tile.column], *inner.extents[tile.column + 1 : -1])
        with lines.nest((*outer, ONE)):
            for access in (*inner.accesses, written):
                moved = replace(access, index=self._outside(access.index))
                lines.address(moved, is_written=access is written)
            rows, columns = cpp(tile.rows), cpp(tile.columns)
            to, apart = written.variable, cpp(written.index.factors[tile.column])
            if tile.is_interleaved:
                call = f"eachInterleaved<{rows}>({columns}, {to}"
            elif tile.rows.is_constant and tile.columns.is_constant:
                call = f"eachTransposed<{rows}, {columns}>({to}, {apart}"
            else:
                call = f"eachTransposed({rows}, {columns}, {to}, {apart}"
            head = f"{call}, [&]([[maybe_unused]] auto at, [[maybe_unused]] std::size_t i)"
            with lines.braces(head, tail="});"):
                for access in inner.accesses:
                    row, step = access.index.factors[-1], access.index.factors[tile.column]
                    place = access.variable if row == ZERO else f"{access.variable} + {_times('i', row)}"
                    stride = "" if step == ONE else f", {cpp(step)}"
                    value = f"filled(*({place}))" if step == ZERO else f"at.load({place}{stride})"
                    lines.line(f"const auto {access.element} = {value};")
                for code in inner.codes():
                    lines.line(code)
                lines.line("return ", code_of(store.result), ";")


def _times(counter: str, factor: Size) -> str:
    if factor.is_constant:
        return f"static_cast<std::ptrdiff_t>({counter}) * {factor.constant}"
    return f"{counter} * {cpp(factor)}"
