"""Transfer functions of operations that take indices: gathers, scatters, dynamic slices.

Rows stay independent if each index along the axis of rows is the number of the index's own row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.analysis.program.hlo import Instruction, Program, Shape
from tfaot_pkg.analysis.program.integers import Integers
from tfaot_pkg.analysis.program.values import (
    INTERACT,
    UNLIMITED,
    Axis,
    Step,
    Value,
    mixed,
    row_sizes,
    settled,
    together,
    with_integers,
)


def _component(value: Value, shape: Shape, vector: int, number: int) -> Integers | None:
    """One component of all index vectors; None if its value is not known."""
    if value.integers is None:
        return None
    # In HLO, index vectors of one component may have no dimension of their own.
    if value.integers.shape == () or vector == len(shape.sizes):
        return value.integers
    sizes = row_sizes(shape, value.axis)
    if sizes is None or (value.axis is not None and value.axis.dimension == vector):
        return None
    return value.integers.expanded(sizes).mapped(lambda part: np.take(part, number, axis=vector))


def _is_own_row(found: Integers | None, axis: Axis, size: int) -> bool:
    """Whether slices of `size` elements that start at such an index lie in the index's own row."""
    # Each row has `inner` elements, so it starts at row * inner, and a slice must end before the next row starts.
    return found is not None and axis.outer == 1 and found.is_exactly(row=axis.inner, high=axis.inner - size)


def _reason(found: Integers | None, factor: int) -> str:
    """Why an index that is not shown to be of its own row, of `factor` elements, mixes rows."""
    if found is None or (found.row != factor).any() or found.batch.any():
        return INTERACT
    return UNLIMITED if ((found.low < factor) & (found.high >= 0)).all() else INTERACT


def _is_row_of_iteration(found: Integers | None, axis: Axis, size: int) -> bool:
    """The same for the row of a loop's iteration."""
    return found is not None and axis.outer == 1 and found.is_exactly(iteration=axis.inner, high=axis.inner - size)


def gather(step: Step) -> Value:
    instruction, operands, shapes = step.instruction, step.operands, step.shapes
    operand, indices = operands
    if operand.mixed is not None or indices.mixed is not None:
        return together(operands, instruction)
    # XLA's GatherDimensionNumbers: `offset` are dimensions of the result (offset_dims), `collapsed` and `indexed` of
    # the operand (collapsed_slice_dims, start_index_map), `vector` of the indices (index_vector_dim).
    numbers = instruction.attribute
    vector, indexed = numbers("vector"), numbers("indexed")
    sizes = [each.sizes for each in instruction.attributes]
    index_axis = _batch_axis(indices.axis, vector, numbers("offset"), len(instruction.shape.sizes))
    if indices.axis is not None and index_axis is None:
        return mixed(instruction)
    # The operand is a table that all rows share, so rows of the result are those of the indices.
    if operand.axis is None:
        chosen = replace(_chosen_from_shared(step), axis=index_axis)
        return _gathered_integers(together([operand, chosen], instruction), operand)
    d = operand.axis.dimension
    # A batching dimension: element b of the indices reads element b of the operand, as `batch_dims=1` in TensorFlow.
    if d in numbers("operand_batch"):
        paired = numbers("index_batch")[numbers("operand_batch").index(d)]
        axis = operand.axis.at(_output_dimension(paired, vector, numbers("offset"), len(instruction.shape.sizes)))
        return _result(operand, indices, axis, index_axis, instruction)
    # Slices contain all rows, so rows stay side by side in the result.
    if all(sizes[i][d] == shapes[0].sizes[d][i] for i in (0, 1)) and d not in numbers("collapsed"):
        kept = [k for k in range(len(shapes[0].sizes)) if k not in numbers("collapsed") + numbers("operand_batch")]
        return _result(operand, indices, operand.axis.at(numbers("offset")[kept.index(d)]), index_axis, instruction)
    if d not in indexed or sizes[0][d] != sizes[1][d] or (d not in numbers("collapsed") and sizes[0][d] != 1):
        return mixed(instruction)
    component = _component(indices, shapes[1], vector, indexed.index(d))
    if _is_row_of_iteration(component, operand.axis, sizes[0][d]):
        return _row_of_iteration(operand, indices, instruction)
    if indices.axis is None or not _is_own_row(component, operand.axis, sizes[0][d]):
        return mixed(instruction, _reason(component, operand.axis.inner))
    own = _others_settled(indices, shapes[1], vector, indexed.index(d), instruction)
    return together(
        [replace(settled(operand, instruction), axis=index_axis), replace(own, axis=index_axis)], instruction
    )


