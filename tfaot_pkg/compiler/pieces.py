"""What lines of C++ are made of: typed expressions, which say what they read, and text, which names no variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tfaot_pkg.compiler.affine import Index, address_terms, cpp
from tfaot_pkg.compiler.elements import Access, Operand, Place, Scalar
from tfaot_pkg.compiler.program import ONE, ZERO, Size


@dataclass(frozen=True, slots=True)
class Code:
    """C++ of an expression of `operands`, and of what `indices` count."""

    text: str
    operands: tuple[Operand, ...] = ()
    indices: tuple[Index, ...] = ()

    @property
    def bases(self) -> frozenset[str]:
        return frozenset[str]().union(*(each.bases for each in (*self.operands, *self.indices)))

    @property
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*(each.names for each in (*self.operands, *self.indices)))

    def __str__(self) -> str:
        return self.text


def code_of(operand: Operand) -> Code:
    return Code(operand.text(), (operand,))


@dataclass(frozen=True, slots=True)
class Row:
    """The address of an access, whose first `axes` axes have counters i0, i1 ...; `extents` are those of all axes."""

    access: Access
    axes: int
    extents: tuple[Size, ...]

    @property
    def bases(self) -> frozenset[str]:
        return self.access.bases

    @property
    def names(self) -> frozenset[str]:
        counted = enumerate(self.access.index.factors[: self.axes])
        return self.access.names | {f"i{axis}" for axis, factor in counted if factor != ZERO}

    def __str__(self) -> str:
        return " + ".join([self.access.base, *address_terms(self.access.index, self.axes)])


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A signed number that is from 0 to `size` - 1, as something unsigned: what computed it sees to that."""

    scalar: Scalar | Entry
    size: Size

    @property
    def bases(self) -> frozenset[str]:
        return self.scalar.bases

    @property
    def names(self) -> frozenset[str]:
        return self.scalar.names

    def __str__(self) -> str:
        return f"std::size_t({self.scalar})"


@dataclass(frozen=True, slots=True)
class Entry:
    """The element of the array at `base` that is `at` steps of `factor` elements behind the first one."""

    base: str
    at: str | int | Size | Unsigned
    factor: Size | None = None

    @property
    def bases(self) -> frozenset[str]:
        return frozenset([self.base]) | (self.at.bases if isinstance(self.at, Unsigned) else frozenset())

    @property
    def names(self) -> frozenset[str]:
        counted = self.at.names if isinstance(self.at, Unsigned) else {self.at} if isinstance(self.at, str) else ()
        return frozenset([self.base, *counted])

    def __str__(self) -> str:
        at = cpp(self.at) if isinstance(self.at, Size) else self.at
        return f"{self.base}[{at}{'' if self.factor is None else f' * {cpp(self.factor)}'}]"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The elements of the lanes `by` of a loop: from `address` on, `steps` apart along the axes that it runs over."""

    address: Place
    steps: tuple[Size, ...] = (ONE,)
    by: str = "at"

    @property
    def bases(self) -> frozenset[str]:
        return self.address.bases

    @property
    def names(self) -> frozenset[str]:
        return self.address.names | {self.by}

    def __str__(self) -> str:
        return f"{self.by}.load({self.address}{text_of(apart(self.steps))})"


@dataclass(frozen=True, slots=True)
class Spread:
    """The address `base`, from which the elements along all `axes` are used: each has a size and a step."""

    base: str
    axes: tuple[tuple[Size, Size], ...]

    @property
    def bases(self) -> frozenset[str]:
        return frozenset([self.base])

    @property
    def names(self) -> frozenset[str]:
        return self.bases

    def __str__(self) -> str:
        return self.base


@dataclass(frozen=True, slots=True)
class OfRows:
    """The address of the elements of some rows of an array: those from the row `first` on; each row has `elements`.

    Within the code that it is for, the batch is these rows.
    """

    base: str
    first: str
    elements: Size

    @property
    def bases(self) -> frozenset[str]:
        return frozenset([self.base])

    @property
    def names(self) -> frozenset[str]:
        return frozenset([self.base, self.first])

    def __str__(self) -> str:
        return f"{self.base} + {self.first}" + ("" if self.elements == ONE else f" * {cpp(self.elements)}")


def apart(steps: tuple[Size, ...]) -> tuple[Piece, ...]:
    """The last argument of a load or store, with a comma; none for elements that lie side by side."""
    if len(steps) == 1:
        return () if steps == (ONE,) else (", ", *steps)
    return (f", Apart<{', '.join(map(cpp, steps))}>{{}}",)


@dataclass(frozen=True, slots=True)
class Total:
    """The running total of the lanes at hand; `is_left` if the pointer `name` goes on to the next lanes behind it."""

    name: str = "total"
    is_left: bool = False

    @property
    def bases(self) -> frozenset[str]:
        return frozenset()

    @property
    def names(self) -> frozenset[str]:
        return frozenset([self.name])

    def __str__(self) -> str:
        return f"*{self.name}{'++' * self.is_left}"


Expression = Code | Place | Row | Spread | OfRows | Scalar | Unsigned | Entry | Loaded | Total
Piece = str | Size | Expression


def expressions(pieces: Iterable[Piece]) -> Iterator[Expression]:
    return (each for each in pieces if not isinstance(each, str | Size))


def bases_of(pieces: Iterable[Piece]) -> frozenset[str]:
    """The arrays that are read, or whose addresses are."""
    return frozenset[str]().union(*(each.bases for each in expressions(pieces)))


def names_of(pieces: Iterable[Piece]) -> frozenset[str]:
    """The variables that are read."""
    return frozenset[str]().union(*(each.names for each in expressions(pieces)))


def text_of(pieces: Iterable[Piece]) -> str:
    return "".join(cpp(each) if isinstance(each, Size) else str(each) for each in pieces)
