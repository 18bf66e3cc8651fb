"""How the values of a program are used, and which of them are computed where they are used."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Mapping

from tfaot_pkg.compiler.attributes import Dimensions, Indexed, Slices
from tfaot_pkg.compiler.expressions import ELEMENTWISE, LONG, MOVING
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Program
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

    def is_argument(self, operation: Operation, is_known: Callable[[int], bool]) -> bool:
        """Whether a function of `LONG` takes this value, which one loop would compute of another function's result.

        One after the other they take longer than a vector's work, because a CPU has too few of the following vectors in
        flight. So the value gets a loop of its own: GRU towers take 0.92 of their time (decision 070). `is_known` says
        which values are computed already.
        """
        if isinstance(operation.type, tuple) or not operation.shape.rank or operation.shape.dtype != "f32":
            return False
        if not any(user.opcode in LONG for user in self._users.get(operation.id, [])):
            return False
        left, seen = [operation.id], set[int]()
        while left:
            value = left.pop()
            if value in seen or value not in self._known or is_known(value):
                continue
            seen.add(value)
            left += self._known[value].operands if self._known[value].opcode in (*ELEMENTWISE, *MOVING) else ()
        return any(self._known[value].opcode in LONG for value in seen)

    def is_joined_index(self, operation: Operation, places: Container[int]) -> bool:
        """Whether it joins single numbers into vectors of indices, not one of `places`, that only gathers read."""
        if operation.opcode != "concatenate" or operation.id in places or not self.joined(operation, places):
            return False
        (axis,), users = Dimensions.of(operation).dimensions, self.all_of(operation.id)
        if [user.opcode for user in users] == ["concatenate"]:  # a part of such vectors
            return Dimensions.of(users[0]).dimensions == (axis,) and self.is_joined_index(users[0], places)
        gathers = (user.opcode == "gather" and user.operands[0] != operation.id for user in users)
        return bool(users) and all(gathers) and all(Indexed.of(user).vector == axis for user in users)

    def joined(self, operation: Operation, places: Container[int], depth: int = 2) -> tuple[int, ...]:
        """The single numbers that vectors are joined of, also in two steps; none if these are not all of its parts."""
        (axis,), parts = Dimensions.of(operation).dimensions, list[int]()
        for part in (self._known[operand] for operand in operation.operands):
            inner: tuple[int, ...] = (part.id,) if part.shape.sizes[axis] == ONE else ()
            is_alone = part.id not in places and [user.id for user in self.all_of(part.id)] == [operation.id]
            if not inner and depth > 1 and part.opcode == "concatenate" and is_alone:
                inner = self.joined(part, places, depth - 1) if Dimensions.of(part).dimensions == (axis,) else ()
            if not inner:
                return ()
            parts += inner
        return tuple(parts)

    def is_part(self, operation: Operation, within: Container[int]) -> bool:
        """Whether only another concatenation, one of `within`, reads this one, which then has no memory of its own.

        It may have axes of one element more there.
        """
        if operation.opcode != "concatenate":
            return False
        users = self.all_of(operation.id)
        while len(users) == 1 and users[0].opcode == "reshape" and is_same_apart_from_ones(users[0], operation):
            users = self.all_of(users[0].id)
        return [user.opcode for user in users] == ["concatenate"] and users[0].id in within

    def is_single(self, operation: Operation) -> bool:
        """Whether an elementwise operation would be computed once if its users computed it."""
        reads_once = self._reads[operation.id] == 1 or self.is_cut_up(operation)
        return reads_once and not (self._is_repeated(operation) and self.is_costly(operation.id))

    def is_cut_up(self, operation: Operation) -> bool:
        """Whether all uses are slices that do not overlap, as for the gates of a recurrent cell."""
        users = self.all_of(operation.id)
        if not users or any(user.opcode != "slice" for user in users):
            return False
        starts = {Slices.of(user).slices for user in users}
        parts = sum((user.shape.elements for user in users), start=ZERO)
        return len(starts) == len(users) and parts == operation.shape.elements

    def _is_repeated(self, operation: Operation) -> bool:
        """Whether a user repeats each element, and would compute it as often."""
        return any(
            (user.opcode == "broadcast" and _repeats(user))
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


def _repeats(broadcast: Operation) -> bool:
    """Whether users compute an element again for each of its copies: a loop along a row computes what it repeats once.

    But a vector of short rows has all their elements, and other rows are computed anew.
    """
    kept, sizes = Dimensions.of(broadcast).dimensions, broadcast.shape.sizes
    added = [size for axis, size in enumerate(sizes) if axis not in kept]
    if not all(size.is_constant for size in added):
        return False
    copies = math.prod(size.constant for size in added)
    in_rows = any(axis in kept and size != ONE for axis, size in enumerate(sizes[-1:], len(sizes) - 1))
    return copies > 1 and (in_rows or copies <= LONGEST)


def is_same_apart_from_ones(one: Operation, other: Operation) -> bool:
    """Whether two shapes differ in axes of one element at most."""
    longer = [[size for size in each.shape.sizes if size != ONE] for each in (one, other)]
    return longer[0] == longer[1]


def same_memory(value: int, known: Mapping[int, Operation]) -> int:
    """What `value` is a reshape of."""
    operation = known[value]
    while operation.opcode == "reshape" and known[operation.operands[0]].shape.rank:
        operation = known[operation.operands[0]]
    return operation.id


def is_counted(value: int, known: Mapping[int, Operation]) -> bool:
    """Whether elements are those of an iota, moved."""
    operation = known[value]
    while operation.opcode in MOVING and operation.operands and operation.opcode != "dynamic-slice":
        operation = known[operation.operands[0]]
    return operation.opcode == "iota"
