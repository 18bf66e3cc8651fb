"""Arithmetic on sizes, and what takes results apart: functions of Python in the graph."""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Mapping

from tfaot_pkg.compiler.program import Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.table import COMPARISONS, MINUS, OPERATORS, Call, Results, operator
from tfaot_pkg.frontends.lowering.values import Undecided, Value, number_of, product


@operator("sym_size.int")
def _sym_size(call: Call) -> Results:
    x = call.value("self")
    return x.sizes[call.axis("dim", x.rank)]


@operator("sym_numel")
def _sym_numel(call: Call) -> Results:
    return product(call.value("self").sizes)


def _getitem(call: Call) -> Results:
    found, number = call.get("0"), call.whole("1")
    if not isinstance(found, tuple) or not 0 <= number < len(found):
        raise Unsupported(f"there is no result {number}")
    if found[number] is None:
        raise Unsupported(f"result {number} of an operator that gives none here")
    return found[number]


_NUMBERS: Mapping[str, Callable[[float, float], float]] = {
    "add": python.add, "sub": python.sub, "mul": python.mul, "floordiv": python.floordiv, "mod": python.mod,
    "pow": python.pow, "truediv": python.truediv,
}  # fmt: skip


def _arithmetic(name: str) -> Callable[[Call], Results]:
    def function(call: Call) -> Results:
        pair = [call.get("0"), call.get("1")]
        numbers = [_number(each) for each in pair]
        first, second = numbers
        if first is not None and second is not None:
            return _NUMBERS[name](first, second)
        x, y = call.size("0"), call.size("1")
        try:
            return _of_sizes(call, name, x, y)
        except Undecided:
            raise Unsupported(f"{name} of the sizes {x} and {y} is no polynomial: give one of them a number") from None

    return function


def _number(found: object) -> float | None:
    if isinstance(found, Size):
        return number_of(found)
    return found if isinstance(found, int | float) else None


def _of_sizes(call: Call, name: str, x: Size, y: Size) -> Size:
    ranges = call.builder.ranges
    if name == "add":
        return x + y
    if name == "sub":
        return x + y * MINUS
    if name == "mul":
        return x * y
    if name in ("floordiv", "truediv"):
        return ranges.divide(x, y)
    if name == "mod":
        return ranges.remainder(x, y)
    power = number_of(y)
    if power is None or not 0 <= power <= 8:
        raise Undecided
    return product([x] * power)


def _compared(direction: str) -> Callable[[Call], Results]:
    """Conditions on sizes, which the graph asserts: None if they depend on the symbols."""

    def function(call: Call) -> Results:
        if not all(isinstance(call.get(name), int | Size) for name in "01"):
            return None
        try:
            return call.builder.ranges.compare(direction, call.size("0"), call.size("1"))
        except Undecided:
            return None

    return function


def _together(*, decisive: bool) -> Callable[[Call], Results]:
    """Two conditions, of which one that is `decisive` decides: None if that depends on the symbols."""

    def function(call: Call) -> Results:
        found = [call.get(name) for name in "01"]
        if any(each is decisive for each in found):
            return decisive
        return not decisive if all(each is (not decisive) for each in found) else None

    return function


def _inverted(call: Call) -> Results:
    found = call.get("0")
    return not found if isinstance(found, bool) else None


def _extreme(*, largest: bool) -> Callable[[Call], Results]:
    def function(call: Call) -> Results:
        x, y = call.size("0"), call.size("1")
        try:
            ranges = call.builder.ranges
            return (ranges.largest if largest else ranges.smallest)(x, y)
        except Undecided:
            which = "larger" if largest else "smaller"
            raise Unsupported(f"which of the sizes {x} and {y} is {which} depends on the call: limit them") from None

    return function


def _negated(call: Call) -> Results:
    return call.size("0") * MINUS


def _as_float(call: Call) -> Results:
    found = call.get("0")
    if isinstance(found, Size | int | float | Value):
        return found
    raise Unsupported("its argument is no number")


OPERATORS.update({
    "operator.getitem": _getitem,
    "operator.neg": _negated,
    "operator.or_": _together(decisive=True),
    "operator.and_": _together(decisive=False),
    "torch.sym_not": _inverted,
    "torch.sym_float": _as_float,
    "torch.sym_max": _extreme(largest=True),
    "torch.sym_min": _extreme(largest=False),
    **{f"operator.{name}": _arithmetic(name) for name in _NUMBERS},
    **{f"operator.{name}": _compared(direction) for name, direction in COMPARISONS.items()},
})  # fmt: skip
