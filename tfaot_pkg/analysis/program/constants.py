"""Transfer functions of what has no operands: inputs, constants and numbers that count. See moving.py."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tfaot_pkg.analysis.program import integers
from tfaot_pkg.analysis.program.hlo import INTEGERS, Instruction, Program, Shape
from tfaot_pkg.analysis.program.integers import LARGEST, Integers
from tfaot_pkg.analysis.program.values import PLACED, Axis, Cause, Step, Value, row_sizes


def parameter_of_rows() -> Value:
    """An input with a batch axis."""
    return Value(axis=Axis(dimension=0))


def iota(step: Step) -> Value:
    program, instruction = step.program, step.instruction
    (dimension,) = instruction.attribute("dimensions")
    size = instruction.shape.sizes[dimension]
    factor = program.factor(size)
    shape = [1] * len(instruction.shape.sizes)
    if factor is not None:
        axis = Axis(dimension=dimension, inner=factor)
        sizes = row_sizes(instruction.shape, axis)
        if sizes is None or math.prod(sizes) > LARGEST:
            return Value(axis=axis, placed=Cause(instruction=instruction, reason=PLACED))
        shape[dimension] = factor
        # Numbers count through the rows: element j of row R is factor * R + j.
        inner = np.arange(factor, dtype=np.float64).reshape(shape)
        found = integers.between(inner, inner, row=factor)
        return Value(axis=axis, integers=found.expanded(sizes))
    if size[0] != size[1]:
        return Value(placed=Cause(instruction=instruction, reason=PLACED))
    sizes = row_sizes(instruction.shape, None)
    if sizes is None or math.prod(sizes) > LARGEST:
        return Value(integers=integers.between(0, size[0] - 1))
    shape[dimension] = size[0]
    numbers = np.arange(size[0], dtype=np.float64).reshape(shape)
    return Value(integers=integers.between(numbers, numbers).expanded(sizes))


def constant(step: Step) -> Value:
    program, instruction = step.program, step.instruction
    small, large = instruction.attributes
    rank = len(instruction.shape.sizes)
    placed = Value(placed=Cause(instruction=instruction, reason=PLACED))
    if not program.has_batch(instruction.shape):
        if small.digest == large.digest:
            return Value(integers=_literal(instruction, small.values))
        if small.values is None or instruction.shape.dtype not in INTEGERS:
            return placed
        arrays = [
            np.array(each.values, np.float64).reshape(_at(instruction.shape, i))
            for i, each in enumerate((small, large))
        ]
        found = integers.of_literals(arrays[0], arrays[1], program.batch_sizes)
        return placed if found is None else Value(integers=found)
    if small.values is None or large.values is None:
        return placed
    values = [np.array(each.values, np.float64) for each in (small, large)]
    # The same number everywhere, at both sizes: equal for all rows, whichever axis is that of the rows.
    if values[0].size and np.all(values[0] == values[0][0]) and np.all(values[1] == values[0][0]):
        exact = values[0][0] if instruction.shape.dtype in INTEGERS else None
        return Value(integers=None if exact is None else integers.between(exact, exact))
    # A constant does not say where its rows lie, so each reading is tried that its values allow.
    for dimension in range(rank):
        for outer_first in (False, True):
            found_value = _constant_rows(program, instruction, values, dimension, outer_first=outer_first)
            if found_value is not None:
                return found_value
    return placed


def _constant_rows(
    program: Program, instruction: Instruction, values: Sequence[np.ndarray], dimension: int, *, outer_first: bool
) -> Value | None:
    """A constant whose rows, along `dimension`, are equal or linear in the number of the row."""
    factor = program.factor(instruction.shape.sizes[dimension])
    if factor is None or (outer_first and factor == 1):
        return None
    axis = Axis(dimension=dimension, outer=factor if outer_first else 1, inner=1 if outer_first else factor)
    sizes = row_sizes(instruction.shape, axis)
    if sizes is None:
        return None
    rows = []
    for index, flat in enumerate(values):
        shape = _at(instruction.shape, index)
        batch = program.batch_sizes[index]
        split = (*shape[:dimension], axis.outer, batch, axis.inner, *shape[dimension + 1 :])
        rows.append(np.moveaxis(flat.reshape(split), dimension + 1, 0).reshape(batch, *sizes))
    found = integers.of_rows(rows[0], rows[1], program.batch_sizes)
    if found is None or (found.placed and instruction.shape.dtype not in INTEGERS):
        return None
    return Value(axis=axis, integers=found if instruction.shape.dtype in INTEGERS else None)


def _at(shape: Shape, index: int) -> tuple[int, ...]:
    return tuple(size[index] for size in shape.sizes)


def _literal(instruction: Instruction, values: Sequence[float] | None) -> Integers | None:
    if values is None or instruction.shape.dtype not in INTEGERS or len(values) > LARGEST:
        return None
    array = np.array(values, np.float64).reshape(_at(instruction.shape, 0))
    return integers.between(array, array)
