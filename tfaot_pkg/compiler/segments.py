"""Calls of other code for single rows: XLA's, for operations that programs lack, and that of the model's author."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tfaot_pkg.compiler.attributes import CustomCall
from tfaot_pkg.compiler.elements import Place, Variable
from tfaot_pkg.compiler.emitter import Emitter, State
from tfaot_pkg.compiler.expressions import C_TYPES, literal
from tfaot_pkg.compiler.loops import For
from tfaot_pkg.compiler.program import ONE, ROWS, Called, Operation, OwnAttributes, Shape, Unsupported
from tfaot_pkg.ground.documents import convert
from tfaot_pkg.worker_program.messages.carriers import OPERATION

PREFIX = "tfaot_segment_"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Described:
    """The configuration of a call of an operation of the author's (worker_program/authored.py)."""

    name: str
    attributes: OwnAttributes


def call(emitter: Emitter, operation: Operation) -> str:
    """A segment with one result."""
    return _call(emitter, operation)[0]


def calls(emitter: Emitter, operation: Operation) -> None:
    """A segment with several results."""
    names = _call(emitter, operation)
    emitter.results[operation.id] = [
        State(name, shape, (name,)) for name, shape in zip(names, operation.shapes, strict=True)
    ]


def _call(emitter: Emitter, operation: Operation) -> Sequence[str]:
    target = CustomCall.of(operation).target
    if not target.startswith(PREFIX) and target != OPERATION:
        raise Unsupported(f"custom-call of {target} (node {operation.node!r})")
    # Waiting values must not be written into the loop below.
    emitter.flush()
    read = [(emitter.stored(each), emitter.known[each].shape) for each in operation.operands]
    given = [(emitter.buffer(shape.dtype, shape.elements), shape) for shape in operation.shapes]
    for pointer, _ in read:
        emitter.touch(pointer)
    if target == OPERATION:
        target, memory = _called(emitter, operation), []
    else:
        emitter.segments.add(target)
        memory = [Variable("memory")]
    # Row by row, because such code was compiled, or written, for one row.
    with emitter.block(For("i", ROWS)):
        for name, kind, arrays in (("read", "const void* const", read), ("given", "void* const", given)):
            emitter.declare(name, *(_row(*each) for each in arrays), kind=kind, form="array")
        emitter.call(target, Variable("read"), Variable("given"), *memory)
    for pointer, _ in (*read, *given):
        emitter.touch(pointer)
    return [pointer for pointer, _ in given]


def _called(emitter: Emitter, operation: Operation) -> str:
    """The function that calls an operation of the author's."""
    try:
        described = convert(_Described, json.loads(CustomCall.of(operation).config))
    except ValueError as error:
        raise Unsupported(f"a call of an operation that is not described: {error}") from error
    operands = [emitter.known[each] for each in operation.operands]
    called = Called(
        target=f"tfaot_operation_{len(emitter.called)}",
        operation=described.name,
        node=operation.node,
        attributes=described.attributes,
        inputs=tuple(_array(operation, each.shape) for each in operands),
        outputs=tuple(_array(operation, shape) for shape in operation.shapes),
        batched=tuple(_has_rows(each.shape) for each in operands),
        constants={place: literal(each) for place, each in enumerate(operands) if each.opcode == "constant"},
    )
    emitter.called.append(called)
    return called.target


def _array(operation: Operation, shape: Shape) -> tuple[str, tuple[int, ...]]:
    """An array of an operation of the author's: its type, and the sizes of a row of it."""
    sizes = shape.sizes[1:] if _has_rows(shape) else shape.sizes
    if shape.dtype not in C_TYPES or not all(size.is_constant for size in sizes):
        raise Unsupported(f"an array of {shape} for an operation of the author's (node {operation.node!r})")
    return shape.dtype, tuple(size.constant for size in sizes)


def _has_rows(shape: Shape) -> bool:
    return bool(shape.sizes) and shape.sizes[0].grows


def _row(pointer: str, shape: Shape) -> Place:
    """The address of row `i`; for an array without rows, that of the array."""
    if not _has_rows(shape):
        return Place(pointer, elements=shape.elements)
    if shape.sizes[0] != ROWS:
        raise Unsupported(f"a segment with an array of {shape}")
    row = Shape(shape.dtype, (ONE, *shape.sizes[1:])).elements
    return Place(pointer, (("i", row),), row)
