"""The gamma function and inverses of distributions, computed in float64, as the front-end of TensorFlow has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tfaot_pkg.frontends.aten_lowering.elementwise import floating
from tfaot_pkg.frontends.aten_lowering.table import Call, Results, operator
from tfaot_pkg.frontends.lowering.values import Value
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.worker_program.messages.series import (
    COSINE,
    FAR,
    LANCZOS,
    LANCZOS_FIRST,
    LANCZOS_G,
    MIDDLE,
    NEAR,
    SINE,
)


def _of_float64(function: Callable[[Arithmetic, Value], Value]) -> Callable[[Call], Results]:
    def lowered(call: Call) -> Results:
        b, x = call.builder, floating(call)
        wide = b.convert(x, "f64") if x.dtype != "f64" else x
        made = function(Arithmetic(b, wide), wide)
        return b.convert(made, x.dtype) if x.dtype != "f64" else made

    return lowered


def _polynomial(a: Arithmetic, coefficients: Sequence[float], x: Value) -> Value:
    made = a.value(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        made = a.add(a.mul(made, x), coefficient)
    return made


def _reduced(a: Arithmetic, x: Value) -> tuple[Value, Value, Value]:
    """Whether x is below 1/2, z with gamma(x) of gamma(z + 1), and the t of Lanczos' approximation."""
    is_reflected = a.compare("LT", x, 0.5)
    z = a.where(is_reflected, a.unary("negate", x), a.sub(x, 1))
    return is_reflected, z, a.add(z, LANCZOS_G + 0.5)


def _from_whole(a: Arithmetic, x: Value) -> Value:
    return a.sub(x, a.unary("floor", a.add(x, 0.5)))


def _log_gamma(a: Arithmetic, x: Value) -> Value:
    """log(|gamma(x)|)."""
    is_reflected, z, t = _reduced(a, x)
    total = a.value(LANCZOS_FIRST)
    for i, coefficient in enumerate(LANCZOS):
        total = a.add(total, a.div(coefficient, a.add(z, i + 1)))
    logarithm = a.add(a.sub(a.mul(a.add(z, 0.5), a.log(t)), t), a.add(a.log(total), 0.5 * math.log(2 * math.pi)))
    rest = _from_whole(a, x)
    sine = a.unary("abs", a.mul(rest, _polynomial(a, SINE, a.mul(rest, rest))))
    # A pole has the sine 0.
    reflected = a.sub(a.sub(math.log(math.pi), a.log(sine)), logarithm)
    found = a.where(is_reflected, reflected, logarithm)
    found = a.where(a.compare("EQ", a.mul(a.sub(x, 1), a.sub(x, 2)), 0), 0, found)
    size = a.unary("abs", x)
    return a.where(a.compare("EQ", size, math.inf), size, found)


def _digamma(a: Arithmetic, x: Value) -> Value:
    """The derivative of log(gamma(x)); NaN at poles, and an infinity at a zero, with the other sign."""
    is_reflected, z, t = _reduced(a, x)
    above, below = a.value(0), a.value(LANCZOS_FIRST)
    for i, coefficient in enumerate(LANCZOS):
        place = a.add(z, i + 1)
        above = a.sub(above, a.div(coefficient, a.mul(place, place)))
        below = a.add(below, a.div(coefficient, place))
    value = a.sub(a.add(a.log(t), a.div(above, below)), a.div(LANCZOS_G, t))
    rest = _from_whole(a, x)
    square = a.mul(rest, rest)
    cotangent = a.div(_polynomial(a, COSINE, square), a.mul(rest, _polynomial(a, SINE, square)))
    found = a.where(is_reflected, a.sub(value, a.mul(math.pi, cotangent)), value)
    at_zero = a.unary("negate", a.div(1, x))
    is_whole = a.compare("EQ", rest, 0)
    found = a.where(
        is_whole, a.where(a.compare("LT", x, 0), math.nan, a.where(a.compare("EQ", x, 0), at_zero, found)), found
    )
    found = a.where(a.compare("EQ", x, math.inf), math.inf, found)
    return a.where(a.compare("EQ", x, -math.inf), math.nan, found)


def _quantile(a: Arithmetic, distance: Value, tail: Value) -> Value:
    """Of probability 1/2 + `distance`, of which `tail` is the smaller part; NaN for a negative `tail`."""
    near = a.mul(distance, _ratio(a, NEAR, a.sub(0.180625, a.mul(distance, distance))))
    root = a.unary("sqrt", a.unary("negate", a.log(tail)))
    far = a.where(a.compare("LE", root, 5), _ratio(a, MIDDLE, a.sub(root, 1.6)), _ratio(a, FAR, a.sub(root, 5)))
    far = a.where(a.compare("EQ", tail, 0), math.inf, far)
    is_near = a.compare("LE", a.unary("abs", distance), 0.425)
    return a.where(is_near, near, a.mul(a.unary("sign", distance), far))


def _ratio(a: Arithmetic, coefficients: tuple[Sequence[float], Sequence[float]], x: Value) -> Value:
    above, below = (_polynomial(a, each, x) for each in coefficients)
    return a.div(above, below)


def _erfinv(a: Arithmetic, x: Value) -> Value:
    found = _quantile(a, a.mul(0.5, x), a.mul(0.5, a.sub(1, a.unary("abs", x))))
    return a.mul(found, math.sqrt(0.5))


def _ndtri(a: Arithmetic, p: Value) -> Value:
    """The number below which a normal distribution has the probability p."""
    return _quantile(a, a.sub(p, 0.5), a.min(p, a.sub(1, p)))


for _name, _function in {
    "lgamma": _log_gamma, "special_gammaln": _log_gamma, "digamma": _digamma, "special_digamma": _digamma,
    "erfinv": _erfinv, "special_erfinv": _erfinv, "special_ndtri": _ndtri,
}.items():  # fmt: skip
    operator(_name)(_of_float64(_function))
