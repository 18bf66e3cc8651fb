"""Forests in programs: the operation `trees`, whose attribute `forest` is one of worker_program/messages/forest.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.program import NUMPY_TYPES, Operation, Shape
from tfaot_pkg.worker_program.messages.forest import Forest, margins, unpacked


def forest_in(operations: Sequence[Operation], content: int, result: Shape) -> Forest:
    """The forest whose bytes the constant `content` of `operations` holds.

    Raises ValueError if it is none, or gives another result.
    """
    known = {each.id: each for each in operations}
    found = known[content]
    while found.opcode == "reshape":  # the bridge adds some
        found = known[found.operands[0]]
    if found.opcode != "constant" or found.shape.dtype != "u8":
        raise ValueError("a forest is no constant")
    forest = unpacked(found.attributes["literal"].constant)
    if result.rank != 2 or result.sizes[1].constant != forest.outputs or NUMPY_TYPES[result.dtype] != forest.total:
        raise ValueError(f"a forest does not give {result}")
    return forest


def evaluate(operation: Operation, x: Array) -> Array:
    """What the forest gives for the rows of `x`."""
    made: Array = margins(operation.attributes["forest"], np.asarray(x))
    return made
