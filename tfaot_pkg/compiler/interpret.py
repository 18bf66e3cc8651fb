"""Evaluate programs with NumPy: for folding constants, for undefined results, and for tests. Plain and slow."""

from __future__ import annotations

import math
import time
from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfaot_pkg.compiler.meanings import Value
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import (
    NO_SYMBOLS,
    NUMPY_TYPES,
    Binding,
    Number,
    Operation,
    Program,
    Region,
    Unsupported,
)
from tfaot_pkg.ground.arrays import Array


class OutOfTimeError(Exception):
    """A program takes longer than it may: its loops may not end."""


def run(
    program: Program,
    batch: int,
    inputs: Sequence[Array],
    sizes: Mapping[str, int] = NO_SYMBOLS,
    *,
    end: float = math.inf,
) -> list[Array]:
    """The outputs at batch size `batch` and `sizes` of the other symbols.

    Raises Unsupported for an unknown opcode; OutOfTimeError if it is still at work at `end` (of time.monotonic).
    """
    with np.errstate(all="ignore"):
        return _Run(batch, sizes, end).call(program.entry, inputs)


def evaluate(operation: Operation, operands: Sequence[Value], batch: int = 0) -> Value:
    """The result of one operation."""
    with np.errstate(all="ignore"):
        return _Run(batch, NO_SYMBOLS).apply(operation, operands)


class _Run:
    def __init__(self, batch: int, sizes: Mapping[str, int], end: float = math.inf) -> None:
        self.at = Binding(batch, sizes)
        self._end = end
        self._known: ChainMap[int, Any] = ChainMap()

    def call(self, region: Region, arguments: Sequence[Array]) -> list[Array]:
        if self._end < math.inf and time.monotonic() > self._end:
            raise OutOfTimeError
        # A region may read values of the regions around it.
        self._known = self._known.new_child()
        try:
            for operation in region.operations:
                if operation.opcode == "parameter":
                    made: Value = arguments[Number.of(operation).number]
                else:
                    made = self.apply(operation, [self._known[operand] for operand in operation.operands])
                self._known[operation.id] = made
            return [self._known[result] for result in region.results]
        finally:
            self._known = self._known.parents

    def apply(self, operation: Operation, operands: Sequence[Value]) -> Value:
        definition = OPERATIONS.get(operation.opcode)
        if definition is None or definition.meaning is None:
            raise Unsupported(f"the interpreter does not know {operation.opcode}")
        result = definition.meaning(self, operation, *operands)
        if isinstance(result, tuple):
            return result
        # NumPy promotes types and drops axes, but a folded constant must have HLO's type.
        made = np.asarray(result, NUMPY_TYPES[operation.shape.dtype])
        if made.shape != self.sizes(operation):
            raise ValueError(f"%{operation.id} {operation.opcode} gives {made.shape}, not {self.sizes(operation)}")
        return made

    def sizes(self, operation: Operation) -> tuple[int, ...]:
        return self.at.numbers(operation.shape.sizes)
