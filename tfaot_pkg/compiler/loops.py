"""The loop language: what stands between a program and the text of its C++.

The body of a function is a list of nodes: lines of typed pieces, blocks with a head, loops over elements, and the
memory that they need. Passes fuse loops (chains.py), drop what nothing reads, find lifetimes (memory.py), and prove
that no access leaves its array (bounds.py); a walk prints C++ at the end (`lowered`, `lines_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from tfaot_pkg.compiler.affine import address_terms, cpp
from tfaot_pkg.compiler.elements import Access, Operand, Place, Scalar
from tfaot_pkg.compiler.expressions import C_TYPES
from tfaot_pkg.compiler.program import ONE, Operation, Size, Symbol


@dataclass(frozen=True, slots=True)
class Code:
    """C++ of an expression of `operands`, and of what is read from the arrays `others`."""

    text: str
    operands: tuple[Operand, ...] = ()
    others: frozenset[str] = frozenset()

    @property
    def bases(self) -> frozenset[str]:
        return self.others.union(*(each.bases for each in self.operands))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Row:
    """The address of an access, whose first `axes` axes have counters i0, i1 ...; `extents` are those of all axes."""

    access: Access
    axes: int
    extents: tuple[Size, ...]

    @property
    def bases(self) -> frozenset[str]:
        return self.access.bases

    def __str__(self) -> str:
        return " + ".join([self.access.base, *address_terms(self.access.index, self.axes)])


def code_of(operand: Operand) -> Code:
    return Code(operand.text(), (operand,))


Piece = str | Code | Place | Row | Scalar


def bases_of(pieces: Iterable[Piece]) -> frozenset[str]:
    return frozenset[str]().union(*(each.bases for each in pieces if not isinstance(each, str)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of C++; `maker` is the operation that it belongs to."""

    pieces: tuple[Piece, ...]
    maker: Operation | None = None

    @property
    def bases(self) -> frozenset[str]:
        return bases_of(self.pieces)

    @property
    def text(self) -> str:
        return "".join(map(str, self.pieces))


@dataclass(frozen=True, slots=True)
class Written:
    """A place that a call writes."""

    place: Place


@dataclass(frozen=True, slots=True)
class Struct:
    """An argument of several members."""

    members: tuple[Argument, ...]


Argument = Piece | Size | Written | Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a function of the kernel library, of XLA's code or of the author's.

    It reads all places among its arguments, except those that are `Written`.
    """

    function: str
    arguments: tuple[Argument, ...]
    maker: Operation | None = None

    @property
    def reads(self) -> tuple[Place, ...]:
        return tuple(each for each in _members(self.arguments) if isinstance(each, Place))

    @property
    def writes(self) -> tuple[Place, ...]:
        return tuple(each.place for each in _members(self.arguments) if isinstance(each, Written))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        plain = (each.place if isinstance(each, Written) else each for each in _members(self.arguments))
        return tuple(each for each in plain if not isinstance(each, Size))

    @property
    def bases(self) -> frozenset[str]:
        return bases_of(self.pieces)

    @property
    def text(self) -> str:
        return f"{self.function}({_listed(self.arguments)});"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declare:
    """A variable of the C++ type `kind`; without a `value`, each of the branches behind it assigns one."""

    name: str
    kind: str
    value: tuple[Piece, ...]
    may_be_unused: bool = False
    maker: Operation | None = None

    @property
    def can_change(self) -> bool:
        """Of an address, what follows the `*` counts: `const float*` may point elsewhere later."""
        return "const" not in self.kind.rpartition("*")[2]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        unused, value = "[[maybe_unused]] " * self.may_be_unused, (" = ", *self.value) if self.value else ()
        return (f"{unused}{self.kind} {self.name}", *value, ";")

    @property
    def bases(self) -> frozenset[str]:
        return bases_of(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """A new value of a variable."""

    name: str
    value: tuple[Piece, ...]
    maker: Operation | None = None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (f"{self.name} = ", *self.value, ";")

    @property
    def bases(self) -> frozenset[str]:
        return bases_of(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """Two variables exchange their values: the addresses of an array, and of the one that takes its place."""

    one: str
    other: str
    maker: Operation | None = None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (f"std::swap({self.one}, {self.other});",)

    @property
    def bases(self) -> frozenset[str]:
        return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """If `test`, the end of the loop around it (`break`), or of this iteration (`continue`)."""

    test: tuple[Piece, ...]
    way: Literal["break", "continue"]
    maker: Operation | None = None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return ("if (", *self.test, f") {self.way};")

    @property
    def bases(self) -> frozenset[str]:
        return bases_of(self.test)


Instruction = Line | Call | Declare | Assign | Swap | Leave
"""What is one line of C++."""


def _members(arguments: Iterable[Argument]) -> Iterator[Piece | Size | Written]:
    for each in arguments:
        if isinstance(each, Struct):
            yield from _members(each.members)
        else:
            yield each


def _listed(arguments: Iterable[Argument]) -> str:
    return ", ".join(map(_argument, arguments))


def _argument(argument: Argument) -> str:
    match argument:
        case Struct(members=members):
            return f"{{{_listed(members)}}}"
        case Written(place=place):
            return str(place)
        case Size():
            return cpp(argument)
    return str(argument)


@dataclass(frozen=True, slots=True)
class Scope:
    """Names of their own."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class For:
    """A loop that counts from 0 to `size` - 1; its counter may be unused."""

    counter: str
    size: Size
    is_unused: bool = False

    @property
    def pieces(self) -> tuple[Piece, ...]:
        name, size = self.counter, cpp(self.size)
        if self.is_unused:  # not `<`: compilers warn about unsigned numbers compared with a literal 0
            return (f"for ([[maybe_unused]] std::size_t {name} = 0; {name} != {size}; ++{name})",)
        return (f"for (std::size_t {name} = 0; {name} < {size}; ++{name})",)


