"""Transfer functions of elementwise operations, and their effect on integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.analysis.program import integers
from tfaot_pkg.analysis.program.hlo import FLOATS, INTEGERS, Instruction, Shape
from tfaot_pkg.analysis.program.integers import Integers
from tfaot_pkg.analysis.program.values import PLACED, Cause, Step, Value, together, with_integers

OPCODES = frozenset(
    "abs acos acosh add and asin asinh atan atan2 atanh bitcast-convert cbrt ceil clamp compare complex "
    "convert copy cosine cosh count-leading-zeros divide domain erf exponential exponential-minus-one floor imag "
    "is-finite log log-plus-one logistic map maximum minimum multiply negate not opt-barrier or popcnt power real "
    "reduce-precision remainder round-nearest-afz round-nearest-even rsqrt select shift-left shift-right-arithmetic "
    "shift-right-logical sign sine sinh sqrt stochastic-convert subtract tan tanh xor".split()
)

_KEPT = frozenset("convert copy domain opt-barrier".split())
"""Operations that do not change integers."""

_Binary = Callable[[Integers, Integers], "Integers | None"]


def elementwise(step: Step) -> Value:
    instruction, operands, shapes = step.instruction, step.operands, step.shapes
    value = together(operands, instruction)
    if any(each.known.leaves for each in operands) and not _is_followed(instruction):
        return value
    if instruction.opcode in _KEPT and _keeps_whole_numbers(instruction, shapes):
        return operands[0]
    rule = _RULES.get(instruction.opcode)
    if value.mixed is not None or rule is None or not _keeps_whole_numbers(instruction, shapes):
        return value
    if all(each.integers is None and not each.below_batch for each in operands):
        return value
    found = rule(value, instruction, operands)
    if instruction.shape.dtype.startswith("u") and (found.known.bounds()[0] < 0).any():
        return value  # the unsigned result wraps around, so its value is not known
    return found


def _is_followed(instruction: Instruction) -> bool:
    """Whether the result has only numbers of the operands, also negative ones: see `Integers.leaves`."""
    return instruction.opcode in (*_KEPT, "select") and instruction.shape.dtype in ("s32", "s64")


def _keeps_whole_numbers(instruction: Instruction, shapes: Sequence[Shape]) -> bool:
    # Integers are followed through floats that hold them exactly, but not through quotients of floats.
    dtype, operand = instruction.shape.dtype, shapes[0].dtype
    if instruction.opcode in ("divide", "remainder", "and", "or", "not", "xor"):
        return dtype in INTEGERS
    if instruction.opcode == "convert":
        # Only from integers: from a float, HLO's conversion truncates, and nothing shows that it is a whole number.
        return operand in INTEGERS and dtype in INTEGERS | FLOATS
    return operand in INTEGERS | FLOATS and dtype in INTEGERS | FLOATS


def _binary(compute: _Binary) -> Callable[[Value, Instruction, Sequence[Value]], Value]:
    def rule(value: Value, instruction: Instruction, operands: Sequence[Value]) -> Value:
        one, two = operands
        return with_integers(value, compute(one.known, two.known), operands, instruction)

    return rule


def _negate(value: Value, instruction: Instruction, operands: Sequence[Value]) -> Value:
    return with_integers(value, integers.negate(operands[0].known), operands, instruction)


def _compare(value: Value, instruction: Instruction, operands: Sequence[Value]) -> Value:
    one, two = (each.known for each in operands)
    direction = instruction.attribute("direction")
    placed = next((each.placed for each in operands if each.placed is not None), None)
    # `iteration < batch`, from either side: the condition of a loop with one iteration per row.
    if direction in ("GT", "GE"):
        below = direction == "GT" and integers.subtract(two, one).is_exactly(iteration=1, batch=-1)
    else:
        below = direction == "LT" and integers.subtract(one, two).is_exactly(iteration=1, batch=-1)
    if below:
        return replace(value, below_batch=True, integers=None, placed=placed)
    found, lost = integers.compare(direction, one, two)
    if lost and placed is None:
        placed = Cause(instruction=instruction, reason=PLACED)
    return replace(value, integers=found, placed=placed)


def _truth(value: Value) -> Integers:
    """A truth value as the integers 0 and 1."""
    known = value.known
    return integers.between(np.maximum(known.low, 0), np.minimum(known.high, 1)) if not known.placed else known


def _both(value: Value, instruction: Instruction, operands: Sequence[Value]) -> Value:
    if instruction.shape.dtype != "pred":
        return value
    one, two = operands
    # A loop's condition stays `iteration < batch` if the other part of the conjunction is always true.
    for first, second in ((one, two), (two, one)):
        if first.below_batch and (second.below_batch or _truth(second).is_exactly(low=1, high=1)):
            return replace(value, below_batch=True, integers=None, placed=one.placed or two.placed)
    if one.below_batch or two.below_batch:
        return value
    # `and` of 0 and 1 is the minimum, `or` (below) the maximum, which bounds obey as well.
    first_truth, second_truth = _truth(one), _truth(two)
    found = integers.between(
        np.minimum(first_truth.low, second_truth.low), np.minimum(first_truth.high, second_truth.high)
    )
    return with_integers(value, found, operands, instruction)


def _either(value: Value, instruction: Instruction, operands: Sequence[Value]) -> Value:
    if instruction.shape.dtype != "pred" or any(each.below_batch for each in operands):
        return value
    one, two = map(_truth, operands)
    found = integers.between(np.maximum(one.low, two.low), np.maximum(one.high, two.high))
    return with_integers(value, found, operands, instruction)


def _different(value: Value, instruction: Instruction, operands: Sequence[Value]) -> Value:
    if instruction.shape.dtype != "pred" or any(each.below_batch for each in operands):
        return value
    one, two = map(_truth, operands)
    found = None if one.placed or two.placed else integers.compare("NE", one, two)[0]
    return with_integers(value, found, operands, instruction)


def _not(value: Value, instruction: Instruction, operands: Sequence[Value]) -> Value:
    if instruction.shape.dtype != "pred" or operands[0].below_batch:
        return value
    truth = _truth(operands[0])
    return with_integers(value, integers.between(1 - truth.high, 1 - truth.low), operands, instruction)


def _select(value: Value, instruction: Instruction, operands: Sequence[Value]) -> Value:
    pred, one, two = operands
    if pred.below_batch:
        return value
    truth = _truth(pred)
    if truth.is_exactly(low=1, high=1):
        return one
    if truth.is_exactly(low=0, high=0):
        return two
    if one.integers is None and two.integers is None:
        return value
    return with_integers(value, integers.select(truth, one.known, two.known), operands, instruction)


def _clamp(value: Value, instruction: Instruction, operands: Sequence[Value]) -> Value:
    low, one, high = (each.known for each in operands)
    raised = integers.maximum(low, one)
    found = None if raised is None else integers.minimum(raised, high)
    return with_integers(value, found, operands, instruction)


def _absolute(value: Value, instruction: Instruction, operands: Sequence[Value]) -> Value:
    return with_integers(value, integers.absolute(operands[0].known), operands, instruction)


_RULES: Mapping[str, Callable[[Value, Instruction, Sequence[Value]], Value]] = {
    "abs": _absolute,
    "add": _binary(integers.add),
    "and": _both,
    "clamp": _clamp,
    "compare": _compare,
    "divide": _binary(integers.divide),
    "maximum": _binary(integers.maximum),
    "minimum": _binary(integers.minimum),
    "multiply": _binary(integers.multiply),
    "negate": _negate,
    "not": _not,
    "or": _either,
    "remainder": _binary(integers.remainder),
    "select": _select,
    "subtract": _binary(integers.subtract),
    "xor": _different,
}
