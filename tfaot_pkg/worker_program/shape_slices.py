"""Shapes that operations cut to the size of an array, or find by a division: whether they are one polynomial.

`x[:500]` has as many rows as x up to 500 rows, and 500 from then on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from polynomials import BATCH, Polynomial
from shape_operations import JOINING, PLACING, PRODUCTS, REDUCTIONS
from shape_values import Choice, Known, all_known, complete, growing, sizes_of

if TYPE_CHECKING:
    from shape_transfer import Step
    from shape_values import Content


_SEEN = 132
"""Rows of the largest batch that is traced (hlo.PROBES)."""


def chosen_by_shape(step: Step) -> Choice | None:
    """A Choice if the shape of a result is not the same polynomial of the operands' shapes at all sizes, else None."""
    found = _RULES.get(step.op.type, _strided)
    return found(step)


def _strided(step: Step) -> Choice | None:
    """Strides along the batch: a quotient that is rounded."""
    attributes = {each.name for each in step.op.op_def.attr}
    shape = step.operands[0].shape if step.operands else None
    if shape is None or "strides" not in attributes:
        return None
    found = [growing((size,)) for size, stride in zip(shape, step.op.get_attr("strides"), strict=False) if stride != 1]
    return step.choice({BATCH}) if any(BATCH in each for each in found) else None


def length_of_range(step: Step) -> Polynomial | Choice | None:
    """The number of elements of a Range: a polynomial, a Choice if there is none, or None if it is not known."""
    contents = all_known(step.contents)
    if contents is None or any(each.choice for each in contents):
        return None  # their own Choice is that of the result, and data has no effect on shapes
    start, limit, delta = (each.element for each in contents)
    count = (limit - start).scaled(1 / delta.constant) if delta.terms and not delta.names else None
    if count is None or not count.varying.is_integer:
        return step.choice(start.names | limit.names | delta.names)
    result: Polynomial | Choice | None = count.varying + Polynomial.number(math.ceil(count.constant))
    return result


def _counted(step: Step) -> Choice | None:
    found = length_of_range(step)
    return found if isinstance(found, Choice) and found.sizes else None


def _reshaped(step: Step) -> Choice | None:
    """The elements must be as many at all sizes: an axis -1 is a quotient."""
    before, after = complete(step.operands[0].shape), complete(step.shapes[0])
    if before is None or after is None:
        return None
    one, two = (math.prod(each, start=Polynomial.number(1)) for each in (before, after))
    return None if one == two else step.choice(one.names | two.names)


def _split(step: Step) -> Choice | None:
    axis, shape = step.operands[0].content, step.operands[1].shape
    numbers = axis.numbers if isinstance(axis, Known) else None
    if numbers is None or shape is None:
        return None
    size = shape[int(numbers.reshape(())[()])]
    if size is None or not size.names or size.scaled(1 / Polynomial.number(len(step.shapes)).constant).is_integer:
        return None
    return step.choice(size.names)


def _sliced(step: Step) -> Choice | None:
    """A slice must begin and end within its array, or never do so."""
    shape = step.operands[0].shape
    if shape is None:
        return None
    begin, end, strides = (each.content for each in step.operands[1:4])
    for place, axis in _sliced_axes(step, len(shape)):
        size, is_index = shape[axis], _has(step, "shrink_axis", place)
        if size is None:
            continue
        ends = [
            None if _has(step, name, place) else content.values.reshape(-1)[place] if isinstance(content, Known) else 0
            for name, content in (("begin", begin), ("end", end))
        ]
        sizes = size.names.union(*(each.names for each in ends if isinstance(each, Polynomial)))
        if not sizes:
            continue
        stride = _number(strides, place) or 0
        found = _indexed(step, ends[0]) if is_index else _cut(step, size, sizes, ends[0], ends[1], stride)
        if found:
            return found
    return None


def _indexed(step: Step, place: Polynomial | Choice | int | None) -> Choice | None:
    """A Choice if an index may count from either end."""
    if not isinstance(place, Polynomial):
        return None
    least, most = place.bounds(step.ranges)
    return step.choice(place.names) if least < 0 <= most else None


