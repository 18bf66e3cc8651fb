"""Functions of one byte that give a byte, and take long: there are 256 bytes, so the compiler computes them all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.expressions import ELEMENTWISE, LONG
from tfaot_pkg.compiler.layer_types import BYTES
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, NUMPY_TYPES, Operation, Shape, Size, Unsupported
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array

_PAYS = LONG | {"divide", "rsqrt", "sqrt"}
"""One of them takes longer than to look up a byte. Cheaper steps stay part of a loop, without an array between."""
_MOST = 64
"""Steps of a function."""
_ALL = (Size(256),)


def tabulated(look: Look, operation: Operation) -> Operation | None:
    if operation.opcode != "quantize":
        return None
    steps: list[Operation] = []
    source = _source(look, operation, steps)
    if source is None or _PAYS.isdisjoint(each.opcode for each in steps):
        return None
    try:
        table = _values(look, source, steps)
    except Unsupported:
        return None
    operands = (source, look.add_constant(table, operation))
    return replace(operation, opcode="look_up", operands=operands, attributes=NO_ATTRIBUTES)


def _source(look: Look, operation: Operation, steps: list[Operation]) -> int | None:
    """The bytes that `operation` is a function of, if there is nothing else; its `steps`, operands first."""
    found: set[int] = set()
    seen: set[int] = set()

    def visit(each: Operation) -> bool:
        if each.id in seen:
            return True
        seen.add(each.id)
        if each.opcode not in ELEMENTWISE or isinstance(each.type, tuple) or len(steps) == _MOST:
            return False
        for value in each.operands:
            known = look.known[value]
            if known.opcode != "broadcast" and known.shape.dtype in BYTES:
                found.add(value)
            elif look.scalar(value) is None and not visit(known):
                return False
        steps.append(each)
        return True

    return found.pop() if visit(operation) and len(found) == 1 else None


def _values(look: Look, source: int, steps: list[Operation]) -> Array:
    """The results of the last of `steps` for all bytes, in the order of their bits."""
    dtype = NUMPY_TYPES[look.known[source].shape.dtype]
    known: dict[int, Array] = {source: np.arange(256, dtype=np.uint8).view(dtype)}
    for each in steps:
        operands = [known[value] if value in known else _repeated(look, value) for value in each.operands]
        if each.opcode in LONG:  # NumPy's functions of float32 have other last bits on other CPUs
            operands = [operand.astype(np.float64) for operand in operands]
        known[each.id] = np.asarray(interpret.evaluate(replace(each, type=Shape(each.shape.dtype, _ALL)), operands))
    return known[steps[-1].id]


def _repeated(look: Look, value: int) -> Array:
    number = look.scalar(value)
    assert number is not None  # `_source`
    return np.full(256, number, NUMPY_TYPES[look.known[value].shape.dtype])
