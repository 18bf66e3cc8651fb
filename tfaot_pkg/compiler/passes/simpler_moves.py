"""Rules of simplify.py for operations that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfaot_pkg.compiler.attributes import Dimensions, Slices, numbers
from tfaot_pkg.compiler.passes.rewriting import Rewrite
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, ONE, Operation, Shape


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


def _combined(outer: Sequence[int], inner: Sequence[int]) -> tuple[int, int, int]:
    """`outer` of what `inner` cuts out, which ends behind the last element: its stride may lead out of the array."""
    (begin, end, step), (start, _, stride) = outer, inner
    if begin == end:
        return (start, start, 1)
    last = end - 1 - (end - 1 - begin) % step
    return (start + begin * stride, start + last * stride + 1, step * stride)
