"""Places of largest elements, of which each is compared once.

XLA combines a place and an element with another pair in any order: it compares twice, and takes the lower place of
equal elements. A `reduce` of a program goes through its elements in their order (reductions.py), so that the first of
equal ones comes first, and stays. TensorFlow's kernel does the same.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import numpy as np

from tfaot_pkg.compiler.attributes import Comparison, Dimensions, in_total_order
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, NUMPY_TYPES, Operation, Region, Shape
from tfaot_pkg.compiler.use_def import Look

_LONGEST = 64
"""Elements of rows that are gone through one by one. In longer ones XLA's comparisons, with predicted branches, are
faster than maxima that wait for one another (benchmarks/loops.py: 1.13 of its time for 100 elements, 0.55 for 12)."""
_STRICT = {"GE": "GT", "LE": "LT"}


def argmax(look: Look, operation: Operation) -> Operation | None:
    """The largest of numbers that are above a finite one, or the smallest, with its place; None for others.

    The bound takes the part of the first number: none of those that it excludes, as NaN, is larger.
    """
    if operation.opcode != "reduce" or len(operation.operands) != 4 or not _is_ordered(look, operation):
        return None
    direction = _direction(operation.regions[0])
    bounded = look.made_by(operation.operands[0], "select", once=True)
    if direction is None or bounded is None:
        return None
    better, x, bound = bounded.operands
    number, start = look.scalar(bound), look.scalar(operation.operands[2])
    compared = look.made_by(better, "compare")
    if number is None or start is None or not isfinite(number) or compared is None or in_total_order(compared):
        return None
    is_before = start <= number if direction == "GE" else start >= number
    if compared.operands != (x, bound) or Comparison.of(compared).direction != _STRICT[direction] or not is_before:
        return None
    first = look.add_constant(np.asarray(number, NUMPY_TYPES[look.known[x].shape.dtype]), operation)
    region = _first_of(look, operation.regions[0], _STRICT[direction])
    operands = (x, operation.operands[1], first, operation.operands[3])
    return replace(operation, operands=operands, regions=(region,))


def _is_ordered(look: Look, operation: Operation) -> bool:
    """Whether the second array has the places along the axis that goes, from 0 on; not if that is empty, or long."""
    numbers, axes = look.made_by(operation.operands[1], "iota"), Dimensions.of(operation).dimensions
    if numbers is None or len(axes) != 1 or Dimensions.of(numbers).dimensions != axes:
        return False
    size, is_last = numbers.shape.sizes[axes[0]], axes[0] == numbers.shape.rank - 1
    is_short = size.is_constant and size.constant > 0 and (not is_last or size.constant <= _LONGEST)
    return is_short and look.scalar(operation.operands[3]) == 0


def _direction(region: Region) -> str | None:
    """GE if `region` keeps the larger of two elements with its place, LE for the smaller; None for others."""
    known = region.by_id()
    value, place, other, beside = (each.id for each in region.parameters)
    kept, chosen = (known.get(each) for each in region.results)
    if kept is None or chosen is None or (kept.opcode, chosen.opcode) != ("select", "select"):
        return None
    compared, equal = known.get(kept.operands[0]), known.get(chosen.operands[0])
    lower, taken = (known.get(each) for each in chosen.operands[1:])
    if not _is(compared, "compare", value, other) or not _is(equal, "compare", value, other):
        return None
    is_lower = _is(lower, "minimum", place, beside) or _is(lower, "minimum", beside, place)
    if kept.operands[1:] != (value, other) or not is_lower:
        return None
    if not _is(taken, "select", kept.operands[0], place, beside) or _direction_of(equal) != "EQ":
        return None
    found = _direction_of(compared)
    return found if found in _STRICT else None


def _is(found: Operation | None, opcode: str, *operands: int) -> bool:
    return found is not None and found.opcode == opcode and found.operands == operands


def _direction_of(compared: Operation | None) -> str | None:
    return None if compared is None or in_total_order(compared) else Comparison.of(compared).direction


def _first_of(look: Look, region: Region, direction: str) -> Region:
    """A later element is taken if it is larger."""
    value, place, other, beside = region.parameters
    compared = replace(
        value, id=look.fresh(), opcode="compare", type=Shape("pred", ()), operands=(other.id, value.id),
        attributes=Comparison(direction=direction),
    )  # fmt: skip
    chosen = tuple(
        replace(
            kept, id=look.fresh(), opcode="select", operands=(compared.id, later.id, kept.id), attributes=NO_ATTRIBUTES
        )
        for kept, later in ((value, other), (place, beside))
    )
    return Region(operations=(*region.parameters, compared, *chosen), results=tuple(each.id for each in chosen))
