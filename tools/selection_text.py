"""A selection as text: for each operation of a program a line that names its form, those of regions indented."""

from __future__ import annotations

from collections.abc import Iterator

from tfaot_pkg.compiler.program import Operation, Program, Region
from tfaot_pkg.compiler.selection import Selection, select
from tfaot_pkg.compiler.text import type_text


def text_of_selection(program: Program) -> str:
    return "\n".join([*_lines(program.entry, select(program), ""), ""])


def _lines(region: Region, selection: Selection, indent: str) -> Iterator[str]:
    for operation in region.operations:
        if operation.opcode not in ("constant", "parameter"):
            what = f"%{operation.id} {operation.opcode} {type_text(operation.type)}"
            yield f"{indent}{what}: {_form(operation, selection)}"
            for nested in operation.regions:
                yield from _lines(nested, selection, indent + "  ")


def _form(operation: Operation, selection: Selection) -> str:
    value = operation.id
    for number, loop in enumerate(selection.together):
        if value in loop.values:
            ends = ", which ends here" if value in selection.last else ""
            return f"loop {number}{ends}" if value in loop.written else f"loop {number}, not written"
    if value in selection.in_indices:
        return f"indices of {' '.join(f'%{each}' for each in selection.in_indices[value])}"
    if value in selection.parts:
        return "a part of another one"
    if value in selection.inlined:
        return "inlined"
    if value in selection.named:
        return "named"
    if value in selection.beside.values():
        return f"in place, in a loop with %{next(key for key, each in selection.beside.items() if each == value)}"
    if unread := selection.unread.get(value):
        return f"called, without the initial values of {', '.join(map(str, sorted(unread)))}"
    return "called, in place" if value in selection.in_place else "called"
