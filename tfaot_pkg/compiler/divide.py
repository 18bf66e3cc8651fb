"""Loops that the threads of a team compute together: ranges of their outermost counters (decision 091)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.chains import SoftmaxOfRows, Step
from tfaot_pkg.compiler.each import EachLoop
from tfaot_pkg.compiler.elements import Access, Counted, Operand, Place
from tfaot_pkg.compiler.expressions import LONG
from tfaot_pkg.compiler.instructions import Written
from tfaot_pkg.compiler.loops import Block, For, Function, Lines, Loops, Nest, Node, Sharing
from tfaot_pkg.compiler.polynomials import is_never_negative
from tfaot_pkg.compiler.program import ONE, Size, Symbol
from tfaot_pkg.compiler.reduction_loops import Reduction

_ACCESS, _STATEMENT, _FUNCTION = 4, 1, 16
"""What an element of a loop costs, in multiply-adds of a layer that take as long (benchmarks/threads.py)."""
_PARTS = 8
"""The least parts of a row of a batch: with fewer, a thread that is held up would hold up the others."""
_SHORTEST = 1024
"""The least elements of a part of a loop along one axis."""
_VECTOR = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class InParts:
    """`loops`, whose `depth` outermost counters become one, of which each thread of a team computes ranges."""

    loops: Loops
    depth: int

    @property
    def bases(self) -> frozenset[str]:
        return self.loops.bases

    @property
    def names(self) -> frozenset[str]:
        return self.loops.names

    @property
    def written(self) -> frozenset[str]:
        return self.loops.written

    @property
    def reached(self) -> Sequence[tuple[Access, tuple[Size, ...]]]:
        return self.loops.reached

    @property
    def operands(self) -> Iterable[Operand]:
        return self.loops.operands

    def lower(self, lines: Lines) -> None:
        inner = Lines()
        with inner.doing(lines.maker):
            self.loops.lower(inner)
        counters, nodes = _outermost(inner.nodes, self.depth)
        with lines.in_parts(counters):
            for node in nodes:
                lines.add(node)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SoftmaxByRows:
    """A softmax, some rows at a time."""

    softmax: SoftmaxOfRows
    parts: Size
    rows: int

    @property
    def bases(self) -> frozenset[str]:
        return self.softmax.bases

    @property
    def names(self) -> frozenset[str]:
        return self.softmax.names

    @property
    def written(self) -> frozenset[str]:
        return self.softmax.written

    @property
    def reached(self) -> Sequence[tuple[Access, tuple[Size, ...]]]:
        return self.softmax.reached

    @property
    def operands(self) -> Iterable[Operand]:
        return ()

    def lower(self, lines: Lines) -> None:
        softmax, elements = self.softmax, Size(self.rows * self.softmax.size)
        source, target = (
            Place(access.base, (("i0", elements),), elements) for access in (softmax.source, softmax.target)
        )
        with lines.counted((self.parts,), (0,)):
            lines.call(f"softmax<{softmax.size}>", Size(self.rows), source, Written(target))


def divided(function: Function, least: int) -> Function:
    """The function with loops that take as long as `least` multiply-adds for a row, or longer, in parts."""
    return replace(function, nodes=tuple(_in_parts(node, function, least) for node in function.nodes))


def are_in_parts(function: Function) -> bool:
    """Whether any loop is."""
    return any(isinstance(node, Nest) and isinstance(node.loops, InParts) for node in function.nodes)


def _in_parts(node: Node, function: Function, least: int) -> Node:
    if not isinstance(node, Nest):
        return node
    loops = node.loops.alone if isinstance(node.loops, Step) else node.loops
    if _work(loops, function.symbols) < least:
        return node
    if isinstance(loops, SoftmaxOfRows):
        parts = _number_of_parts(loops.rows, 1)
        if parts is None or function.sharing.is_possible(loops.source.base, loops.target.base):
            return node
        by_rows = _SoftmaxByRows(softmax=loops, parts=parts[0], rows=parts[1])
        return replace(node, loops=InParts(loops=by_rows, depth=1))
    if isinstance(loops, EachLoop) and len(loops.inner.extents) == 1:
        loops = _split(loops)
    depth = _depth(loops, function)
    return replace(node, loops=InParts(loops=loops, depth=depth)) if depth else node


def _work(loops: Loops, symbols: Sequence[Symbol]) -> int:
    """What a row of a batch costs, in multiply-adds."""
    if isinstance(loops, SoftmaxOfRows):
        return loops.rows.most(1, symbols) * loops.size * (2 * _ACCESS + _FUNCTION)
    if not isinstance(loops, EachLoop | Reduction):
        return 0
    inner = loops.inner
    accesses = len(inner.accesses) + (len(loops.stores) if isinstance(loops, EachLoop) else 0)
    statements = len(inner.statements) * _STATEMENT + len(inner.opcodes & LONG) * _FUNCTION
    elements = math.prod(size.most(1, symbols) for size in inner.extents)
    return elements * (accesses * _ACCESS + statements)


def _number_of_parts(size: Size, shortest: int) -> tuple[Size, int] | None:
    """How many parts `size` has, of an equal number of elements each; None if there are too few."""
    if len(size.terms) != 1:
        return None
    ((monomial, factor),) = size.terms
    for parts in range(_PARTS, factor // shortest + 1):
        if factor % parts == 0 and (factor % _VECTOR or factor // parts % _VECTOR == 0 or shortest == 1):
            return Size.of([(monomial, parts)]), factor // parts
    return None


def _split(loop: EachLoop) -> EachLoop:
    """A loop along one axis as one along two."""
    inner, found = loop.inner, _number_of_parts(loop.inner.extents[0], _SHORTEST)
    if found is None:
        return loop
    parts, size = found

    def of_parts(index: Index) -> Index:
        (factor,) = index.factors
        return replace(index, factors=(factor * Size(size), factor))

    def access(each: Access) -> Access:
        return replace(each, index=of_parts(each.index))

    return replace(
        loop,
        inner=replace(
            inner, extents=(parts, Size(size)), accesses=tuple(map(access, inner.accesses)),
            counted=tuple(Counted(each.name, of_parts(each.index)) for each in inner.counted),
        ),
        stores=tuple(replace(store, access=access(store.access)) for store in loop.stores),
    )  # fmt: skip


def _depth(loops: Loops, function: Function) -> int:
    """How many outermost counters make enough parts; 0 if there are too few, or parts would depend on one another."""
    inner = Lines()
    loops.lower(inner)
    counters, _ = _outermost(inner.nodes, None)
    count = 1
    for depth, (_, size) in enumerate(counters, 1):
        count *= size.most(1, function.symbols)
        if count >= _PARTS:
            return depth if _are_independent(loops, depth, function) else 0
    return 0


def _outermost(nodes: Sequence[Node], depth: int | None) -> tuple[list[tuple[str, Size]], Sequence[Node]]:
    """The counters of loops each of which holds nothing but the next one, at most `depth`, and what they hold."""
    counters: list[tuple[str, Size]] = []
    while len(counters) != depth and len(nodes) == 1:
        (block,) = nodes
        if not isinstance(block, Block) or not isinstance(block.head, For):
            break
        counters.append((block.head.counter, block.head.size))
        nodes = block.nodes
    return counters, nodes


def _are_independent(loops: Loops, depth: int, function: Function) -> bool:
    """Whether no turn of the `depth` outermost loops reads or writes what another one writes."""
    if isinstance(loops, EachLoop):
        extents, read = loops.inner.extents, list(loops.inner.accesses)
        written = [store.access for store in loops.stores]
    elif isinstance(loops, Reduction) and loops.is_by_rows:
        axes, read = loops.axes, list(loops.inner.accesses)
        extents = axes.extents
        written = [replace(loops.target, index=axes.index(loops.target.index))]
    else:
        return False
    others = loops.bases - {each.base for each in (*read, *written)}
    sharing: Sharing = function.sharing
    for number, each in enumerate(written):
        beside = [*(other.base for other in written[:number]), *others]
        beside += [other.base for other in read if isinstance(loops, Reduction) or other.index != each.index]
        if any(sharing.is_possible(each.base, other) for other in beside):
            return False
        if not _is_apart(each.index, extents, depth, function.symbols):
            return False
    return True


def _is_apart(index: Index, extents: Sequence[Size], depth: int, symbols: Sequence[Symbol]) -> bool:
    """Whether elements at different values of the first `depth` counters are different ones."""
    reach = ONE
    for axis in reversed(range(len(extents))):
        factor = index.factors[axis]
        if not is_never_negative(factor, symbols):
            return False
        if axis < depth and not is_never_negative(factor + reach * Size(-1), symbols):
            return False
        reach = reach + (extents[axis] + Size(-1)) * factor
    return True
