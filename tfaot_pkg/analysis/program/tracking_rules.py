"""How each operation moves and changes tracked arrays, by opcode: tracking.py for the instructions of a listing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tfaot_pkg.analysis.program import tracking
from tfaot_pkg.analysis.program.tracking import Tracked
from tfaot_pkg.worker_program.messages import listing
from tfaot_pkg.worker_program.messages.listing import ArrayShape, Instruction

_SAME = frozenset("copy opt-barrier set-dimension-size".split())

_Attributes = TypeVar("_Attributes")


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction that gives an array of `shape`, what is known of its operands, and their sizes."""

    instruction: Instruction
    shape: ArrayShape
    arrays: Sequence[Tracked | None]
    sizes: Sequence[Sequence[int]]

    def given(self, kind: type[_Attributes]) -> _Attributes:
        """The attributes."""
        assert isinstance(self.instruction.attributes, kind)
        return self.instruction.attributes

    @property
    def axes(self) -> tuple[int, ...]:
        return self.given(listing.Dimensions).dimensions


Rule = Callable[[Step], Tracked | None]


def _of_first(change: Callable[[Step, Tracked], Tracked | None]) -> Rule:
    """The rule `change(step, first operand)`, if something is known of that operand."""
    return lambda step: None if step.arrays[0] is None else change(step, step.arrays[0])


def _of_all(change: Callable[..., Tracked | None]) -> Rule:
    """The rule `change(step, *operands)`, if something is known of each operand."""
    return lambda step: None if any(each is None for each in step.arrays) else change(step, *step.arrays)


def _moved(move: Callable[[Step, tracking.Array], tracking.Array]) -> Rule:
    """The rule of an operation that moves elements; arrays have the axis of alternatives before all others."""
    return _of_first(lambda step, array: array.moved(lambda each: move(step, each)))


def _extreme(one: Tracked, two: Tracked, *, largest: bool) -> Tracked | None:
    chosen = tracking.compared("GE" if largest else "LE", one, two)
    return tracking.selected(chosen, one, two) if chosen is not None and chosen.is_known else None


def _clamped(_: Step, low: Tracked, value: Tracked, high: Tracked) -> Tracked | None:
    """Known numbers only: any number may be clamped."""
    if not (low.is_known and value.is_known and high.is_known):
        return None
    return tracking.known(np.minimum(np.maximum(value.numbers, low.numbers), high.numbers))


def _selected(step: Step) -> Tracked | None:
    condition, one, two = step.arrays
    if condition is not None and len(step.sizes[0]) < len(step.sizes[1]):
        condition = tracking.broadcast(condition, step.sizes[1], ())
    return tracking.selected(condition, one, two)


def _window(step: Step, array: Tracked) -> Tracked | None:
    starts = step.arrays[1:]
    return tracking.window(array, starts, step.given(listing.Sizes)) if len(starts) == len(array.sizes) else None


def _compared(step: Step, one: Tracked, two: Tracked) -> Tracked | None:
    given = step.given(listing.Comparison)
    # Only integers: elements of floats may be negative.
    return None if given.order == "FLOAT" else tracking.compared(given.direction, one, two)


def _negated(array: Tracked) -> Tracked | None:
    return tracking.scaled(array, tracking.known(np.full(array.sizes, -1)))


def _difference(_: Step, one: Tracked, two: Tracked) -> Tracked | None:
    negative = _negated(two)
    return None if negative is None else tracking.added(one, negative)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_SAME, _of_first(lambda _, array: array)),
    "constant": lambda step: tracking.constant(step.instruction),
    "iota": lambda step: tracking.iota(step.shape, step.axes[0]),
    # Of floats the integers are drawn, which stay as they are.
    "convert": _of_first(lambda step, array: None if step.shape.dtype == "pred" else array),
    "reshape": _moved(lambda step, each: each.reshape(len(each), *step.shape.sizes)),
    "transpose": _moved(lambda step, each: each.transpose(0, *(axis + 1 for axis in step.axes))),
    "reverse": _moved(lambda step, each: np.flip(each, tuple(axis + 1 for axis in step.axes))),
    "broadcast": _of_first(lambda step, array: tracking.broadcast(array, step.shape.sizes, step.axes)),
    "slice": _of_first(lambda step, array: tracking.sliced(array, step.given(listing.Slices))),
    "negate": _of_first(lambda _, array: _negated(array)),
    "add": _of_all(lambda _, one, two: tracking.added(one, two)),
    "subtract": _of_all(_difference),
    "multiply": _of_all(lambda _, one, two: tracking.scaled(one, two)),
    "divide": _of_all(lambda _, one, two: tracking.divided(one, two)),
    "maximum": _of_all(lambda _, one, two: _extreme(one, two, largest=True)),
    "minimum": _of_all(lambda _, one, two: _extreme(one, two, largest=False)),
    "clamp": _of_all(_clamped),
    "compare": _of_all(_compared),
    "select": _selected,
    "concatenate": lambda step: tracking.concatenated(step.arrays, step.sizes, step.axes[0]),
    "gather": _of_first(
        lambda step, array: tracking.gathered(array, step.arrays[1], step.given(listing.Gather), step.sizes[1])
    ),
    "dynamic-slice": _of_first(_window),
    "pad": _of_first(
        lambda step, array: tracking.padded(array, step.arrays[1], step.given(listing.Padding), step.shape.sizes)
    ),
}
