"""The reference pages of the compiler, for make_reference.py: its operations, and its passes with examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path

from tfaot_pkg.compiler.attributes import field_types
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.passes.pipeline import ON_REQUEST, PASSES
from tfaot_pkg.compiler.program import Attributes

_TEXTS = Path(__file__).resolve().parent.parent / "tests" / "compiler" / "passes"
_Table = Callable[[tuple[str, ...], Sequence[tuple[str, ...]]], str]

_OPERATIONS = """# Operations of a program

A model that the compiler of this project supports becomes a program of these operations, which `tfaot-pkg inspect
SPEC --what program` prints. The types of results follow from the operands, and a program that states others
is rejected ([decision 077](../decisions/077-types-of-programs-are-inferred.md)). Operations without a description
are [HLO's](https://openxla.org/xla/operation_semantics). Attributes in brackets have a default.
*Rows apart*: under conditions on its axes, each row of a batch depends on the same row of the operands only. The
table is `compiler/operations.py`.
"""
_PASSES = """# Passes of the compiler

These passes run one after the other, on the program that is imported. Each takes a program and returns one, and its
types are verified behind each pass. `tfaot-pkg inspect SPEC --what program --after PASS` shows the program
after one of them; `python tools/run_passes.py FILE PASS ...` runs some of them on text. The examples are the first
ones in `tests/compiler/passes/`, where more show what a pass must not do.
"""


def operations(table: _Table) -> str:
    rows = [
        (
            f"`{name}`",
            _many(each.operands),
            _many(each.regions) if each.regions[1] != 0 else "",
            _attributes(each.attributes),
            "yes" if each.rows is not None else "",
            each.summary,
        )
        for name, each in sorted(OPERATIONS.items())
    ]
    return "\n".join([_OPERATIONS, table(("operation", "operands", "regions", "attributes", "rows apart", ""), rows)])


def _many(numbers: tuple[int, int | None]) -> str:
    least, most = numbers
    return f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"


def _attributes(kind: type[Attributes]) -> str:
    types = field_types(kind)
    named = [(each.name, each.default is MISSING) for each in fields(kind) if each.name in types]
    return ", ".join(f"`{name}`" if is_required else f"[`{name}`]" for name, is_required in named)


def passes() -> str:
    parts = [_PASSES]
    for number, each in enumerate((*PASSES, *ON_REQUEST), 1):
        case = (_TEXTS / f"{each.name}.txt").read_text().split("## ")[1]
        title, rest = case.split("\n", 1)
        given, _, made = rest.partition("->")
        parts.append(f"## {number}. `{each.name}`\n\n{each.summary} For example, {_lower(title)}:\n")
        parts.append(f"```text\n{given.strip()}\n```\n\nbecomes\n\n```text\n{made.strip()}\n```\n")
    return "\n".join(parts)


def _lower(title: str) -> str:
    return title[0].lower() + title[1:]
