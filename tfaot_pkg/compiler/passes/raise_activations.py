"""Finds activations in a program, and names them as the kernel library does (`Activation` in kernels.h)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import erfc, isclose, isfinite, isinf, pi, prod, sqrt

import numpy as np

from tfaot_pkg.compiler.arithmetic import FUNCTIONS
from tfaot_pkg.compiler.attributes import Comparison
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, Operation
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array


def activated(look: Look, operation: Operation) -> tuple[int, str] | None:
    """The value that `operation` activates, and the activation; nothing outside the activation may use that value."""
    for pattern in _PATTERNS.get(operation.opcode, ()):
        found = pattern(look, operation)
        if found is not None and look.uses[found[0]] == found[2]:
            return found[0], found[1]
    return None


def in_one(look: Look, operation: Operation) -> Operation | None:
    """Activations that follow no layer as one operation: formulas of GELU and swish lose digits of negative numbers."""
    if operation.opcode != "multiply" or operation.shape.dtype != "f32":
        return None
    for pattern in _PATTERNS["multiply"]:
        found = pattern(look, operation)
        if found is not None:
            return replace(operation, opcode=found[1].replace("_", "-"), operands=found[:1], attributes=NO_ATTRIBUTES)
    return None


_Found = tuple[int, str, int]  # the value, the activation, and how often that uses the value


def _alone(name: str) -> Callable[[Look, Operation], _Found]:
    return lambda _look, operation: (operation.operands[0], name, 1)


def _relu(look: Look, operation: Operation) -> _Found | None:
    for value, other in _both(operation):
        if look.scalar(other) == 0.0:
            return value, "relu", 1
        # max(x, a x) is a leaky ReLU only for slopes below 1: above 1 it is a x for positive x.
        if (slope := _scale(look, other, value)) is not None and 0.0 < slope < 1.0:
            return value, f"leakyRelu({_number(slope)})", 2
    return None


def _clip(look: Look, operation: Operation) -> _Found | None:
    if operation.opcode == "clamp":
        low, value, high = operation.operands
        return _clipped(value, look.scalar(low), look.scalar(high))
    inner_opcode = "maximum" if operation.opcode == "minimum" else "minimum"
    for inner, bound in _both(operation):
        made = look.made_by(inner, inner_opcode, once=True)
        for value, other in _both(made) if made is not None else ():
            first, last = look.scalar(other), look.scalar(bound)
            found = _clipped(value, first, last) if operation.opcode == "minimum" else _clipped(value, last, first)
            if found is not None:
                return found
    return None


def _clipped(value: int, low: float | None, high: float | None) -> _Found | None:
    if low is None or high is None or not low <= high:
        return None
    return value, f"clipped({_number(low)}, {_number(high)})", 1


def _elu(look: Look, operation: Operation) -> _Found | None:
    """ELU, x > 0 ? x : exp(x) - 1, or a slope times x."""
    compare, value, other = operation.operands
    test = look.made_by(compare, "compare", once=True)
    if test is None or test.operands[0] != value or look.scalar(test.operands[1]) != 0.0:
        return None
    if Comparison.of(test).direction not in ("GT", "GE"):
        return None
    below = look.made_by(other, "exponential-minus-one", once=True)
    # At 0, ELU and a slope are 0 on either side of the comparison.
    if below is not None and below.operands == (value,) and Comparison.of(test).direction == "GT":
        return value, "elu", 3
    slope = _scale(look, other, value)
    return None if slope is None or not isfinite(slope) else (value, f"leakyRelu({_number(slope)})", 3)


def _swish(look: Look, operation: Operation) -> _Found | None:
    for value, other in _both(operation):
        gate = look.made_by(other, "logistic", once=True)
        if gate is not None and gate.operands == (value,):
            return value, "swish", 2
    return None


def _hard_swish(look: Look, operation: Operation) -> _Found | None:
    """Of x, x times a sixth of x + 3 clipped to 0 and 6: a quotient, or a product."""
    for value, gate in _both(operation):
        scaled = look.made_by(gate, "divide", "multiply", once=True)
        for inner, number in _both(scaled) if scaled is not None else ():
            sixth = look.scalar(number)
            if sixth is not None and scaled is not None and scaled.opcode == "divide":
                sixth = 1.0 / sixth if sixth and number == scaled.operands[1] else None
            clip = look.made_by(inner, "clamp", "maximum", "minimum", once=True)
            if sixth is None or clip is None or not isclose(sixth, 1 / 6, rel_tol=1e-7):
                continue
            found = _clip(look, clip)
            total = look.made_by(found[0], "add", once=True) if found and found[1] == _ZERO_TO_SIX else None
            for one, three in _both(total) if total is not None else ():
                if one == value and look.scalar(three) == 3.0:
                    return value, "hard_swish", 2
    return None


def _gelu(look: Look, operation: Operation) -> _Found | None:
    """GELU: x / 2 * (1 + erf(x / sqrt(2))), x / 2 * erfc(-x / sqrt(2)), or with tanh; the factors in any order."""
    numbers, rest = _factors(look, operation)
    # The factor 1/2 may be at x, at the sum, or at both as two square roots.
    if len(rest) != 2 or not isclose(prod(numbers), 0.5):
        return None
    for value, other in (rest, rest[::-1]):
        if (reads := _reads_of_erfc(look, other, value)) is not None:
            return value, "gelu_erf", 1 + reads
        total = look.made_by(other, "add", once=True)
        for one, gate in _both(total) if total is not None else ():
            function = look.made_by(gate, "erf", "tanh", once=True)
            if function is None or look.scalar(one) != 1.0:
                continue
            if function.opcode == "tanh":
                if (reads := _reads_of_cubic(look, function.operands[0], value)) is not None:
                    return value, "gelu_tanh", 1 + reads
                continue
            scale = _scale(look, function.operands[0], value)
            # Frameworks write 0.70710678, 1/sqrt(2) or a division by 1.4142135.
            if scale is not None and isclose(scale, sqrt(0.5), rel_tol=1e-6):
                return value, "gelu_erf", 2
    return None


# Beyond 13, results are subnormal numbers or 2, so the points cover all pieces of the function.
_POINTS = np.linspace(-16.0, 16.0, 4001, dtype=np.float32)
_ERFC = np.array([erfc(-x / sqrt(2.0)) for x in _POINTS.tolist()])
_MOST = 80
_PIECES: Mapping[str, Callable[[Array, Array], Array]] = {
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}
_OF_ERFC = ("abs", "add", "divide", "exponential", "minimum", "multiply", "negate", "select", "subtract")


def _reads_of_erfc(look: Look, gate: int, value: int) -> int | None:
    """How often `gate` reads `value`, if it is erfc(-x / sqrt(2)) of it; None otherwise.

    HLO has no opcode for erfc: TensorFlow 2.20 and later, and JAX, write rational functions for its pieces (55
    operations, which differ between releases). So results are compared instead: functions of few pieces that agree at
    thousands of points are equal.
    """
    if look.made_by(gate, "select", once=True) is None:
        return None
    found: dict[int, Array | None] = {value: _POINTS}
    cone: list[Operation] = []

    def at(each: int) -> Array | None:
        """The value of `each` at all points."""
        if each not in found:
            number = look.scalar(each)
            found[each] = np.full_like(_POINTS, number) if number is not None else applied(look.known[each])
        return found[each]

    def applied(operation: Operation) -> Array | None:
        direction = Comparison.of(operation).direction if operation.opcode == "compare" else None
        function = FUNCTIONS[operation.opcode] if operation.opcode in _OF_ERFC else _PIECES.get(direction or "")
        if function is None or len(cone) == _MOST:
            return None
        cone.append(operation)
        operands = [made for operand in operation.operands if (made := at(operand)) is not None]
        return function(*operands) if len(operands) == len(operation.operands) else None

    with np.errstate(all="ignore"):
        given = at(gate)
    # The tail is exp(-y * y) in float32: the rounding of y * y, up to 87, is a relative error of up to 5e-6 there.
    if given is None or not np.allclose(given, _ERFC, rtol=1e-4, atol=1e-37):
        return None
    # A function of more pieces could differ between the points.
    if sum(operation.opcode in ("compare", "minimum") for operation in cone) > len(_PIECES) - 1:
        return None
    return sum(operation.operands.count(value) for operation in cone)


_CUBIC = sqrt(2 / pi) * (_POINTS + 0.044715 * _POINTS.astype(np.float64) ** 3)
_MOST_OF_CUBIC = 12


def _reads_of_cubic(look: Look, argument: int, value: int) -> int | None:
    """How often `argument` reads `value`, if it is sqrt(2 / pi) * (x + 0.044715 * x^3) of it; None otherwise."""
    found: dict[int, Array | None] = {value: _POINTS}
    cone: list[Operation] = []

    def at(each: int) -> Array | None:
        if each not in found:
            number, operation = look.scalar(each), look.known[each]
            found[each] = np.full_like(_POINTS, number) if number is not None else None
            if number is None and operation.opcode in ("add", "multiply", "power") and len(cone) < _MOST_OF_CUBIC:
                cone.append(operation)
                operands = [made for operand in operation.operands if (made := at(operand)) is not None]
                if len(operands) == 2:
                    found[each] = FUNCTIONS[operation.opcode](*operands)
        return found[each]

    given = at(argument)
    # Products of few numbers: a polynomial that agrees at thousands of points is the same.
    if given is None or not np.allclose(given, _CUBIC, rtol=1e-5, atol=0.0):
        return None
    return sum(operation.operands.count(value) for operation in cone)


_PATTERNS: Mapping[str, tuple[Callable[[Look, Operation], _Found | None], ...]] = {
    "clamp": (_clip,),
    "logistic": (_alone("sigmoid"),),
    "maximum": (_relu, _clip),
    "minimum": (_clip,),
    "multiply": (_swish, _hard_swish, _gelu),
    "select": (_elu,),
    "tanh": (_alone("tanh"),),
}


def _both(operation: Operation) -> Iterator[tuple[int, int]]:
    first, second = operation.operands
    yield first, second
    yield second, first


def _scale(look: Look, product: int, value: int) -> float | None:
    """The number s with `product` = s * `value`; None if there is none."""
    quotient = look.made_by(product, "divide", once=True)
    if quotient is not None and quotient.operands[0] == value:
        number = look.scalar(quotient.operands[1])
        return 1.0 / number if number else None
    numbers, rest = _factors(look, look.known[product])
    return float(prod(numbers)) if rest == [value] and numbers else None


def _factors(look: Look, product: Operation) -> tuple[list[float], list[int]]:
    """The numbers and values whose product `product` is, through inner products with a single use."""
    numbers: list[float] = []
    values: list[int] = []
    for operand in product.operands if product.opcode == "multiply" else ():
        number = look.scalar(operand)
        if number is not None:
            numbers.append(number)
        elif (factor := look.made_by(operand, "multiply", once=True)) is not None:
            inner = _factors(look, factor)
            numbers += inner[0]
            values += inner[1]
        else:
            values.append(operand)
    return numbers, values


def _number(value: float) -> str:
    # C++ has no literals for infinities (arithmetic.h); hexadecimal ones are exact.
    if isinf(value):
        return "kNoEnd" if value > 0 else "-kNoEnd"
    return f"{float(np.float32(value)).hex()}f"


_ZERO_TO_SIX = f"clipped({_number(0.0)}, {_number(6.0)})"
