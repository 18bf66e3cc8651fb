"""The steps of a program, which are named in comments and in traces (templates/native/profile.h)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


def with_steps(lines: Sequence[str], makers: Sequence[Operation | None]) -> tuple[list[str], list[ProgramStep]]:
    """`lines` of a function's body with calls at the start of each step, and the steps; `makers` has one per line."""
    steps: list[ProgramStep] = []
    written: list[str] = []
    for line, maker, begins in _begun(lines, makers):
        if begins:
            written.append(f"  profiled.begin({len(steps)});")
            steps.append(_step(maker))
        written.append(line)
    return written, steps


def with_comments(lines: Sequence[str], makers: Sequence[Operation | None]) -> list[str]:
    """`lines` of a function's body with a comment before each step: the node of the model's graph that it computes."""
    written: list[str] = []
    last = ""
    for line, maker, begins in _begun(lines, makers):
        step = _step(maker)
        name = step.node or step.name
        if begins and name != last:
            written.append(f"  // {name}")
            last = name
        written.append(line)
    return written


def _begun(lines: Sequence[str], makers: Sequence[Operation | None]) -> Iterator[tuple[str, Operation | None, bool]]:
    """Each line with the operation that it belongs to, and whether a step begins at it.

    A step begins at a statement of the body itself, never inside a loop or branch, so it begins once per call.
    """
    depth, current = 0, None
    for line, maker in zip(lines, makers, strict=True):
        text = line.strip()
        number = maker.id if maker is not None else current or 0
        begins = depth == 0 and not text.startswith(("}", "else")) and number != current
        if begins:
            current = number
        yield line, maker, begins
        depth += sum(text.count(letter) for letter in "{([") - sum(text.count(letter) for letter in "})]")


def _step(maker: Operation | None) -> ProgramStep:
    if maker is None:
        return ProgramStep(name="outputs", node="")
    return ProgramStep(
        name=_safe(f"{maker.opcode} {type_text(maker.type)}", _LONGEST_NAME), node=_safe(maker.node, _LONGEST_NODE)
    )


def _safe(text: str, longest: int) -> str:
    return _UNSAFE.sub("_", text)[:longest]
