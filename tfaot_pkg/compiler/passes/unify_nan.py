"""One NaN for what sorts and comparisons in total order read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tfaot_pkg.compiler.attributes import in_total_order
from tfaot_pkg.compiler.passes.zeros import of_one_zero
from tfaot_pkg.compiler.program import Operation, Region
from tfaot_pkg.compiler.use_def import Look

_KEEP_SIGNS = frozenset({"broadcast", "negate", "reshape", "reverse", "slice", "transpose"})
"""Operations that compute no NaN, and change no signs or all of them."""


def with_one_nan(region: Region, outside: Mapping[int, Operation], ids: Iterator[int]) -> Region:
    """`region` with `one-nan` after the operations that compute operands of sorts and of comparisons in total order."""
    # Computed NaN are negative on x86-64 and positive on AArch64, and a total order sorts by sign (decision 039).
    look = Look(region, outside, ids)
    computed: set[int] = set()
    for operation in region.operations:
        if operation.opcode in ("sort", "top_k") or in_total_order(operation):
            computed.update(_computed(look, operand) for operand in operation.operands)
    operations: list[Operation] = []
    for operation in region.operations:
        if operation.id in computed and _makes_floats(operation):
            inner = replace(operation, id=next(ids))
            one = Operation(
                id=operation.id, opcode="one-nan", type=operation.type, operands=(inner.id,), node=operation.node
            )
            operations += [inner, one]
        else:
            operations.append(operation)
    return replace(region, operations=tuple(operations))


def _computed(look: Look, value: int) -> int:
    """The value that `value` is computed from by operations that keep signs of NaN."""
    while True:
        operation, signed = look.known[value], of_one_zero(look, value)
        if signed is None and operation.opcode not in _KEEP_SIGNS:
            return value
        value = operation.operands[0] if signed is None else signed


def _makes_floats(operation: Operation) -> bool:
    return operation.opcode not in ("constant", "one-nan", "parameter") and operation.shape.dtype in ("f32", "f64")
