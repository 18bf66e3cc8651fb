"""Rules of shape_transfer.py for operations that move, choose or compute elements one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import folding
import numpy as np
import shape_arithmetic as arithmetic
import tensorflow as tf
from polynomials import Polynomial
from shape_default import default, numbers
from shape_values import (
    CONSTANT,
    DATA,
    MOST_ELEMENTS,
    Choice,
    Known,
    Spread,
    all_known,
    choice_of,
    complete,
    growing,
    known,
)

if TYPE_CHECKING:
    from framework_types import Array
    from shape_transfer import Rule, Step
    from shape_values import Content


def moved(*places: int) -> Rule:
    """The rule of an operation that moves the elements of the operands `places`: all but the last for -1."""

    def rule(step: Step) -> Content | Sequence[Content]:
        count = len(step.operands)
        moved = range(count - 1) if places == (-1,) else places or range(count)
        contents = all_known(step.contents)
        if contents is None:
            return default(step)
        elements: list[Polynomial | Choice] = [Polynomial()]
        arrays: list[Array] = []
        for place, content in enumerate(contents):
            if place in moved:
                numbers = np.arange(content.values.size).reshape(content.values.shape) + len(elements)
                elements += list(content.values.flat)
                arrays.append(numbers)
            elif (constants := content.numbers) is not None:
                arrays.append(constants)
        if len(arrays) < len(contents) or len(elements) > 2 * MOST_ELEMENTS:
            return default(step)
        if any(step.op.inputs[place].dtype not in _COUNTING for place in moved):
            return default(step)
        found = folding.run(step.op, arrays)
        if found is None or any(each.size > MOST_ELEMENTS for each in found):
            return default(step)
        return [_chosen(elements, each) for each in found]

    return rule


_COUNTING = (tf.int32, tf.int64, tf.float32, tf.float64)
"""Types that hold the numbers of elements."""


def _chosen(elements: list[Polynomial | Choice], numbers: np.ndarray) -> Known:
    return known(np.array([elements[int(each)] for each in numbers.flat], object).reshape(numbers.shape))


def elementwise(function: arithmetic.Function) -> Rule:
    """The rule of an operation on polynomials: `function(step, *polynomials)` gives one, or None if there is none."""

    def rule(step: Step) -> Content | Sequence[Content]:
        contents = all_known(step.contents)
        if contents is None:
            return default(step)
        if math.prod(np.broadcast_shapes(*(each.values.shape for each in contents))) > MOST_ELEMENTS:
            return default(step)
        # TensorFlow's own kernel knows how numbers of its types wrap around and round.
        return numbers(step) or arithmetic.computed(step, function, contents, _type(step))

    return rule


def _type(step: Step) -> str:
    return str(step.op.inputs[0].dtype.base_dtype.name)


def times(step: Step) -> Content | Sequence[Content]:
    """A product: TensorFlow computes one with zeros before the model runs."""
    known_numbers = (each.numbers for each in step.contents if isinstance(each, Known))
    if any(numbers is not None and not numbers.any() for numbers in known_numbers) and not any(
        map(choice_of, step.contents)
    ):
        return CONSTANT if DATA in step.contents else elementwise(arithmetic.multiplied)(step)
    return elementwise(arithmetic.multiplied)(step)


def reduced(function: arithmetic.Function, start: int | None) -> Rule:
    """The rule of a reduction of polynomials by `function(step, one, two)`; `start` is what no element gives."""

    def rule(step: Step) -> Content | Sequence[Content]:
        array, axes = step.contents
        numbers = axes.numbers if isinstance(axes, Known) else None
        if not isinstance(array, Known) or numbers is None:
            return default(step)
        rank = array.values.ndim
        over = tuple(sorted({int(each) % rank for each in numbers.flat})) if rank else ()
        kept = [axis for axis in range(rank) if axis not in over]
        sizes = [array.values.shape[axis] for axis in kept]
        flat = array.values.transpose([*kept, *over]).reshape(*sizes, -1)
        found = np.empty(sizes, object)
        for place in np.ndindex(*sizes):
            found[place] = _folded(step, function, flat[place], start)
        if step.op.get_attr("keep_dims"):
            found = found.reshape([1 if axis in over else size for axis, size in enumerate(array.values.shape)])
        return Known(found)

    return rule


def _folded(
    step: Step, function: arithmetic.Function, elements: Iterable[Polynomial | Choice], start: int | None
) -> Polynomial | Choice:
    total = None if start is None else Polynomial.number(start)
    for each in elements:
        made: Polynomial | Choice
        if total is None or isinstance(each, Choice):
            made = each
        else:
            made = arithmetic.computed(step, function, [known(total), known(each)], _type(step)).element
        if isinstance(made, Choice):
            return made
        total = made
    return Polynomial() if total is None else total


def divided(step: Step) -> Content | Sequence[Content]:
    """A quotient of floats, or of integers rounded toward zero."""
    if step.op.inputs[0].dtype.is_integer:
        return elementwise(arithmetic.toward_zero)(step)
    one, two = step.contents
    if (
        isinstance(one, Known)
        and isinstance(two, Known)
        and two.choice is None
        and two.sizes
        and one.numbers is not None
    ):
        return Spread(two.sizes, is_inverse=True)
    return elementwise(arithmetic.true_quotient)(step)


def cast(step: Step) -> Content | Sequence[Content]:
    source, target = step.op.inputs[0].dtype, step.op.outputs[0].dtype
    (content,) = step.contents
    # Sizes wrap around in narrow integers, and are rounded in narrow floats.
    is_wide = target.size >= 4 and not target.is_complex
    if not isinstance(content, Known):
        is_plain = is_wide and (target.is_floating or not source.is_floating) and not target.is_bool
        return kept(step) if is_plain else default(step)

    def cast(_: object, one: Polynomial) -> Polynomial | None:
        if target.is_bool:
            return arithmetic.truth(step, one)
        if not one.names:
            return one if target.is_floating else Polynomial.number(math.trunc(one.constant))
        return one if is_wide and (target.is_floating or arithmetic.is_exact(step, one, source.name)) else None

    return elementwise(cast)(step)


def filled(value: int) -> Rule:
    """Zeros or ones, whatever the operand is."""

    def rule(step: Step) -> Content:
        shape = complete(step.shapes[0])
        if shape is None or growing(shape) or math.prod(int(size.constant) for size in shape) > MOST_ELEMENTS:
            return CONSTANT
        return known(np.full([int(size.constant) for size in shape], value))

    return rule


def selected(step: Step) -> Content | Sequence[Content]:
    """A selection between polynomials by constants."""
    condition, one, two = step.contents
    # As vectorized_map writes: all numbers below a size are [0] for a size of one.
    found = condition.choice if isinstance(condition, Known) and not condition.values.ndim else None
    counted = one.counted if isinstance(one, Spread) else None
    if (
        counted is not None
        and found is not None
        and found.of_several == Polynomial.number(1)
        and found.sizes == {counted}
    ):
        if isinstance(two, Known) and two.numbers is not None and not two.numbers.any():
            return one
    is_known = isinstance(condition, Known) and condition.numbers is not None
    return moved(1, 2)(step) if is_known else default(step)


def kept(step: Step) -> list[Content]:
    """The contents of operands, one for each result."""
    return list(step.contents)
