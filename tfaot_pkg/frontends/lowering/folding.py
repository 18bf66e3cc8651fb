"""Computes operations of known values while a program is built: of numbers, and of integers that depend on symbols."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import Comparison, Dimensions
from tfaot_pkg.compiler.meanings import Meaning
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import (
    NO_SYMBOLS,
    NUMPY_TYPES,
    Binding,
    Operation,
    Region,
    Shape,
    Size,
    Unsupported,
    reducer,
)
from tfaot_pkg.frontends.lowering.values import Ranges, Undecided, Value, as_size, known
from tfaot_pkg.ground.arrays import Array

MOST_FOLDED = 1 << 24
"""The most elements of a result that is computed at once."""
_MOST_SPREAD = 1 << 12
"""The same, for results that are larger than what they are made of, or slow to compute with NumPy."""
_SLOW = frozenset("broadcast dynamic-slice gather iota reduce-window scatter sort".split())
_NEVER = frozenset("call conditional custom-call parameter trees while".split())
_MOVING = frozenset("broadcast concatenate copy gather pad reshape reverse slice transpose".split())
"""Operations that move elements, of whatever type."""
_KEEPING = frozenset("ceil copy floor round-nearest-afz round-nearest-even".split())
"""Operations that leave integers as they are."""


class Folding:
    """Computes operations of known values, if their results are worth constants."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def folded(self, operation: Operation, operands: Sequence[Value]) -> tuple[Value, ...] | None:
        """The results; None if they are computed in the program."""
        if operation.opcode in _NEVER or any(each.known is None for each in operands):
            return None
        if not _is_worth_folding(operation, operands):
            return None
        if any(each.numbers is None for each in operands):
            try:
                made = self._of_sizes(operation, operands)
            except Unsupported:
                return None
            dtype = operation.shape.dtype
            # Otherwise it is computed, and wraps around, or is rounded, as the framework's does.
            if made is None or not all(self._ranges.fits(each, dtype) for each in made.flat if isinstance(each, Size)):
                return None
            return (known(made.reshape(_numbers(operation.shape)), dtype),)
        values = [each.numbers for each in operands if each.numbers is not None]
        result = interpret.evaluate(operation, values)
        arrays = result if isinstance(result, tuple) else (result,)
        return tuple(
            Value(shape=shape, known=np.asarray(array, NUMPY_TYPES[shape.dtype]))
            for shape, array in zip(operation.shapes, arrays, strict=True)
        )

    def _of_sizes(self, operation: Operation, operands: Sequence[Value]) -> Array | None:
        """The result for integers that depend on symbols; None if there is no rule. Raises Undecided."""
        opcode = operation.opcode
        arrays = [np.asarray(each.known, object) for each in operands]
        if opcode in _MOVING:
            return _moved(operation, operands)
        if opcode in _KEEPING:
            return arrays[0]
        if opcode == "convert":
            return None if operation.shape.dtype == "pred" else arrays[0]
        if opcode == "select" and operands[0].numbers is not None:
            return np.asarray(np.where(operands[0].numbers, arrays[1], arrays[2]), object)
        if opcode == "compare":
            direction = Comparison.of(operation).direction
            decided = [
                self._ranges.compare(direction, as_size(a), as_size(b)) for a, b in zip(*_flat(arrays), strict=True)
            ]
            return np.array(decided, object)
        if opcode == "reduce":
            return self._reduced(operation, arrays)
        if opcode == "negate":
            return self._each("multiply", arrays[0], np.full(arrays[0].shape, -1, object))
        if opcode in ("divide", "remainder") and operation.shape.dtype in ("f32", "f64"):
            # A quotient of floats that is no integer is no polynomial either: `divide` decides.
            return self._each(opcode, *arrays) if opcode == "divide" else None
        return self._each(opcode, *arrays) if len(arrays) == 2 else None

    def _each(self, opcode: str, first: Array, second: Array) -> Array | None:
        function = self._ranges.function(opcode)
        if function is None:
            return None
        made = np.empty(first.size, object)
        for place, (a, b) in enumerate(zip(*_flat([first, second]), strict=True)):
            made[place] = function(as_size(a), as_size(b))
        return made

    def _reduced(self, operation: Operation, arrays: Sequence[Array]) -> Array | None:
        combine = self._ranges.function(reducer(operation) or "")
        if combine is None or len(arrays) != 2:
            return None
        moved = np.moveaxis(arrays[0], axes := Dimensions.of(operation).dimensions, range(len(axes)))
        flat = moved.reshape(-1, *moved.shape[len(axes) :])
        made = np.empty(flat.shape[1:], object)
        for place in np.ndindex(*made.shape):
            total = as_size(arrays[1].reshape(())[()])
            for row in range(len(flat)):
                total = combine(total, as_size(flat.item(row, *place)))
            made[place] = total
        return made


class _AtRest:
    """A run without sizes, for meanings of operations that move elements."""

    at = Binding(0, NO_SYMBOLS)

    def call(self, region: Region, arguments: Sequence[Array]) -> list[Array]:
        raise Undecided

    def sizes(self, operation: Operation) -> tuple[int, ...]:
        return _numbers(operation.shape)


def _moved(operation: Operation, operands: Sequence[Value]) -> Array:
    """The result of an operation that moves elements. Raises Undecided if the places that it takes are no numbers."""
    meaning: Meaning | None = OPERATIONS[operation.opcode].meaning
    assert meaning is not None
    arrays = [np.asarray(each.known, object) for each in operands]
    if operation.opcode != "gather":
        return np.asarray(meaning(_AtRest(), operation, *arrays), object)
    if (indices := operands[1].numbers) is None:
        raise Undecided
    # By the numbers of the elements: a window of one object would be an array, and not the object.
    numbers = np.arange(arrays[0].size).reshape(arrays[0].shape)
    return np.asarray(arrays[0].reshape(-1)[meaning(_AtRest(), operation, numbers, indices)], object)


def _flat(arrays: Sequence[Array]) -> list[Array]:
    return [each.reshape(-1) for each in arrays]


def _is_worth_folding(operation: Operation, operands: Sequence[Value]) -> bool:
    """Whether an operation of known values has results of constant sizes that are small enough to be constants."""
    if not all(size.is_constant for shape in operation.shapes for size in shape.sizes):
        return False
    total = sum(prod(size.constant for size in shape.sizes) for shape in operation.shapes)
    given = max((each.known.size for each in operands if each.known is not None), default=0)
    is_slow = operation.opcode in _SLOW and (total > given or operation.opcode not in ("broadcast", "iota"))
    return bool(total <= (_MOST_SPREAD if is_slow else MOST_FOLDED))


def _numbers(shape: Shape) -> tuple[int, ...]:
    return tuple(size.constant for size in shape.sizes)
