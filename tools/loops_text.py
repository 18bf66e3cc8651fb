"""The loops of a function as text, for readers and tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.body import Inner, Lanes
from tfaot_pkg.compiler.chains import Chain, SoftmaxOfRows, Step
from tfaot_pkg.compiler.each import EachLoop, once_in
from tfaot_pkg.compiler.elements import Access, Element, Operand, Place, Statement
from tfaot_pkg.compiler.emit import LOOP_PASSES, loops_of
from tfaot_pkg.compiler.instructions import (
    Accumulate,
    Advance,
    Assign,
    Call,
    Declare,
    ForAllLanes,
    Instruction,
    Leave,
    Remark,
    Return,
    StoreElement,
    StoreLanes,
    Swap,
)
from tfaot_pkg.compiler.loops import Allocate, Block, Function, Loops, Nest, Node, lowered
from tfaot_pkg.compiler.memory import lifetimes
from tfaot_pkg.compiler.pieces import text_of
from tfaot_pkg.compiler.program import ONE, ZERO, Program, Size
from tfaot_pkg.compiler.reduction_loops import Reduction, ReductionOfFew, ReductionOfShortRows
from tfaot_pkg.compiler.rows import RowsLoop
from tfaot_pkg.compiler.tiles import TiledLoop

_WAYS = {"eachOfRows": "rows in vectors", "eachWithTails": "vectors, and rows in vectors for the rest"}
_LANES = {ReductionOfFew: "with a row in each lane", ReductionOfShortRows: "with rows in vectors"}
_NAMES = {"each(": "elements", "numbers(": "numbers", "softmax(": "softmax"}
_FORMS = {"value": "", "constructed": "", "array": "[]", "lanes": " for each of the lanes"}
_LANES_OF = {
    Lanes.ALONE: "elements", Lanes.TRUTH: "bytes", Lanes.WORDS: "vectors", Lanes.WIDE: "vectors of 64 bits",
}  # fmt: skip


def text_of_loops(function: Function) -> str:
    """Its loops, heads of blocks in C++ behind `|`, and its scratch memory with the lines it lives from and up to."""
    alive = lifetimes(lowered(function.nodes), function.sharing.aliases)
    memory = [
        f"{each.name}: {each.dtype}[{each.elements}], lines {alive[each.name].first} to {alive[each.name].last}"
        for each in function.buffers
    ]
    return "".join(f"{line}\n" for line in (*_nodes(function.nodes), *memory))


def text_of_loop_pass(program: Program, name: str) -> str:
    """The loops before the pass `name` of LOOP_PASSES and after it. Raises Unsupported."""
    before = dict(takewhile(lambda each: each[0] != name, LOOP_PASSES.items()))
    one, other = (text_of_loops(loops_of(program, passes)) for passes in (before, before | {name: LOOP_PASSES[name]}))
    return f"{one}-> {name}\n{other}"


def _nodes(nodes: Iterable[Node], depth: int = 0) -> Iterator[str]:
    space = "  " * depth
    for node in nodes:
        if isinstance(node, Allocate):
            yield f"{space}allocate {node.buffer}"
        elif isinstance(node, Instruction):
            yield f"{space}{_instruction(node)}"
        elif isinstance(node, Block):
            yield f"{space}| {node.first}"
            yield from _nodes(node.nodes, depth + 1)
            yield f"{space}| {node.last}"
        elif isinstance(node, Nest):
            yield from (f"{space}{line}" for line in _loops(node.loops))


def _instruction(node: Instruction) -> str:
    match node:
        case Remark():
            return f"| {node.text}"
        case Call():
            return f"call {node.function}: {_places(node.reads)} -> {_places(node.writes)}"
        case Leave():
            return f"{node.way} if {text_of(node.test)}"
        case Return():
            return f"give {text_of(node.value)}"
        case StoreElement():
            return f"store {node.to} = {text_of(node.value)}"
        case StoreLanes():
            by = ", ".join(map(str, node.steps))
            return f"store {node.to}, lanes {node.by} by {by} = {text_of(node.value)}"
        case ForAllLanes():
            return f"{node.function} of all lanes {node.by}"
    return _of_variables(node)


def _of_variables(node: Declare | Assign | Swap | Accumulate | Advance) -> str:
    match node:
        case Declare():
            value = f" = {text_of(node.value)}" if node.value else ""
            return f"{node.name}: {node.kind}{_FORMS[node.form]}{value}"
        case Assign():
            return f"{node.name} = {text_of(node.value)}"
        case Swap():
            return f"swap {node.one}, {node.other}"
        case Accumulate():
            return f"total = {text_of(node.value)}"
        case Advance():
            return "next total"


def _loops(loops: Loops) -> Iterator[str]:
    match loops:
        case Step():
            yield from _loops(loops.alone)
        case Chain():
            yield f"chain over [{loops.steps[0].rows}]"
            for step in loops.steps:
                yield f"  {_NAMES.get(step.call, 'reduce')} [{_joined(step.inner.extents)}]"
                yield from (f"    {line}" for line in _inner(step.inner))
                kept = "registers, as " if step.target.base in loops.dead else ""
                yield f"    {kept}{_access(step.target)} = {_made(step)}"
        case SoftmaxOfRows():
            yield f"softmax [{loops.rows}, {loops.size}]"
            yield f"  {_access(loops.target)} = softmax {_access(loops.source)}"
        case Reduction():
            way = _LANES.get(type(loops)) or ("along rows" if loops.is_by_rows else "along columns")
            yield f"reduce [{_joined(loops.inner.extents)}] {way}, from axis {loops.kept} on"
            yield from (f"  {line}" for line in _inner(loops.inner))
            yield f"  {_access(loops.target)} = {_combined(loops)}"
        case EachLoop() | RowsLoop() | TiledLoop():
            yield f"loop [{_joined(loops.inner.extents)}] by {_way(loops)}"
            once = once_in(loops.inner) if isinstance(loops, EachLoop) else []
            yield from (f"  {line}" for line in _inner(loops.inner, once))
            yield from (f"  {_access(store.access)} = {_operand(store.result)}" for store in loops.stores)


def _made(step: Step) -> str:
    if isinstance(step.alone, Reduction):
        return _combined(step.alone)
    return f"softmax {_operand(step.value)}" if isinstance(step.alone, SoftmaxOfRows) else _operand(step.value)


def _combined(reduction: Reduction) -> str:
    return f"{reduction.combine} from {reduction.start}: {_operand(reduction.value)}"


def _way(loop: EachLoop | RowsLoop | TiledLoop) -> str:
    if isinstance(loop, RowsLoop):
        return _WAYS[loop.each]
    if isinstance(loop, TiledLoop):
        kind = "interleaved" if loop.tile.is_interleaved else "transposed"
        return f"{kind} tiles of axis {loop.tile.column} and the last one"
    inner = loop.inner
    way = _LANES_OF[inner.lanes]
    return f"{way} that overlap" if inner.overlaps else way


def _inner(inner: Inner, once: Sequence[Statement] = ()) -> Iterator[str]:
    for access in inner.accesses:
        yield f"{access.element} = {_access(access)}"
    for counted in inner.counted:
        yield f"{counted.name} = {_index(counted.index)}"
    for statement in inner.statements:
        when = "once, " if statement in once else ""
        operands = ", ".join(map(_operand, statement.operands))
        yield f"{when}{statement.name} = {statement.operation.opcode} {operands}"


def _operand(operand: Operand) -> str:
    return operand.name if isinstance(operand, Element) else str(operand.scalar)


def _access(access: Access) -> str:
    return f"{access.base}[{_index(access.index)}]"


def _index(index: Index) -> str:
    terms = [str(term) if factor == ONE else f"{_factor(factor)}*({term})" for term, factor in index.runtime]
    terms += [
        f"i{axis}" if factor == ONE else f"{_factor(factor)}*i{axis}"
        for axis, factor in enumerate(index.factors)
        if factor != ZERO
    ]
    return " + ".join([*terms, *([str(index.offset)] if index.offset != ZERO else [])]) or "0"


def _places(places: Iterable[Place]) -> str:
    return ", ".join(f"{place}, {place.elements} elements" for place in places)


def _factor(size: Size) -> str:
    return str(size) if len(size.terms) < 2 else f"({size})"


def _joined(sizes: Iterable[Size]) -> str:
    return ", ".join(map(str, sizes))
