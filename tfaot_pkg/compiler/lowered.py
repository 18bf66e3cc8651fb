"""`Lowered`: what the host makes of a model's file by itself: a program, and the names of its ends."""

from __future__ import annotations

from dataclasses import dataclass

from tfaot_pkg.compiler.program import Program
from tfaot_pkg.program.ranges import Range
from tfaot_pkg.rows import INDEPENDENT, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """`program`, not yet verified, with the names of its inputs and outputs in order, by the model's file.

    `rows` says where rows of a batch depend on one another, `ranges` which numbers inputs take that are indices or the
    like. `warnings` are for the model's author.
    """

    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: Rows = INDEPENDENT
    ranges: tuple[Range, ...] = ()
    warnings: tuple[str, ...] = ()
