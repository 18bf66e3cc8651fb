"""Where the elements of moved values come from: the indices of operands, affine in those of loops. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfaot_pkg.compiler.affine import Index, as_size, shifted
from tfaot_pkg.compiler.attributes import Dimensions, Slices
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
            return tuple(
                each if start is None else replace(each, runtime=(*each.runtime, (start, ONE)))
                for each, start in zip(index, starts, strict=True)
            )


def in_memory(index: _Indices, shape: Shape, rank: int) -> Index:
    """The place of the element at `index` in a row-major array of `shape`, in loops along `rank` axes."""
    flat = Index(ZERO, (ZERO,) * rank)
    for each, stride in zip(index, shape.strides, strict=True):
        flat = flat.plus(each.scaled(stride))
    return flat
