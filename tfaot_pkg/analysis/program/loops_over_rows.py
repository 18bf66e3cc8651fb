"""Loops with one iteration per row, in the order of rows: iteration i reads and writes row i of arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.analysis.program import integers
from tfaot_pkg.analysis.program.hlo import Computation, Instruction
from tfaot_pkg.analysis.program.values import PLACED, Cause, Known, Value, flat, join, mixed, same, settled

MOST_ITERATIONS = 100
"""The most iterations to a loop's fixed point. Each can only lose knowledge, so few are needed."""

_ITERATION = Value(integers=integers.between(0, 0, iteration=1))
"""A counter in an iteration."""
_ROWS = Value(integers=integers.between(0, 0, batch=1))
"""A counter after one iteration per row: the batch size."""


@dataclass(frozen=True, slots=True)
class LoopOverRows:
    """A loop that may be one over rows; `run` gives the value of a computation's root."""

    run: Callable[[Computation, Sequence[Known]], Known]
    instruction: Instruction
    initial: tuple[Known, ...]
    body: Computation
    condition: Computation

    def result(self) -> Known | None:
        """What the loop carries at its end; None if it is another kind of loop."""
        if any(each.iteration or (each.known.iteration != 0).any() for each in flat(self.initial)):
            return None  # only one loop over rows is modelled: `Value` has one iteration, not one per nested loop
        counters = frozenset(i for i, value in enumerate(self.initial) if _may_count(value))
        if not self._ends_after_rows(_with(self.initial, counters, _ITERATION)):
            return None
        found = self._fixed_point(counters)
        if found is None:
            return None
        counters, state = found
        # Checked again in the final state: the condition may use a candidate that is not a counter.
        if not self._ends_after_rows(state):
            return None
        return tuple(map(_plain, _with(state, counters, _ROWS)))

    def _ends_after_rows(self, state: tuple[Known, ...]) -> bool:
        decided = self.run(self.condition, [state])
        return isinstance(decided, Value) and decided.below_batch and decided.placed is None

    def _fixed_point(self, counters: frozenset[int]) -> tuple[frozenset[int], tuple[Known, ...]] | None:
        """Those of `counters` that count, and what holds before each iteration."""
        numbered = _numbered(self.initial)
        state = _with(numbered, counters, _ITERATION)
        for _ in range(MOST_ITERATIONS):
            after = self.run(self.body, [state])
            assert isinstance(after, tuple)
            counting = frozenset(i for i in counters if _has_counted(after[i]))
            # Candidates that do not count are ordinary arrays: start again.
            if counting != counters:
                state = tuple(numbered[i] if i in counters - counting else each for i, each in enumerate(state))
                counters = counting
                continue
            joined = tuple(
                each if i in counters else _handed_on(each, after[i], self.instruction) for i, each in enumerate(state)
            )
            if same(state, joined):
                return counters, state
            state = joined
        return None


def _may_count(value: Known) -> bool:
    """Whether this is a single integer that begins at 0 and is the same for all rows."""
    if not isinstance(value, Value) or not value.uniform or value.integers is None:
        return False
    return value.integers.shape == () and value.integers.is_exactly()


def _has_counted(after: Known) -> bool:
    """Whether a counter has grown by exactly one in the iteration."""
    if not isinstance(after, Value) or after.mixed is not None or after.placed is not None:
        return False
    return after.known.is_exactly(iteration=1, low=1, high=1)


def _with(state: tuple[Known, ...], counters: Set[int], value: Value) -> tuple[Known, ...]:
    """`state`, in which all counters have `value`."""
    return tuple(value if i in counters else each for i, each in enumerate(state))


def _numbered(initial: tuple[Known, ...]) -> tuple[Known, ...]:
    """The arrays before a loop, each with a number of its own."""
    numbers = itertools.count()

    def numbered(value: Known) -> Known:
        if isinstance(value, tuple):
            return tuple(map(numbered, value))
        return replace(value, carried=next(numbers), term=None)

    return tuple(map(numbered, initial))


def _handed_on(before: Known, after: Known, instruction: Instruction) -> Known:
    """The value that a loop over the rows passes to the next iteration: `before` or `after`.

    A value of one row must not reach the next iteration, and a value without rows depends on the number of iterations.
    """
    if isinstance(before, tuple) and isinstance(after, tuple):
        return tuple(_handed_on(one, two, instruction) for one, two in zip(before, after, strict=True))
    if isinstance(before, tuple) or isinstance(after, tuple) or after.iteration:
        return mixed(instruction)
    # Not the array itself with one more row written: iteration i sees what i iterations made, so it is placed.
    if after.mixed is None and before.carried is not None and after.carried != before.carried:
        if _same_constant(before, after):
            return before
        after = settled(after, instruction)
        after = replace(after, placed=after.placed or Cause(instruction=instruction, reason=PLACED))
    return widened(before, join(before, after, instruction))


def _same_constant(before: Value, after: Value) -> bool:
    """Whether both are one integer."""
    one, two = before.integers, after.integers
    exact = one is not None and two is not None and one.equals(two) and np.array_equal(one.low, one.high)
    return exact and before.uniform and after.uniform


def _plain(value: Known) -> Known:
    """After the loop."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return replace(value, carried=None, term=None)


def widened(before: Known, after: Known) -> Known:
    """`after`, without bounds that grew since `before`: no fixed point would be reached."""
    if isinstance(before, tuple) and isinstance(after, tuple):
        return tuple(map(widened, before, after))
    if not isinstance(before, Value) or not isinstance(after, Value) or after.integers is None:
        return after
    return replace(after, integers=integers.widened(before.known, after.integers))
