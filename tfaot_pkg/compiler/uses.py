"""How the values of a program are used, and which of them are computed where they are used."""

from __future__ import annotations

import math
from collections import Counter

from tfaot_pkg.compiler.expressions import ELEMENTWISE, MOVING
from tfaot_pkg.compiler.program import ZERO, Operation, Program
from tfaot_pkg.compiler.rows import LONGEST

_CHEAP = frozenset(
    {
        "abs", "add", "and", "clamp", "compare", "convert", "maximum", "minimum", "multiply", "multiply-add", "negate",
        "not", "or", "select", "subtract", "xor",
    }
)  # fmt: skip
"""Elementwise operations that take about as long as reading an operand."""


class Uses:
    """The users of each value of a program, and how often it would be computed if each of them computed it."""

    def __init__(self, program: Program) -> None:
        self.count: Counter[int] = Counter()
        self._reads: Counter[int] = Counter()  # how often it would be computed if each use computed it
        self._users: dict[int, list[Operation]] = {}
        self._known = {operation.id: operation for operation in program.entry.everything()}
        for operation in self._known.values():
            self.count.update(operation.operands)
            for operand in operation.operands:
                self._users.setdefault(operand, []).append(operation)
            for nested in operation.regions:
                self.count.update(nested.results)
        self.count.update(program.entry.results)
        self._count_reads(program)

    def _count_reads(self, program: Program) -> None:
        """Count reads; an operation that only moves elements reads its operand as often as it is read itself."""
        self._reads.update(program.entry.results)
        # Users first, because the reads of an operation depend on those of its result.
        for operation in reversed(tuple(program.entry.everything())):
            for nested in operation.regions:
                self._reads.update(nested.results)
            moves = operation.opcode in MOVING and not isinstance(operation.type, tuple)
            for operand in set(operation.operands):  # x * x reads x once
                self._reads[operand] += self._reads[operation.id] if moves else 1

    def all_of(self, value: int) -> list[Operation]:
        """The operations that use a value; none if it is also a result, of the program or of a region."""
        users = self._users.get(value, [])
        return users if len(users) == self.count[value] else []

    def is_single(self, operation: Operation) -> bool:
        """Whether an elementwise operation would be computed once if its users computed it."""
        reads_once = self._reads[operation.id] == 1 or self.is_cut_up(operation)
        return reads_once and not (self._is_repeated(operation) and self.is_costly(operation.id))

    def is_cut_up(self, operation: Operation) -> bool:
        """Whether all uses are slices that do not overlap, as for the gates of a recurrent cell."""
        users = self.all_of(operation.id)
        if not users or any(user.opcode != "slice" for user in users):
            return False
        starts = {user.attributes["slices"] for user in users}
        parts = sum((user.shape.elements for user in users), start=ZERO)
        return len(starts) == len(users) and parts == operation.shape.elements

    def _is_repeated(self, operation: Operation) -> bool:
        """Whether a user repeats each element a few times: in a vector of short rows, all of them would be computed."""
        return any(
            (user.opcode == "broadcast" and _repeats_few(user))
            or (user.opcode in ("reshape", "transpose") and self._is_repeated(user))
            for user in self.all_of(operation.id)
        )

    def is_costly(self, value: int) -> bool:
        """Whether to compute an element takes longer than to read it from memory."""
        operation = self._known.get(value)
        if operation is None or isinstance(operation.type, tuple) or not operation.shape.rank:
            return False
        if operation.opcode not in ELEMENTWISE or operation.opcode not in _CHEAP:
            return operation.opcode in ELEMENTWISE
        # Operands with other uses are in memory.
        return any(self._reads[operand] == 1 and self.is_costly(operand) for operand in operation.operands)


def _repeats_few(broadcast: Operation) -> bool:
    kept = broadcast.attributes["dimensions"]
    added = [size for axis, size in enumerate(broadcast.shape.sizes) if axis not in kept]
    return all(size.is_constant for size in added) and 1 < math.prod(size.constant for size in added) <= LONGEST
