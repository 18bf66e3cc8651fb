"""The sizes of the results of StableHLO's operations, as polynomials of a model's sizes (shape_modules.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import module_text
from polynomials import Polynomial
from shape_values import Choice, Known, Value

if TYPE_CHECKING:
    from module_text import Statement
    from shape_values import Shape


CHANGING = frozenset(
    "abs add and clamp compare convert divide maximum minimum multiply negate not or remainder select sign subtract "
    "xor floor ceil power round_nearest_afz round_nearest_even sqrt rsqrt exponential log tanh logistic shift_left "
    "shift_right_logical shift_right_arithmetic".split()
)
"""Operations that compute each element of elements."""
ShapeRule: TypeAlias = Callable[["Statement", "list[Value]", int], "Sequence[Polynomial | None] | None"]
"""The shape of a result of a rank; None if it does not follow."""


def shape_of(statement: Statement, operands: list[Value], sizes: Sequence[int | None]) -> Shape:
    """The shape of a result; None for sizes that are not followed."""
    shape = tuple(None if size is None else Polynomial.number(size) for size in sizes)
    if None not in shape:
        return shape
    found = _SHAPES.get(statement.name, _like_operands)(statement, operands, len(sizes))
    if found is None or len(found) != len(shape):
        return shape
    return tuple(size if size is not None else each for size, each in zip(shape, found, strict=True))


def _like_operands(statement: Statement, operands: list[Value], rank: int) -> Sequence[Polynomial | None] | None:
    """Of an operation on elements: all operands have the shape of the result."""
    if statement.name not in _ON_ELEMENTS:
        return None
    shapes = [each.shape for each in operands if each.shape is not None and len(each.shape) == rank]
    return [next((size for size in sizes if size is not None), None) for sizes in zip(*shapes, strict=True)]


def _given(statement: Statement, operands: list[Value], rank: int) -> Sequence[Polynomial | None] | None:
    """The shape is the last operand."""
    content = operands[-1].content
    if not isinstance(content, Known):
        return None
    return [None if isinstance(each, Choice) else each for each in content.values.reshape(-1)]


def _product(statement: Statement, operands: list[Value], rank: int) -> Sequence[Polynomial | None] | None:
    shapes = [each.shape for each in operands[:2] if each.shape is not None]
    if len(shapes) < 2:
        return None
    batch, over = (module_text.pair(statement, name) for name in ("batching_dims", "contracting_dims"))
    free = [
        [size for axis, size in enumerate(shape) if axis not in (*batch[side], *over[side])]
        for side, shape in enumerate(shapes)
    ]
    return [*(shapes[0][axis] for axis in batch[0]), *free[0], *free[1]]


def _transposed(statement: Statement, operands: list[Value], rank: int) -> Sequence[Polynomial | None] | None:
    shape = operands[0].shape
    return None if shape is None else [shape[axis] for axis in module_text.numbers(statement, "dims")]


def _reduced(statement: Statement, operands: list[Value], rank: int) -> Sequence[Polynomial | None] | None:
    shape, over = operands[0].shape, module_text.numbers(statement, "dimensions")
    return None if shape is None else [size for axis, size in enumerate(shape) if axis not in over]


def _of_first(statement: Statement, operands: list[Value], rank: int) -> Shape:
    return operands[0].shape


def _concatenated(statement: Statement, operands: list[Value], rank: int) -> Sequence[Polynomial | None] | None:
    (axis,) = module_text.numbers(statement, "dim") or [0]
    shapes = [each.shape for each in operands if each.shape is not None and len(each.shape) == rank]
    found = [next((size for size in sizes if size is not None), None) for sizes in zip(*shapes, strict=True)]
    if not found:
        return None
    parts = [shape[axis] for shape in shapes]
    whole = len(parts) == len(operands) and None not in parts
    found[axis] = sum(filter(None, parts), Polynomial.number(0)) if whole else None
    return found


def _padded(statement: Statement, operands: list[Value], rank: int) -> Sequence[Polynomial | None] | None:
    shape = operands[0].shape
    low, high, between = (module_text.numbers(statement, name) for name in ("low", "high", "interior"))
    if shape is None or not rank == len(shape) == len(low) == len(high) == len(between):
        return None
    return [
        None if size is None else size + Polynomial.number(more) + (size - Polynomial.number(1)).scaled(inner)
        for size, more, inner in zip(shape, map(sum, zip(low, high, strict=True)), between, strict=True)
    ]


def _gathered(statement: Statement, operands: list[Value], rank: int) -> Sequence[Polynomial | None] | None:
    """Along `offset_dims` the sizes of the slices, along the others those of the indices."""
    axes, indices = module_text.numbers(statement, "offset_dims"), operands[1].shape
    slices = _given(statement, operands, rank) if statement.name == "dynamic_gather" else [
        Polynomial.number(each) for each in module_text.numbers(statement, "slice_sizes")
    ]  # fmt: skip
    if slices is None or indices is None:
        return None
    left_out = {axis for name in _ONE_OF_EACH for axis in module_text.numbers(statement, name)}
    kept = [size for axis, size in enumerate(slices) if axis not in left_out]
    (vector,) = module_text.numbers(statement, "index_vector_dim") or [0]
    others = [size for axis, size in enumerate(indices) if axis != vector]
    if len(kept) != len(axes) or len(kept) + len(others) != rank:
        return None
    return [kept.pop(0) if axis in axes else others.pop(0) for axis in range(rank)]


_ONE_OF_EACH = ("collapsed_slice_dims", "operand_batching_dims")
"""Axes of an operand of which a gather takes one place."""
_ON_ELEMENTS = CHANGING | frozenset(
    "atan2 bitcast_convert cbrt clamp complex cosine count_leading_zeros erf exponential_minus_one imag is_finite "
    "log_plus_one popcnt real reduce_precision reverse sine tan optimization_barrier".split()
)
_SHAPES: dict[str, ShapeRule] = {
    **dict.fromkeys(("cholesky", "dynamic_update_slice", "scatter", "select_and_scatter", "sort"), _of_first),
    "concatenate": _concatenated,
    "dot_general": _product,
    "dynamic_broadcast_in_dim": _given,
    "dynamic_gather": _gathered,
    "dynamic_iota": _given,
    "dynamic_reshape": _given,
    "gather": _gathered,
    "pad": _padded,
    "reduce": _reduced,
    "transpose": _transposed,
}