def _chosen_from_shared(step: Step) -> Value:
    """The indices of a gather after use, from a table that all rows share: it is equal along a dimension that grows
    with the batch, so that the own row is as good as any.
    """
    instruction, (table, shape), indices = step.instruction, step.shapes, step.operands[1]
    vector, sizes = instruction.attribute("vector"), [each.sizes for each in instruction.attributes]
    for number, d in enumerate(instruction.attribute("indexed")):
        grows = table.sizes[d][0] != table.sizes[d][1] and sizes[0][d] == sizes[1][d] == 1
        if grows and _is_own_row(_component(indices, shape, vector, number), Axis(dimension=d), 1):
            return _others_settled(indices, shape, vector, number, instruction)
    return settled(indices, instruction)


def _others_settled(indices: Value, shape: Shape, vector: int, number: int, instruction: Instruction) -> Value:
    """`indices` after use, if the component `number` is harmless: the others must not depend on the position."""
    assert indices.integers is not None
    if vector == len(shape.sizes) or indices.integers.shape == ():
        return replace(indices, integers=None)
    sizes = row_sizes(shape, indices.axis)
    if sizes is None:
        return settled(indices, instruction)
    rest = indices.integers.expanded(sizes).mapped(lambda part: np.delete(part, number, axis=vector))
    return settled(indices, instruction) if rest.placed else replace(indices, integers=None)


def _gathered_integers(result: Value, operand: Value) -> Value:
    """Gathered elements lie between the smallest and the largest of the table."""
    if result.mixed is not None or operand.integers is None or operand.integers.shape == ():
        return result
    whole = operand.integers.whole
    if whole is None or whole.placed:
        return result
    return replace(result, integers=whole)


def _result(operand: Value, indices: Value, axis: Axis, index_axis: Axis | None, instruction: Instruction) -> Value:
    parts = [replace(settled(operand, instruction), axis=axis), replace(settled(indices, instruction), axis=index_axis)]
    return together(parts, instruction)


def _output_dimension(dimension: int, vector: int, offset: Sequence[int], rank: int) -> int:
    """Where a dimension of the indices is in a gather's result."""
    batch = [d for d in range(rank) if d not in offset]
    # The dimension of the index vectors is not in the result: those after it move up by one.
    return batch[dimension - (1 if vector < dimension else 0)]


def _batch_axis(axis: Axis | None, vector: int, offset: Sequence[int], rank: int) -> Axis | None:
    if axis is None or axis.dimension == vector:
        return None
    return axis.at(_output_dimension(axis.dimension, vector, offset, rank))


def _row_of_iteration(operand: Value, indices: Value, instruction: Instruction) -> Value:
    """The row of a loop's iteration: the result depends on that row alone."""
    if indices.axis is not None or operand.iteration:
        return mixed(instruction)
    alone = together([replace(operand, axis=None, integers=None)], instruction)
    found = operand.known.whole
    moved = None if found is None else replace(found, row=found.row * 0, iteration=found.iteration + found.row)
    return with_integers(replace(alone, iteration=True), moved, [operand], instruction)


