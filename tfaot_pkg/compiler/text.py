"""Programs as text: one line per operation, `%4 f32[batch,32] = add %2 %3`, with its regions indented below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from tfaot_pkg.compiler.program import Literal, Operation, Program, Region, Type

_SHOWN = 8
"""Elements of a constant that are shown in full."""
_REGION_NAMES = {("while", 0): "body", ("while", 1): "condition"}


def text_of(program: Program) -> str:
    return "\n".join([*_lines(program.entry, ""), ""])


def _lines(region: Region, indent: str) -> Iterator[str]:
    for operation in region.operations:
        yield indent + _line(operation)
        for number, nested in enumerate(operation.regions):
            yield f"{indent}  {_REGION_NAMES.get((operation.opcode, number), 'region')}:"
            yield from _lines(nested, indent + "    ")
    yield f"{indent}give {' '.join(f'%{result}' for result in region.results)}"


def _line(operation: Operation) -> str:
    words = [f"%{operation.id} {type_text(operation.type)} = {operation.opcode}"]
    words += [f"%{operand}" for operand in operation.operands]
    given = [(each, getattr(operation.attributes, each.name)) for each in fields(operation.attributes)]
    words += [f"{each.name}={_value(value)}" for each, value in given if value != each.default]
    return " ".join(words)


def type_text(type_: Type) -> str:
    """`f32[batch,32]`, or several in brackets."""
    return f"({', '.join(map(str, type_))})" if isinstance(type_, tuple) else str(type_)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(map(_value, value))}]"
    if not isinstance(value, Literal):
        return str(value)
    if value.constant.size > _SHOWN:
        return f"{{{value.constant.size} values}}"
    shown = ",".join(map(str, value.constant.reshape(-1).tolist()))
    for monomial, values in value.growing:
        shown += f" + {'*'.join(monomial)}*" + ",".join(map(str, values.reshape(-1).tolist()))
    return f"{{{shown}}}"
