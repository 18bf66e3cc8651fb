"""The inside of a loop over elements: how it is collected, and what it is in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count

from tfaot_pkg.compiler.affine import Axes, Index
from tfaot_pkg.compiler.attributes import in_total_order
from tfaot_pkg.compiler.elements import Access, Counted, Element, Operand, Statement, Store, depending_on
from tfaot_pkg.compiler.expressions import (
    C_TYPES,
    IN_WIDE_VECTORS,
    MOVED_TYPES,
    NARROW_TYPES,
    VECTOR_TYPES,
    WIDE_TYPES,
    is_of_lanes,
)
from tfaot_pkg.compiler.instructions import Declare
from tfaot_pkg.compiler.pieces import Code
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Size

IN_VECTORS = (ZERO, *map(Size, (-1, 1, 2, 3, 4)))
"""Strides at which the kernel library loads whole vectors."""
_SHORT = 8
"""The longest rows that are reordered element by element: rows of 30 took 1.3 times as long so, rows of 3 took 0.7."""


class Lanes(Enum):
    """What the vectors of a loop hold, by the bits of an element."""

    ALONE = 0
    """Nothing: the loop computes one element after the other."""
    TRUTH = 8
    """Truth values."""
    WORDS = 32
    """Floats and integers; truth values beside them have as many bits."""
    WIDE = 64
    """Doubles and long integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """What a loop over `extents` reads, counts and computes for each element.

    `types` are those of values that are computed, or moved without vectors, and `opcodes` what computes them. A loop
    that `overlaps` may write an element twice.
    """

    extents: tuple[Size, ...]
    accesses: tuple[Access, ...]
    counted: tuple[Counted, ...]
    statements: tuple[Statement, ...]
    types: frozenset[str]
    opcodes: frozenset[str]
    lanes: Lanes = Lanes.ALONE
    overlaps: bool = False

    @property
    def by_words(self) -> bool:
        return self.lanes is Lanes.WORDS

    @property
    def is_wide(self) -> bool:
        return self.lanes is Lanes.WIDE

    @property
    def is_typed(self) -> bool:
        """Whether the types of vectors are those of what is computed: of places that hold one type of elements."""
        return self.lanes in (Lanes.TRUTH, Lanes.WIDE)

    @property
    def bases(self) -> frozenset[str]:
        made, counted = (each.bases for each in self.statements), (each.index.bases for each in self.counted)
        return frozenset[str]().union(*(each.bases for each in self.accesses), *made, *counted)

    @property
    def names(self) -> frozenset[str]:
        every = (*self.accesses, *self.operands, *(each.index for each in self.counted))
        return frozenset[str]().union(*(each.names for each in every))

    @property
    def reached(self) -> list[tuple[Access, tuple[Size, ...]]]:
        return [(access, self.extents) for access in self.accesses]

    @property
    def operands(self) -> list[Operand]:
        return [operand for statement in self.statements for operand in statement.operands]

    def declared(self, statement: Statement, fill: str = "at.fill") -> Declare:
        """The variable of a statement, where `fill` makes elements of numbers."""
        text, dtype, kind = statement.text(fill), statement.dtype, "const auto"
        if self.by_words:
            kind = f"const {MOVED_TYPES[dtype]}"
        elif not self.is_typed:
            text = f"static_cast<{C_TYPES[dtype]}>({text})"
        return Declare(name=statement.name, kind=kind, value=(Code(text, statement.operands),))

    def computed(self) -> list[Declare]:
        """The variables of all statements."""
        return [self.declared(each) for each in self.statements]

    def varies(self, varied: Sequence[Access]) -> bool:
        """Whether each statement depends, through others too, on one of the accesses `varied`."""
        return {each.name for each in self.statements} <= depending_on(self.statements, varied)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """A loop that writes what it computes for each element."""

    inner: Inner
    stores: tuple[Store, ...]

    @property
    def bases(self) -> frozenset[str]:
        return self.inner.bases.union(*(each.bases for each in self.stores))

    @property
    def names(self) -> frozenset[str]:
        return self.inner.names.union(*(each.access.names | each.result.names for each in self.stores))

    @property
    def written(self) -> frozenset[str]:
        return frozenset(store.access.base for store in self.stores)

    @property
    def reached(self) -> list[tuple[Access, tuple[Size, ...]]]:
        return [*self.inner.reached, *((store.access, self.inner.extents) for store in self.stores)]

    @property
    def operands(self) -> list[Operand]:
        return [*self.inner.operands, *(store.result for store in self.stores)]