def _sliced_axes(step: Step, rank: int) -> Iterator[tuple[int, int]]:
    """The places in the operands of a StridedSlice that cut an axis, each with that axis."""
    count, axis = step.op.inputs[3].shape.num_elements() or 0, 0
    cutting = sum(not _has(step, "new_axis", place) and not _has(step, "ellipsis", place) for place in range(count))
    for place in range(count):
        if _has(step, "ellipsis", place):
            axis += rank - cutting
        elif not _has(step, "new_axis", place):
            yield place, axis
            axis += 1


def rearranged(step: Step) -> Choice | tuple[frozenset[str], bool, bool]:
    """What elements that are moved become: a Choice, or (sizes that they depend on, whether by position, cut there).

    Those of a table that is cut to an open size are any function of their positions.
    """
    kind, made = step.op.type, growing(step.shapes[0])
    if (found := _KEEPING.get(kind)) is not None and found(step):
        before = frozenset().union(*(growing(each.shape) for each in step.operands))
        is_cut = kind in _CUTTING and bool(made - before)
        return frozenset(), is_cut, is_cut
    if kind == "Reshape" and (inner := _inner_elements(step)) is not None:
        # Of one axis, the number of an element is linear in its new position; of rows, it is a rounded quotient.
        return frozenset(), inner != 1, inner != 1
    placing = frozenset().union(*(sizes_of(step.contents[place]) for place in PLACING.get(kind, ())))
    # Programs continue what they see at small batches, where a table neither begins nor ends.
    if (BATCH in made and kind in JOINING) or (placing and kind not in JOINING):
        return step.choice(made | placing)
    return placing.union(*(each.positions for each in step.operands)), bool(made), False


def _inner_elements(step: Step) -> int | None:
    """How many elements stand in one of the outermost axis, if a reshape has no other axis of an open size, before and
    after it; None otherwise.
    """
    counts = []
    for shape in (step.operands[0].shape, step.shapes[0]):
        sizes = complete(shape)
        outer = [each for each in sizes or () if each != Polynomial.number(1)]
        if not outer or BATCH in growing(shape) or any(each.names for each in outer[1:]):
            return None
        counts.append(math.prod(int(each.constant) for each in outer[1:]))
    return counts[0]


def _only_ones(step: Step) -> bool:
    """A reshape that only adds or removes axes of one element."""
    first, last = step.operands[0].shape, step.shapes[0]
    if first is None or last is None or None in (*first, *last):
        return False
    one = Polynomial.number(1)
    return [each for each in first if each != one] == [each for each in last if each != one]


def _from_start(step: Step) -> bool:
    """A slice of open axes from their first element, or with one index of others."""
    shape = step.operands[0].shape
    if shape is None:
        return False
    begin, end, strides = (each.content for each in step.operands[1:4])
    return all(
        (not growing((size,)) and not sizes_of(begin) and not sizes_of(end))
        or (
            not _has(step, "shrink_axis", place)
            and (_has(step, "begin", place) or _number(begin, place) == 0)
            and _number(strides, place) == 1
        )
        for place, axis in _sliced_axes(step, len(shape))
        for size in (shape[axis],)
    )


def _slice_from_start(step: Step) -> bool:
    """A slice of open axes from their first element."""
    shape, made, begin = step.operands[0].shape, step.shapes[0], step.operands[1].content
    if shape is None or made is None:
        return False
    return all(
        (not growing(sizes) and not sizes_of(begin)) or _number(begin, axis) == 0
        for axis, sizes in enumerate(zip(shape, made, strict=True))
    )


def _padded_elsewhere(step: Step) -> bool:
    """Along axes of fixed sizes only."""
    shape, made, padding = step.operands[0].shape, step.shapes[0], step.operands[1].content
    if shape is None or made is None or not isinstance(padding, Known):
        return False
    return all(
        not growing(sizes) or not any(isinstance(each, Choice) or each.terms for each in padding.values[axis])
        for axis, sizes in enumerate(zip(shape, made, strict=True))
    )


def _tiled(step: Step) -> bool:
    """Along axes of fixed sizes, or so that all that is repeated is seen at the traced sizes."""
    shape, made, times = step.operands[0].shape, step.shapes[0], step.operands[1].content
    if shape is None or made is None:
        return False
    return all(
        not growing((wide,))
        or _number(times, axis) == 1
        or (size is not None and not size.names and size.constant <= _SEEN)
        for axis, (size, wide) in enumerate(zip(shape, made, strict=True))
    )


