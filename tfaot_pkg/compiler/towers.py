"""Loops of a program that do not depend on one another, as recurrent layers side by side: each is a part for a team.

What nodes read and change says which of them depend on one another (decision 091).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tfaot_pkg.compiler.divide import InParts
from tfaot_pkg.compiler.elements import Variable
from tfaot_pkg.compiler.instructions import Declare, Instruction
from tfaot_pkg.compiler.loops import Block, Forever, Function, If, Keep, Lambda, Lines, Nest, Node
from tfaot_pkg.compiler.pieces import bases_of, names_of
from tfaot_pkg.compiler.program import Operation, Size

_OF_CALLS = frozenset({"team", "memory"})
"""What a call has once: its threads, and the memory of XLA's code."""


@dataclass(frozen=True, slots=True)
class Used:
    """The variables that nodes read, addresses of arrays among them, and those that they change."""

    read: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()

    def excludes(self, other: Used) -> bool:
        """Whether both cannot run at the same time, or in another order."""
        mine, others = self.read | self.changed, other.read | other.changed
        return not (self.changed.isdisjoint(others) and other.changed.isdisjoint(mine))


def used_by(nodes: Iterable[Node]) -> Used:
    """What is used of variables that are declared outside of `nodes`."""
    read, changed, own = set[str](), set[str](), set[str]()
    for node in nodes:
        each = _used(node)
        read |= each.read - own
        own.update(_declared(node))
        changed |= each.changed - own
    return Used(frozenset(read), frozenset(changed))


def _declared(node: Node) -> tuple[str, ...]:
    if isinstance(node, Declare):
        return (node.name,)
    return (node.head.name,) if isinstance(node, Block) and isinstance(node.head, Lambda) else ()


def _with_arrays(used: Used, aliases: Mapping[str, tuple[str, ...]]) -> Used:
    return Used(_all(used.read, aliases), _all(used.changed, aliases))


def _all(names: Iterable[str], aliases: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    return frozenset(each for name in names for each in (name, *aliases.get(name, ())))


def _used(node: Node) -> Used:
    match node:
        case Block(head=head, nodes=nodes):
            inside = used_by(nodes)
            # A loop of the kernel library may write the arrays that its head names.
            return Used(inside.read | names_of(head.pieces), inside.changed | bases_of(head.pieces))
        case Nest(loops=loops):
            team = _OF_CALLS if isinstance(loops, InParts) else frozenset()
            return Used(loops.names | team, loops.written)
        case Keep(base=base):
            return Used(read=frozenset([base]))
    if isinstance(node, Instruction):
        return Used(node.names, node.changes)
    return Used()


def with_towers(function: Function, large: Collection[int], most: int) -> tuple[Node, ...]:
    """Its nodes, with up to `most` loops of the operations `large` beside one another if they are independent.

    What lies between them comes before, or behind if it depends on them.
    """
    made, rest = list[Node](), list(function.nodes)
    while rest:
        first = rest.pop(0)
        if not _is_tower(first, large):
            made.append(first)
            continue
        group, before, behind, rest = _grouped(first, rest, large, most, function.sharing.aliases)
        made += [*before, _side_by_side(group) if len(group) > 1 else first, *behind]
    return tuple(made)


def _is_tower(node: Node, large: Collection[int]) -> bool:
    """Whether it is one of the loops, no team computes a part of it, and it calls no code of XLA in its memory."""
    if not isinstance(node, Block) or not isinstance(node.head, Forever) or _id(node.maker) not in large:
        return False
    return used_by([node]).read.isdisjoint(_OF_CALLS)


def _id(maker: Operation | None) -> int:
    return -1 if maker is None else maker.id


def _grouped(
    first: Node, rest: list[Node], large: Collection[int], most: int, aliases: Mapping[str, tuple[str, ...]]
) -> tuple[list[Node], list[Node], list[Node], list[Node]]:
    """Loops beside `first`, what comes before them, what comes behind them, and the nodes after all that."""
    group, before, behind = [first], list[Node](), list[Node]()
    used, best = [_with_arrays(_used(first), aliases)], (1, 0, 0, 0)
    for place, node in enumerate(rest):
        if len(group) == most:
            break
        own = _with_arrays(_used(node), aliases)
        is_free = not any(own.excludes(each) for each in used)
        if _is_tower(node, large):
            if not is_free:
                break
            group.append(node)
        elif is_free:
            before.append(node)
            continue  # nothing behind depends on its place
        else:
            behind.append(node)
            if isinstance(node, Keep):
                before.append(node)
        used.append(own)
        if node is group[-1]:
            best = (len(group), len(before), len(behind), place + 1)
    loops, early, late, end = best
    return group[:loops], before[:early], behind[:late], rest[end:]


def _side_by_side(nodes: Sequence[Node]) -> Block:
    """A block whose turns are `nodes`; threads of a team compute them at the same time."""
    lines = Lines()
    maker = nodes[0].maker if isinstance(nodes[0], Block) else None
    with lines.doing(maker), lines.in_parts([("tower", Size(len(nodes)))]):
        for number, node in enumerate(nodes):
            with lines.block(If((Variable("tower"), f" == {number}"))):
                lines.add(node)
    (block,) = (each for each in lines.nodes if isinstance(each, Block))
    return replace(block, is_at_once=True)
