"""Which numbers the operations of one listing take: bounds on elements of its inputs.

An index must be in the array that it reads or writes, a divisor must not be zero, and bits are shifted by less than
their number. Negative indices are left out, although some frameworks take them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfaot_pkg.analysis.program import tracking
from tfaot_pkg.analysis.program.tracking import Array, Tracked
from tfaot_pkg.analysis.program.tracking_rules import RULES, Step
from tfaot_pkg.worker_program.messages import listing
from tfaot_pkg.worker_program.messages.listing import ArrayShape, Computation, Instruction, Module

Known = Tracked | tuple["Known", ...] | None
"""What is known of an array, or of each part of a tuple."""

_FEW = 2
"""The least number of different values that an index is compared with if these stand for the places of an axis."""
_MOST_THRESHOLD = 1 << 16
"""The largest number that integers are compared with if it may be a count or a size."""


@dataclass(frozen=True, slots=True)
class Taken:
    """By element of all inputs: numbers from `low` to `high` are taken; those up to `usual` have an effect.

    Infinite if nothing bounds them.
    """

    low: Array
    high: Array
    usual: Array


def taken(module: Module, inputs: Sequence[ArrayShape]) -> Taken:
    """The bounds on elements of the first parameters of `module`, which are `inputs`."""
    counts = [math.prod(shape.sizes) for shape in inputs]
    total = sum(counts)
    found = Taken(np.full(total, -np.inf), np.full(total, np.inf), np.full(total, -np.inf))
    first = np.cumsum([0, *counts])
    arguments = [
        tracking.element_of_input(int(start), shape.sizes).limited()
        for start, shape in zip(first[:-1], inputs, strict=True)
    ]
    analysis = _Analysis({each.id: each for each in module.computations}, found)
    # Constants may be infinite, and elements that are not known have any numbers.
    with np.errstate(all="ignore"):
        analysis.run(analysis.computations[module.entry], arguments)
    return found


@dataclass(slots=True)
class _Analysis:
    computations: Mapping[int, Computation]
    found: Taken

    def run(self, computation: Computation, arguments: Sequence[Known]) -> Known:
        """What is known of the root."""
        values: dict[int, Known] = {}
        shapes = {each.id: each.shape for each in computation.instructions}
        limits = _limits_of_slices(computation)
        for each in computation.instructions:
            if each.opcode == "parameter":
                number = getattr(each.attributes, "number", 0)
                values[each.id] = arguments[number] if number < len(arguments) else None
                continue
            operands = [values[i] for i in each.operands]
            if each.id in limits:
                for array, limit in zip(operands[1:], limits[each.id], strict=False):
                    self._between(array if isinstance(array, Tracked) else None, 0, limit)
            values[each.id] = self._value(each, operands, [shapes[i] for i in each.operands])
        return values[computation.root]

    def _value(
        self, each: Instruction, operands: Sequence[Known], shapes: Sequence[listing.ArrayShape | listing.TupleShape]
    ) -> Known:
        control = _CONTROL.get(each.opcode)
        if control is not None:
            return control(self, each, operands)
        arrays = [each if isinstance(each, Tracked) else None for each in operands]
        sizes = [shape.sizes if isinstance(shape, ArrayShape) else () for shape in shapes]
        self._note(each, arrays, sizes, shapes)
        if each.opcode == "sort":
            return _sorted(each, arrays)
        if not isinstance(each.shape, ArrayShape):
            return None
        if each.opcode == "reduce" and len(arrays) == 2:
            return self._reduced(each, arrays[0])
        rule = RULES.get(each.opcode)
        return None if rule is None else rule(Step(each, each.shape, arrays, sizes))

    def _reduced(self, each: Instruction, array: Tracked | None) -> Known:
        """The largest or smallest element is one of them."""
        called = self.computations[each.called[0]]
        (root,) = (one for one in called.instructions if one.id == called.root)
        if array is None or root.opcode not in ("maximum", "minimum"):
            return None
        assert isinstance(each.attributes, listing.Dimensions)
        return tracking.any_along(array, each.attributes.dimensions, keep=False)

    def _note(
        self,
        each: Instruction,
        arrays: Sequence[Tracked | None],
        sizes: Sequence[Sequence[int]],
        shapes: Sequence[listing.ArrayShape | listing.TupleShape],
    ) -> None:
        """Note the bounds that one operation sets on its operands."""
        match each.opcode:
            case "gather":
                assert isinstance(each.attributes, listing.Gather)
                limits = [sizes[0][axis] - each.attributes.sizes[axis] for axis in each.attributes.indexed]
                self._note_vectors(arrays[1], each.attributes.vector, limits)
            case "scatter":
                assert isinstance(each.attributes, listing.Scatter)
                half = len(arrays) // 2
                limits = _limits_of_scatter(each.attributes, sizes[0], sizes[half + 1])
                self._note_vectors(arrays[half], each.attributes.vector, limits)
            case "dynamic-slice":
                assert isinstance(each.attributes, listing.Sizes)
                for array, whole, part in zip(arrays[1:], sizes[0], each.attributes.sizes, strict=False):
                    self._between(array, 0, whole - part)
            case "dynamic-update-slice":
                for array, whole, part in zip(arrays[2:], sizes[0], sizes[1], strict=False):
                    self._between(array, 0, whole - part)
            case _:
                self._note_numbers(each, arrays, shapes)

    def _note_numbers(
        self,
        each: Instruction,
        arrays: Sequence[Tracked | None],
        shapes: Sequence[listing.ArrayShape | listing.TupleShape],
    ) -> None:
        """The same for operations that compute with integers."""
        match each.opcode:
            case "divide" | "remainder" if _is_integer(shapes[1]):
                self._between(arrays[1], 1, math.inf)
            case "shift-left" | "shift-right-logical" | "shift-right-arithmetic":
                assert isinstance(shapes[0], ArrayShape)
                self._between(arrays[1], 0, int(shapes[0].dtype[1:]) - 1)
            case "compare" if _is_integer(shapes[0]):
                self._usual(each, arrays)
            case "clamp" if _is_integer(shapes[0]) and arrays[2] is not None and arrays[2].is_known:
                self._up_to(arrays[1], float(arrays[2].numbers.min(initial=math.inf)))
            case "minimum" if _is_integer(shapes[0]):
                for one, other in (arrays, arrays[::-1]):
                    if other is not None and other.is_known and other.numbers.size:
                        self._up_to(one, float(other.numbers.min()))

    def _note_vectors(self, indices: Tracked | None, vector: int, limits: Sequence[int]) -> None:
        if indices is None:
            return
        for number, limit in enumerate(limits):
            self._between(tracking.component(indices, number, vector), 0, limit)

    def _between(self, array: Tracked | None, low: float, high: float) -> None:
        """The elements of `array` must be from `low` to `high`."""
        if array is None or high < low:
            return
        source, least, most = _solved(array, low, high)
        np.maximum.at(self.found.low, source, least)
        np.minimum.at(self.found.high, source, most)

    def _up_to(self, array: Tracked | None, high: float) -> None:
        """Values up to `high` have an effect of their own."""
        if array is None or not math.isfinite(high) or high < 0:
            return
        source, _, most = _solved(array, 0, high)
        np.maximum.at(self.found.usual, source, most)

    def _usual(self, each: Instruction, arrays: Sequence[Tracked | None]) -> None:
        """A comparison with the numbers of places, as in one-hot vectors and masks of lengths, or with a threshold."""
        assert isinstance(each.attributes, listing.Comparison)
        for place, (array, numbers) in enumerate((arrays, arrays[::-1])):
            if array is None or numbers is None or not numbers.is_known:
                continue
            both = tracking.together(array, numbers)
            if both is None:
                continue
            one, other = both
            mask = (one.source >= 0) & (one.scale != 0)
            edges = (other.offset[mask] - one.offset[mask]) / one.scale[mask]
            if not _are_places(np.unique(edges)):
                continue
            # `x > 3` tells 4 from 3, `x >= 3` tells 3 from 2.
            is_turned = (place == 1) != bool((one.scale[mask] < 0).all())
            above = each.attributes.direction in (("LT", "GE") if is_turned else ("GT", "LE"))
            np.maximum.at(self.found.usual, one.source[mask], edges + above)


def _are_places(edges: Array) -> bool:
    """Whether numbers that integers are compared with may be those of all places, or one that is a count or a size."""
    if len(edges) == 1:
        return bool(_FEW <= edges[0] <= _MOST_THRESHOLD)
    return len(edges) >= _FEW and bool(edges[-1] - edges[0] == len(edges) - 1)


def _solved(array: Tracked, low: float, high: float) -> tuple[Array, Array, Array]:
    """(elements of inputs, their least values, their largest ones), so that `array` is from `low` to `high`."""
    mask = (array.source >= 0) & (array.scale != 0)
    source, scale, offset = array.source[mask], array.scale[mask], array.offset[mask]
    # floor(s * e + o) <= high exactly if s * e + o < high + 1.
    one, other = (low - offset) / scale, (high + 1 - offset) / scale
    rises = scale > 0
    least = np.where(rises, np.ceil(one), np.floor(other) + 1)
    most = np.where(rises, np.ceil(other) - 1, np.floor(one))
    return source, least, most


def _limits_of_slices(computation: Computation) -> dict[int, list[int]]:
    """The largest starts of dynamic slices that TensorFlow's `Slice` became, by instruction.

    The bridge pads the array, cuts as much as all of it, and then what is wanted.
    """
    by_id = {each.id: each for each in computation.instructions}
    found: dict[int, list[int]] = {}
    for each in computation.instructions:
        if each.opcode != "dynamic-slice" or each.operation != "Slice" or by_id[each.operands[0]].opcode != "pad":
            continue
        whole = by_id[by_id[each.operands[0]].operands[0]].shape
        last = [one.shape for one in computation.instructions if one.node == each.node and one.opcode == "slice"][-1:]
        if last and isinstance(whole, ArrayShape) and isinstance(last[0], ArrayShape):
            pairs = zip(whole.sizes, last[0].sizes, strict=False)
            found[each.id] = [size - part for size, part in pairs]
    return found


def _limits_of_scatter(numbers: listing.Scatter, whole: Sequence[int], updates: Sequence[int]) -> list[int]:
    single = {*numbers.inserted, *numbers.operand_batch}
    windows = dict(zip((axis for axis in range(len(whole)) if axis not in single), numbers.window, strict=True))
    return [whole[axis] - (updates[windows[axis]] if axis in windows else 1) for axis in numbers.indexed]


def _is_integer(shape: listing.ArrayShape | listing.TupleShape) -> bool:
    return isinstance(shape, ArrayShape) and shape.dtype[0] in "su" and shape.dtype[1:].isdigit()


def _sorted(each: Instruction, arrays: Sequence[Tracked | None]) -> Known:
    assert isinstance(each.attributes, listing.Dimensions)
    axes = each.attributes.dimensions
    found = tuple(None if array is None else tracking.any_along(array, axes, keep=True) for array in arrays)
    return found if isinstance(each.shape, listing.TupleShape) else found[0]


def _tuple(_: _Analysis, __: Instruction, operands: Sequence[Known]) -> Known:
    return tuple(operands)


def _element(_: _Analysis, each: Instruction, operands: Sequence[Known]) -> Known:
    assert isinstance(each.attributes, listing.Index)
    whole, index = operands[0], each.attributes.index
    return whole[index] if isinstance(whole, tuple) and index < len(whole) else None


def _call(analysis: _Analysis, each: Instruction, operands: Sequence[Known]) -> Known:
    return analysis.run(analysis.computations[each.called[0]], operands)


def _conditional(analysis: _Analysis, each: Instruction, operands: Sequence[Known]) -> Known:
    results = [
        analysis.run(analysis.computations[called], [argument])
        for called, argument in zip(each.called, operands[1:], strict=True)
    ]
    return _joined(results)


def _joined(results: Sequence[Known]) -> Known:
    first = results[0]
    if isinstance(first, tuple):
        if not all(isinstance(each, tuple) and len(each) == len(first) for each in results):
            return None
        return tuple(_joined(parts) for parts in zip(*results, strict=True))
    return first if all(each is first for each in results) else None


def _while(analysis: _Analysis, each: Instruction, operands: Sequence[Known]) -> Known:
    """Only arrays that no iteration changes are known. The called computations are body and condition."""
    body, condition = (analysis.computations[called] for called in each.called)
    (initial,) = operands
    if not isinstance(initial, tuple):
        return None
    kept = _unchanged(body)
    state = tuple(value if number in kept else None for number, value in enumerate(initial))
    analysis.run(condition, [state])
    analysis.run(body, [state])
    return state


def _unchanged(body: Computation) -> frozenset[int]:
    """The parts of a loop's state that its body returns as they are."""
    by_id = {each.id: each for each in body.instructions}
    root = by_id[body.root]
    if root.opcode != "tuple":
        return frozenset()

    def origin(one: Instruction) -> Instruction:
        while one.opcode in ("reshape", "copy") and by_id[one.operands[0]].shape == one.shape:
            one = by_id[one.operands[0]]
        return one

    return frozenset(
        number
        for number, one in enumerate(origin(by_id[operand]) for operand in root.operands)
        if one.opcode == "get-tuple-element"
        and isinstance(one.attributes, listing.Index)
        and one.attributes.index == number
        and by_id[one.operands[0]].opcode == "parameter"
    )


_CONTROL: Mapping[str, Callable[[_Analysis, Instruction, Sequence[Known]], Known]] = {
    "tuple": _tuple,
    "get-tuple-element": _element,
    "call": _call,
    "conditional": _conditional,
    "while": _while,
}