@dataclass(frozen=True, slots=True)
class ForBlocks:
    """A loop whose counter begins blocks of `step`, up to the variable `end`."""

    counter: str
    end: str
    step: int

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (f"for (std::size_t {self.counter} = 0; {self.counter} < {self.end}; {self.counter} += {self.step})",)


@dataclass(frozen=True, slots=True)
class ForRange:
    """A loop over numbers of `first` to `last`, which a lambda around it gets: some turns of a larger loop."""

    counter: str

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (f"for (std::size_t {self.counter} = first; {self.counter} < last; ++{self.counter})",)


@dataclass(frozen=True, slots=True)
class Forever:
    """A loop that ends by a line within it: each iteration reads what the one before it wrote."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return ("for (;;)",)


@dataclass(frozen=True, slots=True)
class If:
    """A branch by `test`; the other case of the block before it, if it `continues` it."""

    test: tuple[Piece, ...]
    continues: bool = False

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return ("else if (" if self.continues else "if (", *self.test, ")")


@dataclass(frozen=True, slots=True)
class Else:
    """The last case of branches."""

    continues: bool = True

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return ("else",)


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function of some `parameters`, which is the last argument of a `call` or a variable; `end` follows it.

    One that `is_inlined` is so in any case, and one that `is_apart` never: its code exists once.
    """

    call: tuple[Piece, ...]
    parameters: str = "[[maybe_unused]] auto at"
    end: str = ");"
    is_inlined: bool = False
    is_apart: bool = False

    @property
    def pieces(self) -> tuple[Piece, ...]:
        inlined = " __attribute__((always_inline))" if self.is_inlined else ""
        apart = " __attribute__((noinline))" if self.is_apart else ""
        return (*self.call, f"[&]({self.parameters}){inlined}{apart}")


Head = Scope | For | ForRange | ForBlocks | Forever | If | Else | Lambda
"""What a block is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Nodes within braces."""

    head: Head
    nodes: tuple[Node, ...]
    maker: Operation | None = None
    is_at_once: bool = False  # what its nodes use is in use in all of it: they run at the same time

    @property
    def is_repeated(self) -> bool:
        """Whether an iteration may read what the one before it wrote."""
        return isinstance(self.head, ForBlocks | Forever)

    @property
    def continues(self) -> bool:
        """Whether it is another case of the block before it."""
        return isinstance(self.head, If | Else) and self.head.continues

    @property
    def first(self) -> str:
        return "".join(map(str, (*self.head.pieces, " {"))).lstrip()

    @property
    def last(self) -> str:
        return f"}}{self.head.end}" if isinstance(self.head, Lambda) else "}"


