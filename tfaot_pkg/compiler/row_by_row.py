"""How rows of the batch depend on one another: rules for the table of operations (operations.py).

Rows lie along one axis of an array, whose size is a multiple of the batch. If it is `k * batch`, rows are k elements of
that axis one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tfaot_pkg.compiler.attributes import Convolution, Dimensions, Dot, Pad, Slices, Windows
from tfaot_pkg.compiler.program import BATCH, ONE, Operation, Shape


def axis_of_rows(shape: Shape) -> int | None:
    """The axis along which rows lie; None if `shape` does not depend on the batch, or in another way."""
    growing = [axis for axis, size in enumerate(shape.sizes) if size.grows]
    return growing[0] if len(growing) == 1 and rows_at(shape, growing[0]) else None


def rows_at(shape: Shape, axis: int) -> int:
    """How many elements of an axis are one row; 0 if its size is no multiple of the batch."""
    terms = shape.sizes[axis].terms
    return terms[0][1] if len(terms) == 1 and terms[0][0] == (BATCH,) else 0


RowRule = Callable[[Operation, Sequence[Shape]], bool]
"""Whether rows stay apart in an operation, by the shapes of its operands: some of these, or the result, have rows."""


def anyhow(_operation: Operation, _shapes: Sequence[Shape]) -> bool:
    return True


def broadcast(operation: Operation, shapes: Sequence[Shape]) -> bool:
    given, made = axis_of_rows(shapes[0]), axis_of_rows(operation.shape)
    return made is not None and (given is None or Dimensions.of(operation).dimensions[given] == made)


def reshape(operation: Operation, shapes: Sequence[Shape]) -> bool:
    """Rows stay together if nothing stands before their axis, or if that stays as it is."""
    given, made = axis_of_rows(shapes[0]), axis_of_rows(operation.shape)
    if given is None or made is None:
        return False
    before = [prod(shape.sizes[:axis], start=ONE) for shape, axis in ((shapes[0], given), (operation.shape, made))]
    same = rows_at(shapes[0], given) == rows_at(operation.shape, made)
    return before[0] == before[1] and (same or before[0] == ONE)


def slice_(operation: Operation, shapes: Sequence[Shape]) -> bool:
    axis = axis_of_rows(shapes[0])
    return axis is not None and tuple(Slices.of(operation).slices[axis]) == (0, shapes[0].sizes[axis], 1)


def reverse(operation: Operation, shapes: Sequence[Shape]) -> bool:
    return axis_of_rows(shapes[0]) not in Dimensions.of(operation).dimensions


def iota(operation: Operation, _: Sequence[Shape]) -> bool:
    return axis_of_rows(operation.shape) not in (None, *Dimensions.of(operation).dimensions)


def pad(operation: Operation, shapes: Sequence[Shape]) -> bool:
    axis = axis_of_rows(shapes[0])
    return axis is not None and tuple(Pad.of(operation).padding[axis]) == (0, 0, 0)


def concatenate(operation: Operation, shapes: Sequence[Shape]) -> bool:
    axes = {axis_of_rows(shape) for shape in shapes}
    return len(axes) == 1 and axis_of_rows(operation.shape) not in Dimensions.of(operation).dimensions


def reduce(operation: Operation, shapes: Sequence[Shape]) -> bool:
    (array, *starts) = shapes
    return len(starts) == 1 and axis_of_rows(array) not in (None, *Dimensions.of(operation).dimensions)


def reduce_window(operation: Operation, shapes: Sequence[Shape]) -> bool:
    (array, *starts) = shapes
    axis = axis_of_rows(array)
    if len(starts) != 1 or axis is None or axis != axis_of_rows(operation.shape):
        return False
    return tuple(Windows.of(operation).window[axis]) == (1, 1, 0, 0, 1, 1)


def dot(operation: Operation, shapes: Sequence[Shape]) -> bool:
    """Rows are no axis that is summed over; if both have rows, a product of a row is one of both."""
    axes = [axis_of_rows(shape) for shape in shapes]
    contracting, batch = Dot.of(operation).contracting, Dot.of(operation).batch
    if any(axis in summed for axis, summed in zip(axes, contracting, strict=True)):
        return False
    places = [list(each).index(axis) if axis in each else None for axis, each in zip(axes, batch, strict=True)]
    return None in axes or (places[0] is not None and places[0] == places[1])


def convolution(operation: Operation, shapes: Sequence[Shape]) -> bool:
    image, filters = shapes
    attributes = Convolution.of(operation)
    rows = (attributes.input[0], attributes.output[0])
    return (
        (axis_of_rows(image), axis_of_rows(operation.shape)) == rows
        and not any(size.grows for size in filters.sizes)
        and attributes.batch_groups == 1
    )
