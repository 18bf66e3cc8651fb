"""Instructions of the loop language: each is a line of C++, and says which variables it reads and which it changes.

`names` are the variables that it reads, addresses of arrays among them; `bases` are the arrays that it uses;
`changes` are variables with new values, and the addresses of arrays that it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tfaot_pkg.compiler.elements import Place, Pointed, Stored, Variable
from tfaot_pkg.compiler.pieces import Entry, OfRows, Piece, Row, Total, apart, bases_of, names_of, text_of
from tfaot_pkg.compiler.program import ONE, Operation, Size

_NONE = frozenset[str]()
_TOTAL = Total()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """`maker` is the operation that it belongs to."""

    maker: Operation | None = None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        raise NotImplementedError

    @property
    def bases(self) -> frozenset[str]:
        return bases_of(self.pieces)

    @property
    def names(self) -> frozenset[str]:
        return names_of(self.pieces)

    @property
    def changes(self) -> frozenset[str]:
        return _NONE

    @property
    def text(self) -> str:
        return text_of(self.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark(_Line):
    """What computes nothing: a comment, the start of a step in a trace, or what C++ should check."""

    remark: str

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (self.remark,)


@dataclass(frozen=True, slots=True)
class Written:
    """A place that a call writes."""

    place: Place


@dataclass(frozen=True, slots=True)
class Struct:
    """An argument of several members."""

    members: tuple[Argument, ...]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return ("{", *_listed(self.members), "}")


Argument = Piece | Written | Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(_Line):
    """A call of a function of the kernel library, of XLA's code or of the author's.

    It reads all places among its arguments, except those that are `Written`.
    """

    function: str
    arguments: tuple[Argument, ...]

    @property
    def reads(self) -> tuple[Place, ...]:
        return tuple(each for each in _members(self.arguments) if isinstance(each, Place))

    @property
    def writes(self) -> tuple[Place, ...]:
        return tuple(each.place for each in _members(self.arguments) if isinstance(each, Written))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (f"{self.function}(", *_listed(self.arguments), ");")

    @property
    def changes(self) -> frozenset[str]:
        return frozenset(place.base for place in self.writes)


Form = Literal["value", "constructed", "array", "lanes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declare(_Line):
    """A variable of the C++ type `kind`; without a `value`, each of the branches behind it assigns one.

    By its `form` it is what `value` is, what a constructor makes of it, an array of values, or one of a value for each
    of several lanes.
    """

    name: str
    kind: str
    value: tuple[Piece, ...]
    may_be_unused: bool = False
    form: Form = "value"

    @property
    def can_change(self) -> bool:
        """Of an address, what follows the `*` counts: `const float*` may point elsewhere later."""
        return "const" not in self.kind.rpartition("*")[2]

    @property
    def address(self) -> Place | Row | OfRows | None:
        """The place that it is the address of."""
        (value,) = self.value if len(self.value) == 1 else (None,)
        return value if self.form == "value" and "*" in self.kind and isinstance(value, Place | Row | OfRows) else None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        start: Piece = f"{'[[maybe_unused]] ' * self.may_be_unused}{self.kind} {self.name}"
        if not self.value:
            return (start, ";")
        match self.form:
            case "value":
                return (start, " = ", *self.value, ";")
            case "constructed":
                return (start, "(", *self.value, ");")
            case "array":
                return (start, "[] = {", *_listed(self.value), "};")
            case "lanes":
                return (start, "[] = {", *self.value, "...};")

    @property
    def changes(self) -> frozenset[str]:
        """With it, all that may be written through it."""
        is_written = "*" in self.kind and not self.kind.startswith("const ")
        return frozenset([self.name]) | (bases_of(self.value) if is_written else _NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign(_Line):
    """A new value of a variable."""

    name: str
    value: tuple[Piece, ...]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (f"{self.name} = ", *self.value, ";")

    @property
    def changes(self) -> frozenset[str]:
        return frozenset([self.name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap(_Line):
    """Two variables exchange their values: the addresses of an array, and of the one that takes its place."""

    one: str
    other: str

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return ("std::swap(", Variable(self.one), ", ", Variable(self.other), ");")

    @property
    def changes(self) -> frozenset[str]:
        return frozenset((self.one, self.other))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(_Line):
    """If `test`, the end of the loop around it (`break`), or of this iteration (`continue`)."""

    test: tuple[Piece, ...]
    way: Literal["break", "continue"]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return ("if (", *self.test, f") {self.way};")


@dataclass(frozen=True, slots=True, kw_only=True)
class Return(_Line):
    """The value of the function around it."""

    value: tuple[Piece, ...]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return ("return ", *self.value, ";")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreElement(_Line):
    """A new value of an element of an array."""

    to: Pointed | Stored | Entry | Row
    value: tuple[Piece, ...]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        to: tuple[Piece, ...] = ("*(", self.to, ")") if isinstance(self.to, Row) else (self.to,)
        return (*to, " = ", *self.value, ";")

    @property
    def changes(self) -> frozenset[str]:
        return frozenset([self.to.place.base if isinstance(self.to, Stored) else _base(self.to)])


def _base(to: Pointed | Entry | Row) -> str:
    return to.access.base if isinstance(to, Row) else to.base


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLanes(_Line):
    """New values of the elements of the lanes `by` of a loop, as `Loaded`; of all of several lanes, if `folded`."""

    to: Place
    value: tuple[Piece, ...]
    steps: tuple[Size, ...] = (ONE,)
    by: str = "at"
    folded: bool = False
    contiguous: bool = False  # rows follow one another without gaps

    @property
    def pieces(self) -> tuple[Piece, ...]:
        steps: tuple[Piece, ...] = () if self.contiguous else apart(self.steps)
        stored = (Variable(self.by), ".store(", self.to, ", ", *self.value, *steps, ")")
        return ("(", *stored, ", ...);") if self.folded else (*stored, ";")

    @property
    def changes(self) -> frozenset[str]:
        return self.to.bases


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulate(_Line):
    """A new value of the running total of the lanes at hand; of all of several lanes, one after the other, if `folded`.

    Those that are not folded are `Advance`d alone.
    """

    value: tuple[Piece, ...]
    total: Total = _TOTAL
    folded: bool = True

    @property
    def pieces(self) -> tuple[Piece, ...]:
        made = (self.total, " = ", *self.value)
        return ("((", *made, ", ++", Variable(self.total.name), "), ...);") if self.folded else (*made, ";")

    @property
    def changes(self) -> frozenset[str]:
        return self.total.names


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance(_Line):
    """On to the running total of the next lanes."""

    total: Total

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return ("++", Variable(self.total.name), ";")

    @property
    def changes(self) -> frozenset[str]:
        return self.total.names


@dataclass(frozen=True, slots=True, kw_only=True)
class ForAllLanes(_Line):
    """Calls of the `function` that stands before it, for each of several lanes `by`."""

    function: str
    by: str

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return ("(", Variable(self.function), "(", Variable(self.by), "), ...);")


Instruction = (
    Remark
    | Call
    | Declare
    | Assign
    | Swap
    | Leave
    | Return
    | StoreElement
    | StoreLanes
    | Accumulate
    | Advance
    | ForAllLanes
)
"""What is one line of C++."""


def _members(arguments: Iterable[Argument]) -> Iterator[Piece | Written]:
    for each in arguments:
        if isinstance(each, Struct):
            yield from _members(each.members)
        else:
            yield each


def _listed(arguments: Iterable[Argument]) -> Iterator[Piece]:
    """The arguments with commas between them."""
    for number, argument in enumerate(arguments):
        if number:
            yield ", "
        match argument:
            case Struct():
                yield from argument.pieces
            case Written(place=place):
                yield place
            case _:
                yield argument
