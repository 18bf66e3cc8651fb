"""Shapes that operations cut to the size of an array, or find by a division: whether they are one polynomial.

`x[:500]` has as many rows as x up to 500 rows, and 500 from then on.
"""

import math

from polynomials import BATCH, Polynomial
from size_operations import PRODUCTS, REDUCTIONS
from size_values import Known, growing


def chosen_by_shape(step):
    """A Choice if the shape of a result is not the same polynomial of the operands' shapes at all sizes, else None."""
    found = _RULES.get(step.op.type)
    return None if found is None else found(step)


def _reshaped(step):
    """The elements must be as many at all sizes: an axis -1 is a quotient."""
    before, after = step.operands[0].shape, step.shapes[0]
    if before is None or after is None or None in (*before, *after):
        return None
    one, two = (math.prod(each, start=Polynomial.number(1)) for each in (before, after))
    return None if one == two else step.choice(one.names | two.names)


def _split(step):
    axis, shape = step.operands[0].content, step.operands[1].shape
    numbers = axis.numbers if isinstance(axis, Known) else None
    if numbers is None or shape is None:
        return None
    size = shape[int(numbers.reshape(())[()])]
    if size is None or not size.names or size.scaled(1 / Polynomial.number(len(step.shapes)).constant).is_integer:
        return None
    return step.choice(size.names)


def _sliced(step):
    """A slice must begin and end within its array, or never do so."""
    shape = step.operands[0].shape
    if shape is None or not growing(shape):
        return None
    begin, end, strides = (each.content for each in step.operands[1:4])
    for place, axis in _sliced_axes(step, len(shape)):
        size = shape[axis]
        if size is None or not size.names or _has(step, "shrink_axis", place):
            continue
        ends = [
            None if _has(step, name, place) else content.values.reshape(-1)[place] if isinstance(content, Known) else 0
            for name, content in (("begin", begin), ("end", end))
        ]
        if found := _cut(step, size, *ends, _number(strides, place) or 0):
            return found
    return None


def _sliced_axes(step, rank: int):
    """The places in the operands of a StridedSlice that cut an axis, each with that axis."""
    count, axis = step.op.inputs[3].shape.num_elements() or 0, 0
    cutting = sum(not _has(step, "new_axis", place) and not _has(step, "ellipsis", place) for place in range(count))
    for place in range(count):
        if _has(step, "ellipsis", place):
            axis += rank - cutting
        elif not _has(step, "new_axis", place):
            yield place, axis
            axis += 1


def keeps_positions(step) -> bool:
    """Whether each element keeps its position along axes of open sizes."""
    found = _KEEPING.get(step.op.type)
    return found is not None and found(step)


def _only_ones(step) -> bool:
    """A reshape that only adds or removes axes of one element."""
    first, last = step.operands[0].shape, step.shapes[0]
    if first is None or last is None or None in (*first, *last):
        return False
    one = Polynomial.number(1)
    return [each for each in first if each != one] == [each for each in last if each != one]


def _from_start(step) -> bool:
    """A slice of open axes from their first element, or with one index of others."""
    shape = step.operands[0].shape
    if shape is None:
        return False
    begin, strides = step.operands[1].content, step.operands[3].content
    return all(
        (size is not None and not size.names)
        or (
            not _has(step, "shrink_axis", place)
            and (_has(step, "begin", place) or _number(begin, place) == 0)
            and _number(strides, place) == 1
        )
        for place, axis in _sliced_axes(step, len(shape))
        for size in (shape[axis],)
    )


def _along_fixed(step) -> bool:
    """Parts that are put together along an axis of a fixed size."""
    axis, shapes = step.contents[-1], [each.shape for each in step.operands[:-1]]
    if any(shape is None for shape in shapes) or (number := _number(axis, 0)) is None:
        return False
    sizes = [shape[number] for shape in shapes]
    return all(size is not None and not size.names for size in sizes)


def _number(content, place: int):
    """One of several constants; None if it is not known."""
    if not isinstance(content, Known) or content.numbers is None:
        return None
    return int(content.numbers.reshape(-1)[place])


def is_within_rows(step) -> bool:
    """Whether only elements along axes of fixed sizes are combined."""
    shapes, made = [each.shape for each in step.operands], step.shapes[0]
    if None in shapes or made is None:
        return False
    if step.op.type in PRODUCTS:
        inner = -2 if step.op.get_attr(PRODUCTS[step.op.type]) else -1
        return not growing(shapes[0][inner:][:1])
    if step.op.type in ("Softmax", "LogSoftmax"):
        return not growing(shapes[0][-1:])
    # A reduction that loses no axis of an open size.
    return step.op.type in REDUCTIONS and sum(bool(growing((size,))) for size in shapes[0]) == sum(
        bool(growing((size,))) for size in made
    )


def _has(step, name: str, place: int) -> bool:
    """Whether a bit of a mask of StridedSlice is set."""
    return bool(step.op.get_attr(f"{name}_mask") >> place & 1)


def _cut(step, size: Polynomial, begin, end, stride: int):
    """A Choice if the elements from `begin` to `end` are not the same polynomial at all sizes; None is an open end."""
    sizes = size.names | frozenset().union(*(each.names for each in (begin, end) if isinstance(each, Polynomial)))
    if not all(each is None or isinstance(each, Polynomial) for each in (begin, end)):
        return None  # their own Choice is that of the result, and data has no effect on shapes
    if stride < 0:
        return None if begin is None and end is None and stride == -1 else step.choice(sizes)
    low = Polynomial() if begin is None else _within(step, begin, size)
    high = size if end is None else _within(step, end, size)
    if low is None or high is None:
        # One symbol: traced at both sides of where the slice leaves the array (compiler/fitting.py).
        return None if BATCH not in sizes and len(sizes) == 1 and stride == 1 else step.choice(sizes)
    count = high - low
    least, most = count.bounds(step.ranges)
    if most <= 0 or (
        least >= 0 and (stride == 1 or count.varying.scaled(Polynomial.number(stride).constant ** -1).is_integer)
    ):
        return None
    return None if BATCH not in sizes and len(sizes) == 1 and stride == 1 else step.choice(sizes)


def _within(step, place: Polynomial, size: Polynomial):
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


_RULES = {"Reshape": _reshaped, "Split": _split, "StridedSlice": _sliced}
_KEEPING = {
    "ConcatV2": _along_fixed, "Pack": lambda step: True, "Reshape": _only_ones, "StridedSlice": _from_start,
}  # fmt: skip
