"""Programs as text, for debugging and testing passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfaot_pkg.compiler.program import Literal, Operation, Program, Region, Type

_SHOWN = 8
"""Elements of a constant that are shown in full."""


def text_of(program: Program) -> str:
    """One line an operation: `%4 f32[batch,32] = add %2 %3`, regions indented below theirs."""
    return "\n".join([*_lines(program.entry, ""), ""])


def _lines(region: Region, indent: str) -> Iterator[str]:
    for operation in region.operations:
        yield indent + _line(operation)
        for number, nested in enumerate(operation.regions):
            yield f"{indent}  {_REGION_NAMES.get((operation.opcode, number), 'region')}:"
            yield from _lines(nested, indent + "    ")
    yield f"{indent}give {' '.join(f'%{result}' for result in region.results)}"


_REGION_NAMES = {("while", 0): "body", ("while", 1): "condition"}


def _line(operation: Operation) -> str:
    words = [f"%{operation.id} {type_text(operation.type)} = {operation.opcode}"]
    words += [f"%{operand}" for operand in operation.operands]
    words += [f"{name}={_value(value)}" for name, value in operation.attributes.items()]
    return " ".join(words)


def type_text(type_: Type) -> str:
    """`f32[batch,32]`, or several in brackets."""
    return f"({', '.join(map(str, type_))})" if isinstance(type_, tuple) else str(type_)


def _value(value: Any) -> str:
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
