"""Loops that write elements in another order than they read them, as a transpose does (decision 069)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfaot_pkg.compiler.affine import Index, cpp
from tfaot_pkg.compiler.body import Elements, Inner
from tfaot_pkg.compiler.each import element
from tfaot_pkg.compiler.elements import Access, Place, Stored
from tfaot_pkg.compiler.expressions import NARROW_TYPES
from tfaot_pkg.compiler.loops import Lambda, Lines
from tfaot_pkg.compiler.pieces import Loaded, Piece, Spread, code_of
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
    if len(extents) < 2 or not inner.by_words or inner.counted or len(outputs) != 1:
        return None
    (written,), near = outputs, (ZERO, ONE) if _is_few(extents[-1]) else _NEAR
    far = [access for access in accesses if access.index.factors[-1] not in near]
    if not far or not _is_written_by_vectors(inner, written):
        return None
    # From the innermost axis outwards: it has the best chance to be contiguous where elements are read.
    columns = reversed(range(len(extents) - 1))
    return next((found for column in columns if (found := _tile_along(inner, written, far, column))), None)


def _tile_along(inner: Inner, written: Access, far: Sequence[Access], column: int) -> Tile | None:
    """A tile of rows and of the axis `column`, if elements are contiguous along it where they are read."""
    rows, columns = inner.extents[-1], inner.extents[column]
    if columns.is_constant and columns.constant < _LEAST:
        return None
    steps = [access.index.factors[column] for access in inner.accesses]
    if not _is_few(rows):
        is_contiguous = _are_contiguous(steps, [access.index.factors[column] for access in far])
        return Tile(rows=rows, columns=columns, column=column, is_interleaved=False) if is_contiguous else None
    is_interleaved = written.index.factors[column] == rows and all(step in _NEAR for step in steps)
    return Tile(rows=rows, columns=columns, column=column, is_interleaved=True) if is_interleaved else None


def _is_few(rows: Size) -> bool:
    return rows.is_constant and rows.constant <= _INTERLEAVED


def _is_written_by_vectors(inner: Inner, written: Access) -> bool:
    if written.dtype in NARROW_TYPES and not (_is_few(inner.extents[-1]) and inner.statements):
        return False  # blocks are transposed as words, and compilers move more elements at a time
    return written.dtype != "pred" and written.index.factors[-1] == ONE


def _are_contiguous(steps: Sequence[Size], far: Sequence[Size]) -> bool:
    """Whether arrays with these steps are read as vectors, or are the same; those that are `far` otherwise must be."""
    return all(step in (ZERO, ONE) for step in steps) and all(step == ONE for step in far)


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
            with lines.block(self._head()):
                for access in inner.accesses:
                    row, step = access.index.factors[-1], access.index.factors[tile.column]
                    place = Place(access.variable, () if row == ZERO else (("i", row),))
                    loaded: tuple[Piece, ...] = (Loaded(place, (step,)),)
                    lines.put(element(access.element, *(("filled(", Stored(place), ")") if step == ZERO else loaded)))
                for each in inner.computed():
                    lines.put(each)
                lines.give(code_of(store.result))

    def _head(self) -> Lambda:
        tile, written = self.tile, self.stores[0].access
        apart = written.index.factors[tile.column]
        to = Spread(written.variable, ((tile.columns, apart), (tile.rows, ONE)))
        rows, columns = cpp(tile.rows), cpp(tile.columns)
        call: tuple[Piece, ...] = ("eachTransposed(", tile.rows, ", ", tile.columns, ", ", to, ", ", apart, ", ")
        if tile.is_interleaved:
            call = (f"eachInterleaved<{rows}>(", tile.columns, ", ", to, ", ")
        elif tile.rows.is_constant and tile.columns.is_constant:
            call = (f"eachTransposed<{rows}, {columns}>(", to, ", ", apart, ", ")
        parameters = "[[maybe_unused]] auto at, [[maybe_unused]] std::size_t i"
        return Lambda(call, parameters, over=(tile.columns,), counts=(("i", tile.rows),))
