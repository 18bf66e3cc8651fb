"""What is known of a loop's iterations: how many they are, and which integers each of them computes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Comparison, Constant
from tfaot_pkg.compiler.expressions import ELEMENTWISE
from tfaot_pkg.compiler.interpret import evaluate
from tfaot_pkg.compiler.program import EXACT_TO, NUMPY_TYPES, ZERO, Operation, Region, Shape, Size
from tfaot_pkg.ground.arrays import Array

_COUNTED_BY = {"LT": 0, "LE": 1, "NE": 0}
"""Directions of a comparison that a loop continues by, and the iterations that each adds to those below its limit."""
_DOWN = {"GT": "LT", "GE": "LE"}
"""Directions of loops that count down, and those of the same loops with all signs changed."""
_MOST = 1 << 16
"""The most iterations whose integers are computed when the model is compiled."""

_Known = Mapping[int, Operation]


def iterations_of(operation: Operation, known: _Known) -> int | None:
    """The most iterations of a `while`, if it counts in constant steps to a constant; None otherwise."""
    # All tests must hold for another iteration, so the first that fails ends the loop.
    return min((found for found in _limits(operation, known) if found is not None), default=None)


def exact_iterations_of(operation: Operation, known: _Known) -> int | None:
    """How often a `while` runs its body, if nothing else than counting can end it; None otherwise."""
    limits = _limits(operation, known)
    found = [limit for limit in limits if limit is not None]
    return min(found) if len(found) == len(limits) else None


def _limits(operation: Operation, known: _Known) -> list[int | None]:
    """For each test that a loop continues by, after how many iterations it fails; None if that is not known."""
    body, condition = operation.regions
    inside = {**known, **body.by_id(), **condition.by_id()}
    return [_iterations_until(test, operation, inside) for test in _all_of(condition.results[0], inside)]


def is_counter(value: int, loop: Operation, known: _Known) -> bool:
    """Whether `value` is the number of the iteration, from 0 on, in the body of `loop`; `known` has its operations."""
    body = loop.regions[0]
    places = [place for place, parameter in enumerate(body.parameters) if parameter.id == value]
    return any(
        _integer(loop.operands[place], known) == 0 and _step(body.results[place], value, known) == 1 for place in places
    )


def filled(loop: Operation, known: _Known) -> frozenset[int]:
    """The states of `loop`, by their places, whose elements its iterations all write, and read before that never.

    An iteration updates a part of such an array, and uses it for nothing else. Nobody can tell what it began with.
    """
    body, condition = loop.regions
    iterations = exact_iterations_of(loop, known)
    if not iterations or iterations > _MOST:
        return frozenset()
    inside = {**known, **body.by_id()}
    integers = _Integers(loop, inside, iterations)
    return frozenset(
        place
        for place, result in enumerate(body.results)
        if inside[result].opcode == "dynamic-update-slice"
        and inside[result].operands[0] == body.parameters[place].id
        and _uses(body, body.parameters[place].id) == _uses(body, result) == 1
        and _uses(condition, condition.parameters[place].id) == 0
        and _is_covered(inside[result], inside, integers)
    )


def _uses(region: Region, value: int) -> int:
    inner = [nested for each in region.everything() for nested in each.regions]
    results = sum(each.results.count(value) for each in (region, *inner))
    return results + sum(each.operands.count(value) for each in region.everything())


def _is_covered(update: Operation, known: _Known, integers: _Integers) -> bool:
    """Whether the parts that all iterations update are the whole array."""
    array, part = (known[value].shape for value in update.operands[:2])
    pairs = zip(array.sizes, part.sizes, update.operands[2:], strict=True)
    moving = [each for each in pairs if each[0] != each[1]]
    if len(moving) != 1:  # of several moving axes, each pair of places would have to occur
        return not moving
    ((length, size, start),) = moving
    if not length.is_constant or not size.is_constant or ZERO in (length, size):
        return False
    starts = integers.of(start)
    if starts is None:
        return False
    # HLO clamps starts so that a part lies within its array.
    starts = np.clip(starts.astype(np.int64), 0, length.constant - size.constant)
    reached = starts[:, None] + np.arange(size.constant)
    return len(np.unique(reached)) == length.constant


class _Integers:
    """The integers that the body of a loop computes, in each iteration, of counters and constants alone."""

    def __init__(self, loop: Operation, known: _Known, iterations: int) -> None:
        self._loop, self._known, self._iterations = loop, known, iterations
        self._found: dict[int, Array | None] = {}

    def of(self, value: int) -> Array | None:
        """A number for each iteration; None if it depends on something else."""
        if value not in self._found:
            self._found[value] = self._computed(self._known[value])
        return self._found[value]

    def _computed(self, operation: Operation) -> Array | None:
        if (constant := _integer(operation.id, self._known)) is not None:
            return self._typed(np.full(self._iterations, constant), operation)
        if operation.opcode == "parameter":
            return self._counted(operation)
        if operation.shape.rank or operation.opcode not in (*ELEMENTWISE, "reshape"):
            return None
        operands = [self.of(operand) for operand in operation.operands]
        known = [operand for operand in operands if operand is not None]
        if len(known) != len(operands):
            return None
        if operation.opcode == "reshape":
            return known[0]
        # All iterations at once: the operation with an element for each.
        wide = replace(operation, type=Shape(operation.shape.dtype, (Size(self._iterations),)))
        made = evaluate(wide, known)
        return None if isinstance(made, tuple) else made

    def _counted(self, parameter: Operation) -> Array | None:
        states = [each.id for each in self._loop.regions[0].parameters]
        if parameter.id not in states:
            return None
        place = states.index(parameter.id)
        start = _integer(self._loop.operands[place], self._known)
        result = self._loop.regions[0].results[place]
        step = 0 if result == parameter.id else _step(result, parameter.id, self._known)
        if start is None or step is None:
            return None
        return self._typed(start + step * np.arange(self._iterations), parameter)

    @staticmethod
    def _typed(numbers: Array, operation: Operation) -> Array:
        return numbers.astype(NUMPY_TYPES[operation.shape.dtype])


def _all_of(value: int, known: _Known) -> Iterator[Operation]:
    """What must all hold for `value` to be true."""
    operation = known[value]
    if operation.opcode == "and":
        for operand in operation.operands:
            yield from _all_of(operand, known)
    else:
        yield operation


def _iterations_until(test: Operation, loop: Operation, known: _Known) -> int | None:
    body, condition = loop.regions
    states = [parameter.id for parameter in condition.parameters]
    if test.opcode != "compare":
        return None
    counter, limit = test.operands
    if counter not in states:
        return None
    place = states.index(counter)
    start, end = _integer(loop.operands[place], known), _at_start(limit, loop, known)
    # A loop that is not counted is named as open, never guessed.
    step = _step(body.results[place], body.parameters[place].id, known)
    if start is None or end is None or step is None:
        return None
    direction, sign = Comparison.of(test).direction, 1
    if direction in _DOWN:
        start, end, step, direction, sign = -start, -end, -step, _DOWN[direction], -1
    if direction not in _COUNTED_BY or step < 1:
        return None
    distance = end - start + _COUNTED_BY[direction]
    if direction == "NE" and (distance < 0 or distance % step):
        return None
    count = max(0, -(-distance // step))
    # The number that ends the loop must be one of the counter's type, which wraps around or stands still otherwise.
    return count if _has(known[counter].shape.dtype, sign * (start + step * count)) else None


def _has(dtype: str, number: int) -> bool:
    """Whether a type has an integer, and all between it and zero."""
    if dtype in EXACT_TO:
        return abs(number) <= EXACT_TO[dtype]
    if np.dtype(NUMPY_TYPES[dtype]).kind not in "iu":
        return False
    limits = np.iinfo(NUMPY_TYPES[dtype])
    return bool(limits.min <= number <= limits.max)


def _step(result: int, parameter: int, known: _Known) -> int | None:
    """The constant that an iteration adds to a counter; None if it is not one."""
    operation = known[result]
    if operation.opcode not in ("add", "subtract") or parameter not in operation.operands:
        return None
    step = _integer(sum(operation.operands) - parameter, known)  # the other operand of two
    if operation.opcode == "add" or step is None:
        return step
    return -step if operation.operands[0] == parameter else None


def _at_start(value: int, loop: Operation, known: _Known) -> int | None:
    """The integer that `value` is in all iterations: a constant, or a state that the body does not change."""
    body, condition = loop.regions
    states = [parameter.id for parameter in condition.parameters]
    if value not in states:
        return _integer(value, known)
    place = states.index(value)
    unchanged = body.results[place] == body.parameters[place].id
    return _integer(loop.operands[place], known) if unchanged else None


def _integer(value: int, known: _Known) -> int | None:
    operation = known[value]
    while operation.opcode in ("broadcast", "reshape", "convert", "copy"):
        operation = known[operation.operands[0]]
    if operation.opcode != "constant" or operation.shape.sizes not in ((), (Size(1),)):
        return None
    literal = Constant.of(operation).literal
    if literal.growing or literal.constant.dtype.kind not in "iu":
        return None
    number = int(literal.constant.reshape(()))
    return number if _has(known[value].shape.dtype, number) else None  # conversions may change it
