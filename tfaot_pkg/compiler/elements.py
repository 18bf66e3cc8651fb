"""What loops compute, as typed expressions: numbers outside of loops, elements within. C++ is made of them at the end.

A `Scalar` is the same for all elements of a loop. An element is a name that the loop reads, counts or computes; a
`Statement` computes one of them of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfaot_pkg.compiler.affine import Counter, Index, counted, cpp
from tfaot_pkg.compiler.expressions import VECTOR_TYPES, c_type, expression, number_text
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Size


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or a counter of the C++ code."""

    name: str

    @property
    def bases(self) -> frozenset[str]:
        """The arrays that a number is read from."""
        return frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The variables that it needs, addresses of arrays among them."""
        return frozenset([self.name])

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Number:
    """A constant without axes."""

    constant: Operation

    @property
    def bases(self) -> frozenset[str]:
        return frozenset()

    @property
    def names(self) -> frozenset[str]:
        return frozenset()

    def __str__(self) -> str:
        return number_text(self.constant)


@dataclass(frozen=True, slots=True)
class Position:
    """An index that counters make: `offset` and steps."""

    offset: Size
    steps: tuple[tuple[Counter, Size], ...]

    @property
    def bases(self) -> frozenset[str]:
        return frozenset()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(counter.name for counter, _ in self.steps)

    def __str__(self) -> str:
        terms = ["0", *([] if self.offset == ZERO else [cpp(self.offset)])]
        return " + ".join([*terms, *(f"{counter} * {cpp(stride)}" for counter, stride in self.steps)])


@dataclass(frozen=True, slots=True)
class Place:
    """The address of `elements` elements: `base` plus steps, each a variable times a number of elements.

    The elements are `stride` apart. `offset` is counted from there, for a single one of them.
    """

    base: str
    steps: tuple[tuple[str, Size], ...] = ()
    elements: Size = ONE
    stride: Size = ONE

    @property
    def bases(self) -> frozenset[str]:
        return frozenset([self.base])

    @property
    def names(self) -> frozenset[str]:
        return frozenset([self.base, *(name for name, _ in self.steps)])

    def __str__(self) -> str:
        terms = [name if stride == ONE else counted(name, stride) for name, stride in self.steps]
        return " + ".join([self.base, *terms])


@dataclass(frozen=True, slots=True)
class Pointed:
    """The first element of the array `base`."""

    base: str

    @property
    def bases(self) -> frozenset[str]:
        return frozenset([self.base])

    @property
    def names(self) -> frozenset[str]:
        return self.bases

    def __str__(self) -> str:
        return f"*{self.base}"


@dataclass(frozen=True, slots=True)
class Stored:
    """The first element at a place."""

    place: Place

    @property
    def bases(self) -> frozenset[str]:
        return self.place.bases

    @property
    def names(self) -> frozenset[str]:
        return self.place.names

    def __str__(self) -> str:
        return f"*({self.place})"


@dataclass(frozen=True, slots=True)
class Component:
    """The element `offset` of those at an access, whose counters have names."""

    base: str
    offset: Size
    steps: tuple[tuple[Counter, Size], ...]
    at: Size

    @property
    def bases(self) -> frozenset[str]:
        return frozenset([self.base])

    @property
    def names(self) -> frozenset[str]:
        return frozenset([self.base, *(counter.name for counter, _ in self.steps)])

    def __str__(self) -> str:
        terms = [self.base, *([] if self.offset == ZERO else [cpp(self.offset)])]
        place = " + ".join([*terms, *(f"{counter} * {cpp(stride)}" for counter, stride in self.steps)])
        return f"({place})[{cpp(self.at)}]"


@dataclass(frozen=True, slots=True)
class Computed:
    """An elementwise operation of numbers, of types `sources`."""

    operation: Operation
    operands: tuple[Scalar, ...]
    sources: tuple[str, ...]

    @property
    def bases(self) -> frozenset[str]:
        return frozenset[str]().union(*(each.bases for each in self.operands))

    @property
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*(each.names for each in self.operands))

    def __str__(self) -> str:
        text = expression(self.operation, [*map(str, self.operands)], self.sources, by_vectors=False)
        return f"static_cast<{c_type(self.operation.shape)}>({text})"


Scalar = Variable | Number | Position | Pointed | Stored | Component | Computed


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a slice of `size`, clamped as in HLO so that the slice lies within an axis of `length`."""

    scalar: Scalar
    length: Size
    size: Size
    is_within: bool
    """Whether it is in any case."""
    is_unsigned: bool

    @property
    def most(self) -> Size:
        return self.length + self.size * Size(-1)

    @property
    def bases(self) -> frozenset[str]:
        return self.scalar.bases

    @property
    def names(self) -> frozenset[str]:
        return self.scalar.names

    def __str__(self) -> str:
        if self.is_within:
            return f"static_cast<std::ptrdiff_t>({self.scalar})"
        sizes = [f"static_cast<std::ptrdiff_t>({cpp(each)})" for each in (self.length, self.size)]
        most = cpp(self.most) if self.most.is_constant else " - ".join(sizes)
        # An unsigned start cannot be negative, but casting a large one to a signed type would make it so.
        if self.is_unsigned:
            return f"static_cast<std::ptrdiff_t>(std::min<std::uint64_t>({self.scalar}, {most}))"
        return f"std::min<std::ptrdiff_t>(std::max<std::ptrdiff_t>({self.scalar}, 0), {most})"


