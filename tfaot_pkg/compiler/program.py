"""`Program`: a model as typed operations in static single assignment, with the batch size and other sizes as symbols.

An operation is one of HLO's (https://openxla.org/xla/operation_semantics) or one that a pass recognized (`dense`, ...).
Sizes, and integers in attributes, are polynomials in the symbols: `Size`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import numpy as np

from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.formulas import Formula

# Short floats are imported as float32 (decision 073); complex numbers stay in segments of XLA's code (decision 042).
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
"""The element types of HLO that programs support."""
EXACT_TO: Mapping[str, int] = {"f32": 1 << 24, "f64": 1 << 53}
"""Types of floats, each with the number up to which it has all integers."""


NO_SYMBOLS: Mapping[str, int] = MappingProxyType({})


class Unsupported(Exception):
    """A program cannot represent or compute something, which the message names: XLA compiles the model instead."""


BATCH = "batch"
"""The symbol of the number of rows."""

Monomial = tuple[str, ...]
"""A product of symbols, sorted; `()` is 1."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size that each call chooses, between `minimum` and `maximum`."""

    name: str
    maximum: int
    minimum: int = 1


@dataclass(frozen=True, slots=True, init=False)
class Size:
    """A polynomial with integer coefficients in symbols, linear in the batch: `terms` are sorted, without zeros."""

    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, constant: int = 0, per_row: int = 0) -> None:
        """`constant + per_row * batch`."""
        terms = (((), constant),) if constant else ()
        object.__setattr__(self, "terms", (*terms, ((BATCH,), per_row)) if per_row else terms)

    @classmethod
    def of(cls, terms: Iterable[tuple[Monomial, int]]) -> Size:
        """The sum of `terms`, some of which may have the same symbols."""
        total: dict[Monomial, int] = {}
        for monomial, coefficient in terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        made = cls()
        # One form for equal polynomials: sizes are compared, and are keys of dictionaries.
        found = sorted((monomial, coefficient) for monomial, coefficient in total.items() if coefficient)
        object.__setattr__(made, "terms", tuple(found))
        return made

    @classmethod
    def symbol(cls, name: str) -> Size:
        return cls.of([((name,), 1)])

    @property
    def is_constant(self) -> bool:
        return not self.terms or (len(self.terms) == 1 and not self.terms[0][0])

    @property
    def constant(self) -> int:
        """Raises Unsupported if it is not constant."""
        if not self.is_constant:
            raise Unsupported(f"a size of {self} where the compiler needs a number")
        return self.terms[0][1] if self.terms else 0

    @property
    def grows(self) -> bool:
        """Whether it depends on the batch."""
        return any(BATCH in monomial for monomial, _ in self.terms)

    @property
    def per_row(self) -> Size:
        """The part that each row of the batch adds."""
        found = ((tuple(s for s in monomial if s != BATCH), c) for monomial, c in self.terms if BATCH in monomial)
        return Size.of(found)

    def at(self, batch: int, sizes: Mapping[str, int] = NO_SYMBOLS) -> int:
        return sum(
            coefficient * prod(batch if symbol == BATCH else sizes[symbol] for symbol in monomial)
            for monomial, coefficient in self.terms
        )

    def most(self, batch: int, symbols: Sequence[Symbol]) -> int:
        """An upper bound for all values of `symbols`."""
        # Term by term: a term with a negative coefficient is largest if its symbols are smallest.
        highest, lowest = ({s.name: getattr(s, end) for s in symbols} for end in ("maximum", "minimum"))
        return sum(
            Size.of([(monomial, coefficient)]).at(batch, highest if coefficient > 0 else lowest)
            for monomial, coefficient in self.terms
        )

    def divided(self, by: int) -> Size | None:
        """The quotient by `by`; None if it has no integer coefficients."""
        if any(coefficient % by for _, coefficient in self.terms):
            return None
        return Size.of((monomial, coefficient // by) for monomial, coefficient in self.terms)

    def __add__(self, other: Size) -> Size:
        # A short path, because most sizes are numbers, and passes add very many of them.
        if self.is_constant and other.is_constant:
            return Size(self.constant + other.constant)
        return Size.of((*self.terms, *other.terms))

    def __mul__(self, other: Size) -> Size:
        """Raises Unsupported if the product is not linear in the batch."""
        if self.is_constant and other.is_constant:
            return Size(self.constant * other.constant)
        # Blocks of rows need addresses that are linear in the batch.
        if self.grows and other.grows:
            raise Unsupported("a number of elements that grows with the square of the batch")
        return Size.of((tuple(sorted((*m, *n))), a * b) for m, a in self.terms for n, b in other.terms)

    def __str__(self) -> str:
        return str(Formula(self.terms))


ZERO, ONE, ROWS = Size(0), Size(1), Size(0, 1)

Extent = int | Size
"""A number in an attribute: a Size if it depends on symbols."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The numbers that symbols stand for."""

    batch: int
    symbols: Mapping[str, int]

    def number(self, extent: Extent) -> int:
        return extent.at(self.batch, self.symbols) if isinstance(extent, Size) else extent

    def numbers(self, extents: Iterable[Extent]) -> tuple[int, ...]:
        return tuple(map(self.number, extents))

    def table(self, rows: Iterable[Iterable[Extent]]) -> tuple[tuple[int, ...], ...]:
        return tuple(map(self.numbers, rows))


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

    def at(self, batch: int, sizes: Mapping[str, int] = NO_SYMBOLS) -> tuple[int, ...]:
        return tuple(size.at(batch, sizes) for size in self.sizes)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.sizes))}]"


Type = Shape | tuple[Shape, ...]
"""The type of an operation's result: one array, or several."""


