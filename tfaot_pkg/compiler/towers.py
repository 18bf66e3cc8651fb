"""Loops of a program that do not depend on one another, as recurrent layers side by side: each is a part for a team.

They are found among the lowered nodes of a function (decision 091).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfaot_pkg.compiler.loops import (
    Assign,
    Block,
    Call,
    Declare,
    Forever,
    Keep,
    Line,
    Lowered,
    Node,
    Swap,
    bases_of,
    lines_side_by_side,
    text_lines,
)
from tfaot_pkg.compiler.program import Operation

_NAME = re.compile(r"[A-Za-z_]\w*")
_DECLARED = re.compile(r"([A-Za-z_]\w*) =")
_CONSTANT = ("const ", "[[maybe_unused]] const ")


def side_by_side(
    nodes: Sequence[Lowered], aliases: Mapping[str, tuple[str, ...]], buffers: Collection[str], large: Collection[int]
) -> tuple[Lowered, ...]:
    """The nodes with loops of the operations `large` beside one another if they are independent.

    What lies between them comes before, or behind if it depends on them.
    """
    variables = {*buffers, *_declared(nodes), "memory"}
    made, rest = list[Lowered](), list(nodes)
    while rest:
        first = rest.pop(0)
        if not _is_tower(first, large):
            made.append(first)
            continue
        group, before, behind, rest = _grouped(first, rest, large, _Uses(aliases, variables))
        made += [*before, lines_side_by_side(group) if len(group) > 1 else first, *behind]
    return tuple(made)


@dataclass(frozen=True, slots=True)
class _Used:
    """The variables that a node names, and those that it may change."""

    named: frozenset[str]
    changed: frozenset[str]

    def excludes(self, other: _Used) -> bool:
        """Whether both cannot run at the same time, or in another order."""
        return not (self.changed.isdisjoint(other.named) and other.changed.isdisjoint(self.named))


class _Uses:
    """Of nodes: `variables` are those that more than one node can name."""

    def __init__(self, aliases: Mapping[str, tuple[str, ...]], variables: Collection[str]) -> None:
        self._aliases, self._variables = aliases, variables

    def of(self, node: Lowered) -> _Used:
        # By their names in the text: a line may name a variable that is no typed piece.
        named = {name for line in text_lines([node]) for name in _NAME.findall(line)}
        if isinstance(node, Keep):
            named.add(node.base)
        return _Used(self._all(named), self._all(self._changed([node])))

    def _all(self, names: Iterable[str]) -> frozenset[str]:
        """The variables, with the arrays that they may point to."""
        found = [name for name in names if name in self._variables or name in self._aliases]
        return frozenset(each for name in found for each in (name, *self._aliases.get(name, ())))

    def _changed(self, nodes: Iterable[Node]) -> Iterator[str]:
        for node in nodes:
            match node:
                case Block():
                    yield from bases_of(node.head.pieces)
                    yield from self._changed(node.nodes)
                case Call():
                    yield from (place.base for place in node.writes)
                    if not node.writes:
                        yield from node.bases
                case Declare():
                    yield node.name
                    if not (node.kind.startswith("const ") and "*" in node.kind):
                        yield from bases_of(node.value)  # perhaps an address
                case Assign():
                    yield node.name
                case Swap():
                    yield from (node.one, node.other)
                case Line() if node.text.startswith(_CONSTANT):
                    yield from _DECLARED.findall(node.text)
                case Line():
                    yield from _NAME.findall(node.text)


def _declared(nodes: Iterable[Lowered]) -> Iterator[str]:
    """The variables of the function itself."""
    for node in nodes:
        if isinstance(node, Declare):
            yield node.name
        elif isinstance(node, Line):
            yield from _DECLARED.findall(node.text)


def _is_tower(node: Lowered, large: Collection[int]) -> bool:
    """Whether it is one of the loops, no team computes a part of it, and it calls no code of XLA in its memory."""
    if not isinstance(node, Block) or not isinstance(node.head, Forever) or _id(node.maker) not in large:
        return False
    return not any({"team", "memory"} & {*_NAME.findall(line)} for line in text_lines([node]))


def _id(maker: Operation | None) -> int:
    return -1 if maker is None else maker.id


def _grouped(
    first: Lowered, rest: list[Lowered], large: Collection[int], uses: _Uses
) -> tuple[list[Lowered], list[Lowered], list[Lowered], list[Lowered]]:
    """Loops beside `first`, what comes before them, what comes behind them, and the nodes after all that."""
    group, before, behind = [first], list[Lowered](), list[Lowered]()
    used, best = [uses.of(first)], (1, 0, 0, 0)
    for place, node in enumerate(rest):
        own = uses.of(node)
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
