"""Which loop computes what was collected for one: by tiles, rows in vectors, a chain's step, or a plain one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tfaot_pkg.compiler.affine import merged
from tfaot_pkg.compiler.body import Body, Inner, kind_of, may_overlap, moved_access, only_moves
from tfaot_pkg.compiler.chains import linked
from tfaot_pkg.compiler.each import EachLoop
from tfaot_pkg.compiler.elements import Store
from tfaot_pkg.compiler.loops import Loops
from tfaot_pkg.compiler.program import ONE
from tfaot_pkg.compiler.rows import RowsLoop, are_rows, have_tails
from tfaot_pkg.compiler.tiles import TiledLoop, tile
from tfaot_pkg.compiler.weights import Constants

_Aliases = Mapping[str, tuple[str, ...]]


def loop_of(body: Body, written: Sequence[Store], aliases: _Aliases, constants: Constants) -> Loops:
    """The loop that makes `written`. It may read a copy in its own order of a constant, which `constants` gets."""
    inner, outputs = _along_merged_axes(body, written)
    if not _is_read(inner, outputs, aliases) and (tiled := tile(inner, [each.access for each in outputs])):
        return TiledLoop(inner=inner, stores=outputs, tile=tiled)
    in_order = replace(body, accesses=[constants.in_order(access, body.extents) for access in body.accesses])
    inner, outputs = _along_merged_axes(in_order, written)
    return _by_rows(in_order, inner, outputs, is_read=_is_read(inner, outputs, aliases))


def _by_rows(body: Body, inner: Inner, outputs: tuple[Store, ...], *, is_read: bool) -> Loops:
    """A loop whose vectors run along the last axis, or take several rows of it."""
    places, counted = [each.access for each in outputs], inner.counted
    written_rows = all(place.index.factors[-2:] == (*inner.extents[-1:], ONE) for place in places)
    if not is_read and written_rows and are_rows(inner, [*inner.accesses, *places]):
        loop: Loops = RowsLoop(inner=inner, stores=outputs)
    elif not counted and have_tails(inner, [*inner.accesses, *places]):
        loop = RowsLoop(inner=inner, stores=outputs, each="eachWithTails")
    else:
        is_alone = set(inner.extents) <= {ONE} or only_moves(body, inner.accesses, places)
        kind = kind_of(inner, [*inner.accesses, *places], is_alone=is_alone)
        overlaps = not is_read and may_overlap(inner.accesses)
        inner = replace(inner, by_vectors=inner.by_vectors and not is_alone, kind=kind, overlaps=overlaps)
        loop = EachLoop(inner=inner, stores=outputs)
        if is_alone or kind:
            return loop
    return loop if is_read or len(inner.extents) > 2 or counted else linked(inner, outputs, loop)


def _is_read(inner: Inner, outputs: Sequence[Store], aliases: _Aliases) -> bool:
    """Whether a loop reads an array that it writes."""
    made = {name for each in outputs for name in aliases.get(each.access.base, (each.access.base,))}
    read = {name for access in inner.accesses for name in aliases.get(access.base, (access.base,))}
    return bool(made & read)


def _along_merged_axes(body: Body, written: Sequence[Store]) -> tuple[Inner, tuple[Store, ...]]:
    """A loop along as few axes as possible, and what it writes."""
    places = [each.access.index for each in written]
    axes = merged(body.extents, [*(a.index for a in body.accesses), *(c.index for c in body.counted), *places])
    return body.inner(axes), tuple(replace(each, access=moved_access(each.access, axes)) for each in written)