@dataclass(frozen=True, slots=True)
class Allocate:
    """From here on, scratch memory is in use."""

    buffer: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Up to the next line, what `base` points to is in use."""

    base: str


@dataclass(frozen=True, slots=True)
class Within:
    """From here on, a variable is from 0 to `size` - 1: the lines before have made sure of it."""

    name: str
    size: Size


@dataclass(frozen=True, slots=True)
class Let:
    """From here on, a variable is a sum of others, each with its factor."""

    name: str
    terms: tuple[tuple[str, Size], ...]


@dataclass(frozen=True, slots=True)
class View:
    """From here on, a variable is the address of elements of an array: all those that its axes reach."""

    name: str
    factors: tuple[Size, ...]
    extents: tuple[Size, ...]


Fact = Within | Let | View
"""What the verifier should know; no C++."""


class Loops(Protocol):
    """A loop nest as one value, which becomes lines and blocks at the end."""

    @property
    def bases(self) -> frozenset[str]:
        """The arrays that it reads or writes."""

    @property
    def reached(self) -> Sequence[tuple[Access, tuple[Size, ...]]]:
        """All accesses, each with the extents of its axes."""

    @property
    def operands(self) -> Iterable[Operand]:
        """Those of all statements, and all results."""

    def lower(self, lines: Lines) -> None: ...


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops, with the operation that they belong to."""

    loops: Loops
    maker: Operation | None


Node = Instruction | Block | Allocate | Keep | Fact | Nest
Lowered = Instruction | Block | Allocate | Keep | Fact


