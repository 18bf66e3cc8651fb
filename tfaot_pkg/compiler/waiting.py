"""The values that wait for one loop which computes them together, and which values loops compute for their users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tfaot_pkg.compiler.expressions import ELEMENTWISE, MOVING
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.uses import Uses

_DEEPEST = 64
"""The deepest chain of operations in one loop. Loops are built by recursion along it, and Python limits recursion."""
_TOGETHER = 8
"""The most values that one loop computes, so that registers hold what they share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Values of one shape that one loop computes. It writes `written`; the others stay in its registers."""

    values: tuple[int, ...]
    written: tuple[int, ...]


class Waiting:
    """`is_known` says which values are computed; `wanted` are results, whose users look for them at known places."""

    def __init__(self, known: Mapping[int, Operation], uses: Uses, is_known: Callable[[int], bool]) -> None:
        self._known, self._uses, self._is_known = known, uses, is_known
        self._values: list[int] = []
        self._depths: dict[int, int] = {}  # of values that are not in memory
        self.wanted: set[int] = set()
        self.last: set[int] = set()  # values behind which loops end, because a long function takes them

    def __contains__(self, value: int) -> bool:
        return value in self._values

    def takes(self, operation: Operation) -> bool:
        """Whether one loop should compute the value beside those that wait."""
        if len(self._values) >= _TOGETHER or self._depth_of(operation) > _DEEPEST:
            return False
        is_alike = not self._values or self._known[self._values[0]].type == operation.type
        return is_alike and not any(self._repeats(operand) for operand in operation.operands)

    def can_join(self, operation: Operation) -> bool:
        """Whether the loop of those that wait can compute a value of its own as well, which is asked for."""
        if not self._values or operation.id in self._values or operation.opcode not in ELEMENTWISE:
            return False
        return operation.type == self._known[self._values[0]].type

    def add(self, operation: Operation) -> None:
        self._depths[operation.id] = self._depth_of(operation)
        self._values.append(operation.id)

    def closed(self) -> Together | None:
        """The loop of those that wait; none wait afterwards."""
        values = tuple(self._values)
        written = tuple(value for value in values if not self._is_inside(value))
        for value in values:
            del self._depths[value]
        self._values = []
        return Together(values=values, written=written) if values else None

    def is_inlined(self, operation: Operation) -> bool:
        """Whether it is computed where it is used."""
        if operation.opcode == "constant":
            return True
        if self._uses.is_joined_index(operation, self.wanted):
            return True
        if operation.id in self.last or self._uses.is_argument(operation, self._is_known):
            return False
        if isinstance(operation.type, tuple) or operation.opcode not in (*ELEMENTWISE, *MOVING):
            return False
        if operation.opcode in ELEMENTWISE and (not operation.shape.rank or operation.id in self.wanted):
            return False
        depth = self._depth_of(operation)
        # With several uses it would be computed several times, unless each uses a different part.
        if (operation.opcode in MOVING or self._uses.is_single(operation)) and depth <= _DEEPEST:
            self._depths[operation.id] = depth
            return True
        return False

    def _depth_of(self, operation: Operation) -> int:
        return 1 + max((self._depths.get(operand, 0) for operand in operation.operands), default=0)

    def _repeats(self, value: int, *, is_moved: bool = False) -> bool:
        """Whether to compute `value` would be to compute a costly waiting value at other indices again."""
        if value in self._values:
            return is_moved and self._uses.is_costly(value)
        if value not in self._depths:  # in memory
            return False
        operation = self._known[value]
        is_moved = is_moved or (operation.opcode in MOVING and operation.opcode != "reshape")
        return any(self._repeats(operand, is_moved=is_moved) for operand in operation.operands)

    def _is_inside(self, value: int) -> bool:
        """Whether all users of a value are computed in the loop of the waiting values: then it needs no memory."""
        users = self._uses.all_of(value)
        if value in self.wanted or not users:
            return False
        return all(user.id in self._values or (self._follows(user) and self._is_inside(user.id)) for user in users)

    def _follows(self, user: Operation) -> bool:
        is_of_elements = user.opcode in ELEMENTWISE or (user.opcode in MOVING and user.opcode != "broadcast")
        return is_of_elements and self.is_inlined(user)
