"""The loop language: what stands between a program and the text of its C++.

The body of a function is a list of nodes: lines of typed pieces, blocks with a head, loops over elements, and the
memory that they need. Passes fuse loops (chains.py), drop what nothing reads, find lifetimes (memory.py), and prove
that no access leaves its array (bounds.py); a walk prints C++ at the end (`lowered`, `text_lines`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from tfaot_pkg.compiler.elements import Access, Operand, Pointed, Stored, Variable
from tfaot_pkg.compiler.expressions import C_TYPES
from tfaot_pkg.compiler.instructions import (
    Argument,
    Assign,
    Call,
    Declare,
    Form,
    Instruction,
    Leave,
    Remark,
    Return,
    StoreElement,
    Swap,
)
from tfaot_pkg.compiler.pieces import Entry, Piece, Row, text_of
from tfaot_pkg.compiler.program import ONE, Operation, Size, Symbol


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
        name, size = self.counter, self.size
        if self.is_unused:  # not `<`: compilers warn about unsigned numbers compared with a literal 0
            return (f"for ([[maybe_unused]] std::size_t {name} = 0; {name} != ", size, f"; ++{name})")
        return (f"for (std::size_t {name} = 0; {name} < ", size, f"; ++{name})")


@dataclass(frozen=True, slots=True)
class ForBlocks:
    """A loop whose counter begins blocks of `step`, up to the variable `end`."""

    counter: str
    end: str
    step: int

    @property
    def pieces(self) -> tuple[Piece, ...]:
        start = f"for (std::size_t {self.counter} = 0; {self.counter} < "
        return (start, Variable(self.end), f"; {self.counter} += {self.step})")


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

    A loop of the kernel library calls it for lanes, its first parameter, whose elements are `over` one axis or two.
    Others of its parameters are numbers from 0 to a size each (`counts`). It is the value of the variable `name`, or
    what the call makes of it is. One that `is_inlined` is so in any case, and
    one that `is_apart` never: its code exists once.
    """

    call: tuple[Piece, ...] = ()
    parameters: str = "[[maybe_unused]] auto at"
    end: str = ");"
    is_inlined: bool = False
    is_apart: bool = False
    over: tuple[Size, ...] = ()
    counts: tuple[tuple[str, Size], ...] = ()
    name: str = ""
    kind: str = "const auto"

    @property
    def lanes(self) -> str:
        """The name of its first parameter."""
        return self.parameters.partition(",")[0].rpartition(" ")[2]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        inlined = " __attribute__((always_inline))" if self.is_inlined else ""
        apart = " __attribute__((noinline))" if self.is_apart else ""
        named = (f"{self.kind} {self.name} = ",) if self.name else ()
        return (*named, *self.call, f"[&]({self.parameters}){inlined}{apart}")


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
        return text_of((*self.head.pieces, " {")).lstrip()

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
    def names(self) -> frozenset[str]:
        """The variables that it reads, addresses of arrays among them."""

    @property
    def written(self) -> frozenset[str]:
        """The arrays that it writes."""

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

    def put(self, instruction: Instruction) -> None:
        """Add an instruction, which belongs to the operation at hand."""
        self.add(replace(instruction, maker=self.maker))

    def remark(self, text: str) -> None:
        self.add(Remark(remark=text, maker=self.maker))

    def give(self, *value: Piece) -> None:
        """As the value of the function around."""
        self.add(Return(value=value, maker=self.maker))

    def store(self, to: Pointed | Stored | Entry | Row, *value: Piece) -> None:
        self.add(StoreElement(to=to, value=value, maker=self.maker))

    def call(self, function: str, *arguments: Argument) -> None:
        self.add(Call(function=function, arguments=arguments, maker=self.maker))

    def declare(
        self, name: str, *value: Piece, kind: str = "const auto", may_be_unused: bool = False, form: Form = "value"
    ) -> None:
        made = Declare(name=name, kind=kind, value=value, may_be_unused=may_be_unused, form=form, maker=self.maker)
        self.add(made)

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
        head = Lambda(("byTeam(", Variable("team"), ", ", count, ", "), parameters, is_apart=True)
        name = counters[0][0] if len(counters) == 1 else "turn"
        with self.block(head), self.block(ForRange(name)):
            for i, (counter, size) in enumerate(counters if len(counters) > 1 else ()):
                inner = ONE
                for _, each in counters[i + 1 :]:
                    inner = inner * each
                value: list[Piece] = [Variable(name), *((" / ", inner) if inner != ONE else ())]
                value += [" % ", size] if i else []
                self.declare(counter, *value, kind="const std::size_t", may_be_unused=True)
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


def text_lines(nodes: Iterable[Node], depth: int = 1) -> Iterator[str]:
    """The C++ of lowered nodes."""
    indented = "  " * depth
    for node in nodes:
        if isinstance(node, Instruction):
            yield indented + node.text
        elif isinstance(node, Block):
            yield indented + node.first
            yield from text_lines(node.nodes, depth + 1)
            yield indented + node.last