@dataclass(frozen=True, slots=True)
class Element:
    """What a loop read or computed under a name."""

    name: str

    @property
    def bases(self) -> frozenset[str]:
        return frozenset()

    @property
    def names(self) -> frozenset[str]:
        return frozenset([self.name])

    def text(self, fill: str = "at.fill") -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Filled:
    """A number for each element."""

    scalar: Scalar

    @property
    def bases(self) -> frozenset[str]:
        return self.scalar.bases

    @property
    def names(self) -> frozenset[str]:
        return self.scalar.names

    def text(self, fill: str = "at.fill") -> str:
        """The C++, by the function `fill`."""
        return f"{fill}({self.scalar})"


Operand = Element | Filled


def names_in(operands: Iterable[Operand]) -> set[str]:
    return {each.name for each in operands if isinstance(each, Element)}


@dataclass(frozen=True, slots=True)
class Statement:
    """`name` becomes an elementwise operation of `operands`, whose types are `sources`."""

    name: str
    operation: Operation
    operands: tuple[Operand, ...]
    sources: tuple[str, ...]

    @property
    def dtype(self) -> str:
        return self.operation.shape.dtype

    @property
    def reads(self) -> set[str]:
        """The names of the elements that it depends on."""
        return names_in(self.operands)

    @property
    def bases(self) -> frozenset[str]:
        """The arrays that its numbers are read from."""
        return frozenset[str]().union(*(each.bases for each in self.operands))

    def text(self, fill: str = "at.fill") -> str:
        """The C++ of the expression, where `fill` makes elements of numbers."""
        divisor = self.operands[-1]
        known = divisor.scalar.constant if isinstance(divisor, Filled) and isinstance(divisor.scalar, Number) else None
        by_vectors = self.sources[0] in VECTOR_TYPES and self.dtype in VECTOR_TYPES
        operands = [operand.text(fill) for operand in self.operands]
        return expression(self.operation, operands, self.sources, by_vectors=by_vectors, divisor=known, fill=fill)


@dataclass(frozen=True, slots=True)
class Counted:
    """The name of an element that is its `index`."""

    name: str
    index: Index


@dataclass(frozen=True, slots=True)
class Access:
    """An array that a loop reads or writes: `variable` is the address of a row, `index` counts elements of `base`."""

    variable: str
    base: str
    dtype: str
    index: Index

    @property
    def element(self) -> str:
        """The name of the element that it reads."""
        return f"x{self.variable[1:]}"

    @property
    def bases(self) -> frozenset[str]:
        """The arrays that it needs: its own, and those of its index."""
        return self.index.bases | {self.base}

    @property
    def names(self) -> frozenset[str]:
        return self.index.names | {self.base}


@dataclass(frozen=True, slots=True)
class Store:
    """`result` is written to `access`."""

    access: Access
    result: Operand

    @property
    def bases(self) -> frozenset[str]:
        return self.access.bases | self.result.bases


def depending_on(statements: Iterable[Statement], accesses: Iterable[Access]) -> set[str]:
    """The names of what is read by `accesses`, and of the statements that depend on it, through others too."""
    names = {access.element for access in accesses}
    for statement in statements:
        if names & statement.reads:
            names.add(statement.name)
    return names


def invariant(statements: Sequence[Statement], changing: Iterable[str]) -> list[Statement]:
    """The statements that are the same in all iterations of a loop, whose elements `changing` are not."""
    names, found = set(changing), list[Statement]()
    for statement in statements:
        if names.isdisjoint(statement.reads):
            found.append(statement)
        else:
            names.add(statement.name)
    return found