def scatter(step: Step) -> Value:
    if any(each.mixed is not None for each in step.operands) or all(each.uniform for each in step.operands):
        return together(step.operands, step.instruction)
    if len(step.operands) != 3:
        return mixed(step.instruction)
    operand, indices, updates = step.operands
    # XLA's ScatterDimensionNumbers: `window` are dimensions of the updates (update_window_dims), `inserted` and
    # `indexed` of the operand (inserted_window_dims, scatter_dims_to_operand_dims).
    numbers = step.instruction.attribute
    rank = len(step.shapes[2].sizes)
    index_axis = _batch_axis(indices.axis, numbers("vector"), numbers("window"), rank)
    if (indices.axis is not None and index_axis is None) or (updates.axis and index_axis not in (None, updates.axis)):
        return mixed(step.instruction)
    source = updates.axis or index_axis
    if source is None:
        return _scattered_into_rows(step)
    axis, own = _scattered_axis(step, source)
    if axis is None:
        return mixed(step.instruction, _reason_of_scatter(step))
    parts = [settled(operand, step.instruction), replace(own, axis=axis if indices.axis else None),
             replace(settled(updates, step.instruction), axis=axis if updates.axis else None)]  # fmt: skip
    return together(parts, step.instruction)


def _plain(step: Step) -> list[int]:
    """The dimensions of a scatter's operand that correspond to the updates' window, in this order."""
    left_out = step.instruction.attribute("inserted") + step.instruction.attribute("operand_batch")
    return [d for d in range(len(step.shapes[0].sizes)) if d not in left_out]


def _scattered_into_rows(step: Step) -> Value:
    """The same updates scattered into all rows: they must cover the axis of rows completely."""
    operand, updates, plain = step.operands[0], step.operands[2], _plain(step)
    if operand.axis is None or operand.axis.dimension not in plain or updates.iteration:
        return mixed(step.instruction)
    window = step.instruction.attribute("window")[plain.index(operand.axis.dimension)]
    if step.shapes[2].sizes[window] != step.shapes[0].sizes[operand.axis.dimension]:
        return mixed(step.instruction)
    return together([operand, *(settled(each, step.instruction) for each in step.operands[1:])], step.instruction)


def _scattered_axis(step: Step, source: Axis) -> tuple[Axis | None, Value]:
    """The operand's axis that the rows of the updates, along `source`, are written to; and the indices after use."""
    indices, numbers = step.operands[1], step.instruction.attribute
    vector, window = numbers("vector"), numbers("window")
    after = settled(indices, step.instruction)
    if source.dimension in window:
        d = _plain(step)[window.index(source.dimension)]
        whole = step.shapes[2].sizes[source.dimension] == step.shapes[0].sizes[d]
        return (source.at(d) if whole else None), after
    place = [d for d in range(len(step.shapes[2].sizes)) if d not in window].index(source.dimension)
    place += 1 if vector <= place else 0  # the dimension of the index vectors is not in the updates
    if place in numbers("index_batch"):
        return source.at(numbers("operand_batch")[numbers("index_batch").index(place)]), after
    axis = _own_dimension(step.program, indices, step.shapes, vector, numbers("indexed"), numbers("inserted"))
    if axis is None:
        return None, after
    number = numbers("indexed").index(axis.dimension)
    return axis, _others_settled(indices, step.shapes[1], vector, number, step.instruction)


def _reason_of_scatter(step: Step) -> str:
    vector, inserted = step.instruction.attribute("vector"), step.instruction.attribute("inserted")
    for number, d in enumerate(step.instruction.attribute("indexed")):
        factor = step.program.factor(step.shapes[0].sizes[d])
        if factor is not None and d in inserted:
            return _reason(_component(step.operands[1], step.shapes[1], vector, number), factor)
    return INTERACT


def _own_dimension(
    program: Program,
    indices: Value,
    shapes: Sequence[Shape],
    vector: int,
    indexed: Sequence[int],
    inserted: Sequence[int],
) -> Axis | None:
    """The dimension of the operand at which all rows write into their own row."""
    if indices.axis is None:
        return None
    for number, d in enumerate(indexed):
        factor = program.factor(shapes[0].sizes[d])
        # An inserted dimension has windows of one element, which cannot reach into the next row.
        if factor is None or d not in inserted:
            continue
        axis = Axis(dimension=d, inner=factor)
        component = _component(indices, shapes[1], vector, number)
        # Updates at other indices are left out.
        if component is not None and _is_own_row(component.inside(factor), axis, 1):
            return axis
    return None


