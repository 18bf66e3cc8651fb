"""What is put in order has NaN of one sign, so that the order is the same on every CPU.

HLO's total order begins with negative NaN and ends with positive ones. A NaN that an operation makes is negative on
x86-64 and positive on AArch64. Those of the inputs keep their sign, and a negation changes it, as `tf.sort` needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tfaot_pkg.compiler.program import Operation, Region

_KEEP_SIGNS = frozenset({"broadcast", "negate", "reshape", "reverse", "slice", "transpose"})
"""Operations that make no NaN, and change no sign or all of them."""


def with_one_nan(region: Region, outside: Mapping[int, Operation], ids: Iterator[int]) -> Region:
    """`region` with `one-nan` behind what computes the operands of sorts and of comparisons in total order."""
    known = {**outside, **region.by_id()}
    computed: set[int] = set()
    for operation in region.operations:
        if operation.opcode in ("sort", "top_k") or operation.attributes.get("order") == "TOTALORDER":
            computed.update(_computed(known, operand) for operand in operation.operands)
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


def _computed(known: Mapping[int, Operation], value: int) -> int:
    """What `value` is made of by operations that keep signs."""
    while known[value].opcode in _KEEP_SIGNS:
        value = known[value].operands[0]
    return value


def _makes_floats(operation: Operation) -> bool:
    return operation.opcode not in ("constant", "parameter") and operation.shape.dtype in ("f32", "f64")
