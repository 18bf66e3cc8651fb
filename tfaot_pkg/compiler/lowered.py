"""`Lowered`: what the host makes of a model's file by itself: a program, and the names of its ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfaot_pkg.analysis.program.ranges import Range
from tfaot_pkg.analysis.rows import INDEPENDENT, Rows
from tfaot_pkg.compiler.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """`program`, not yet verified, with the names of its inputs and outputs in order, by the model's file.

    `carried` are types of ends by their names, if the program has the bits of others: float16 as uint16. `rows` says
    where rows of a batch depend on one another, `ranges` which numbers inputs take that are indices or the like.
    `warnings` are for the model's author.
    """

    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    carried: Mapping[str, str] = field(default_factory=dict)
    rows: Rows = INDEPENDENT
    ranges: tuple[Range, ...] = ()
    warnings: tuple[str, ...] = ()
