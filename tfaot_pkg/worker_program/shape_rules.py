"""Rules of shape_transfer.py for operations that ask for sizes, count, or read at positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from polynomials import BATCH, Polynomial
from shape_default import default
from shape_elements import moved
from shape_slices import length_of_range
from shape_values import (
    CONSTANT,
    DATA,
    Choice,
    Known,
    Spread,
    all_known,
    choice_of,
    growing,
    is_folded,
    known,
    sizes_of,
)

if TYPE_CHECKING:
    from shape_transfer import Step
    from shape_values import Content, Value


def random(step: Step) -> Content:
    """Random numbers are computed when the model runs; their seed may be folded."""
    contents = step.contents[1:]
    if (found := next(filter(None, map(choice_of, contents)), None)) is not None:
        return found
    sizes = frozenset().union(*map(sizes_of, contents))
    return step.choice(sizes) if sizes else DATA


def gathered(step: Step) -> Content | Sequence[Content]:
    """Elements of an array at positions; a table that is read at growing positions is any function of these."""
    array, places, *axes = step.contents
    if isinstance(places, Spread) and places.counted is not None and _is_whole(step, places.counted, axes):
        return array
    if not isinstance(places, Spread) or not is_folded(array):
        return moved(0)(step)
    positions = step.operands[1].positions
    is_table = isinstance(array, (Known, Spread)) and not sizes_of(array) and not growing(step.operands[0].shape)
    if not is_table or places.sizes or choice_of(array) or BATCH in positions:
        return (
            default(step)
            if not positions | sizes_of(places) | sizes_of(array)
            else step.choice(positions | places.sizes | sizes_of(array))
        )
    return Spread(is_placed=bool(positions), is_bent=bool(positions))


def _is_whole(step: Step, counted: str, axes: Sequence[Content]) -> bool:
    """Whether all elements along an axis are gathered, each in its place."""
    shape, number = step.operands[0].shape, axes[0] if axes else known(0)
    if shape is None or not isinstance(number, Known) or number.numbers is None:
        return False
    if step.op.type == "GatherV2" and step.op.get_attr("batch_dims"):
        return False
    return shape[int(number.element.constant)] == Polynomial.of([((counted,), 1)])


def diagonal(step: Step) -> Content | Sequence[Content]:
    """One diagonal of matrices: numbers of a position each."""
    matrices, *of_which = step.contents
    number = of_which[0] if of_which else known(0)
    is_one = isinstance(number, Known) and number.numbers is not None and number.values.size == 1
    over = growing(step.operands[0].shape) | growing(step.shapes[0])
    is_plain = isinstance(matrices, Spread) and not matrices.sizes and not matrices.is_inverse
    if not is_one or not is_plain or BATCH in over:
        return default(step)
    return Spread(is_placed=bool(over), is_bent=bool(over))


def scattered(step: Step) -> Content | Sequence[Content]:
    """Elements at constant places."""
    places = step.contents[0]
    numbers = places.numbers if isinstance(places, Known) else None
    # Numbers of one place are added up.
    is_single = (
        numbers is not None and len(np.unique(numbers.reshape(-1, numbers.shape[-1]), axis=0)) == numbers[..., 0].size
    )
    return moved(1)(step) if is_single else default(step)


def broadcast_shape(step: Step) -> Content | Sequence[Content]:
    """BroadcastArgs: two shapes."""
    one, two = step.contents
    if not isinstance(one, Known) or not isinstance(two, Known):
        return default(step)
    rank = max(one.values.size, two.values.size)
    pad = [Polynomial.number(1)]
    pairs = zip(*(pad * (rank - each.values.size) + list(each.values.flat) for each in (one, two)), strict=True)
    return known([_wider(step, *pair) for pair in pairs])


def _wider(step: Step, one: Polynomial | Choice, two: Polynomial | Choice) -> Polynomial | Choice:
    if isinstance(one, Choice):
        return one
    if isinstance(two, Choice):
        return two
    single = Polynomial.number(1)
    if two in (one, single):
        return one
    return two if one == single else step.choice(one.names | two.names)


def summed_axes(step: Step) -> Content | Sequence[Content]:
    """BroadcastGradientArgs: the axes along which each of two shapes was repeated."""
    one, two = step.contents
    if not isinstance(one, Known) or not isinstance(two, Known):
        return default(step)
    rank, single = max(one.values.size, two.values.size), Polynomial.number(1)
    sides = [[single] * (rank - each.values.size) + list(each.values.flat) for each in (one, two)]
    for pair in zip(*sides, strict=True):
        if isinstance(found := _wider(step, *pair), Choice):
            return found
    return [known([axis for axis, size in enumerate(side) if size == single]) for side in sides]


def shape(step: Step) -> list[Content]:
    return [_shape_of(step, each) for each in step.operands]


def _shape_of(step: Step, value: Value) -> Content:
    if value.chosen is not None:
        return value.chosen
    if value.is_ragged and (value.shape is None or None in value.shape):
        return DATA
    if value.shape is None:
        return step.choice({BATCH, *step.ranges})
    return known([step.choice({BATCH, *step.ranges}) if size is None else size for size in value.shape])


def size(step: Step) -> Content:
    (sizes,) = shape(step)
    if not isinstance(sizes, Known):
        return sizes
    if (found := sizes.choice) is not None:
        return found
    return known(math.prod(sizes.values.flat, start=Polynomial.number(1)))


def rank(step: Step) -> Content:
    return CONSTANT if step.operands[0].shape is None else known(len(step.operands[0].shape))


def range_(step: Step) -> Content | Sequence[Content]:
    contents = all_known(step.contents)
    if contents is None or any(each.choice for each in contents):
        return default(step)
    start, limit, delta = (each.element for each in contents)
    if not limit.names and not start.names and not delta.names:
        return default(step)
    if isinstance(found := length_of_range(step), Choice):
        return found
    is_whole = not start.terms and delta == Polynomial.number(1)
    counted = next((name for name in limit.names if is_whole and limit == Polynomial.of([((name,), 1)])), None)
    return Spread(start.names, is_placed=True, counted=counted)


def listed(step: Step) -> Content:
    """The handle of a list of arrays: its number of arrays."""
    return step.contents[1]


def from_array(step: Step) -> Content | Sequence[Content]:
    shape = step.operands[0].shape
    return default(replace(step, operands=step.operands[:1])) if not shape or shape[0] is None else known(shape[0])
