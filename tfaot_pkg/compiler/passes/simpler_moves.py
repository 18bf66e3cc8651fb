"""Rules of simplify.py for operations that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import Constant, Dimensions, Edge, Gather, Pad, Slices, numbers
from tfaot_pkg.compiler.passes.rewriting import Rewrite
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, ONE, ZERO, Attributes, Operation, Shape, Size

_NEAR = 4
"""The distance of elements at which loops load vectors. A diagonal, repeated, took 1.08 of its time as a slice."""


def reshape(rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    if operation.type == operand.type:
        return operand.id
    if operand.opcode == "reshape":
        return rewrite.add(replace(operation, operands=operand.operands))
    if operand.opcode == "broadcast":
        made = _reshaped_broadcast(operation, operand)
        if made is not None:
            return rewrite.add(made)
    return operation


def _reshaped_broadcast(reshape: Operation, broadcast: Operation) -> Operation | None:
    """A broadcast with axes of size 1 removed or inserted."""
    inner, outer = broadcast.shape.sizes, reshape.shape.sizes
    if [size for size in inner if size != ONE] != [size for size in outer if size != ONE]:
        return None
    if any(inner[axis] == ONE for axis in Dimensions.of(broadcast).dimensions):
        return None
    places = [axis for axis, size in enumerate(outer) if size != ONE]
    new = iter(places)
    moved = {axis: next(new) for axis, size in enumerate(inner) if size != ONE}
    dimensions = tuple(moved[axis] for axis in Dimensions.of(broadcast).dimensions)
    return replace(broadcast, type=reshape.type, attributes=Dimensions(dimensions=dimensions))


def transpose(rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    order: tuple[int, ...] = Dimensions.of(operation).dimensions
    if order == tuple(range(len(order))):
        return operand.id
    if operand.opcode == "transpose":
        inner = Dimensions.of(operand).dimensions
        composed = tuple(inner[axis] for axis in order)
        return rewrite.add(replace(operation, operands=operand.operands, attributes=Dimensions(dimensions=composed)))
    longer = [axis for axis in order if operand.shape.sizes[axis] != ONE]
    # Only axes of size 1 change places, so elements stay in their order in memory.
    if longer == sorted(longer):
        return rewrite.add(replace(operation, opcode="reshape", attributes=NO_ATTRIBUTES))
    if operand.opcode == "broadcast":
        place = {axis: index for index, axis in enumerate(order)}
        dimensions = tuple(place[axis] for axis in Dimensions.of(operand).dimensions)
        return rewrite.add(replace(operand, type=operation.type, attributes=Dimensions(dimensions=dimensions)))
    return operation


def broadcast(rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    dimensions: tuple[int, ...] = Dimensions.of(operation).dimensions
    if operation.type == operand.type and dimensions == tuple(range(len(dimensions))):
        return operand.id
    if operand.opcode == "broadcast":
        composed = tuple(dimensions[axis] for axis in Dimensions.of(operand).dimensions)
        return rewrite.add(replace(operation, operands=operand.operands, attributes=Dimensions(dimensions=composed)))
    if any(size == ONE for size in operand.shape.sizes):  # without them, more broadcasts are equal
        kept = [axis for axis, size in enumerate(operand.shape.sizes) if size != ONE]
        shape = Shape(operand.shape.dtype, tuple(operand.shape.sizes[axis] for axis in kept))
        smaller = rewrite.add(
            Operation(id=0, opcode="reshape", type=shape, operands=(operand.id,), node=operation.node)
        )
        dimensions = tuple(dimensions[axis] for axis in kept)
        return rewrite.add(replace(operation, operands=(smaller,), attributes=Dimensions(dimensions=dimensions)))
    return operation


def same_type(_rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    return operand.id if operation.type == operand.type else operation


def dynamic_slice(rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """A part that has nothing of the padding behind an array: TensorFlow takes a step so, by a number it computes."""
    if operation.type == operand.type:  # HLO clamps the start to 0
        return operand.id
    if operand.opcode != "pad":
        return operation
    value = rewrite.made[operand.operands[0]]
    edges, starts, sizes = Pad.of(operand).padding, operation.operands[1:], operation.shape.sizes
    axes = zip(edges, starts, sizes, value.shape.sizes, strict=True)
    if all(edge == (0, 0, 0) or _is_before_padding(rewrite, edge, start, *both) for edge, start, *both in axes):
        return rewrite.add(replace(operation, operands=(value.id, *starts)))
    return operation


def _is_before_padding(rewrite: Rewrite, edge: Edge, start: int, size: Size, given: Size) -> bool:
    """Whether an axis is padded at its end only, and the part from a known `start` on ends before that."""
    made, (before, behind, between) = rewrite.made[start], edge
    if before != 0 or between != 0 or not isinstance(behind, int) or behind < 0:  # a shorter axis clamps the start
        return False
    if made.opcode != "constant" or Constant.of(made).literal.growing:
        return False
    end = Size(max(0, int(Constant.of(made).literal.constant.item()))) + size
    return end == given or (end.is_constant and given.is_constant and end.constant <= given.constant)


def update(rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """An update that covers the whole array: HLO clamps its start to 0."""
    update = rewrite.made[operation.operands[1]]
    return update.id if update.type == operand.type else operation


def slice_(rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    if operation.type == operand.type:
        return operand.id  # it could not be reversed: strides are positive
    if operand.opcode == "slice":
        outer, inner = ([numbers(cut) for cut in Slices.of(each).slices] for each in (operation, operand))
        # Sizes with symbols would need divisions with remainders to combine steps.
        pairs = [(one, two) for one, two in zip(outer, inner, strict=True) if one is not None and two is not None]
        if len(pairs) == len(outer):
            slices = tuple(_combined(o, i) for o, i in pairs)
            return rewrite.add(replace(operation, operands=operand.operands, attributes=Slices(slices=slices)))
    return operation


def gather(rewrite: Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """Known elements along an axis at even distances, or each several times, as in images of twice the size."""
    indices = rewrite.made[operation.operands[1]]
    found = Gather.of(operation)
    if indices.opcode != "constant" or indices.shape.rank != 1 or found.vector != 1 or len(found.indexed) != 1:
        return operation
    (axis,), sizes = found.indexed, operand.shape.sizes
    whole = all(size == sizes[place] for place, size in enumerate(map(as_size, found.sizes)) if place != axis)
    is_in_place = found.offset == tuple(place for place in range(len(sizes)) if place != axis)
    literal = Constant.of(indices).literal
    if not whole or found.collapsed != (axis,) or not is_in_place or literal.growing or not sizes[axis].is_constant:
        return operation
    evenly = _evenly([int(each) for each in literal.constant], sizes[axis].constant)
    if evenly is None:
        return operation
    # Before a transpose, which may then meet the one that takes the axes back.
    order = Dimensions.of(operand).dimensions if operand.opcode == "transpose" else tuple(range(len(sizes)))
    if operand.opcode == "transpose":
        operand = rewrite.made[operand.operands[0]]
    value = _repeated(rewrite, replace(operation, operands=(operand.id,)), operand.shape, order[axis], evenly)
    return rewrite.add(
        replace(operation, opcode="transpose", operands=(value,), attributes=Dimensions(dimensions=order))
    )


def _repeated(rewrite: Rewrite, like: Operation, shape: Shape, axis: int, evenly: tuple[int, int, int, int]) -> int:
    """What `_evenly` says of the operand of `like`, whose shape is `shape`."""
    (start, end, step, times), sizes = evenly, shape.sizes

    def made(opcode: str, value: int, sizes: Sequence[Size], attributes: Attributes = NO_ATTRIBUTES) -> int:
        new = replace(like, opcode=opcode, type=Shape(shape.dtype, tuple(sizes)), operands=(value,))
        return rewrite.add(replace(new, attributes=attributes))

    count, before, behind = Size(-(-(end - start) // step)), sizes[:axis], sizes[axis + 1 :]
    slices = tuple((start, end, step) if place == axis else (ZERO, size, 1) for place, size in enumerate(sizes))
    value = made("slice", like.operands[0], (*before, count, *behind), Slices(slices=slices))
    kept = Dimensions(dimensions=tuple(place + (place > axis) for place in range(len(sizes))))
    value = made("broadcast", value, (*before, count, Size(times), *behind), kept)
    return made("reshape", value, (*before, count * Size(times), *behind))


def _evenly(indices: Sequence[int], size: int) -> tuple[int, int, int, int] | None:
    """Start, end and step of the slice that has `indices`, and how often they have each of its elements."""
    times = next((place for place, each in enumerate(indices) if each != indices[0]), 1)
    each = indices[::times]
    step = each[1] - each[0] if len(each) > 1 else 1
    wanted = np.repeat(np.arange(len(each)) * step + indices[0], times) if indices and 0 < step <= _NEAR else None
    if wanted is None or wanted.tolist() != [*indices] or indices[0] < 0 or indices[-1] >= size:
        return None
    return indices[0], indices[-1] + 1, step, times


def _combined(outer: Sequence[int], inner: Sequence[int]) -> tuple[int, int, int]:
    """`outer` of what `inner` cuts out, which ends behind the last element: its stride may lead out of the array."""
    (begin, end, step), (start, _, stride) = outer, inner
    if begin == end:
        return (start, start, 1)
    last = end - 1 - (end - 1 - begin) % step
    return (start + begin * stride, start + last * stride + 1, step * stride)
