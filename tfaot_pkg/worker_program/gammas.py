"""`lgamma` and `digamma` of float32, computed in float64.

XLA computes both in float32, where Lanczos' approximation of lgamma loses all digits near its zeros at 1 and 2, and
that of digamma near its zeros and poles. The operations here are those whose float64 results have the same bits on
every CPU, so sines and cosines are series.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import tensorflow as tf
from doubles import number, polynomial
from messages.series import COSINE, LANCZOS, LANCZOS_FIRST, LANCZOS_G, SINE

if TYPE_CHECKING:
    from framework_types import NodeDef


def log_gamma(_node: NodeDef, x: tf.Tensor) -> tf.Tensor | None:
    """log(|gamma(x)|). None, for XLA's own, of other types than float32."""
    if x.dtype != tf.float32:
        return None
    return tf.cast(of_float64(tf.cast(x, tf.float64)), tf.float32)


def of_float64(wide: tf.Tensor) -> tf.Tensor:
    """log(|gamma(x)|) in float64."""
    is_reflected, z, t = _reduced(wide)
    total = number(LANCZOS_FIRST)
    for i, coefficient in enumerate(LANCZOS):
        total += number(coefficient) / (z + number(i + 1))
    logarithm = (z + number(0.5)) * tf.math.log(t) - t + tf.math.log(total) + number(0.5 * math.log(2 * math.pi))
    rest = _from_whole(wide)
    sine = tf.abs(rest * polynomial(SINE, rest * rest))  # 0 at the poles, whose logarithm gives infinity
    reflected = number(math.log(math.pi)) - tf.math.log(sine) - logarithm
    found = tf.where(is_reflected, reflected, logarithm)
    is_zero = tf.logical_or(tf.equal(wide, number(1.0)), tf.equal(wide, number(2.0)))
    found = tf.where(is_zero, number(0.0), found)
    return tf.where(tf.math.is_inf(wide), tf.abs(wide), found)


def digamma(_node: NodeDef, x: tf.Tensor) -> tf.Tensor | None:
    """The derivative of log(gamma(x)). None, for XLA's own, of other types than float32."""
    if x.dtype != tf.float32:
        return None
    wide = tf.cast(x, tf.float64)
    is_reflected, z, t = _reduced(wide)
    above, below = number(0.0), number(LANCZOS_FIRST)
    for i, coefficient in enumerate(LANCZOS):
        place = z + number(i + 1)
        above -= number(coefficient) / (place * place)
        below += number(coefficient) / place
    value = tf.math.log(t) + above / below - number(LANCZOS_G) / t
    rest = _from_whole(wide)
    square = rest * rest
    cotangent = polynomial(COSINE, square) / (rest * polynomial(SINE, square))
    found = tf.where(is_reflected, value - number(math.pi) * cotangent, value)
    is_pole = tf.logical_and(wide <= number(0.0), tf.equal(rest, number(0.0)))
    return tf.cast(tf.where(is_pole, number(math.nan), found), tf.float32)


def _reduced(wide: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Whether x is below 1/2, z with gamma(x) of gamma(z + 1), and the t of Lanczos' approximation."""
    is_reflected = wide < number(0.5)
    z = tf.where(is_reflected, -wide, wide - number(1.0))
    return is_reflected, z, z + number(LANCZOS_G + 0.5)


def _from_whole(x: tf.Tensor) -> tf.Tensor:
    """The distance to the nearest whole number, with its sign."""
    return x - tf.floor(x + number(0.5))