# Compared by identity: `==` of two NumPy arrays is an array.
@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A polynomial for each element: `constant`, and the coefficients of monomials in `growing`, if there are any."""

    constant: Array
    growing: tuple[tuple[Monomial, Array], ...] = ()

    @property
    def size(self) -> Size:
        """The polynomial of a literal that is a single integer."""
        terms = (((), self.constant), *self.growing)
        return Size.of((monomial, int(values.reshape(()))) for monomial, values in terms)


_A = TypeVar("_A", bound="Attributes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What the meaning of an operation depends on beside its operands; attributes.py has a type for each kind."""

    @classmethod
    def of(cls: type[_A], operation: HasAttributes) -> _A:
        """Those of `operation`. Raises TypeError if they are of another kind."""
        found = operation.attributes
        if not isinstance(found, cls):
            raise TypeError(f"{type(found).__name__} are not the attributes {cls.__name__}")
        return found


NO_ATTRIBUTES = Attributes()


class HasAttributes(Protocol):
    @property
    def attributes(self) -> Attributes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Attributes):
    """Of a parameter, among those of its region."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`id` names its result, unique within the program; `node` is the TensorFlow operation that it came from."""

    id: int
    opcode: str
    type: Type
    operands: tuple[int, ...] = ()
    attributes: Attributes = NO_ATTRIBUTES
    regions: tuple[Region, ...] = ()
    node: str = ""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of all its results."""
        return self.type if isinstance(self.type, tuple) else (self.type,)

    @property
    def shape(self) -> Shape:
        """Raises Unsupported if it has several results, which are read by `get-tuple-element`."""
        if isinstance(self.type, tuple):
            raise Unsupported(f"{self.opcode} has several results")
        return self.type

    def captured(self) -> set[int]:
        """The values from outside that its regions read."""
        inside = [each for region in self.regions for each in region.everything()]
        read = {operand for each in inside for operand in each.operands}
        read.update(result for region in self.regions for result in region.results)
        read.update(result for each in inside for region in each.regions for result in region.results)
        return read - {each.id for each in inside}


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Operations in an order in which each comes after its operands.

    Operands belong to this region or to one around it, where they stand before the operation that has this region. A
    region is called with an array for each `parameter`, and returns `results`. There are no nested tuples, and no
    operation `tuple`.
    """

    operations: tuple[Operation, ...]
    results: tuple[int, ...]

    @property
    def parameters(self) -> tuple[Operation, ...]:
        """Its parameters by number."""
        found = [operation for operation in self.operations if operation.opcode == "parameter"]
        return tuple(sorted(found, key=lambda operation: Number.of(operation).number))

    def by_id(self) -> dict[int, Operation]:
        return {operation.id: operation for operation in self.operations}

    def everything(self) -> Iterator[Operation]:
        """Its operations, and those of all regions within."""
        for operation in self.operations:
            yield operation
            for nested in operation.regions:
                yield from nested.everything()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`entry` takes the model's inputs in order, and returns its outputs. `symbols` are those beside the batch."""

    entry: Region
    symbols: tuple[Symbol, ...] = ()


OwnAttributes = dict[str, tuple[float, ...]]
"""Attributes of an operation of the author's: numbers by name."""
ArrayOfRow = tuple[str, tuple[int, ...]]
"""An input or output of an operation of the author's: its element type in HLO, and the sizes of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCall:
    """The function `target`, which calls an operation of the author's for one row of the node `node`.

    `batched` says which inputs have rows; others are the same for all rows.
    """

    target: str
    operation: str
    node: str
    attributes: OwnAttributes
    inputs: tuple[ArrayOfRow, ...]
    outputs: tuple[ArrayOfRow, ...]
    batched: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Called(OperationCall):
    """Such a function, with its constant inputs by position."""

    constants: Mapping[int, Array]


@dataclass(frozen=True, slots=True)
class Border:
    """Some inputs and outputs of a program, by their positions."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def only(program: Program, border: Border) -> Program:
    """The program that computes the outputs of `border` from its inputs.

    Raises Unsupported if they depend on other inputs too.
    """
    entry = program.entry
    results = tuple(entry.results[place] for place in border.outputs)
    numbers = {old: new for new, old in enumerate(border.inputs)}
    kept = used(entry.operations, results)
    read = {operand for each in kept for operand in each.operands}
    read.update(results, *(each.captured() for each in kept))
    operations = []
    for each in kept:
        if each.opcode != "parameter":
            operations.append(each)
        elif (number := Number.of(each).number) in numbers:
            operations.append(replace(each, attributes=Number(number=numbers[number])))
        elif each.id in read:
            raise Unsupported("an output of one signature depends on an input of another one")
    return replace(program, entry=Region(operations=tuple(operations), results=results))


def used(operations: Sequence[Operation], results: Iterable[int]) -> tuple[Operation, ...]:
    """The parameters, and the operations that `results` depend on, in their order."""
    needed, kept = set(results), []
    # Backwards, because operands stand before their users: one pass finds all that are needed.
    for operation in reversed(operations):
        if operation.id in needed or operation.opcode == "parameter":
            # Regions read values of the region around them, which no operand names.
            needed.update(operation.operands, operation.captured())
            kept.append(operation)
    return tuple(kept[::-1])


def reducer(operation: Operation) -> str | None:
    """The opcode that combines two values in a reduction; None if the reduction is not a single operation."""
    region = operation.regions[0]
    root = region.by_id().get(region.results[0])
    parameters = {parameter.id for parameter in region.parameters}
    plain = root is not None and len(region.operations) == 3 and set(root.operands) == parameters
    return root.opcode if plain and root is not None else None
