"""Vectorization: a pass on loops, which decides what is computed in vectors, and what lies in their lanes.

Loops come from a program one element after the other, along all axes. Here each becomes one along few axes: by tiles,
by vectors along its last axis, by vectors of several rows, or as it was. One source serves all targets, so a vector has
as many lanes of an element's type as a target has (recipes/tfaot-kernels). Bits do not depend on any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tfaot_pkg.compiler.affine import Index, cut, merged
from tfaot_pkg.compiler.body import Inner, Lanes, along, lanes_of, lanes_of_type, may_overlap, moved_access, only_moves
from tfaot_pkg.compiler.chains import SoftmaxOfRows, linked, softmax_step, step_of
from tfaot_pkg.compiler.each import EachLoop
from tfaot_pkg.compiler.elements import Access, Store
from tfaot_pkg.compiler.loops import Block, Function, Loops, Nest, Node, Sharing
from tfaot_pkg.compiler.program import ONE, Size
from tfaot_pkg.compiler.reduction_loops import Reduction, reduction_by_lanes
from tfaot_pkg.compiler.rows import RowsLoop, are_rows, have_tails
from tfaot_pkg.compiler.tiles import TiledLoop, tile
from tfaot_pkg.compiler.weights import Constants

_InOrder = Callable[[Access, Sequence[Size]], Access]
"""What a loop over some extents reads in place of a constant in another order."""


def vectorized(function: Function, constants: Constants) -> Function:
    """The function with its loops by vectors. `constants` get copies in the order of loops that read them."""
    sharing = function.sharing

    def over(nodes: Iterable[Node]) -> tuple[Node, ...]:
        return tuple(changed(node) for node in nodes)

    def changed(node: Node) -> Node:
        match node:
            case Nest(loops=EachLoop() as loop):
                return replace(node, loops=_by_vectors(loop, sharing, constants.in_order))
            case Nest(loops=Reduction() as reduction):
                return replace(node, loops=_reduced(reduction))
            case Nest(loops=SoftmaxOfRows() as softmax):
                return replace(node, loops=softmax_step(softmax))
            case Block():
                return replace(node, nodes=over(node.nodes))
        return node

    nodes = over(function.nodes)
    copies = {address: Size(values.size) for address, values in constants.values.items()}
    return replace(function, nodes=nodes, arrays={**function.arrays, **copies})


def _by_vectors(loop: EachLoop, sharing: Sharing, in_order: _InOrder) -> Loops:
    whole = replace(loop.inner, lanes=lanes_of(loop.inner.types))
    inner, outputs = _along_merged_axes(whole, loop.stores)
    if not _is_read(inner, outputs, sharing) and (tiled := tile(inner, [each.access for each in outputs])):
        return TiledLoop(inner=inner, stores=outputs, tile=tiled)
    whole = replace(whole, accesses=tuple(in_order(access, whole.extents) for access in whole.accesses))
    inner, outputs = _along_merged_axes(whole, loop.stores)
    return _by_rows(whole, inner, outputs, is_read=_is_read(inner, outputs, sharing))


def _by_rows(whole: Inner, inner: Inner, outputs: tuple[Store, ...], *, is_read: bool) -> Loops:
    """The loop `inner`, by vectors along the last axis or of several rows of it; `whole` is along all axes."""
    places, counted = [each.access for each in outputs], inner.counted
    written_rows = all(place.index.factors[-2:] == (*inner.extents[-1:], ONE) for place in places)
    if not is_read and written_rows and are_rows(inner, [*inner.accesses, *places]):
        loop: Loops = RowsLoop(inner=inner, stores=outputs)
    elif not counted and have_tails(inner, [*inner.accesses, *places]):
        loop = RowsLoop(inner=inner, stores=outputs, each="eachWithTails")
    else:
        is_alone = set(inner.extents) <= {ONE} or only_moves(whole, inner.accesses, places)
        typed = None if is_alone else lanes_of_type(inner, [*inner.accesses, *places])
        lanes = Lanes.ALONE if is_alone else typed or inner.lanes
        inner = replace(inner, lanes=lanes, overlaps=not is_read and may_overlap(inner.accesses))
        loop = EachLoop(inner=inner, stores=outputs)
        if is_alone or typed:
            return loop
    return loop if is_read or len(inner.extents) > 2 or counted else linked(inner, outputs, loop)


def _reduced(reduction: Reduction) -> Loops:
    """A reduction by vectors: as a step of a chain of loops over rows, if it may be one."""
    loop, outer, inner = reduction_by_lanes(reduction), reduction.outer, reduction.within
    if not reduction.is_by_rows or len(outer.extents) != 1 or len(inner.extents) != 1:
        return loop
    target = replace(reduction.target, index=outer.index(cut(reduction.target.index, 0, reduction.kept)))
    call = f"template reduced<{reduction.combine}>({reduction.start}, "
    return step_of(call, along(reduction.inner, reduction.axes), reduction.value, target, loop) or loop


def _is_read(inner: Inner, outputs: Sequence[Store], sharing: Sharing) -> bool:
    """Whether a loop reads an array that it writes."""
    return any(sharing.is_possible(read.base, made.access.base) for read in inner.accesses for made in outputs)


def joined_with(loop: EachLoop, more: Sequence[Store], sharing: Sharing, constants: Constants) -> EachLoop | None:
    """`loop`, which writes `more` as well; None if a loop of its own for each of these is faster.

    Rows that share vectors, and longer rows of one of the loops, gain more than a pass over memory takes.
    """
    extents, inner = loop.inner.extents, loop.inner
    read = [*(each.index for each in inner.accesses), *(each.index for each in inner.counted)]
    written, added = ([store.access.index for store in stores] for stores in (loop.stores, more))
    sizes = {_last_size(extents, [index]) for index in added} | {_last_size(extents, [*read, *written])}
    by_vectors = _by_vectors(loop, sharing, constants.as_in_order)
    if isinstance(by_vectors, RowsLoop | TiledLoop) or sizes != {_last_size(extents, [*read, *written, *added])}:
        return None
    return replace(loop, stores=(*loop.stores, *more))


def _last_size(extents: tuple[Size, ...], indices: Sequence[Index]) -> Size:
    """The elements along the last axis of a loop."""
    return merged(extents, indices).extents[-1]


def _along_merged_axes(inner: Inner, written: Sequence[Store]) -> tuple[Inner, tuple[Store, ...]]:
    """A loop along as few axes as possible, and what it writes."""
    places = [each.access.index for each in written]
    axes = merged(inner.extents, [*(a.index for a in inner.accesses), *(c.index for c in inner.counted), *places])
    return along(inner, axes), tuple(replace(each, access=moved_access(each.access, axes)) for each in written)
