"""Calls of XLA's code, for parts of the model that the compiler has no operations for."""

from __future__ import annotations

from collections.abc import Sequence

from tfaot_pkg.compiler.affine import cpp
from tfaot_pkg.compiler.emitter import Emitter, State
from tfaot_pkg.compiler.program import ONE, Operation, Shape, Size, Unsupported

PREFIX = "tfaot_segment_"


def call(emitter: Emitter, operation: Operation) -> str:
    """A segment that gives one array."""
    return _call(emitter, operation)[0]


def calls(emitter: Emitter, operation: Operation) -> None:
    """A segment that gives several arrays."""
    names = _call(emitter, operation)
    emitter.results[operation.id] = [
        State(name, shape, (name,)) for name, shape in zip(names, operation.shapes, strict=True)
    ]


def _call(emitter: Emitter, operation: Operation) -> Sequence[str]:
    target = operation.attributes["target"]
    if not target.startswith(PREFIX):
        raise Unsupported(f"custom-call of {target} (node {operation.node!r})")
    emitter.flush()
    read = [(emitter.stored(each), emitter.known[each].shape) for each in operation.operands]
    given = [(emitter.buffer(shape.dtype, shape.elements), shape) for shape in operation.shapes]
    emitter.segments.add(target)
    for pointer, _ in read:
        emitter.touch(pointer)
    with emitter.braces("for (std::size_t i = 0; i < n; ++i)"):
        emitter.line(f"const void* const read[] = {{{', '.join(_row(*each) for each in read)}}};")
        emitter.line(f"void* const given[] = {{{', '.join(_row(*each) for each in given)}}};")
        emitter.line(f"{target}(read, given, memory);")
    for pointer, _ in (*read, *given):
        emitter.touch(pointer)
    return [pointer for pointer, _ in given]


def _row(pointer: str, shape: Shape) -> str:
    """The address of row `i`; of an array without rows the array's."""
    if not shape.sizes or not shape.sizes[0].grows:
        return pointer
    if shape.sizes[0] != Size(0, 1):
        raise Unsupported(f"a segment with an array of {shape}")
    row = Shape(shape.dtype, (ONE, *shape.sizes[1:])).elements
    return f"{pointer} + i * {cpp(row)}"
