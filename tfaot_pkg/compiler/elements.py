"""What loops compute, as typed expressions: numbers outside of loops, elements within. C++ is made of them at the end.

A `Scalar` is the same for all elements of a loop. An element is a name that the loop reads, counts or computes; a
`Statement` computes one of them of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.expressions import VECTOR_TYPES, c_type, expression, number_text
from tfaot_pkg.compiler.program import Operation


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or a counter of the C++ code; or what it points to."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Number:
    """A constant without axes."""

    constant: Operation

    def __str__(self) -> str:
        return number_text(self.constant)


@dataclass(frozen=True, slots=True)
class Pointed:
    """The first element at an address."""

    base: str

    def __str__(self) -> str:
        return f"*{self.base}"


@dataclass(frozen=True, slots=True)
class Computed:
    """An elementwise operation of numbers, of types `sources`."""

    operation: Operation
    operands: tuple[Scalar, ...]
    sources: tuple[str, ...]

    def __str__(self) -> str:
        text = expression(self.operation, [*map(str, self.operands)], self.sources, by_vectors=False)
        return f"static_cast<{c_type(self.operation.shape)}>({text})"


Scalar = Variable | Number | Pointed | Computed


@dataclass(frozen=True, slots=True)
class Element:
    """What a loop read or computed under a name."""

    name: str

    def text(self, fill: str = "at.fill") -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Filled:
    """A number for each element."""

    scalar: Scalar

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


@dataclass(frozen=True, slots=True)
class Store:
    """`result` is written to `access`."""

    access: Access
    result: Operand


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
