"""Products of integers in float32, where that is exact: those for which the kernel library has no layer of integers.

Each partial sum of such a product is a whole number of at most 2^24, which float32 has, so that neither an order of
sums nor a fused operation rounds. Longer sums are cut into parts, whose results are added as integers. LLVM's pass
Float2Int does the opposite by the same bounds (https://llvm.org/doxygen/Float2Int_8cpp_source.html).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Convolution, Dimensions, Dot
from tfaot_pkg.compiler.program import EXACT_TO, NO_ATTRIBUTES, NUMPY_TYPES, Operation, Shape
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array

_EXACT_TO = EXACT_TO["f32"]
_MOST_PARTS = 64
_WIDE = frozenset({"s32", "s64"})
"""Types of sums."""
_NARROW = frozenset({"u8", "s8", "u16", "s16"})
_MOVING = frozenset({"broadcast", "concatenate", "pad", "reshape", "reverse", "slice", "transpose"})
"""Their results have elements of their operands only."""
_MOVED_ALONE = frozenset({"reshape", "transpose"})
_SUMS = frozenset({"add", "subtract"})
_BOUNDED = _MOVING | _SUMS | {"clamp", "convert", "maximum", "minimum", "negate"}
_DEEPEST = 16
"""Operations that are looked through."""

Bounds = tuple[int, int]
"""The least and the largest number that elements may be, all of them whole."""
Part = tuple[int, int]
"""Start and end along an axis."""


def in_float(look: Look, operation: Operation) -> Operation | None:
    """A product of integers, and what is added to it, in float32 and converted; a way back to floats is left out."""
    if isinstance(operation.type, tuple):
        return None
    if operation.opcode == "convert" and operation.shape.dtype == "f32":
        source = _float_behind(look, operation.operands[0])
        return None if source is None else _without_negative_zero(look, operation, source)
    if operation.shape.dtype not in _WIDE:
        return None
    if operation.opcode in ("dot", "convolution"):
        return _product(look, operation)
    if operation.opcode in _MOVED_ALONE:
        source = _float_behind(look, operation.operands[0])
        return None if source is None else _computed(look, operation, [source])
    if operation.opcode in _SUMS and any(_float_behind(look, each) is not None for each in operation.operands):
        is_exact = all(_is_exact(_bounds(look, each, {})) for each in (operation.id, *operation.operands))
        return _computed(look, operation, _as_floats(look, operation)) if is_exact else None
    return None


def _product(look: Look, operation: Operation) -> Operation | None:
    if _largest_sum(look, operation, {}) <= _EXACT_TO:
        return _computed(look, operation, _as_floats(look, operation))
    parts = _parts(look, operation)
    if parts is None:
        return None
    axes, operands = _axes_of_parts(operation), _as_floats(look, operation)
    made = []
    for part in parts:
        cut = [_cut(look, each, axis, part, operation) for each, axis in zip(operands, axes, strict=True)]
        made.append(look.add(replace(_computed(look, operation, cut), id=look.fresh())).id)
    while True:
        added = replace(operation, opcode="add", operands=(made.pop(0), made.pop(0)), attributes=NO_ATTRIBUTES)
        if not made:
            return added
        made.append(look.add(replace(added, id=look.fresh())).id)


def _computed(look: Look, operation: Operation, operands: Sequence[int]) -> Operation:
    """`operation` on floats, and the conversion to its own type."""
    shape = Shape("f32", operation.shape.sizes)
    made = replace(operation, id=look.fresh(), type=shape, operands=tuple(operands))
    return replace(operation, opcode="convert", operands=(look.add(made).id,), attributes=NO_ATTRIBUTES)


def _as_floats(look: Look, operation: Operation) -> list[int]:
    """The operands, whole numbers of at most 2^24, as float32."""
    made = {each: _as_float(look, each, operation) for each in dict.fromkeys(operation.operands)}
    return [made[each] for each in operation.operands]


def _as_float(look: Look, value: int, user: Operation) -> int:
    source, numbers = _float_behind(look, value), look.constant(value)
    if source is not None:
        return source
    if numbers is not None:
        return look.add_constant(numbers.astype(np.float32), user)
    shape = Shape("f32", look.known[value].shape.sizes)
    made = Operation(id=look.fresh(), opcode="convert", type=shape, operands=(value,), node=user.node)
    return look.add(made).id


def _float_behind(look: Look, value: int) -> int | None:
    """The float32 numbers that `value` is, as integers of a wide type, if they are whole and at most 2^24."""
    found = look.made_by(value, "convert")
    if found is None or found.shape.dtype not in _WIDE:
        return None
    (source,) = found.operands
    is_float = look.known[source].shape.dtype == "f32"
    return source if is_float and _is_exact(_bounds(look, source, {})) else None


def _without_negative_zero(look: Look, operation: Operation, source: int) -> Operation:
    """`source` as it would be after a conversion to integers and back: a product of floats may be -0.0."""
    zero = look.add_constant(np.zeros((), np.float32), operation)
    zeros = Operation(
        id=look.fresh(), opcode="broadcast", type=operation.type, operands=(zero,),
        attributes=Dimensions(dimensions=()), node=operation.node,
    )  # fmt: skip
    return replace(operation, opcode="add", operands=(source, look.add(zeros).id))


# -- parts of sums -----------------------------------------------------------------------------------------------------


def _parts(look: Look, operation: Operation) -> list[Part] | None:
    """Parts of the axis that is summed over, each with exact sums; None if there are none, or too many."""
    second, (_, axis) = look.known[operation.operands[1]].shape, _axes_of_parts(operation)
    pair = [_bounds(look, each, {}) for each in operation.operands]
    if axis < 0 or not all(size.is_constant for size in second.sizes) or any(each is None for each in pair):
        return None
    left, right = (max(map(abs, each)) for each in pair if each is not None)
    numbers, others = look.constant(operation.operands[1]), [each for each in _summed(operation)[1] if each != axis]
    if numbers is None:
        numbers = np.broadcast_to(np.float64(right), [size.constant for size in second.sizes])
    sums = np.abs(numbers.astype(np.float64)).sum(tuple(others), keepdims=True)
    largest = np.moveaxis(sums, axis, 0).reshape(sums.shape[axis], -1).max(1) * left
    starts, total = [0], 0.0
    for place, each in enumerate(largest.tolist()):
        if total + each > _EXACT_TO:
            starts.append(place)
            total = 0.0
        total += each
    if largest.max() > _EXACT_TO or len(starts) > _MOST_PARTS:
        return None
    return [*zip(starts, [*starts[1:], len(largest)], strict=True)]


def _summed(operation: Operation) -> tuple[Sequence[int], Sequence[int]]:
    """The axes of both operands that are summed over; of a convolution those of the filters alone."""
    return Dot.of(operation).contracting if operation.opcode == "dot" else ((), Convolution.of(operation).kernel[1:])


def _axes_of_parts(operation: Operation) -> tuple[int, int]:
    """An axis of both operands that is summed over, and may be cut into parts; -1 if there is none."""
    if operation.opcode == "dot":
        left, right = Dot.of(operation).contracting
        return (left[0], right[0]) if left else (-1, -1)
    attributes = Convolution.of(operation)
    is_whole = attributes.feature_groups == attributes.batch_groups == 1
    return (attributes.input[1], attributes.kernel[1]) if is_whole else (-1, -1)


def _cut(look: Look, value: int, axis: int, part: Part, user: Operation) -> int:
    """The elements of a part of an axis."""
    numbers = look.constant(value)
    if numbers is not None:
        return look.add_constant(numbers.take(range(*part), axis), user)
    return look.add_slice(value, axis, part, user)


# -- bounds ------------------------------------------------------------------------------------------------------------


def _is_exact(bounds: Bounds | None) -> bool:
    return bounds is not None and max(map(abs, bounds)) <= _EXACT_TO


def _bounds(look: Look, value: int, seen: dict[int, Bounds | None], depth: int = 0) -> Bounds | None:
    """None if elements may be anything that their type has, or may be no whole numbers."""
    if value not in seen:
        operation = look.known[value]
        seen[value] = None  # for what is deeper than `_DEEPEST`
        if not isinstance(operation.type, tuple) and depth <= _DEEPEST:
            found = _found(look, operation, seen, depth)
            dtype = operation.shape.dtype
            seen[value] = found if found is not None and _holds(dtype, found) else _ends(dtype)
    return seen[value]


def _ends(dtype: str) -> Bounds | None:
    """The least and the largest number of a narrow type."""
    if dtype == "pred":
        return 0, 1
    limits = np.iinfo(NUMPY_TYPES[dtype]) if dtype in _NARROW else None
    return None if limits is None else (int(limits.min), int(limits.max))


def _holds(dtype: str, found: Bounds) -> bool:
    """Whether a type has all whole numbers between the two."""
    if dtype not in _WIDE | _NARROW:
        return dtype == "f32" and _is_exact(found)
    limits = np.iinfo(NUMPY_TYPES[dtype])
    return bool(limits.min <= found[0] and found[1] <= limits.max)


def _found(look: Look, operation: Operation, seen: dict[int, Bounds | None], depth: int) -> Bounds | None:
    if operation.opcode == "constant":
        return _of_constant(look.constant(operation.id))
    if operation.opcode in ("dot", "convolution"):
        largest = _largest_sum(look, operation, seen, depth)
        return None if math.isinf(largest) else (-int(largest), int(largest))
    if operation.opcode not in _BOUNDED:
        return None
    known = [each for each in (_bounds(look, each, seen, depth + 1) for each in operation.operands) if each is not None]
    if len(known) < len(operation.operands):
        return None
    lows, highs = zip(*known, strict=True)
    match operation.opcode:
        case "add":
            return sum(lows), sum(highs)
        case "subtract":
            return lows[0] - highs[1], highs[0] - lows[1]
        case "negate":
            return -highs[0], -lows[0]
        case "maximum":
            return max(lows), max(highs)
        case "minimum":
            return min(lows), min(highs)
        case _:
            return min(lows), max(highs)


def _of_constant(numbers: Array | None) -> Bounds | None:
    if numbers is None or not numbers.size or not np.all(np.isfinite(numbers)) or np.any(numbers != np.rint(numbers)):
        return None
    return int(numbers.min()), int(numbers.max())


def _largest_sum(look: Look, operation: Operation, seen: dict[int, Bounds | None], depth: int = 0) -> float:
    """A bound of the magnitudes of all partial sums of a product; infinite if there is none."""
    summed, (first, second) = _summed(operation), operation.operands
    pair = [_bounds(look, each, seen, depth + 1) for each in (first, second)]
    sizes = [look.known[second].shape.sizes[axis] for axis in summed[1]]
    if any(each is None for each in pair) or not all(size.is_constant for size in sizes):
        return math.inf
    left, right = (max(map(abs, each)) for each in pair if each is not None)
    found = float(left * right * math.prod(size.constant for size in sizes))
    if (numbers := look.constant(second)) is not None:
        found = min(found, left * _sum_of_magnitudes(numbers, summed[1]))
    if (numbers := look.constant(first)) is not None and operation.opcode == "dot":
        found = min(found, right * _sum_of_magnitudes(numbers, summed[0]))
    return found


def _sum_of_magnitudes(numbers: Array, axes: Sequence[int]) -> float:
    return float(np.abs(numbers.astype(np.float64)).sum(tuple(axes)).max())
