"""Gathers and scatters with batching dimensions, written by those without: readers of old toolchains lose these.

A batching dimension becomes an index of its own: the number of the row, before the other indices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from from_mlir import loading

if TYPE_CHECKING:
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects.func import FuncOp


def expand(main: FuncOp) -> None:
    """Replace the batching dimensions of each `stablehlo.gather` and `stablehlo.scatter` in `main`."""
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects import hlo

    for operation in list(loading.operations_in(main.operation)):
        if operation.name == "stablehlo.gather":
            old = hlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
            batching, places = list(old.operand_batching_dims), list(old.start_indices_batching_dims)
        elif operation.name == "stablehlo.scatter":
            old = hlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
            batching, places = list(old.input_batching_dims), list(old.scatter_indices_batching_dims)
        else:
            continue
        if not batching:
            continue
        # Of scatter, the inputs stand first, and as many updates follow the indices.
        position = 1 if operation.name == "stablehlo.gather" else (len(operation.operands) - 1) // 2
        with ir.InsertionPoint(operation), operation.location:
            operation.operands[position] = _with_numbers(operation.operands[position], places, old.index_vector_dim)
        if operation.name == "stablehlo.gather":
            operation.attributes["dimension_numbers"] = hlo.GatherDimensionNumbers.get(
                offset_dims=list(old.offset_dims),
                collapsed_slice_dims=sorted([*old.collapsed_slice_dims, *batching]),
                operand_batching_dims=[],
                start_indices_batching_dims=[],
                start_index_map=[*batching, *old.start_index_map],
                index_vector_dim=old.index_vector_dim,
            )
        else:
            operation.attributes["scatter_dimension_numbers"] = hlo.ScatterDimensionNumbers.get(
                update_window_dims=list(old.update_window_dims),
                inserted_window_dims=sorted([*old.inserted_window_dims, *batching]),
                input_batching_dims=[],
                scatter_indices_batching_dims=[],
                scattered_dims_to_operand_dims=[*batching, *old.scattered_dims_to_operand_dims],
                index_vector_dim=old.index_vector_dim,
            )
        # The numbers of rows come first now, so what was sorted may not be.
        operation.attributes["indices_are_sorted"] = ir.BoolAttr.get(False)


def _with_numbers(indices: ir.Value, places: list[int], axis: int) -> ir.Value:
    """`indices` with the number of the position along each of `places` before the others, along `axis`."""
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects import hlo

    kind = ir.RankedTensorType(indices.type)
    sizes = list(kind.shape)
    if axis == len(sizes):  # the one index of each position has no axis of its own
        indices = _reshaped(indices, [*sizes, 1])
        sizes = [*sizes, 1]
    one = [*sizes[:axis], 1, *sizes[axis + 1 :]]
    numbers = ir.RankedTensorType.get(one, kind.element_type)
    shape = _shape(indices, one)
    made = [hlo.dynamic_iota(numbers, shape, place) for place in places]
    whole = [*sizes[:axis], sizes[axis] + len(places), *sizes[axis + 1 :]]
    return hlo.concatenate([*made, indices], axis, results=[ir.RankedTensorType.get(whole, kind.element_type)])


def _reshaped(value: ir.Value, sizes: list[int]) -> ir.Value:
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects import hlo

    kind = ir.RankedTensorType.get(sizes, ir.RankedTensorType(value.type).element_type)
    return hlo.dynamic_reshape(kind, value, _shape(value, sizes))


def _shape(value: ir.Value, sizes: list[int]) -> ir.Value:
    """`sizes` as a tensor; those that are not known are those of `value`."""
    import numpy as np
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects import hlo

    known, number = ir.RankedTensorType(value.type), ir.IntegerType.get_signless(32)
    one, parts = ir.RankedTensorType.get([1], number), []
    for axis, size in enumerate(sizes):
        if axis < known.rank and known.is_dynamic_dim(axis):
            parts.append(hlo.reshape(one, hlo.get_dimension_size(value, axis)))
        else:
            parts.append(hlo.constant(ir.DenseElementsAttr.get(np.array([size], np.int32))))
    return hlo.concatenate(parts, 0)
