"""Formulas that lose digits, as frameworks lower functions to them, replaced by equal ones that do not (decision 039).

Each rule is an identity of real numbers with the same infinities and NaN. docs/reference/accuracy.md has the errors.
"""

from __future__ import annotations

from dataclasses import replace
from math import erf, factorial, log, pi, sqrt

import numpy as np

from tfaot_pkg.compiler.arithmetic import FUNCTIONS
from tfaot_pkg.compiler.attributes import Comparison, Dimensions
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, NUMPY_TYPES, Attributes, Operation
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array

_LOG_HALF = float(np.float32(log(0.5)))
_NEGLIGIBLE = -10.0
"""For smaller x, exp(x) is finite and small, so that log1p(exp(x)) loses nothing."""

_MOST_STEPS = 48
_POINTS = np.linspace(-1.0, 1.0, 100)
_ERF = np.array([erf(x) for x in _POINTS.tolist()])
_SERIES = [(-1.0) ** n * 2.0 / sqrt(pi) / (factorial(n) * (2 * n + 1)) for n in range(14)]
"""Of erf(x) / x in x * x: the rest is below 1e-12 for x up to 1."""

_WIDE_POINTS = np.linspace(-80.0, 80.0, 2001, dtype=np.float32)
_SOFTPLUS = np.logaddexp(0.0, _WIDE_POINTS.astype(np.float64))
_OF_POLYNOMIALS = frozenset({"add", "multiply"})
_OF_SOFTPLUS = frozenset({"abs", "add", "exponential", "log-plus-one", "maximum", "negate", "select"})
_COMPARED = {"GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal, "LT": np.less}
_FAR = -20.0
"""For smaller x, tanh(softplus(x)), exp(x) and the sigmoid of x are the same to a hundredth of the last place."""


def without_cancellation(look: Look, operation: Operation) -> Operation | None:
    """A more accurate operation than `operation`; None if no rule applies."""
    rule = _RULES.get(operation.opcode)
    return rule(look, operation) if rule is not None else None


def _root(look: Look, operation: Operation) -> Operation | None:
    """sqrt(1 - x * x) is sqrt((1 - x) * (1 + x)), and sqrt(x * x - 1) is sqrt((|x| - 1) * (|x| + 1)): acos, asin."""
    difference = look.made_by(operation.operands[0], "subtract")
    if difference is None or difference.shape.dtype not in ("f32", "f64"):
        return None
    for value, other in (difference.operands, difference.operands[::-1]):
        square = look.made_by(value, "multiply")
        if square is None or square.operands[0] != square.operands[1] or look.scalar(other) != 1.0:
            continue
        x = square.operands[0]
        # (x - 1) * (x + 1) is -0.0 for x = -1, whose root is -0.0; x * x - 1 is 0.0.
        pair = (_added(look, difference, "abs", x), other) if value == difference.operands[0] else (other, x)
        less = _added(look, difference, "subtract", *pair)
        more = _added(look, difference, "add", *pair)
        return replace(operation, operands=(_added(look, difference, "multiply", less, more),))
    return None


def _logarithm(look: Look, operation: Operation) -> Operation | None:
    """log(x + sqrt((x + 1) * (x - 1))) is log1p((x - 1) + sqrt((x + 1) * (x - 1))): acosh, near 1."""
    total = look.made_by(operation.operands[0], "add")
    if total is None or total.shape.dtype not in ("f32", "f64"):
        return None
    for x, other in (total.operands, total.operands[::-1]):
        root = look.made_by(other, "sqrt")
        product = look.made_by(root.operands[0], "multiply") if root is not None else None
        if product is None or {_shift(look, factor, x) for factor in product.operands} != {1.0, -1.0}:
            continue
        dtype = total.shape.dtype
        one = _filled(look, total, 1.0, dtype)
        near = _added(look, total, "add", _added(look, total, "subtract", x, one), other)
        # Far below zero the root is |x|, so that the argument of the logarithm is 0, but x - 1 + |x| is 0 too.
        is_below = _added(
            look, total, "compare", x, _filled(look, total, 0.0, dtype), dtype="pred",
            attributes=Comparison(direction="LT"),
        )  # fmt: skip
        argument = _added(look, total, "select", is_below, _added(look, total, "subtract", total.id, one), near)
        return replace(operation, opcode="log-plus-one", operands=(argument,))
    return None


def _shift(look: Look, value: int, x: int) -> float | None:
    """The number s with `value` = `x` + s or |`x`| + s; None if there is none."""
    made = look.made_by(value, "add", "subtract")
    if made is None:
        return None
    first, second = made.operands
    if made.opcode == "add" and look.scalar(first) is not None:
        first, second = second, first
    number = look.scalar(second)
    size = look.made_by(first, "abs")
    if number is None or x not in (first, *(size.operands if size is not None else ())):
        return None
    return -number if made.opcode == "subtract" else number


def _exponential(look: Look, operation: Operation) -> Operation | None:
    """exp(x + log(1/2)), the half of exp(x) that does not overflow: the sum would lose digits of x (sinh, cosh)."""
    total = look.made_by(operation.operands[0], "add", "subtract")
    if total is None or total.shape.dtype != "f32":
        return None
    for number, x in (total.operands, total.operands[::-1]):
        if look.scalar(number) == _LOG_HALF and (total.opcode == "add" or number == total.operands[0]):
            half = _filled(look, operation, log(0.5))
            wide = _added(look, total, "convert", x, dtype="f64")
            pair = (wide, half) if total.opcode == "add" else (half, wide)
            return _rounded(look, operation, _added(look, total, total.opcode, *pair, dtype="f64"))
    return None


def _product(look: Look, operation: Operation) -> Operation | None:
    """exp(-x * x) / |x|, the tail of erfc, whose square would be rounded: exp multiplies the error by up to 88."""
    if operation.shape.dtype != "f32":
        return None
    for power, inverse in (operation.operands, operation.operands[::-1]):
        quotient, made = look.made_by(inverse, "divide"), look.made_by(power, "exponential")
        if quotient is None or made is None or look.scalar(quotient.operands[0]) != 1.0:
            continue
        size = look.made_by(quotient.operands[1], "abs")
        if size is None or not _is_minus_square(look, made.operands[0], size.operands[0]):
            continue
        wide = _added(look, operation, "convert", size.operands[0], dtype="f64")
        square = _added(look, operation, "multiply", wide, wide, dtype="f64")
        exact = _added(
            look, operation, "exponential", _added(look, operation, "negate", square, dtype="f64"), dtype="f64"
        )
        tail = _added(look, operation, "divide", exact, _added(look, operation, "abs", wide, dtype="f64"), dtype="f64")
        return replace(operation, opcode="convert", operands=(tail,), attributes=NO_ATTRIBUTES)
    return None


def _is_minus_square(look: Look, value: int, x: int) -> bool:
    if (minus := look.made_by(value, "negate")) is not None:
        square = look.made_by(minus.operands[0], "multiply")
        return square is not None and square.operands == (x, x)
    product = look.made_by(value, "multiply")
    for one, other in (product.operands, product.operands[::-1]) if product is not None else ():
        minus = look.made_by(other, "negate")
        if one == x and minus is not None and minus.operands[0] == x:
            return True
    return False


def _difference(look: Look, operation: Operation) -> Operation | None:
    """1 - erf(x) near 1, where erf(x) = x * polynomial(x * x) has lost the digits of erfc: computed in float64."""
    one, other = operation.operands
    product = look.made_by(other, "multiply")
    if operation.shape.dtype != "f32" or product is None or look.scalar(one) != 1.0:
        return None
    for x in product.operands:
        found: dict[int, Array] = {x: _POINTS}
        with np.errstate(all="ignore"):
            values = _sampled(look, other, found, _OF_POLYNOMIALS)
        if values is None or not np.allclose(values, _ERF, rtol=1e-5, atol=0.0):
            continue
        wide = _added(look, operation, "convert", x, dtype="f64")
        square = _added(look, operation, "multiply", wide, wide, dtype="f64")
        total = _filled(look, operation, _SERIES[-1])
        for number in _SERIES[-2::-1]:
            total = _added(look, operation, "multiply", total, square, dtype="f64")
            total = _added(look, operation, "add", total, _filled(look, operation, number), dtype="f64")
        total = _added(look, operation, "multiply", total, wide, dtype="f64")
        total = _added(look, operation, "subtract", _filled(look, operation, 1.0), total, dtype="f64")
        return replace(operation, opcode="convert", operands=(total,), attributes=NO_ATTRIBUTES)
    return None


def _sampled(look: Look, value: int, found: dict[int, Array], opcodes: frozenset[str]) -> Array | None:
    """What `opcodes`, and comparisons if a choice is one, make of numbers and of what is `found`; None for others."""
    if value not in found:
        operation, number = look.known[value], look.scalar(value)
        if number is not None:
            found[value] = np.full_like(next(iter(found.values())), number)
        else:
            direction = Comparison.of(operation).direction if operation.opcode == "compare" else ""
            function = FUNCTIONS[operation.opcode] if operation.opcode in opcodes else _COMPARED.get(direction)
            if function is None or len(found) >= _MOST_STEPS:
                return None
            operands = [_sampled(look, each, found, opcodes) for each in operation.operands]
            known = [each for each in operands if each is not None]
            if len(known) < len(operands):
                return None
            found[value] = function(*known)
    return found[value]


def _gated(look: Look, operation: Operation) -> Operation | None:
    """Mish, x * tanh(softplus(x)), is swish far below zero, which rounds once where tanh is a subnormal number."""
    if operation.shape.dtype != "f32":
        return None
    for x, other in (operation.operands, operation.operands[::-1]):
        gate = look.made_by(other, "tanh")
        if gate is None:
            continue
        with np.errstate(all="ignore"):
            values = _sampled(look, gate.operands[0], {x: _WIDE_POINTS}, _OF_SOFTPLUS)
        if values is None or not np.allclose(values, _SOFTPLUS, rtol=1e-5, atol=0.0):
            continue
        limit = _filled(look, operation, _FAR, "f32")
        is_far = _added(look, operation, "compare", x, limit, dtype="pred", attributes=Comparison(direction="LT"))
        # Not `x` itself, so that the new product is not found again.
        near = _added(look, operation, "multiply", _added(look, operation, "maximum", x, limit), other)
        operands = (is_far, _added(look, operation, "swish", x), near)
        return replace(operation, opcode="select", operands=operands, attributes=NO_ATTRIBUTES)
    return None


def _select(look: Look, operation: Operation) -> Operation | None:
    """log1p(exp(x)) where a choice takes exp(x) for x below -14 or so: softplus, 7 units in the last place there."""
    condition, small, other = operation.operands
    logarithm, compared = look.made_by(other, "log-plus-one"), look.made_by(condition, "compare")
    power = look.made_by(small, "exponential")
    if logarithm is None or compared is None or power is None or logarithm.operands[0] != small:
        return None
    directions = {"LT": compared.operands, "GT": compared.operands[::-1]}
    x, limit = directions.get(Comparison.of(compared).direction, (None, None))
    if x != power.operands[0] or limit is None or (number := look.scalar(limit)) is None or number > _NEGLIGIBLE:
        return None
    return replace(operation, opcode="log-plus-one", operands=(small,), attributes=NO_ATTRIBUTES)


_RULES = {
    "exponential": _exponential,
    "log": _logarithm,
    "multiply": lambda look, operation: _product(look, operation) or _gated(look, operation),
    "select": _select,
    "sqrt": _root,
    "subtract": _difference,
}


def _added(
    look: Look,
    like: Operation,
    opcode: str,
    *operands: int,
    dtype: str | None = None,
    attributes: Attributes = NO_ATTRIBUTES,
) -> int:
    shape = like.shape if dtype is None else replace(like.shape, dtype=dtype)
    made = replace(
        like, id=look.fresh(), opcode=opcode, type=shape, operands=operands, attributes=attributes, regions=()
    )
    return look.add(made).id


def _filled(look: Look, like: Operation, number: float, dtype: str = "f64") -> int:
    scalar = look.add_constant(np.asarray(number, NUMPY_TYPES[dtype]), like)
    return _added(look, like, "broadcast", scalar, dtype=dtype, attributes=Dimensions(dimensions=()))


def _rounded(look: Look, operation: Operation, argument: int) -> Operation:
    """`operation` of a float64 argument, rounded to float32."""
    wide = _added(look, operation, operation.opcode, argument, dtype="f64")
    return replace(operation, opcode="convert", operands=(wide,), attributes=NO_ATTRIBUTES)
