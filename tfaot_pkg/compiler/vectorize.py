"""Which loop computes what was collected for one: by tiles, rows in vectors, a chain's step, or a plain one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfaot_pkg.compiler.affine import merged
from tfaot_pkg.compiler.body import Body, Inner, kind_of, may_overlap, moved_access, only_moves
from tfaot_pkg.compiler.chains import linked
from tfaot_pkg.compiler.each import EachLoop
from tfaot_pkg.compiler.elements import Store
from tfaot_pkg.compiler.loops import Loops
from tfaot_pkg.compiler.program import ONE, Size
from tfaot_pkg.compiler.rows import RowsLoop, are_rows, have_tails
from tfaot_pkg.compiler.tiles import TiledLoop, tile
from tfaot_pkg.compiler.weights import Constants


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which names may be those of the same memory: of the buffers `aliases` of a variable, except names `apart`."""

    aliases: Mapping[str, tuple[str, ...]]
    apart: set[frozenset[str]] = field(default_factory=set)

    def is_possible(self, one: str, other: str) -> bool:
        if one == other or frozenset((one, other)) in self.apart:
            return one == other
        return not set(self.aliases.get(one, (one,))).isdisjoint(self.aliases.get(other, (other,)))


def loop_of(body: Body, written: Sequence[Store], sharing: Sharing, constants: Constants) -> Loops:
    """The loop that makes `written`. It may read a copy in its own order of a constant, which `constants` gets."""
    inner, outputs = _along_merged_axes(body, written)
    if not _is_read(inner, outputs, sharing) and (tiled := tile(inner, [each.access for each in outputs])):
        return TiledLoop(inner=inner, stores=outputs, tile=tiled)
    in_order = replace(body, accesses=[constants.in_order(access, body.extents) for access in body.accesses])
    inner, outputs = _along_merged_axes(in_order, written)
    return _by_rows(in_order, inner, outputs, is_read=_is_read(inner, outputs, sharing))


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


def _is_read(inner: Inner, outputs: Sequence[Store], sharing: Sharing) -> bool:
    """Whether a loop reads an array that it writes."""
    return any(sharing.is_possible(read.base, made.access.base) for read in inner.accesses for made in outputs)


def joined_with(
    loop: Loops, body: Body, written: Sequence[Store], more: Sequence[Store], sharing: Sharing, constants: Constants
) -> Loops | None:
    """`loop` of `body`, which writes `more` beside `written`; None if a loop of its own for each of these is faster.

    Rows that share vectors, and longer rows of one of the loops, gain more than a pass over memory takes.
    """
    alone = {_last_size(Body(body.extents), [store]) for store in more}
    both = [*written, *more]
    if isinstance(loop, RowsLoop | TiledLoop) or alone | {_last_size(body, written)} != {_last_size(body, both)}:
        return None
    return loop_of(body, both, sharing, constants)


def _last_size(body: Body, written: Sequence[Store]) -> Size:
    """The elements along the last axis of a loop."""
    inner, _ = _along_merged_axes(body, written)
    return inner.extents[-1]


def _along_merged_axes(body: Body, written: Sequence[Store]) -> tuple[Inner, tuple[Store, ...]]:
    """A loop along as few axes as possible, and what it writes."""
    places = [each.access.index for each in written]
    axes = merged(body.extents, [*(a.index for a in body.accesses), *(c.index for c in body.counted), *places])
    return body.inner(axes), tuple(replace(each, access=moved_access(each.access, axes)) for each in written)
