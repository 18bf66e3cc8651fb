"""Producer-consumer fusion of loops over the same rows that follow one another: chains.

A tile of rows goes through all loops of a chain in registers, such as the mean of each row, the differences from it,
their squares' mean and the quotients of a layer normalization. Each loop alone would write memory that the next one
reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.body import Inner, Lanes
from tfaot_pkg.compiler.each import element
from tfaot_pkg.compiler.elements import (
    Access,
    Element,
    Operand,
    Place,
    Pointed,
    Store,
    Variable,
    depending_on,
    names_in,
)
from tfaot_pkg.compiler.expressions import LONG
from tfaot_pkg.compiler.instructions import Declare, Instruction, StoreLanes, Written
from tfaot_pkg.compiler.loops import Allocate, Block, Fact, Function, Keep, Lambda, Lines, Loops, Nest, Node
from tfaot_pkg.compiler.pieces import Loaded, Piece, bases_of, code_of
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Size
from tfaot_pkg.compiler.rows import LONGEST

_MOST = 16
"""Steps of a chain at most."""
_LONGEST = 64
"""Elements of a row at most: four vectors of AVX-512."""
_MOST_WORK, _LONG = 40, 8
"""Statements of a chain over rows that fill vectors, at most, and how many a function of `LONG` counts for.

