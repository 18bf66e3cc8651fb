"""`Value`: how an array depends on the rows of the batch, and how several values are combined.

A value that is the same for all rows, with a dimension that grows with the batch, must have equal elements along that
dimension. Otherwise an element would depend on its position in the batch although it was computed from no row, as in
zeros with another first row. If an operation makes them unequal, its result counts as dependent on the position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Union

import numpy as np

from tfaot_pkg.analysis.program import integers
from tfaot_pkg.analysis.program.hlo import Instruction, Program, Shape, Size
from tfaot_pkg.analysis.program.integers import Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The dimension of the rows. It has outer x batch x inner elements, in this order."""

    dimension: int
    outer: int = 1
    inner: int = 1

    def at(self, dimension: int) -> Axis:
        return replace(self, dimension=dimension)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The instruction that made a value depend on other rows, or on positions in the batch."""

    instruction: Instruction | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An instruction with what is known about its operands: the argument of a transfer function."""

    program: Program
    instruction: Instruction
    operands: tuple[Value, ...]
    shapes: tuple[Shape, ...]


INTERACT = "rows interact"
UNLIMITED = "an index may be that of another row, so rows interact"
PLACED = "its rows depend on their position in the batch, or on the batch size"
CHOSEN = "what computes it is chosen by the batch size"
UNKNOWN_OPERATION = "rows may interact in an unknown operation"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Value:
    """Unless `mixed`, each row depends on the same row of the inputs alone, and on its position in the batch only if
    `placed` or `integers` say so.

    If `axis` is None, the value is the same for all rows, and equal along dimensions that grow with the batch.
    If `iteration`, it depends on one row: that of the current iteration of the loop over the rows.
    `below_batch` marks the truth value of "the number of the iteration is less than the batch size".
    `carried` is the number of an array that a loop over the rows carries from one iteration to the next. The value is
    that array, in which at most the row of the iteration was written.
    `term` says how the value was computed (terms.py); None if it was joined from several. `equals` ignores it.
    """

    axis: Axis | None = None
    iteration: bool = False
    mixed: Cause | None = None
    placed: Cause | None = None
    integers: Integers | None = None
    below_batch: bool = False
    carried: int | None = None
    term: int | None = None

    @property
    def known(self) -> Integers:
        """`integers`, or the unknown ones."""
        return integers.UNKNOWN if self.integers is None else self.integers

    @property
    def uniform(self) -> bool:
        """Whether the value does not depend on rows at all."""
        return self.mixed is None and self.axis is None and not self.iteration

    def equals(self, other: Value) -> bool:
        same = (self.axis, self.iteration, self.below_batch) == (other.axis, other.iteration, other.below_batch)
        same = same and self.carried == other.carried
        # Whether there is a cause counts, not which one: a fixed point is about what is known.
        same = (
            same and (self.mixed is None) == (other.mixed is None) and (self.placed is None) == (other.placed is None)
        )
        if self.integers is None or other.integers is None:
            return same and self.integers is other.integers
        return same and self.integers.equals(other.integers)


def row_sizes(shape: Shape, axis: Axis | None) -> tuple[int, ...] | None:
    """The sizes of one row of an array; None if a size other than that of the axis depends on the batch."""
    sizes = []
    for dimension, (small, large) in enumerate(shape.sizes):
        if axis is not None and dimension == axis.dimension:
            sizes.append(axis.outer * axis.inner)
        elif small != large:
            return None
        else:
            sizes.append(small)
    return tuple(sizes)


Known = Union[Value, "tuple[Known, ...]"]
"""A value, or those of the elements of a tuple."""


def mixed(instruction: Instruction, reason: str = INTERACT) -> Value:
    return Value(mixed=Cause(instruction=instruction, reason=reason))


def settled(value: Value, instruction: Instruction) -> Value:
    """`value` after an operation whose effect on integers is not known."""
    if value.integers is None and not value.below_batch:
        return value
    dependent = value.below_batch or (value.integers is not None and value.integers.placed)
    cause = value.placed or (Cause(instruction=instruction, reason=PLACED) if dependent else None)
    return replace(value, integers=None, below_batch=False, placed=cause)


def together(values: Iterable[Value], instruction: Instruction) -> Value:
    """The value of a result that depends on all of `values`, with their axes; nothing is known of its integers."""
    axis: Axis | None = None
    iteration = False
    placed: Cause | None = None
    for value in (settled(each, instruction) for each in values):
        if value.mixed is not None:
            return Value(mixed=value.mixed)
        if value.axis is not None and axis is not None and value.axis != axis:
            return mixed(instruction)
        axis, iteration, placed = axis or value.axis, iteration or value.iteration, placed or value.placed
    # Each row would depend on itself and on the row of the iteration: two rows.
    if axis is not None and iteration:
        return mixed(instruction)
    return Value(axis=axis, iteration=iteration, placed=placed)