@dataclass(frozen=True, slots=True)
class Buffer:
    """Scratch memory of a value."""

    name: str
    dtype: str
    elements: Size


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which names may be those of the same memory: of the buffers `aliases` of a variable, except names `apart`."""

    aliases: Mapping[str, tuple[str, ...]]
    apart: set[frozenset[str]] = field(default_factory=set)

    def is_possible(self, one: str, other: str) -> bool:
        if one == other or frozenset((one, other)) in self.apart:
            return one == other
        return not set(self.aliases.get(one, (one,))).isdisjoint(self.aliases.get(other, (other,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """The body of a function.

    It reads and writes `arrays`, whose elements are given; `buffers` of them are scratch memory.
    """

    nodes: tuple[Node, ...]
    arrays: Mapping[str, Size]
    buffers: tuple[Buffer, ...]
    sharing: Sharing
    symbols: tuple[Symbol, ...]


_SCOPE = Scope()


class Lines:
    """Builds a list of nodes."""

    def __init__(self) -> None:
        self._open: list[list[Node]] = [[]]
        self._doing: list[Operation] = []

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Those of the outermost list."""
        return tuple(self._open[0])

    @property
    def maker(self) -> Operation | None:
        """The operation to which the next node belongs."""
        return self._doing[-1] if self._doing else None

    @property
    def is_outermost(self) -> bool:
        """Whether the next node belongs to the outermost list."""
        return len(self._open) == 1

    @contextmanager
    def doing(self, operation: Operation | None) -> Iterator[None]:
        """The nodes of the block belong to `operation`, except those of operations that begin within it."""
        if operation is None:
            yield
            return
        self._doing.append(operation)
        yield
        self._doing.pop()

    def add(self, node: Node) -> None:
        self._open[-1].append(node)

    def line(self, *pieces: Piece) -> None:
        self.add(Line(pieces=pieces, maker=self.maker))

    def call(self, function: str, *arguments: Argument) -> None:
        self.add(Call(function=function, arguments=arguments, maker=self.maker))

    def declare(self, name: str, *value: Piece, kind: str = "const auto", may_be_unused: bool = False) -> None:
        self.add(Declare(name=name, kind=kind, value=value, may_be_unused=may_be_unused, maker=self.maker))

    def assign(self, name: str, *value: Piece) -> None:
        self.add(Assign(name=name, value=value, maker=self.maker))

    def swap(self, one: str, other: str) -> None:
        self.add(Swap(one=one, other=other, maker=self.maker))

    def leave(self, way: Literal["break", "continue"], *test: Piece) -> None:
        """If `test`."""
        self.add(Leave(test=test, way=way, maker=self.maker))

    def nest_of(self, loops: Loops) -> None:
        self.add(Nest(loops, self.maker))

    def touch(self, base: str) -> None:
        self.add(Keep(base))

    @contextmanager
    def block(self, head: Head = _SCOPE) -> Iterator[None]:
        maker = self.maker
        self._open.append([])
        yield
        nodes = tuple(self._open.pop())
        self.add(Block(head=head, nodes=nodes, maker=maker))

    @contextmanager
    def counted(self, extents: Sequence[Size], axes: Iterable[int]) -> Iterator[None]:
        """Loops over some axes, as i0, i1 ..."""
        with ExitStack() as stack:
            for axis in axes:
                stack.enter_context(self.block(For(f"i{axis}", extents[axis])))
            yield

    @contextmanager
    def in_parts(self, counters: Sequence[tuple[str, Size]]) -> Iterator[None]:
        """For all values of `counters`, the last one innermost; the threads of a team compute ranges of them.

        Turns must not read what others write. A part of a team has `memory` of its own; it is null without a team.
        """
        count = ONE
        for _, size in counters:
            count = count * size
        parameters = "const std::size_t first, const std::size_t last, [[maybe_unused]] unsigned char* const memory"
        head = Lambda((f"byTeam(team, {cpp(count)}, ",), parameters, is_apart=True)
        name = counters[0][0] if len(counters) == 1 else "turn"
        with self.block(head), self.block(ForRange(name)):
            for i, (counter, size) in enumerate(counters if len(counters) > 1 else ()):
                inner = ONE
                for _, each in counters[i + 1 :]:
                    inner = inner * each
                value = name if inner == ONE else f"{name} / {cpp(inner)}"
                value += f" % {cpp(size)}" if i else ""
                self.declare(counter, value, kind="const std::size_t", may_be_unused=True)
            for counter, size in counters:
                self.add(Within(counter, size))
            yield

    @contextmanager
    def nest(self, extents: Sequence[Size]) -> Iterator[None]:
        """Loops over all axes except the last; a scope of its own if there are none."""
        with self.counted(extents, range(len(extents) - 1)) if len(extents) > 1 else self.block():
            yield

    def address(self, access: Access, *, is_written: bool, extents: tuple[Size, ...] = ()) -> None:
        """Declare the address of an access without the last axis, over which the inner loop runs."""
        const = "" if is_written else "const "
        row = Row(access, len(access.index.factors) - 1, extents)
        self.declare(access.variable, row, kind=f"{const}{C_TYPES[access.dtype]}* const")


def lowered(nodes: Iterable[Node]) -> tuple[Lowered, ...]:
    """The nodes with lines and blocks in place of loops."""
    found: list[Lowered] = []
    for node in nodes:
        if isinstance(node, Nest):
            lines = Lines()
            with lines.doing(node.maker):
                node.loops.lower(lines)
            found += lowered(lines.nodes)
        elif isinstance(node, Block):
            found.append(replace(node, nodes=lowered(node.nodes)))
        else:
            found.append(node)
    return tuple(found)


def lines_side_by_side(nodes: Sequence[Lowered]) -> Block:
    """A block whose turns are `nodes`; threads of a team compute them at the same time."""
    lines = Lines()
    maker = nodes[0].maker if isinstance(nodes[0], Block) else None
    with lines.doing(maker), lines.in_parts([("tower", Size(len(nodes)))]):
        for number, node in enumerate(nodes):
            with lines.block(If((f"tower == {number}",))):
                lines.add(node)
    (block,) = (each for each in lines.nodes if isinstance(each, Block))
    return replace(block, is_at_once=True)


def text_lines(nodes: Iterable[Node], depth: int = 1) -> Iterator[str]:
    """The C++ of lowered nodes."""
    indented = "  " * depth
    for node in nodes:
        if isinstance(node, Call):
            yield indented + node.text
        elif isinstance(node, Instruction):
            yield indented + "".join(map(str, node.pieces))
        elif isinstance(node, Block):
            yield indented + node.first
            yield from text_lines(node.nodes, depth + 1)
            yield indented + node.last
