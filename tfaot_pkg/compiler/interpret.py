"""Evaluate programs with NumPy: for folding constants, for undefined results, and for tests. Plain and slow."""

from __future__ import annotations

import math
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
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

NOTHING: Mapping[int, Value] = MappingProxyType({})


class OutOfTimeError(Exception):
    """A program takes longer than it may: its loops may not end."""


def run(
    program: Program,
    batch: int,
    inputs: Sequence[Array],
    sizes: Mapping[str, int] = NO_SYMBOLS,
    *,
    end: float = math.inf,
    known: Mapping[int, Value] = NOTHING,
    seen: Callable[[Operation, Sequence[Value], Value], None] | None = None,
) -> list[Array]:
    """The outputs at batch size `batch` and `sizes` of the other symbols.

    Results of the entry's operations that are `known` already are not computed. `seen` gets each operation of all
    regions that is computed, with its operands and its result.
    Raises Unsupported for an unknown opcode; OutOfTimeError if it is still at work at `end` (of time.monotonic).
    """
    with np.errstate(all="ignore"):
        return _Run(batch, sizes, end, known, seen).call(program.entry, inputs)


def evaluate(
    operation: Operation, operands: Sequence[Value], batch: int = 0, sizes: Mapping[str, int] = NO_SYMBOLS
) -> Value:
    """The result of one operation."""
    with np.errstate(all="ignore"):
        return _Run(batch, sizes).apply(operation, operands)


class _Run:
    def __init__(
        self,
        batch: int,
        sizes: Mapping[str, int],
        end: float = math.inf,
        known: Mapping[int, Value] = NOTHING,
        seen: Callable[[Operation, Sequence[Value], Value], None] | None = None,
    ) -> None:
        self.at = Binding(batch, sizes)
        self._end, self._given, self._seen = end, known, seen
        self._known: ChainMap[int, Any] = ChainMap()

    def call(self, region: Region, arguments: Sequence[Array]) -> list[Array]:
        if self._end < math.inf and time.monotonic() > self._end:
            raise OutOfTimeError
        # A region may read values of the regions around it.
        self._known = self._known.new_child()
        try:
            for operation in region.operations:
                if operation.id in self._given:
                    made: Value = self._given[operation.id]
                elif operation.opcode == "parameter":
                    made = arguments[Number.of(operation).number]
                else:
                    operands = [self._known[operand] for operand in operation.operands]
                    made = self.apply(operation, operands)
                    if self._seen is not None:
                        self._seen(operation, operands, made)
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
