"""Operations whose operands are constants, as constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import Constant, Convolution, Windows
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import Literal, Operation, Shape, Unsupported, reducer

_MOST_FOLDED = 1 << 16
"""Elements of the largest constant folded from smaller ones: a larger broadcast is better computed where it is used."""
_MOST_STEPS = 1 << 24
"""The limit of elements that are read to fold one operation."""
_SLOW = frozenset({"conditional", "map", "scatter", "select-and-scatter", "sort", "trees", "while"})
"""Operations that interpret.py computes element by element: folding them would take too long."""
_LONGEST_COUNT = 1 << 10
"""Elements of the longest iota that is folded into its users, such as the positions of a resized image."""
_OF_COUNTS = frozenset({"broadcast", "concatenate", "convert", "reshape", "slice", "transpose"})


def folded(operation: Operation, operands: Sequence[Operation]) -> Operation:
    """The value of `operation`, if that of each operand is known; otherwise `operation`."""
    if not operands or not _may_be_folded(operation):
        return operation
    # An iota that is only moved or converted stays: `recognize` looks for it (the indices of top-k).
    counts = operation.opcode not in _OF_COUNTS
    literals = [known for each in operands if (known := _known(each, counts=counts)) is not None]
    if len(literals) < len(operands) or any(literal.growing for literal in literals):
        return operation
    largest = max(_MOST_FOLDED, *(literal.constant.size for literal in literals))
    # Of f32[batch,0] the number of elements is known, and the value is not.
    is_known = all(size.is_constant for size in operation.shape.sizes)
    if not is_known or operation.shape.elements.constant > largest:
        return operation
    try:
        value = interpret.evaluate(operation, [literal.constant for literal in literals])
    except Unsupported:
        return operation
    return constant(np.asarray(value), operation.shape, operation.node)


def _may_be_folded(operation: Operation) -> bool:
    """Whether it gives one array, always the same, and not too slowly."""
    if not OPERATIONS[operation.opcode].is_pure or isinstance(operation.type, tuple):
        return False
    return operation.opcode not in _SLOW and _steps(operation) <= _MOST_STEPS


def _known(operation: Operation, *, counts: bool) -> Literal | None:
    """The value of an operand that depends on nothing: a constant, or a short iota."""
    if operation.opcode == "constant":
        literal: Literal = Constant.of(operation).literal
        return literal
    is_count = operation.opcode == "iota" and all(size.is_constant for size in operation.shape.sizes)
    if counts and is_count and operation.shape.elements.constant <= _LONGEST_COUNT:
        return Literal(np.asarray(interpret.evaluate(operation, [])))
    return None


def _steps(operation: Operation) -> int:
    """How often elements of operands are read, if that may be more than once each."""
    if operation.opcode == "reduce" and reducer(operation) is None:
        return _MOST_STEPS + 1
    given = operation.attributes
    if not isinstance(given, (Convolution, Windows)) or not given.window:
        return 0
    if operation.opcode == "reduce-window" and reducer(operation) is None:
        return _MOST_STEPS + 1
    sizes = [side[0] for side in given.window if isinstance(side[0], int)]
    if len(sizes) < len(given.window):
        return _MOST_STEPS + 1
    elements = operation.shape.elements
    return elements.constant * math.prod(sizes) if elements.is_constant else _MOST_STEPS + 1


def constant(value: Any, shape: Shape, node: str = "") -> Operation:
    return Operation(id=0, opcode="constant", type=shape, attributes=Constant(literal=Literal(value)), node=node)
