"""The steps of a program, which are named in comments and in traces (templates/native/profile.h)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tfaot_pkg.compiler.instructions import Instruction, Remark
from tfaot_pkg.compiler.loops import Block, Node
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.text import type_text

_LONGEST_NAME, _LONGEST_NODE = 120, 300
# All characters except those that are safe in strings of C++ and JSON. Names come from models, which are not trusted.
_UNSAFE = re.compile(r"[^A-Za-z0-9 _.,:;/()\[\]<>=*+-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStep:
    """A step: its operation, and the node of the model's graph that it comes from. Both are safe in strings of C++."""

    name: str
    node: str


def with_steps(nodes: Iterable[Node]) -> tuple[tuple[Node, ...], list[ProgramStep]]:
    """`nodes` of a function's body with calls at the start of each step, and the steps."""
    steps: list[ProgramStep] = []
    written: list[Node] = []
    for node, maker, begins in _begun(nodes):
        if begins:
            written.append(Remark(remark=f"profiled.begin({len(steps)});"))
            steps.append(_step(maker))
        written.append(node)
    return tuple(written), steps


def with_comments(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """`nodes` of a function's body with a comment before each step: the node of the model's graph that it computes."""
    written: list[Node] = []
    last = ""
    for node, maker, begins in _begun(nodes):
        step = _step(maker)
        name = step.node or step.name
        if begins and name != last:
            written.append(Remark(remark=f"// {name}"))
            last = name
        written.append(node)
    return tuple(written)


def _begun(nodes: Iterable[Node]) -> Iterator[tuple[Node, Operation | None, bool]]:
    """Each node with the operation that it belongs to, and whether a step begins at it.

    A step begins at a node of the body itself, never inside a loop or branch, so it begins once per call.
    """
    current = None
    for node in nodes:
        if not isinstance(node, Instruction | Block):
            yield node, None, False
            continue
        number = node.maker.id if node.maker is not None else current or 0
        begins = number != current and not (isinstance(node, Block) and node.continues)
        if begins:
            current = number
        yield node, node.maker, begins


def _step(maker: Operation | None) -> ProgramStep:
    if maker is None:
        return ProgramStep(name="outputs", node="")
    return ProgramStep(
        name=_safe(f"{maker.opcode} {type_text(maker.type)}", _LONGEST_NAME), node=_safe(maker.node, _LONGEST_NODE)
    )


def _safe(text: str, longest: int) -> str:
    return _UNSAFE.sub("_", text)[:longest]
