"""`Program`: a model as typed operations in static single assignment, with the batch size as a symbol.

An operation is one of HLO's (https://openxla.org/xla/operation_semantics) or one that a pass recognized (`dense`, ...).
Sizes and integers inside of attributes are linear in the batch: `Size`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tfaot_pkg.arrays import Array

NUMPY_TYPES: Mapping[str, np.dtype[Any]] = {
    "pred": np.dtype(np.bool_),
    "s8": np.dtype(np.int8),
    "s16": np.dtype(np.int16),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
"""HLO's element types that programs can hold."""


class Unsupported(Exception):
    """A program cannot hold or compute something: XLA compiles the model instead. The message says what."""


@dataclass(frozen=True, slots=True)
class Size:
    """`constant + per_row * batch`."""

    constant: int
    per_row: int = 0

    def at(self, batch: int) -> int:
        return self.constant + self.per_row * batch

    def __add__(self, other: Size) -> Size:
        return Size(self.constant + other.constant, self.per_row + other.per_row)

    def __mul__(self, other: Size) -> Size:
        """Raises Unsupported if the product is not linear in the batch."""
        if self.per_row and other.per_row:
            raise Unsupported("a number of elements that grows with the square of the batch")
        return Size(self.constant * other.constant, self.constant * other.per_row + self.per_row * other.constant)

    def __str__(self) -> str:
        if not self.per_row:
            return str(self.constant)
        grows = "n" if self.per_row == 1 else f"{self.per_row}n"
        return f"{grows}{self.constant:+}" if self.constant else grows


ZERO, ONE = Size(0), Size(1)


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of an array: HLO's name of the element type, and its sizes."""

    dtype: str
    sizes: tuple[Size, ...]

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def elements(self) -> Size:
        """Raises Unsupported if the number of elements is not linear in the batch."""
        return prod(self.sizes, start=ONE)

    @property
    def strides(self) -> tuple[Size, ...]:
        """Of a row-major array, in elements. Raises Unsupported as `elements` does."""
        return tuple(prod(self.sizes[axis + 1 :], start=ONE) for axis in range(self.rank))

    def at(self, batch: int) -> tuple[int, ...]:
        return tuple(size.at(batch) for size in self.sizes)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.sizes))}]"


Type = Shape | tuple[Shape, ...]
"""Of what an operation gives: one array, or several."""


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """`constant + per_row * batch`, element by element; `per_row` is None if it does not depend on the batch."""

    constant: Array
    per_row: Array | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`id` is the value that it gives, unique within the program; `node` is TensorFlow's name of what it was made of.

    Attributes of HLO's operations are those that the worker lists (worker_program/hlo.py).
    """

    id: int
    opcode: str
    type: Type
    operands: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()
    node: str = ""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of all arrays that it gives."""
        return self.type if isinstance(self.type, tuple) else (self.type,)

    @property
    def shape(self) -> Shape:
        """Raises Unsupported if it gives several arrays: `get-tuple-element`s of it are these."""
        if isinstance(self.type, tuple):
            raise Unsupported(f"{self.opcode} gives several arrays")
        return self.type

    def captured(self) -> set[int]:
        """The values that its regions read from outside of them."""
        inside = [each for region in self.regions for each in region.everything()]
        read = {operand for each in inside for operand in each.operands}
        read.update(result for region in self.regions for result in region.results)
        read.update(result for each in inside for region in each.regions for result in region.results)
        return read - {each.id for each in inside}


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Operations, each after those that it uses: of this region, or of those around it, before the one that holds it.

    It is called with an array for each `parameter`, and gives those of `results`. There are no tuples inside of tuples,
    and no operation `tuple`.
    """

    operations: tuple[Operation, ...]
    results: tuple[int, ...]

    @property
    def parameters(self) -> tuple[Operation, ...]:
        """In the order of their numbers."""
        found = [operation for operation in self.operations if operation.opcode == "parameter"]
        return tuple(sorted(found, key=lambda operation: operation.attributes["number"]))

    def by_id(self) -> dict[int, Operation]:
        return {operation.id: operation for operation in self.operations}

    def everything(self) -> Iterator[Operation]:
        """Its operations and those of all regions inside of it."""
        for operation in self.operations:
            yield operation
            for nested in operation.regions:
                yield from nested.everything()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`entry` takes the model's inputs, in their order, and gives its outputs."""

    entry: Region


def used(operations: Sequence[Operation], results: Iterable[int]) -> tuple[Operation, ...]:
    """The parameters, and the operations that `results` are made of, in their order."""
    needed, kept = set(results), []
    for operation in reversed(operations):
        if operation.id in needed or operation.opcode == "parameter":
            needed.update(operation.operands, operation.captured())
            kept.append(operation)
    return tuple(kept[::-1])


def verify(program: Program) -> None:
    """Raise ValueError if a value is used where it is not known, made twice, or has no array's type."""
    made: set[int] = set()

    def look(region: Region, outside: frozenset[int]) -> None:
        known: set[int] = set(outside)
        for operation in region.operations:
            for nested in operation.regions:
                look(nested, frozenset(known))
            if missing := set(operation.operands) - known:
                raise ValueError(f"%{operation.id} {operation.opcode} uses %{min(missing)}, which is not known there")
            if operation.id in made:
                raise ValueError(f"%{operation.id} is made twice")
            made.add(operation.id)
            known.add(operation.id)
        if missing := set(region.results) - known:
            raise ValueError(f"a region gives %{min(missing)}, which is not known there")

    look(program.entry, frozenset())