@dataclass(slots=True)
class Body:
    """Collects what a loop over `extents` computes."""

    extents: tuple[Size, ...]
    statements: list[Statement] = field(default_factory=list)
    types: set[str] = field(default_factory=set)
    accesses: list[Access] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    known: dict[object, Operand] = field(default_factory=dict)
    names: Iterator[int] = field(default_factory=count)
    opcodes: set[str] = field(default_factory=set)

    @property
    def lanes(self) -> Lanes:
        """Of vectors that hold all types."""
        return lanes_of(self.types)

    @property
    def can_be_wide(self) -> bool:
        """Whether the kernel library has vectors for all that is computed, and all that is read is of 64 bits."""
        return (
            self.types <= {*WIDE_TYPES, "pred"}
            and self.opcodes <= IN_WIDE_VECTORS
            and not self.counted
            and all(access.dtype in WIDE_TYPES for access in self.accesses)
        )

    def inner(self, lanes: Lanes) -> Inner:
        """What was collected."""
        return Inner(
            extents=self.extents, accesses=tuple(self.accesses), counted=tuple(self.counted),
            statements=tuple(self.statements), types=frozenset(self.types), opcodes=frozenset(self.opcodes),
            lanes=lanes,
        )  # fmt: skip

    def apply(self, operation: Operation, operands: Sequence[Operand], sources: Sequence[str]) -> Element:
        """What an elementwise operation gives for `operands` of types `sources`."""
        types = {operation.shape.dtype, *sources}
        self.types.update(each for each in types if not is_of_lanes(operation.opcode, each))
        self.opcodes.add("in total order" if in_total_order(operation) else operation.opcode)
        return self.state(operation, operands, sources)

    def state(self, operation: Operation, operands: Sequence[Operand], sources: Sequence[str]) -> Element:
        name = f"y{next(self.names)}"
        self.statements.append(Statement(name, operation, tuple(operands), tuple(sources)))
        return Element(name)

    def identity(self) -> tuple[Index, ...]:
        rank = len(self.extents)
        return tuple(Index(ZERO, tuple(ONE if i == axis else ZERO for i in range(rank))) for axis in range(rank))


def moved_access(access: Access, axes: Axes) -> Access:
    return replace(access, index=axes.index(access.index))


def along(inner: Inner, axes: Axes) -> Inner:
    """A loop along merged axes."""
    return replace(
        inner, extents=axes.extents, accesses=tuple(moved_access(each, axes) for each in inner.accesses),
        counted=tuple(Counted(each.name, axes.index(each.index)) for each in inner.counted),
    )  # fmt: skip


def lanes_of(types: Set[str]) -> Lanes:
    return Lanes.WORDS if types <= set(VECTOR_TYPES) else Lanes.ALONE


def lanes_of_type(inner: Inner, accesses: Sequence[Access]) -> Lanes | None:
    """Of a loop over elements of one type that are no words; `accesses` are all that it reads or writes."""
    if inner.counted or not accesses:
        return None
    are_truths = inner.types <= {"pred"} and all(each.dtype == "pred" for each in inner.statements)
    if are_truths and all(access.dtype == "pred" for access in accesses):
        return Lanes.TRUTH  # bytes: compilers make vectors of them, with four times as many elements
    are_whole = all(access.index.factors and access.index.factors[-1] in (ZERO, ONE) for access in accesses)
    are_wide = all(access.dtype in WIDE_TYPES for access in accesses)
    can_be_wide = inner.types <= {*WIDE_TYPES, "pred"} and inner.opcodes <= IN_WIDE_VECTORS
    return Lanes.WIDE if inner.statements and can_be_wide and are_whole and are_wide else None


def only_moves(whole: Inner, accesses: Sequence[Access], outputs: Sequence[Access]) -> bool:
    """Whether a loop only moves elements for which vectors would be taken apart and assembled element by element.

    Of narrow types, compilers copy more elements at a time than vectors have lanes.
    """
    if not whole.statements and any(access.dtype in NARROW_TYPES for access in (*accesses, *outputs)):
        return True
    read = any(access.index.factors[-1] not in IN_VECTORS for access in accesses if access.index.factors)
    written = any(access.index.factors[-1] not in (ZERO, ONE) for access in outputs if access.index.factors)
    short = whole.extents[-1].is_constant and whole.extents[-1].constant <= _SHORT
    return not whole.statements and not whole.counted and ((read and written) or (short and (read or written)))


def may_overlap(accesses: Sequence[Access]) -> bool:
    """Whether the last vector of a row should overlap the one before: parts of vectors with strides are slow.

    Elements are computed twice then, so none that is read may have been written.
    """
    steps = {access.index.factors[-1] for access in accesses if access.index.factors}
    return bool(steps - {ZERO, ONE}) and steps <= set(IN_VECTORS)
