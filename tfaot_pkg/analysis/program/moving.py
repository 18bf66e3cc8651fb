"""Transfer functions of operations that move elements: broadcasts, reshapes, slices, concatenations and others.

Each takes a `Step` (the program, an instruction and the values of its operands) and returns the value of its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.analysis.program import integers
from tfaot_pkg.analysis.program.hlo import Instruction, Program, Shape, Size
from tfaot_pkg.analysis.program.integers import LARGEST, Array, Integers
from tfaot_pkg.analysis.program.values import (
    PLACED,
    Axis,
    Cause,
    Step,
    Value,
    mixed,
    row_sizes,
    settled,
    together,
    with_integers,
)


def _elements(value: Value, shape: Shape) -> Integers | None:
    """The integers of an array, element by element; None if they are not known so precisely."""
    sizes = row_sizes(shape, value.axis)
    if value.integers is None or sizes is None or math.prod(sizes) > LARGEST:
        return None
    return value.integers.expanded(sizes)


def _moved(value: Value, axis: Axis | None, found: Integers | None, instruction: Instruction) -> Value:
    """`value` with its rows along `axis` and the integers `found`."""
    if value.mixed is not None:
        return value
    return with_integers(replace(value, axis=axis, below_batch=False, carried=None), found, [value], instruction)


def _rearranged(value: Value, shape: Shape, change: Callable[[Array], Array]) -> Integers | None:
    if value.integers is not None and value.integers.shape == ():
        return value.integers
    found = _elements(value, shape)
    return None if found is None else found.mapped(change)


def broadcast(step: Step) -> Value:
    instruction, operands = step.instruction, step.operands
    (value,) = operands
    dimensions = instruction.attribute("dimensions")
    axis = None if value.axis is None else value.axis.at(dimensions[value.axis.dimension])
    found = value.integers
    if found is not None and found.shape != ():
        sizes = row_sizes(instruction.shape, axis)
        shape = [1] * len(instruction.shape.sizes)
        for dimension, size in zip(dimensions, found.shape, strict=True):
            shape[dimension] = size
        if sizes is None or math.prod(sizes) > LARGEST:
            found = found.whole
        else:
            found = found.mapped(lambda part: np.broadcast_to(part.reshape(shape), sizes))
    return replace(_moved(value, axis, found, instruction), below_batch=False)


def reshape(step: Step) -> Value:
    program, instruction, operands, shapes = step.program, step.instruction, step.operands, step.shapes
    value, shape = operands[0], shapes[0]
    if value.mixed is not None:
        return value
    if value.uniform and value.integers is None and not _keeps_growing_sizes(shape.sizes, instruction.shape.sizes):
        value = _with_rows(program, value, shape, instruction)
    axis = None
    if value.axis is not None:
        axis = _reshaped_axis(program, value.axis, shape.sizes, instruction.shape.sizes)
        if axis is None:
            return mixed(instruction)
    found = value.integers
    if found is not None and found.shape != ():
        sizes = row_sizes(instruction.shape, axis)
        if sizes is None or row_sizes(shape, value.axis) is None:
            found = found.whole
        else:
            found = found.mapped(lambda part: part.reshape(sizes))
    if value.below_batch:
        return value
    return replace(_moved(value, axis, found, instruction), carried=value.carried)


def _keeps_growing_sizes(sizes: Sequence[Size], result: Sequence[Size]) -> bool:
    """Whether the same sizes depend on the batch after the reshape, with the same number of elements before them."""
    return _growing(sizes) == _growing(result)


def _growing(sizes: Sequence[Size]) -> list[tuple[Size, int]]:
    return [(size, math.prod(before[0] for before in sizes[:d])) for d, size in enumerate(sizes) if size[0] != size[1]]


def _with_rows(program: Program, value: Value, shape: Shape, instruction: Instruction) -> Value:
    """`value`, whose elements along the batch are equal, with an axis of rows: each row then has its own elements."""
    # A reshape may split or merge the batch. An axis of rows is followed through that; "equal along a size" is not.
    if value.placed is not None:
        return value
    growing = [d for d, size in enumerate(shape.sizes) if size[0] != size[1]]
    factor = program.factor(shape.sizes[growing[0]]) if len(growing) == 1 else None
    if factor is None:
        return replace(value, placed=Cause(instruction=instruction, reason=PLACED))
    return replace(value, axis=Axis(dimension=growing[0], inner=factor))


def _reshaped_axis(program: Program, axis: Axis, sizes: Sequence[Size], result: Sequence[Size]) -> Axis | None:
    """The axis of rows after a reshape, which keeps the number of elements before and after the batch in memory."""
    # Elements in memory are before x batch x behind. A dimension of the result is the axis if it contains the batch:
    # what is left of `before` and `behind` beyond the neighbouring dimensions are its `outer` and `inner`.
    before, behind = _around(sizes, axis.dimension)
    for dimension, size in enumerate(result):
        outside, inside = _around(result, dimension)
        outer, inner = _quotient(before, outside, axis.outer), _quotient(behind, inside, axis.inner)
        if outer is not None and inner is not None and outer * inner == program.factor(size):
            return Axis(dimension=dimension, outer=outer, inner=inner)
    return None


def _around(sizes: Sequence[Size], dimension: int) -> tuple[Size, Size]:
    """The numbers of elements outside and inside of `dimension`, at both batch sizes."""
    return _product(sizes[:dimension]), _product(sizes[dimension + 1 :])


def _product(sizes: Sequence[Size]) -> Size:
    return math.prod(size[0] for size in sizes), math.prod(size[1] for size in sizes)


def _quotient(whole: Size, part: Size, times: int) -> int | None:
    """`whole * times / part`, if it is the same number at both batch sizes."""
    if 0 in part or any(size * times % one for size, one in zip(whole, part, strict=True)):
        return None
    small, large = (size * times // one for size, one in zip(whole, part, strict=True))
    return small if small == large else None


def transpose(step: Step) -> Value:
    instruction, operands, shapes = step.instruction, step.operands, step.shapes
    (value,) = operands
    order = instruction.attribute("dimensions")
    axis = None if value.axis is None else value.axis.at(order.index(value.axis.dimension))
    found = _rearranged(value, shapes[0], lambda part: np.transpose(part, order))
    return _moved(value, axis, found, instruction)


def reverse(step: Step) -> Value:
    instruction, operands, shapes = step.instruction, step.operands, step.shapes
    (value,) = operands
    dimensions = instruction.attribute("dimensions")
    if value.axis is not None and value.axis.dimension in dimensions:
        return mixed(instruction)
    found = _rearranged(value, shapes[0], lambda part: np.flip(part, dimensions))
    return _moved(value, value.axis, found, instruction)


def slice_(step: Step) -> Value:
    program, instruction, operands, shapes = step.program, step.instruction, step.operands, step.shapes
    value, shape = operands[0], shapes[0]
    if value.mixed is not None:
        return value
    bounds = [each.slices for each in instruction.attributes]
    axis = value.axis
    if axis is not None:
        cut = [bounds[i][axis.dimension] for i in (0, 1)]
        axis = _sliced_axis(program, axis, cut, shape.sizes[axis.dimension])
        if axis is None:
            return mixed(instruction)
    others = [d for d in range(len(shape.sizes)) if value.axis is None or d != value.axis.dimension]
    # What does not grow with the batch may differ from place to place.
    if value.placed is None and any(bounds[0][d] != bounds[1][d] and len({*shape.sizes[d]}) == 1 for d in others):
        return replace(settled(value, instruction), axis=axis, placed=Cause(instruction=instruction, reason=PLACED))
    found = value.integers
    if found is not None and found.shape != ():
        if axis != value.axis or any(bounds[0][d] != bounds[1][d] for d in others):
            found = found.whole
        else:
            cuts = tuple(slice(*bounds[0][d]) if d in others else slice(None) for d in range(len(shape.sizes)))
            found = found.mapped(lambda part: part[cuts])
    return _moved(value, axis, found, instruction)


def _sliced_axis(program: Program, axis: Axis, cut: Sequence[Sequence[int]], size: Size) -> Axis | None:
    """The axis after a slice [start, limit, stride] at both batch sizes; None if rows are dropped."""
    if all(list(cut[i]) == [0, size[i], 1] for i in (0, 1)):
        return axis
    small, large = program.batch_sizes
    starts, limits, strides = zip(*cut, strict=True)
    whole = [batch * axis.inner for batch in (small, large)]  # one of `outer` repetitions of the batch
    if strides == (1, 1) and all(starts[i] % whole[i] == 0 and limits[i] % whole[i] == 0 for i in (0, 1)):
        first, last = ([values[i] // whole[i] for i in (0, 1)] for values in (starts, limits))
        if first[0] == first[1] and last[0] == last[1] and last[0] > first[0]:
            return replace(axis, outer=last[0] - first[0])
    # One element of each row: every inner-th element, starting in the first row.
    every = strides == (axis.inner, axis.inner) and starts[0] == starts[1] < axis.inner
    if every and all(limits[i] > size[i] - axis.inner + starts[i] for i in (0, 1)):
        return replace(axis, inner=1)
    return None


def concatenate(step: Step) -> Value:
    instruction = step.instruction
    # An operand without elements contributes nothing: TensorFlow's bridge pads by mirroring with such ones along each
    # axis that is not padded, the batch included.
    both = list(zip(step.operands, step.shapes, strict=True))
    present = [each for each in both if not each[1].is_empty] or both
    if len(present) == 1:
        return present[0][0]
    operands, shapes = [value for value, _ in present], [shape for _, shape in present]
    (dimension,) = instruction.attribute("dimensions")
    axes = {value.axis for value in operands if value.axis is not None}
    if any(axis.dimension == dimension for axis in axes):
        return _concatenated_rows(instruction, operands, dimension)
    value = together(operands, instruction)
    if value.mixed is not None or all(each.integers is None for each in operands):
        return value
    parts = []
    for each, shape in zip(operands, shapes, strict=True):
        sizes = row_sizes(shape, value.axis)
        if sizes is None or (each.known.shape not in ((), sizes)) or math.prod(sizes) > LARGEST:
            return value
        parts.append(each.known.expanded(sizes))
    found = Integers(**{
        name: np.concatenate([getattr(part, name) for part in parts], axis=dimension)
        for name in Integers.__slots__
    })  # fmt: skip
    return with_integers(value, found, operands, instruction)


def _concatenated_rows(instruction: Instruction, operands: Sequence[Value], dimension: int) -> Value:
    """Batches that are concatenated count as one batch that is repeated."""
    axes = [value.axis for value in operands]
    if any(axis is None for axis in axes):
        return next((value for value in operands if value.mixed is not None), mixed(instruction))
    inner = {axis.inner for axis in axes if axis is not None}
    # `Axis` has one number of elements per row for all repetitions.
    if len(inner) > 1:
        return mixed(instruction)
    result = Axis(dimension=dimension, outer=sum(axis.outer for axis in axes if axis is not None), inner=inner.pop())
    return together([replace(settled(value, instruction), axis=result) for value in operands], instruction)


def pad(step: Step) -> Value:
    instruction, operands = step.instruction, step.operands
    value, filling = operands
    # Padding along the axis would shift rows, or put the filling between them.
    if value.axis is not None and any(
        each.padding[value.axis.dimension] != (0, 0, 0) for each in instruction.attributes
    ):
        return mixed(instruction)
    result = together(operands, instruction)
    known = value.integers is not None and filling.integers is not None
    whole = value.known.whole if known else None
    found = None if whole is None else integers.join(whole, filling.known)
    return with_integers(result, found, operands, instruction) if known else result