def with_integers(value: Value, found: Integers | None, operands: Iterable[Value], instruction: Instruction) -> Value:
    """`value`, computed from `operands`, with the integers `found`; None if they are no longer known."""
    if value.mixed is not None:
        return value
    cause = next((each.placed for each in operands if each.placed is not None), None)
    # Known integers say exactly how they depend on the position, so that alone does not make the value `placed`.
    if found is not None:
        return replace(value, integers=found, placed=cause)
    if cause is None and any(each.below_batch or each.known.placed for each in operands):
        cause = Cause(instruction=instruction, reason=PLACED)
    return replace(value, integers=None, placed=cause)


def join(one: Known, two: Known, instruction: Instruction) -> Known:
    """What holds for both values."""
    if isinstance(one, tuple) and isinstance(two, tuple):
        return tuple(join(first, second, instruction) for first, second in zip(one, two, strict=True))
    if isinstance(one, tuple) or isinstance(two, tuple):
        return mixed(instruction, UNKNOWN_OPERATION)
    value = together((one, two), instruction)
    if one.carried is not None and one.carried == two.carried and value.mixed is None:
        value = replace(value, carried=one.carried)
    if one.below_batch and two.below_batch:
        return replace(value, below_batch=True, placed=one.placed or two.placed)
    if one.integers is None and two.integers is None:
        return value
    return with_integers(value, integers.join(one.known, two.known), (one, two), instruction)


def same(one: Known, two: Known) -> bool:
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return isinstance(one, Value) and isinstance(two, Value) and one.equals(two)


def flat(value: Known) -> list[Value]:
    """All values in a tuple of tuples."""
    if isinstance(value, Value):
        return [value]
    return [each for part in value for each in flat(part)]


def structured(like: Known, values: Iterator[Value]) -> Known:
    """The next of `values`, in the structure of `like`."""
    return tuple(structured(each, values) for each in like) if isinstance(like, tuple) else next(values)


def without_terms(value: Known) -> Known:
    return structured(value, (replace(each, term=None) for each in flat(value)))


def kept_even(result: Known, step: Step) -> Known:
    """`result` of `step`; placed if it may differ along the batch although it depends on no row."""
    along = _ALONG.get(step.instruction.opcode)
    if along is None or not isinstance(result, Value) or not result.uniform or result.placed is not None:
        return result
    # One exact integer describes all elements, so they are equal.
    if result.integers is not None and np.array_equal(result.integers.low, result.integers.high):
        return result
    if all(small == large for small, large in along(step)):
        return result
    return replace(result, integers=None, placed=Cause(instruction=step.instruction, reason=PLACED))


def _concatenated(step: Step) -> Iterable[Size]:
    return [step.instruction.shape.sizes[d] for d in step.instruction.attribute("dimensions")]


def _padded(step: Step) -> Iterable[Size]:
    pads = zip(*(each.padding for each in step.instruction.attributes), strict=True)
    return [size for size, pad in zip(step.instruction.shape.sizes, pads, strict=True) if pad != ((0, 0, 0), (0, 0, 0))]


def _scattered(step: Step) -> Iterable[Size]:
    return [step.shapes[0].sizes[d] for d in step.instruction.attribute("indexed")]


def _updated(step: Step) -> Iterable[Size]:
    return [size for size, part in zip(step.shapes[0].sizes, step.shapes[1].sizes, strict=True) if size != part]


def _windowed(step: Step) -> Iterable[Size]:
    windows = zip(*(each.window for each in step.instruction.attributes), strict=True)
    still = (1, 1, 0, 0)  # size, stride and both edges
    return [
        size
        for size, pair in zip(step.shapes[0].sizes, windows, strict=True)
        if any(each[:4] != still for each in pair)
    ]


def _convolved(step: Step) -> Iterable[Size]:
    return [step.shapes[0].sizes[d] for d in step.instruction.attribute("input")[2:]]


def _matrices(step: Step) -> Iterable[Size]:
    return step.shapes[0].sizes[-2:]


def _transformed(step: Step) -> Iterable[Size]:
    return step.shapes[0].sizes[-len(step.instruction.attributes[0].length) :]


_ALONG: Mapping[str, Callable[[Step], Iterable[Size]]] = {
    "cholesky": _matrices,
    "concatenate": _concatenated,
    "convolution": _convolved,
    "custom-call": lambda step: step.instruction.shape.sizes,
    "dynamic-update-slice": _updated,
    "fft": _transformed,
    "pad": _padded,
    "reduce-window": _windowed,
    "scatter": _scattered,
    "select-and-scatter": _windowed,
    "triangular-solve": _matrices,
}
"""By opcode, the sizes along which it treats elements differently, so that equal elements may become unequal."""
