"""Transfer functions of operations that combine elements: products, reductions, windows, sorts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tfaot_pkg.analysis.program import integers
from tfaot_pkg.analysis.program.hlo import INTEGERS, Instruction, Program, Shape
from tfaot_pkg.analysis.program.values import (
    PLACED,
    UNKNOWN_OPERATION,
    Axis,
    Cause,
    Known,
    Step,
    Value,
    flat,
    mixed,
    settled,
    together,
    with_integers,
)
from tfaot_pkg.worker_program.messages.carriers import OPERATION, TREES

_NO_WINDOW = [1, 1, 0, 0]
"""Size, stride and padding of a window that combines no elements."""


def _result(instruction: Instruction, value: Value) -> Known:
    """`value`, for each element if the result is a tuple."""
    return value if instruction.shape.parts is None else tuple(value for _ in instruction.shape.parts)


def _of_all(step: Step, dimensions: Sequence[int]) -> Value:
    """For operands of one shape whose elements along `dimensions` are combined."""
    value = together(step.operands, step.instruction)
    if value.mixed is not None:
        return value
    if value.axis is not None and value.axis.dimension in dimensions:
        return mixed(step.instruction)
    return _by_size(step, value, dimensions)


def _by_size(step: Step, value: Value, dimensions: Sequence[int]) -> Value:
    """`value`, placed if the number of elements along `dimensions` depends on the batch.

    The sum of n equal rows depends on n.
    """
    sizes = step.shapes[0].sizes
    if all(sizes[d][0] == sizes[d][1] for d in dimensions):
        return value
    return replace(value, placed=value.placed or Cause(instruction=step.instruction, reason=PLACED))


def reduce(step: Step) -> Known:
    program, instruction, operands = step.program, step.instruction, step.operands
    dimensions = instruction.attribute("dimensions")
    arrays = operands[: len(operands) // 2]
    opcode = _root(program, instruction).opcode
    # These reductions of equal elements give the element itself, for any number of them.
    known = opcode in ("maximum", "minimum", "and", "or") and len(arrays) == 1
    value = together(operands, instruction)
    if value.mixed is not None:
        return _result(instruction, value)
    if value.axis is not None:
        if value.axis.dimension in dimensions:
            return _result(instruction, mixed(instruction))
        value = replace(
            value, axis=value.axis.at(value.axis.dimension - sum(d < value.axis.dimension for d in dimensions))
        )
    if not known:
        value = _by_size(step, value, dimensions)
        return _results(instruction, [_counted(step, value, number) for number in range(len(arrays))])
    if arrays[0].integers is not None and operands[1].integers is not None:
        extreme = integers.maximum if opcode in ("maximum", "or") else integers.minimum
        whole = arrays[0].integers.reduced(tuple(dimensions))
        found = None if whole is None or whole.leaves else extreme(whole, operands[1].known)
        value = with_integers(value, found, operands, instruction)
    return _result(instruction, value)


def _root(program: Program, instruction: Instruction) -> Instruction:
    """The last instruction of a function that reduces."""
    computation = program.computations[instruction.called[0]]
    return next(each for each in computation.instructions if each.id == computation.root)


def _results(instruction: Instruction, values: Sequence[Value]) -> Known:
    return values[0] if instruction.shape.parts is None else tuple(values)


def _counted(step: Step, value: Value, number: int) -> Value:
    """A result of a reduction with the bounds of its integers: sums, as of truth values, and chosen elements."""
    count = len(step.operands) // 2
    array, start = step.operands[number], step.operands[count + number]
    if array.integers is None or start.integers is None or array.integers.placed or start.integers.placed:
        return value
    dimensions = tuple(step.instruction.attribute("dimensions"))
    whole, root = array.integers.reduced(dimensions), _root(step.program, step.instruction)
    if whole is None or step.shapes[number].dtype not in INTEGERS:
        return value
    if count == 1 and root.opcode == "add":
        sizes = [step.shapes[0].sizes[d] for d in dimensions]
        if any(small != large for small, large in sizes):
            return value
        elements = math.prod(size for size, _ in sizes)
        total = integers.between(whole.low * elements, whole.high * elements)
        return replace(value, integers=integers.add(total, start.integers))
    if count > 1 and _chooses(step.program, step.instruction, number):
        return replace(value, integers=integers.join(whole, start.integers))
    return value


def _chooses(program: Program, instruction: Instruction, number: int) -> bool:
    """Whether a function that reduces several arrays gives one of the two elements of array `number` that it gets."""
    computation = program.computations[instruction.called[0]]
    known, count = {each.id: each for each in computation.instructions}, len(instruction.operands) // 2
    waiting, seen = [known[computation.root].operands[number]], set[int]()
    while waiting:
        each = known[waiting.pop()]
        if each.id in seen:
            continue
        seen.add(each.id)
        if each.opcode == "parameter":
            if each.attribute("number") % count != number:
                return False
        elif each.opcode in ("select", "minimum", "maximum", "copy"):
            waiting += each.operands[-2:]
        else:
            return False
    return True


def dot(step: Step) -> Value:
    instruction, operands, shapes = step.instruction, step.operands, step.shapes
    contracting, batch = instruction.attribute("contracting"), instruction.attribute("batch")
    free = [
        [d for d in range(len(shapes[side].sizes)) if d not in contracting[side] and d not in batch[side]]
        for side in (0, 1)
    ]
    # The dimensions of a result in HLO: batch, the free ones of the first operand, those of the second.
    moved = []
    for side, value in enumerate(operands):
        axis = value.axis
        if value.mixed is None and axis is not None:
            if axis.dimension in contracting[side]:
                return mixed(instruction)
            if axis.dimension in batch[side]:
                axis = axis.at(batch[side].index(axis.dimension))
            else:
                start = len(batch[0]) + (len(free[0]) if side == 1 else 0)
                axis = axis.at(start + free[side].index(axis.dimension))
        moved.append(replace(settled(value, instruction), axis=axis))
    value = together(moved, instruction)
    return value if value.mixed is not None else _by_size(step, value, contracting[0])


def convolution(step: Step) -> Value:
    instruction, (data, kernel) = step.instruction, step.operands
    value = together([replace(each, axis=None) for each in step.operands], instruction)
    if value.mixed is not None:
        return value
    in_groups = any(each.batch_groups != 1 for each in instruction.attributes)
    # Neither operand has rows. Features are summed, and windows may reach into padding, so elements may differ along a
    # size that depends on the batch, except along the input's own batch dimension.
    if data.axis is None and kernel.axis is None:
        batch = set() if in_groups else {instruction.attribute("input")[0]}
        return _by_size(step, value, [d for d in range(len(step.shapes[0].sizes)) if d not in batch])
    axis = None if data.axis is None or in_groups else _convolved_axis(step, data.axis, kernel.axis)
    return mixed(instruction) if axis is None else replace(value, axis=axis)


def _convolved_axis(step: Step, data: Axis, kernel: Axis | None) -> Axis | None:
    """The rows of a convolution whose operands have rows along these axes; None if it combines them."""
    numbers = step.instruction.attribute
    role = numbers("input").index(data.dimension)  # 0: batch, 1: features, from 2 on: spatial dimensions
    if role == 1:
        return None if kernel is None else _axis_of_filters(step, data, kernel)
    if kernel is not None or (role > 1 and not _is_trivial(numbers("window")[role - 2])):
        return None
    return data.at(numbers("output")[role])


def _axis_of_filters(step: Step, data: Axis, kernel: Axis) -> Axis | None:
    """A filter for each row: rows are groups of features, which a convolution does not combine."""
    groups = tuple(each.feature_groups for each in step.instruction.attributes)
    if groups != step.program.batch_sizes or data.outer != 1 or kernel.outer != 1:
        return None
    if kernel.dimension != step.instruction.attribute("kernel")[0]:
        return None
    return Axis(dimension=step.instruction.attribute("output")[1], inner=kernel.inner)


def _is_trivial(window: Sequence[int]) -> bool:
    # A dilation of the window of one element (window[4]) has no effect; one of the base (window[5]) inserts zeros.
    return list(window[:4]) == _NO_WINDOW and window[5] in (0, 1)


def reduce_window(step: Step) -> Known:
    instruction, shapes = step.instruction, step.shapes
    windows = [each.window for each in instruction.attributes]
    rank = len(shapes[0].sizes)
    moving = [d for d in range(rank) if not all(_is_trivial(window[d]) for window in windows)]
    return _result(instruction, _of_all(step, moving))


def sort(step: Step) -> Known:
    instruction, operands = step.instruction, step.operands
    dimensions = instruction.attribute("dimensions")
    value = _of_all(step, dimensions)
    if instruction.shape.parts is None:
        return _sorted(value, operands[0], dimensions, instruction)
    return tuple(_sorted(value, each, dimensions, instruction) for each in operands)


def _sorted(value: Value, operand: Value, dimensions: Sequence[int], instruction: Instruction) -> Value:
    """One of the arrays that are sorted together: each element is one of those along the dimension."""
    # Their order is not known, so each position gets what holds for all of them.
    if value.mixed is not None or operand.integers is None:
        return value
    found = operand.integers.reduced(dimensions[0])
    if found is not None and operand.integers.shape != ():
        size = operand.integers.shape[dimensions[0]]
        found = found.mapped(lambda part: np.repeat(np.expand_dims(part, dimensions[0]), size, axis=dimensions[0]))
    return with_integers(value, found, [operand], instruction)


def trailing(count: int) -> Any:
    """The transfer function of an operation that combines elements along the last `count` dimensions only."""

    def transfer(step: Step) -> Known:
        instruction, shapes = step.instruction, step.shapes
        rank = len(shapes[0].sizes)
        return _result(instruction, _of_all(step, range(rank - count, rank)))

    return transfer


def fft(step: Step) -> Known:
    instruction = step.instruction
    result: Known = trailing(len(instruction.attribute("length")))(step)
    return result


_CUSTOM: Mapping[str, int] = {
    "Eigh": 2,
    "ProductOfElementaryHouseholderReflectors": 2,
    "Qr": 2,
    "TopK": 1,
}
"""Custom calls that work on the last dimensions of their operands, with the number of these dimensions."""


def custom_call(step: Step) -> Known:
    instruction, operands, shapes = step.instruction, step.operands, step.shapes
    count = _CUSTOM.get(instruction.attribute("target"))
    if instruction.attribute("target") == OPERATION:
        return _by_row(step)
    if instruction.attribute("target") == TREES and len(shapes[0].sizes) == 2:
        # Each row takes its own path through the trees, which are the same for all rows.
        return _result(instruction, _of_all(step, [1]))
    if count is None or not shapes:
        return unknown(instruction, operands)
    result: Known = trailing(count)(step)
    return result


def _by_row(step: Step) -> Known:
    """An operation of the model's author: the program calls it for each row, with that row of each operand."""
    # The function gets one row of each operand, so their first dimension must be the batch itself.
    instruction, operands = step.instruction, step.operands
    value = together(operands, instruction)
    if value.mixed is None and not value.uniform and value.axis != Axis(dimension=0):
        value = mixed(instruction)
    return _result(instruction, value)


