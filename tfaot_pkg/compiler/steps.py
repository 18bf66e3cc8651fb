"""The steps of a program's function, for traces: its statements in groups, one for each operation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.text import type_text

_LONGEST_NAME, _LONGEST_NODE = 120, 300
# What may stand in a string of C++ and of JSON as it is. Names come from models, which are not trusted.
_UNSAFE = re.compile(r"[^A-Za-z0-9 _.,:;/()\[\]<>=*+-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStep:
    """A step: what it computes, and the node of the model's graph that it comes from. Both safe in a string of C++."""

    name: str
    node: str


def with_steps(lines: Sequence[str], makers: Sequence[Operation | None]) -> tuple[list[str], list[ProgramStep]]:
    """`lines` of a function's body with the beginning of each step, and the steps; `makers` as long as `lines`.

    A step begins at a statement of the body itself, never inside of a loop or branch: each is done once a call.
    """
    steps: list[ProgramStep] = []
    written: list[str] = []
    depth, current = 0, -1
    for line, maker in zip(lines, makers, strict=True):
        text = line.strip()
        continues = depth > 0 or text.startswith(("}", "else"))
        number = current if maker is None else maker.id
        if not continues and (number != current or not steps):
            written.append(f"  profiled.begin({len(steps)});")
            steps.append(_step(maker))
            current = number
        written.append(line)
        depth += sum(text.count(letter) for letter in "{([") - sum(text.count(letter) for letter in "})]")
    return written, steps


def _step(maker: Operation | None) -> ProgramStep:
    if maker is None:
        return ProgramStep(name="outputs", node="")
    return ProgramStep(
        name=_safe(f"{maker.opcode} {type_text(maker.type)}", _LONGEST_NAME), node=_safe(maker.node, _LONGEST_NODE)
    )


def _safe(text: str, longest: int) -> str:
    return _UNSAFE.sub("_", text)[:longest]
