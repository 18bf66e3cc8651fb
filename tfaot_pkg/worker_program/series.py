"""Special functions of float32 that are sums of many terms, computed in float64.

XLA's sums in float32 lose all digits in the tails of distributions, and 4 to 20 units in the last place elsewhere.
Where a formula is our own, its operations are those whose float64 results have the same bits on every CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import gammas
import tensorflow as tf
from doubles import number

if TYPE_CHECKING:
    from framework_types import NodeDef

    Rule = Callable[..., tf.Tensor | None]

_TERMS = 12
"""The terms of zeta that are added one by one; the series of Euler and Maclaurin adds the others."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""B2, B4, ..."""


def _in_float64(operation: Callable[..., tf.Tensor]) -> Rule:
    """A rule for XLA's own kernel of `operation`, in float64. None, for that in float32, of other types."""

    def rule(_node: NodeDef, *operands: tf.Tensor) -> tf.Tensor | None:
        if operands[0].dtype != tf.float32:
            return None
        return tf.cast(operation(*(tf.cast(each, tf.float64) for each in operands)), tf.float32)

    return rule


def _zeta(_node: NodeDef, s: tf.Tensor, q: tf.Tensor) -> tf.Tensor | None:
    """Hurwitz' zeta function, the sum of (q + k)^-s. XLA's own where it does not converge, and of other types."""
    if s.dtype != tf.float32:
        return None
    converges = tf.logical_and(_is_above(s, 1.0), _is_above(q, 0.0))
    found = _hurwitz(tf.cast(s, tf.float64), tf.cast(q, tf.float64), number(0.0))
    return tf.where(converges, tf.cast(found, tf.float32), tf.raw_ops.Zeta(x=s, q=q))


def _polygamma(node: NodeDef, n: tf.Tensor, x: tf.Tensor) -> tf.Tensor | None:
    """The n-th derivative of digamma. XLA's own for x <= 0, for other n than whole numbers, and of other types."""
    if n.dtype != tf.float32:
        return None
    order = tf.cast(n, tf.float64)
    size = _hurwitz(order + number(1.0), tf.cast(x, tf.float64), gammas.of_float64(order + number(1.0)))
    is_odd = tf.not_equal(order, number(2.0) * tf.floor(order * number(0.5)))
    found = tf.cast(tf.where(is_odd, size, -size), tf.float32)
    is_derivative = tf.logical_and(_is_above(n, 0.5), tf.equal(n, tf.floor(n)))
    found = tf.where(tf.logical_and(is_derivative, _is_above(x, 0.0)), found, tf.raw_ops.Polygamma(a=n, x=x))
    return tf.where(tf.equal(n, 0.0), gammas.digamma(node, x), found)


def _is_above(x: tf.Tensor, limit: float) -> tf.Tensor:
    return tf.logical_and(x > limit, x < math.inf)


def _hurwitz(s: tf.Tensor, q: tf.Tensor, logarithm: tf.Tensor) -> tf.Tensor:
    """exp(logarithm) * zeta(s, q) for s > 1 and q > 0, so that neither factor has to be a number."""

    def power(base: tf.Tensor) -> tf.Tensor:
        return tf.exp(logarithm - s * tf.math.log(base))

    total = power(q)
    for k in range(1, _TERMS):
        total += power(q + number(k))
    end = q + number(_TERMS)
    rest, factor = end / (s - number(1.0)) + number(0.5), s / end
    for i, bernoulli in enumerate(_BERNOULLI):
        rest += number(bernoulli / math.factorial(2 * i + 2)) * factor
        factor *= (s + number(2 * i + 1)) * (s + number(2 * i + 2)) / (end * end)
    last = power(end)
    # A large s makes the rest infinite, of a power that is 0 then.
    return total + tf.where(tf.equal(last, number(0.0)), last, last * rest)


RULES: dict[str, Rule] = {
    "BesselI0e": _in_float64(tf.math.bessel_i0e),
    "BesselI1e": _in_float64(tf.math.bessel_i1e),
    "Betainc": _in_float64(tf.math.betainc),
    "Igamma": _in_float64(tf.math.igamma),
    "Igammac": _in_float64(tf.math.igammac),
    "Polygamma": _polygamma,
    "Zeta": _zeta,
}