A tile has code for each of its vectors.
"""

_SOFTMAX = "softmax("

Aliases = Mapping[str, tuple[str, ...]]
"""The arrays that a variable may point to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A loop over rows. It writes `value` to `target`: elements of rows, or a number for each row.

    `size` is that of the rows that it reads; 0 if it reads numbers only. `call` begins the tile's function. `alone` is
    the loop if it is not part of a chain.
    """

    call: str
    size: int
    inner: Inner
    value: Operand
    target: Access
    alone: Loops

    @property
    def rows(self) -> Size:
        return self.inner.extents[0]

    @property
    def is_reduced(self) -> bool:
        return self.size > 0 and len(self.target.index.factors) == 1

    @property
    def combines(self) -> bool:
        """Whether it computes something of all elements of a row."""
        return self.is_reduced or self.call == _SOFTMAX

    @property
    def work(self) -> int:
        return len(self.inner.statements) + _LONG * len(self.inner.opcodes & LONG)

    @property
    def bases(self) -> frozenset[str]:
        return self.alone.bases

    @property
    def names(self) -> frozenset[str]:
        return self.alone.names

    @property
    def written(self) -> frozenset[str]:
        return self.alone.written

    @property
    def reached(self) -> Sequence[tuple[Access, tuple[Size, ...]]]:
        return self.alone.reached

    @property
    def operands(self) -> Iterable[Operand]:
        return self.alone.operands

    def lower(self, lines: Lines) -> None:
        self.alone.lower(lines)


def step_of(call: str, inner: Inner, value: Operand, target: Access, alone: Loops) -> Step | None:
    """A loop over (rows, elements) or rows alone as a step of a chain, if it can be one.

    The indices of accesses have a factor for each of these axes; so has that of `target`, without the second one for
    numbers.
    """
    extents = inner.extents
    size = extents[1].constant if len(extents) == 2 and extents[1].is_constant else 0
    if len(extents) > 2 or (len(extents) == 2 and not 1 < size <= _LONGEST) or not inner.by_words or inner.counted:
        return None
    types = {access.dtype for access in (*inner.accesses, target)} | inner.types
    if not types <= {"f32", "pred"} or (target.dtype == "pred" and size):
        return None
    rows = {(Size(size), ONE), (ZERO, ONE), (ONE, ZERO), (ZERO, ZERO)} if size else {(ONE,), (ZERO,)}
    written = (Size(size), ONE) if len(target.index.factors) == 2 else (ONE,)
    if target.index.factors != written or any(access.index.factors not in rows for access in inner.accesses):
        return None
    return Step(call=call, size=size, inner=inner, value=value, target=target, alone=alone)


def linked(inner: Inner, stores: Sequence[Store], alone: Loops) -> Loops:
    """A loop over rows and their elements, or over rows: as a step if it can be one."""
    if len(stores) != 1:
        return alone
    call = "each(" if len(inner.extents) == 2 else "numbers("
    return step_of(call, inner, stores[0].result, stores[0].access, alone) or alone


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxOfRows:
    """A call of the kernel library."""

    rows: Size
    size: int
    source: Access
    target: Access

    @property
    def bases(self) -> frozenset[str]:
        return self.source.bases | self.target.bases

    @property
    def names(self) -> frozenset[str]:
        return self.source.names | self.target.names

    @property
    def written(self) -> frozenset[str]:
        return frozenset([self.target.base])

    @property
    def reached(self) -> list[tuple[Access, tuple[Size, ...]]]:
        return [(access, (self.rows, Size(self.size))) for access in (self.source, self.target)]

    @property
    def operands(self) -> Iterable[Operand]:
        return ()

    def lower(self, lines: Lines) -> None:
        many = "" if self.rows != Size(0, 1) else ", false"  # one per row of the batch, as at the end of a classifier
        elements = self.rows * Size(self.size)
        source, target = (Place(access.base, elements=elements) for access in (self.source, self.target))
        lines.call(f"softmax<{self.size}{many}>", self.rows, source, Written(target))
        lines.touch(self.target.base)


def softmax_of_rows(rows: Size, size: int, source: str, target: str) -> SoftmaxOfRows:
    index = Index(ZERO, (Size(size), ONE))
    read, written = (Access(name, base, "f32", index) for name, base in (("p0", source), ("o0", target)))
    return SoftmaxOfRows(rows=rows, size=size, source=read, target=written)


def softmax_step(softmax: SoftmaxOfRows) -> Loops:
    """A softmax as a step, if it can be one."""
    inner = Inner(
        extents=(softmax.rows, Size(softmax.size)), accesses=(softmax.source,), counted=(), statements=(),
        types=frozenset(), opcodes=frozenset(["exponential"]), lanes=Lanes.WORDS,
    )  # fmt: skip
    return step_of(_SOFTMAX, inner, Element(softmax.source.element), softmax.target, softmax) or softmax


def _have_truth(accesses: Iterable[Access]) -> bool:
    """Whether truth values are read from memory: chains have those of rows in registers only."""
    return any(access.dtype == "pred" for access in accesses)


def _maker_of(access: Access, steps: Sequence[Step]) -> int | None:
    """The step that wrote exactly what is read."""
    for number, step in enumerate(steps):
        factors = step.target.index.factors
        # A number of each row is the same for all of its elements.
        seen = (*factors, ZERO) if len(factors) < len(access.index.factors) else factors
        if step.target.base == access.base and replace(step.target.index, factors=seen) == access.index:
            return number
    return None


def takes(steps: Sequence[Step], step: Step, aliases: Aliases) -> bool:
    """Whether a loop may follow others: it reads what they wrote row by row, and writes nothing that they use."""
    if not steps:
        return bool(step.size) and not _have_truth(step.inner.accesses)
    first = steps[0]
    if step.rows != first.rows or step.size not in (0, first.size) or len(steps) == _MOST:
        return False
    if first.size > LONGEST and sum(each.work for each in steps) + step.work > _MOST_WORK:
        return False

    def names(accesses: Iterable[Access]) -> set[str]:
        return {name for access in accesses for name in aliases.get(access.base, (access.base,))}

    made = [each.target for each in steps]
    read = [access for each in steps for access in each.inner.accesses]
    if names([step.target]) & names([*made, *read]):
        return False
    others = [access for access in step.inner.accesses if _maker_of(access, steps) is None]
    is_apart = not names(others) & names(made)
    return len(others) < len(step.inner.accesses) and is_apart and not _have_truth(others)


def _pays(steps: Sequence[Step]) -> bool:
    """Whether one of several steps is a reduction; if rows fill vectors, elements must stay in registers, too."""
    if len(steps) == 1 or not any(step.combines for step in steps):
        return False
    # Numbers alone are better computed of all rows at once: the variance of 33 numbers took 1.13 times as long.
    return steps[0].size <= LONGEST or any(step.size and not step.is_reduced for step in steps[:-1])


def fused(function: Function) -> Function:
    """The function with chains in place of loops that follow one another."""
    return replace(function, nodes=_fused(function.nodes, function.sharing.aliases))


def _fused(nodes: Iterable[Node], aliases: Aliases) -> tuple[Node, ...]:
    made: list[Node] = []
    waiting: list[tuple[Step, Operation | None]] = []
    kept: list[Keep] = []  # what is in use since the last loop that waits

    def flush() -> None:
        steps = [step for step, _ in waiting]
        if _pays(steps):
            made.append(Nest(Chain(steps=tuple(steps)), waiting[0][1]))
            made.extend(Keep(access.base) for step in steps for access in (*step.inner.accesses, step.target))
        else:
            made.extend(Nest(step, maker) for step, maker in waiting)
        made.extend(kept)
        waiting.clear()
        kept.clear()

    for node in nodes:
        if isinstance(node, Allocate | Keep | Fact):
            made.append(node)
            if isinstance(node, Keep) and waiting:
                kept.append(node)
            continue
        if isinstance(node, Nest) and isinstance(node.loops, Step):
            if not takes([step for step, _ in waiting], node.loops, aliases):
                flush()
            if takes([step for step, _ in waiting], node.loops, aliases):
                waiting.append((node.loops, node.maker))
                kept.clear()
                continue
        flush()
        made.append(replace(node, nodes=_fused(node.nodes, aliases)) if isinstance(node, Block) else node)
    flush()
    return tuple(made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Steps in one loop over tiles of rows. What it makes for the targets `dead` stays in registers."""

    steps: tuple[Step, ...]
    dead: frozenset[str] = frozenset()

    @property
    def read(self) -> frozenset[str]:
        """The arrays that it reads."""
        # Statements have numbers that are read from memory.
        return frozenset[str]().union(
            *(each.bases for each in self.operands), *(access.bases for _, access in self._read())
        )

    @property
    def names(self) -> frozenset[str]:
        every = (*self.operands, *(access for access, _ in self.reached))
        return frozenset[str]().union(*(each.names for each in every))

    @property
    def written(self) -> frozenset[str]:
        return frozenset(step.target.base for step in self.steps) - self.dead

    @property
    def bases(self) -> frozenset[str]:
        return self.read | self.written

    @property
    def reached(self) -> list[tuple[Access, tuple[Size, ...]]]:
        found = [(access, self.steps[number].inner.extents) for number, access in self._read()]
        for step in self.steps:
            if step.target.base not in self.dead:
                found.append((step.target, step.inner.extents[: len(step.target.index.factors)]))
        return found

    @property
    def operands(self) -> Iterable[Operand]:
        return [operand for step in self.steps for operand in (*step.inner.operands, step.value)]

    def _read(self) -> list[tuple[int, Access]]:
        """The accesses that read memory, with the numbers of their steps."""
        every = [(number, access) for number, step in enumerate(self.steps) for access in step.inner.accesses]
        return [(number, access) for number, access in every if _maker_of(access, self.steps) is None]

    def lower(self, lines: Lines) -> None:
        first = self.steps[0]
        with lines.block():
            for number, step in enumerate(self.steps):
                for access in step.inner.accesses:
                    if _maker_of(access, self.steps) is None:
                        _address(lines, access, f"{access.variable}_{number}", is_written=False)
                if step.target.base not in self.dead:
                    _address(lines, step.target, f"to_{number}", is_written=True)
            each = "eachTile" if first.size <= LONGEST else "eachLongTile"
            call, rows = f"{each}<{first.size}>(", (first.rows, Size(first.size))
            with lines.block(Lambda((call, first.rows, ", "), "const auto tile", is_inlined=True, over=rows)):
                for number, step in enumerate(self.steps):
                    self._lower_step(lines, number, step)

    def _lower_step(self, lines: Lines, number: int, step: Step) -> None:
        once = dict[str, str]()
        if step.size:
            # What depends on numbers alone is computed before, of all rows of a tile at once.
            statements, accesses = step.inner.statements, step.inner.accesses
            varied = depending_on(statements, (each for each in accesses if each.index.factors[-1] != ZERO))
            read = names_in([step.value]).union(*(each.reads for each in statements if each.name in varied))
            for name in (each.name for each in statements if each.name in read - varied):
                once[name] = f"made_{number}_{name}"
                self._lower_made(lines, once[name], "numbers(", number, Element(name))
        self._lower_made(lines, f"made_{number}", step.call, number, step.value, once)
        if step.target.base not in self.dead:
            to, made = Place(f"to_{number}"), Variable(f"made_{number}")
            steps = (*step.target.index.factors, ZERO)[:2]  # a number for each row, or its elements
            lines.put(StoreLanes(to=to, value=(made,), steps=steps, by="tile", contiguous=True))

    def _lower_made(
        self, lines: Lines, made: str, call: str, number: int, value: Operand,
        known: Mapping[str, str] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """What a step computes for `value`, as `made`; the numbers `known` are computed already."""
        step, needed, computed = self.steps[number], names_in([value]), list[Declare]()
        for each in reversed(step.inner.statements):
            if each.name in needed and each.name in known:
                computed.insert(0, element(each.name, "at.load(", Variable(known[each.name]), ")"))
            elif each.name in needed:
                computed.insert(0, step.inner.declared(each))
                needed |= each.reads
        read, of_numbers = {access.element: access for access in step.inner.accesses}, call == "numbers("
        over = (step.rows,) if of_numbers else (step.rows, Size(self.steps[0].size))
        with lines.block(Lambda((Variable("tile"), f".{call}"), over=over, name=made)):
            for name in (name for name in read if name in needed):
                lines.put(element(name, *self._loaded(number, read[name], of_numbers=of_numbers)))
            for instruction in computed:
                lines.put(instruction)
            lines.give(code_of(value))

    def _loaded(self, number: int, access: Access, *, of_numbers: bool) -> tuple[Piece, ...]:
        made, name = _maker_of(access, self.steps), f"{access.variable}_{number}"
        if made is not None:
            own = Variable(f"made_{made}")
            return (own,) if of_numbers else ("at.load(", own, ")")
        if set(access.index.factors) == {ZERO}:
            return ("filled(", Pointed(name), ")")
        return (Loaded(Place(name), access.index.factors[:1] if of_numbers else access.index.factors),)


def _address(lines: Lines, access: Access, variable: str, *, is_written: bool) -> None:
    start = replace(access.index, factors=tuple(ZERO for _ in access.index.factors))
    lines.address(replace(access, variable=variable, index=start), is_written=is_written)


def without_dead_stores(function: Function) -> Function:
    """The function without what chains would write to scratch memory that nothing reads."""
    nodes, scratch = function.nodes, {buffer.name for buffer in function.buffers}
    made, needed = set[str](), set[str]()
    for node in _walked(nodes):
        if isinstance(node, Nest) and isinstance(node.loops, Chain):
            needed |= node.loops.read
            made |= {step.target.base for step in node.loops.steps if step.target.base in scratch}
        elif isinstance(node, Nest):
            needed |= node.loops.bases
        elif isinstance(node, Instruction):
            needed |= node.bases
        elif isinstance(node, Block):
            needed |= bases_of(node.head.pieces)
    dead = frozenset(made - needed)
    buffers = tuple(buffer for buffer in function.buffers if buffer.name not in dead)
    arrays = {name: elements for name, elements in function.arrays.items() if name not in dead}
    return replace(function, nodes=_without(nodes, dead), arrays=arrays, buffers=buffers)


def _without(nodes: Iterable[Node], dead: frozenset[str]) -> tuple[Node, ...]:
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Block):
            found.append(replace(node, nodes=_without(node.nodes, dead)))
        elif isinstance(node, Nest) and isinstance(node.loops, Chain):
            found.append(replace(node, loops=replace(node.loops, dead=dead)))
        elif not (isinstance(node, Allocate) and node.buffer in dead):
            found.append(node)
    return tuple(found)


def _walked(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Block):
            yield from _walked(node.nodes)