def dynamic_slice(step: Step) -> Value:
    instruction, operands, shapes = step.instruction, step.operands, step.shapes
    value, *starts = operands
    sizes = [each.sizes for each in instruction.attributes]
    if value.mixed is not None or any(each.mixed is not None for each in starts):
        return together(operands, instruction)
    if value.axis is not None:
        d = value.axis.dimension
        if any(sizes[i][d] != shapes[0].sizes[d][i] for i in (0, 1)):
            return _some_rows(instruction, value, value.axis, starts, (sizes[0][d], sizes[1][d]))
    # If all elements are equal, a slice is the same wherever it begins.
    even = value.uniform and value.placed is None and value.integers is None
    # HLO clamps starts so that a slice lies inside the array: along a dimension that is taken whole, any start is 0.
    harmless = [
        (sizes[0][d], sizes[1][d]) == (small, large) or (even and small != large)
        for d, (small, large) in enumerate(shapes[0].sizes)
    ]
    settled_starts = [
        replace(each, integers=None) if whole else settled(each, instruction)
        for each, whole in zip(starts, harmless, strict=True)
    ]
    result = together([value, *settled_starts], instruction)
    if value.integers is None or result.mixed is not None:
        return result
    whole = value.integers.whole
    return with_integers(result, whole, [value, *settled_starts], instruction)


def _some_rows(
    instruction: Instruction, value: Value, axis: Axis, starts: Sequence[Value], sizes: tuple[int, int]
) -> Value:
    """A slice of so many rows at two batch sizes: that of the iteration is known to be alone."""
    d = axis.dimension
    if sizes[0] != sizes[1] or not _is_row_of_iteration(starts[d].integers, axis, sizes[0]):
        return mixed(instruction)
    others = [settled(each, instruction) for i, each in enumerate(starts) if i != d]
    alone = _row_of_iteration(value, starts[d], instruction)
    return with_integers(together([alone, *others], instruction), alone.integers, [alone, *others], instruction)


def dynamic_update_slice(step: Step) -> Value:
    instruction, operands, shapes = step.instruction, step.operands, step.shapes
    value, update, *starts = operands
    if any(each.mixed is not None for each in operands):
        return together(operands, instruction)
    # As in `dynamic_slice`: along a dimension that is written whole, the start has no effect.
    full = [shapes[1].sizes[d] == shapes[0].sizes[d] for d in range(len(starts))]
    plain_starts = [
        replace(each, integers=None) if full[d] else settled(each, instruction) for d, each in enumerate(starts)
    ]
    if update.axis is not None and not full[update.axis.dimension]:
        return mixed(instruction)
    axis = _axis_of_iterations(step) if update.axis is None else None
    if axis is not None:
        if value.iteration or value.axis not in (None, axis):
            return mixed(instruction)
        others = [each for d, each in enumerate(plain_starts) if d != axis.dimension]
        # Each iteration writes its own row, so after the loop each row depends on its own iteration alone.
        written = together(
            [replace(settled(each, instruction), iteration=False) for each in (value, update, *others)], instruction
        )
        return written if written.mixed is not None else replace(written, axis=axis, carried=value.carried)
    if value.axis is not None and not full[value.axis.dimension]:
        return mixed(instruction)
    return together([value, update, *plain_starts], instruction)


def _axis_of_iterations(step: Step) -> Axis | None:
    """The axis of rows of which the iteration writes its own."""
    _, _, *starts = step.operands
    pairs = zip(step.shapes[0].sizes, step.shapes[1].sizes, strict=True)
    for d, (start, (whole, part)) in enumerate(zip(starts, pairs, strict=True)):
        factor = step.program.factor(whole)
        if factor is None or part[0] != part[1]:
            continue
        axis = Axis(dimension=d, inner=factor)
        if _is_row_of_iteration(start.integers, axis, part[0]):
            return axis
    return None
