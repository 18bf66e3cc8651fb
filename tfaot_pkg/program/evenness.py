"""Values that are the same for all rows, with a dimension that grows with the batch: their elements along it are equal.

Otherwise the place in the batch would decide about an element although no row went into it, as in zeros with another
first row. What an operation makes uneven counts as dependent on the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from tfaot_pkg.program.hlo import Size
from tfaot_pkg.program.values import PLACED, Cause, Known, Step, Value


def kept_even(result: Known, step: Step) -> Known:
    """`result` of `step`; placed if it may differ along the batch although it is the same for all rows."""
    along = _ALONG.get(step.instruction.opcode)
    if along is None or not isinstance(result, Value) or not result.uniform or result.placed is not None:
        return result
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
"""The sizes along which an opcode does not treat all elements alike."""