def _along_fixed(step: Step) -> bool:
    """Parts that are put together along an axis of a fixed size."""
    number, shapes = _number(step.contents[-1], 0), [each.shape for each in step.operands[:-1]]
    if number is None:
        return False
    sizes = [None if shape is None else shape[number] for shape in shapes]
    return all(size is not None and not size.names for size in sizes)


def _number(content: Content, place: int) -> int | None:
    """One of several constants; None if it is not known."""
    if not isinstance(content, Known) or content.numbers is None:
        return None
    return int(content.numbers.reshape(-1)[place])


def is_within_rows(step: Step) -> bool:
    """Whether only elements along axes of fixed sizes are combined."""
    first, made = step.operands[0].shape if step.operands else None, step.shapes[0]
    if first is None or made is None or any(each.shape is None for each in step.operands):
        return False
    if step.op.type in PRODUCTS:
        inner = -2 if step.op.get_attr(PRODUCTS[step.op.type]) else -1
        return not growing(first[inner:][:1])
    if step.op.type in ("Softmax", "LogSoftmax"):
        return not growing(first[-1:])
    # A reduction that loses no axis of an open size.
    return step.op.type in REDUCTIONS and sum(bool(growing((size,))) for size in first) == sum(
        bool(growing((size,))) for size in made
    )


def _has(step: Step, name: str, place: int) -> bool:
    """Whether a bit of a mask of StridedSlice is set."""
    return bool(step.op.get_attr(f"{name}_mask") >> place & 1)


def _cut(
    step: Step,
    size: Polynomial,
    sizes: frozenset[str],
    begin: Polynomial | Choice | int | None,
    end: Polynomial | Choice | int | None,
    stride: int,
) -> Choice | None:
    """A Choice if the elements from `begin` to `end` are not the same polynomial at all sizes; None is an open end."""
    if isinstance(begin, Choice | int) or isinstance(end, Choice | int):
        return None  # their own Choice is that of the result, and data has no effect on shapes
    if stride < 0:
        return None if begin is None and end is None and stride == -1 else step.choice(sizes)
    low = Polynomial() if begin is None else _within(step, begin, size)
    high = size if end is None else _within(step, end, size)
    if low is not None and high is not None and _is_even(step, high - low, stride):
        return None
    # One symbol: traced at both sides of where the slice leaves the array (compiler/fitting.py).
    return None if BATCH not in sizes and len(sizes) == 1 and stride == 1 else step.choice(sizes)


def _is_even(step: Step, length: Polynomial, stride: int) -> bool:
    """Whether every stride-th of so many elements are the same polynomial at all sizes."""
    least, most = length.bounds(step.ranges)
    if most <= 0:
        return True
    return least >= 0 and (stride == 1 or length.varying.scaled(Polynomial.number(stride).constant ** -1).is_integer)


def _within(step: Step, place: Polynomial, size: Polynomial) -> Polynomial | None:
    """A position as TensorFlow takes it: from the end if it is negative, and not outside; None if that depends."""
    least, most = place.bounds(step.ranges)
    if least < 0:
        if most >= 0:
            return None
        place = place + size
        least, most = place.bounds(step.ranges)
        if least < 0:
            return Polynomial() if most <= 0 else None
    low, high = (size - place).bounds(step.ranges)
    return place if low >= 0 else size if high <= 0 else None


_CUTTING = frozenset({"Slice", "StridedSlice"})
_RULES: dict[str, Callable[[Step], Choice | None]] = {
    "Range": _counted,
    "Reshape": _reshaped,
    "Split": _split,
    "StridedSlice": _sliced,
}
_KEEPING: dict[str, Callable[[Step], bool]] = {
    **dict.fromkeys(("MirrorPad", "Pad", "PadV2"), _padded_elsewhere),
    "ConcatV2": _along_fixed,
    "Pack": lambda step: True,
    "Reshape": _only_ones,
    "Slice": _slice_from_start,
    "StridedSlice": _from_start,
    "Tile": _tiled,
}
