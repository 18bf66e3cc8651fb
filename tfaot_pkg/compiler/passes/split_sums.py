"""Long sums over several elements of each column, as means of images, become sums of sums.

Columns are added one element after the other. The mean of an image of equal numbers, 65,536 of them, was off by 6e-4
of it: a convolution, its mean and a dense layer were rejected. Sums of some hundred sums of some hundred elements are
off by less than 5e-6, and take the same time.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tfaot_pkg.compiler.attributes import Dimensions
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, Operation, Region, Shape, Size, reducer
from tfaot_pkg.compiler.use_def import Look

_LONG = 1024
"""Elements of a sum from which on it is split. Sizes that are open count as this many."""


def split(look: Look, operation: Operation) -> Operation | None:
    """The last step of a long sum of columns; steps before it are added to `look`."""
    if operation.opcode != "reduce" or len(operation.operands) != 2 or operation.shape.dtype != "f32":
        return None
    x, start = look.known[operation.operands[0]], operation.operands[1]
    axes = tuple(sorted(Dimensions.of(operation).dimensions))
    # Along the last axis sums have many chains (decision 039).
    if reducer(operation) != "add" or look.scalar(start) != 0 or not axes or axes[-1] == x.shape.rank - 1:
        return None
    if not _is_long(x.shape, axes):
        return None
    if len(axes) > 1:
        return _by_axes(look, operation, x, axes)
    (axis,) = axes
    return _by_parts(look, operation, x, axis) if x.shape.sizes[axis].is_constant else None


def _by_axes(look: Look, operation: Operation, x: Operation, axes: tuple[int, ...]) -> Operation:
    """The sum over the last one of `axes` first, and so on while sums are long."""
    while len(axes) > 1 and _is_long(x.shape, axes):
        *left, axis = axes
        x, axes = look.add(_sum(look, operation, x, axis)), tuple(left)
    return replace(operation, operands=(x.id, operation.operands[1]), attributes=Dimensions(dimensions=axes))


def _by_parts(look: Look, operation: Operation, x: Operation, axis: int) -> Operation:
    """The axis becomes two, which may leave a few elements behind."""
    size = x.shape.sizes[axis].constant
    first, second = _factors(size)
    whole = first * second
    base = x if whole == size else _cut(look, operation, x, axis, (0, whole))
    sizes = (*base.shape.sizes[:axis], Size(first), Size(second), *base.shape.sizes[axis + 1 :])
    parts = look.add(replace(
        operation, id=look.fresh(), opcode="reshape", type=Shape("f32", sizes), operands=(base.id,),
        attributes=NO_ATTRIBUTES, regions=(),
    ))  # fmt: skip
    if whole == size:
        return _by_axes(look, operation, parts, (axis, axis + 1))
    total = look.add(_by_axes(look, replace(operation, id=look.fresh()), parts, (axis, axis + 1)))
    rest = look.add(_sum(look, operation, _cut(look, operation, x, axis, (whole, size)), axis))
    return replace(operation, opcode="add", operands=(total.id, rest.id), attributes=NO_ATTRIBUTES, regions=())


def _factors(size: int) -> tuple[int, int]:
    """Two numbers near to one another, of that product if there are any."""
    root = math.isqrt(size)
    first = next((each for each in range(root, root // 4, -1) if size % each == 0), root)
    return size // first, first


def _sum(look: Look, like: Operation, x: Operation, axis: int) -> Operation:
    kept = (*x.shape.sizes[:axis], *x.shape.sizes[axis + 1 :])
    return replace(
        like, id=look.fresh(), type=Shape("f32", kept), operands=(x.id, like.operands[1]),
        attributes=Dimensions(dimensions=(axis,)), regions=(_copied(look, like.regions[0]),),
    )  # fmt: skip


def _cut(look: Look, user: Operation, x: Operation, axis: int, ends: tuple[int, int]) -> Operation:
    return look.known[look.add_slice(x.id, axis, ends, user)]


def _is_long(shape: Shape, axes: tuple[int, ...]) -> bool:
    sizes = [shape.sizes[axis] for axis in axes]
    return math.prod(size.constant if size.is_constant else _LONG for size in sizes) > _LONG


def _copied(look: Look, region: Region) -> Region:
    """`region`, with ids of its own."""
    ids = {each.id: look.fresh() for each in region.operations}
    operations = [
        replace(each, id=ids[each.id], operands=tuple(ids[operand] for operand in each.operands))
        for each in region.operations
    ]
    return Region(operations=tuple(operations), results=tuple(ids[each] for each in region.results))
