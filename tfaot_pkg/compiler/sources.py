"""Where the elements of moved values come from: the indices of operands, affine in those of loops. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfaot_pkg.compiler.affine import Index, as_size, shifted, split
from tfaot_pkg.compiler.attributes import Dimensions, Slices
from tfaot_pkg.compiler.body import Body
from tfaot_pkg.compiler.elements import Start
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Shape, Size

_Indices = tuple[Index, ...]


def source_index(operation: Operation, source: Shape, index: _Indices, starts: Sequence[Start | None]) -> _Indices:
    """The index in the first operand, of shape `source`, of the element at `index` of what `operation` moves.

    `starts` are those of a dynamic slice, one for each axis. Reshapes are not among the operations: see `split`.
    """
    match operation.opcode:
        case "broadcast":
            return tuple(index[axis] for axis in Dimensions.of(operation).dimensions)
        case "transpose":
            place = {axis: number for number, axis in enumerate(Dimensions.of(operation).dimensions)}
            return tuple(index[place[axis]] for axis in range(len(index)))
        case "slice":
            return tuple(
                shifted(each.scaled(as_size(step)), as_size(start))
                for each, (start, _, step) in zip(index, Slices.of(operation).slices, strict=True)
            )
        case "reverse":
            reversed_ = Dimensions.of(operation).dimensions
            return tuple(
                shifted(each.scaled(Size(-1)), size + Size(-1)) if axis in reversed_ else each
                for axis, (each, size) in enumerate(zip(index, source.sizes, strict=True))
            )
        case _:  # dynamic-slice
            return _from(starts, index)


def index_of_part(update: Operation, part: Shape, body: Body, starts: Sequence[Start | None]) -> Index | None:
    """Where an `update` of an array by a reshape to `part` of elements of `body` writes these; None if not affine."""
    rank = len(body.extents)
    inner = split(part.sizes, body.extents, body.identity(), rank)
    return None if inner is None else in_memory(_from(starts, inner), update.shape, rank)


def _from(starts: Sequence[Start | None], index: _Indices) -> _Indices:
    return tuple(
        each if start is None else replace(each, runtime=(*each.runtime, (start, ONE)))
        for each, start in zip(index, starts, strict=True)
    )


def runtime_terms(starts: Sequence[Start | None], shape: Shape) -> tuple[tuple[Start, Size], ...]:
    """The terms that `starts` along the axes of an array add to a place in it."""
    return tuple((start, stride) for start, stride in zip(starts, shape.strides, strict=True) if start is not None)


def in_memory(index: _Indices, shape: Shape, rank: int) -> Index:
    """The place of the element at `index` in a row-major array of `shape`, in loops along `rank` axes."""
    flat = Index(ZERO, (ZERO,) * rank)
    for each, stride in zip(index, shape.strides, strict=True):
        flat = flat.plus(each.scaled(stride))
    return flat
