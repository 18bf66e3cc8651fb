"""Loops of generated code that compute one element after the other, whatever a model's region says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tfaot_pkg.compiler.affine import cpp
from tfaot_pkg.compiler.emitter import Emitter, State
from tfaot_pkg.compiler.program import ONE, Operation, Region, Size


@contextmanager
def counting(emitter: Emitter, counters: Sequence[tuple[str, Size]]) -> Iterator[None]:
    """A loop for each counter, the last one innermost."""
    emitter.flush()  # what waits for its loop would be computed in this one, or never
    with ExitStack() as stack:
        for name, size in counters:
            stack.enter_context(
                # Not `<`: compilers warn of unsigned numbers below a 0 that they see.
                emitter.braces(f"for ([[maybe_unused]] std::size_t {name} = 0; {name} != {cpp(size)}; ++{name})")
            )
        yield


def address(pointer: str, *steps: tuple[str, Size]) -> str:
    """`pointer` plus steps: a C++ expression times a number of elements."""
    terms = [name if stride == ONE else f"{name} * {cpp(stride)}" for name, stride in steps]
    return " + ".join([pointer, *terms])


def called(emitter: Emitter, region: Region, arguments: Sequence[str]) -> list[str]:
    """What `region` gives for scalars, computed here: C++ expressions."""
    for parameter, argument in zip(region.parameters, arguments, strict=True):
        emitter.scalars[parameter.id] = argument
    emitter.region(region)
    return [emitter.scalar(result) for result in region.results]


def targets(emitter: Emitter, operation: Operation) -> list[str]:
    """Memory for all that `operation` gives."""
    if not isinstance(operation.type, tuple):
        return [emitter.target(operation)]
    return [emitter.buffer(shape.dtype, shape.elements) for shape in operation.shapes]


def states(operation: Operation, pointers: Sequence[str]) -> list[State]:
    return [State(pointer, shape, (pointer,)) for pointer, shape in zip(pointers, operation.shapes, strict=True)]