def unknown(instruction: Instruction, operands: Sequence[Known]) -> Known:
    """An unknown operation: rows may interact in it."""
    found = next((each for operand in operands for each in flat(operand) if each.mixed is not None), None)
    return _structured(instruction.shape, found or mixed(instruction, UNKNOWN_OPERATION))


def _structured(shape: Shape, value: Value) -> Known:
    if shape.parts is None:
        return value
    return tuple(_structured(part, value) for part in shape.parts)


def normalization(step: Step) -> Known:
    """Inference is elementwise; training and gradients combine all elements of one feature.

    Rows may be features, as in Keras 2's layer normalization: vectors, operands or results, have a number for each.
    """
    instruction, operands, shapes = step.instruction, step.operands, step.shapes
    feature = instruction.attribute("feature")
    rank = len(shapes[0].sizes)
    together_at = [] if instruction.opcode == "batch-norm-inference" else [d for d in range(rank) if d != feature]
    among_features = tuple(
        replace(value, axis=value.axis.at(feature)) if value.axis is not None and len(shape.sizes) != rank else value
        for value, shape in zip(operands, shapes, strict=True)
    )
    value = _of_all(replace(step, operands=among_features), together_at)
    if instruction.shape.parts is None:
        return value
    vector = value if value.axis is None else replace(value, axis=value.axis.at(0))
    return (value, *(vector for _ in instruction.shape.parts[1:]))


def random(step: Step) -> Known:
    """A random number depends on its position in the array."""
    program, instruction, operands, shapes = step.program, step.instruction, step.operands, step.shapes
    value = together(operands, instruction)
    shapes = instruction.shape.parts or (instruction.shape,)
    found = [
        replace(value, placed=Cause(instruction=instruction, reason=PLACED))
        if value.mixed is None and program.has_batch(shape)
        else value
        for shape in shapes
    ]
    return found[0] if instruction.shape.parts is None else tuple(found)
