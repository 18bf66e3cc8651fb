"""How each operation moves and changes tracked arrays, by opcode: tracking.py for the instructions of a listing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tfaot_pkg.analysis.program import tracking
from tfaot_pkg.analysis.program.tracking import Tracked
from tfaot_pkg.worker_program.messages import listing
from tfaot_pkg.worker_program.messages.listing import ArrayShape, Instruction

_SAME = frozenset("copy opt-barrier set-dimension-size".split())

_Arrays = Sequence[Tracked | None]
_Rule = Callable[[Instruction, ArrayShape, _Arrays, Sequence[Sequence[int]]], Tracked | None]


def _unary(change: Callable[[Instruction, ArrayShape, Tracked], Tracked | None]) -> _Rule:
    def rule(each: Instruction, shape: ArrayShape, arrays: _Arrays, _: Sequence[Sequence[int]]) -> Tracked | None:
        return None if arrays[0] is None else change(each, shape, arrays[0])

    return rule


def _binary(change: Callable[[Tracked, Tracked], Tracked | None]) -> _Rule:
    def rule(_: Instruction, __: ArrayShape, arrays: _Arrays, ___: Sequence[Sequence[int]]) -> Tracked | None:
        one, two = arrays
        return None if one is None or two is None else change(one, two)

    return rule


def _converted(_: Instruction, shape: ArrayShape, array: Tracked) -> Tracked | None:
    # Of floats the integers are drawn, which stay as they are.
    return None if shape.dtype == "pred" else array


def _extreme(one: Tracked, two: Tracked, *, largest: bool) -> Tracked | None:
    chosen = tracking.compared("GE" if largest else "LE", one, two)
    return tracking.selected(chosen, one, two) if chosen is not None and chosen.is_known else None


def _clamped(_: Instruction, __: ArrayShape, arrays: _Arrays, ___: Sequence[Sequence[int]]) -> Tracked | None:
    """Known numbers only: any number may be clamped."""
    low, value, high = arrays
    if low is None or value is None or high is None or not (low.is_known and value.is_known and high.is_known):
        return None
    return tracking.known(np.minimum(np.maximum(value.numbers, low.numbers), high.numbers))


def _selected(_: Instruction, __: ArrayShape, arrays: _Arrays, sizes: Sequence[Sequence[int]]) -> Tracked | None:
    condition, one, two = arrays
    if condition is not None and len(sizes[0]) < len(sizes[1]):
        condition = tracking.broadcast(condition, sizes[1], ())
    return tracking.selected(condition, one, two)


def _concatenated(each: Instruction, _: ArrayShape, arrays: _Arrays, sizes: Sequence[Sequence[int]]) -> Tracked | None:
    assert isinstance(each.attributes, listing.Dimensions)
    return tracking.concatenated(arrays, sizes, each.attributes.dimensions[0])


def _gathered(each: Instruction, _: ArrayShape, arrays: _Arrays, sizes: Sequence[Sequence[int]]) -> Tracked | None:
    assert isinstance(each.attributes, listing.Gather)
    if arrays[0] is None:
        return None
    return tracking.gathered(arrays[0], arrays[1], each.attributes, sizes[1])


def _window(each: Instruction, _: ArrayShape, arrays: _Arrays, __: Sequence[Sequence[int]]) -> Tracked | None:
    assert isinstance(each.attributes, listing.Sizes)
    if arrays[0] is None or len(arrays) - 1 != len(arrays[0].sizes):
        return None
    return tracking.window(arrays[0], arrays[1:], each.attributes)


def _padded(each: Instruction, shape: ArrayShape, arrays: _Arrays, _: Sequence[Sequence[int]]) -> Tracked | None:
    assert isinstance(each.attributes, listing.Padding)
    return None if arrays[0] is None else tracking.padded(arrays[0], arrays[1], each.attributes, shape.sizes)


def _reshaped(_: Instruction, shape: ArrayShape, array: Tracked) -> Tracked:
    return array.moved(lambda each: each.reshape(len(each), *shape.sizes))


def _transposed(each: Instruction, _: ArrayShape, array: Tracked) -> Tracked:
    assert isinstance(each.attributes, listing.Dimensions)
    order = (0, *(axis + 1 for axis in each.attributes.dimensions))
    return array.moved(lambda one: one.transpose(order))


def _reversed(each: Instruction, _: ArrayShape, array: Tracked) -> Tracked:
    assert isinstance(each.attributes, listing.Dimensions)
    axes = tuple(axis + 1 for axis in each.attributes.dimensions)
    return array.moved(lambda one: np.flip(one, axes))


def _broadcast(each: Instruction, shape: ArrayShape, array: Tracked) -> Tracked | None:
    assert isinstance(each.attributes, listing.Dimensions)
    return tracking.broadcast(array, shape.sizes, each.attributes.dimensions)


def _sliced(each: Instruction, _: ArrayShape, array: Tracked) -> Tracked:
    assert isinstance(each.attributes, listing.Slices)
    return tracking.sliced(array, each.attributes)


def _iota(each: Instruction, shape: ArrayShape, _: _Arrays, __: Sequence[Sequence[int]]) -> Tracked | None:
    assert isinstance(each.attributes, listing.Dimensions)
    return tracking.iota(shape, each.attributes.dimensions[0])


def _compared(each: Instruction, _: ArrayShape, arrays: _Arrays, __: Sequence[Sequence[int]]) -> Tracked | None:
    assert isinstance(each.attributes, listing.Comparison)
    one, two = arrays
    # Only integers: elements of floats may be negative.
    if one is None or two is None or each.attributes.order == "FLOAT":
        return None
    return tracking.compared(each.attributes.direction, one, two)


def _like(array: Tracked, number: float) -> Tracked:
    return tracking.known(np.full(array.sizes, number))


def _difference(one: Tracked, two: Tracked) -> Tracked | None:
    negative = tracking.scaled(two, _like(two, -1))
    return None if negative is None else tracking.added(one, negative)


RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(_SAME, _unary(lambda _, __, array: array)),
    "constant": lambda each, _, __, ___: tracking.constant(each),
    "iota": _iota,
    "convert": _unary(_converted),
    "reshape": _unary(_reshaped),
    "transpose": _unary(_transposed),
    "reverse": _unary(_reversed),
    "broadcast": _unary(_broadcast),
    "slice": _unary(_sliced),
    "negate": _unary(lambda _, __, array: tracking.scaled(array, _like(array, -1))),
    "add": _binary(tracking.added),
    "subtract": _binary(_difference),
    "multiply": _binary(tracking.scaled),
    "divide": _binary(tracking.divided),
    "maximum": _binary(lambda one, two: _extreme(one, two, largest=True)),
    "minimum": _binary(lambda one, two: _extreme(one, two, largest=False)),
    "clamp": _clamped,
    "compare": _compared,
    "select": _selected,
    "concatenate": _concatenated,
    "gather": _gathered,
    "dynamic-slice": _window,
    "pad": _padded,
}
