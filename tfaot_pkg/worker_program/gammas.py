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

if TYPE_CHECKING:
    from framework_types import NodeDef


# Lanczos' approximation with g = 7 and 9 terms, as XLA has it (Godfrey's coefficients): below 1e-15 in float64.
_G = 7.0
_FIRST = 0.99999999999980993227684700473478
_LANCZOS = (
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011695554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)
# Of sin(pi r) / r and cos(pi r) in r * r, |r| <= 1/2: Taylor series, whose rests are below 1e-16.
_SINE = [(-1) ** n * math.pi ** (2 * n + 1) / math.factorial(2 * n + 1) for n in range(13)]
_COSINE = [(-1) ** n * math.pi ** (2 * n) / math.factorial(2 * n) for n in range(13)]


def log_gamma(_node: NodeDef, x: tf.Tensor) -> tf.Tensor | None:
    """log(|gamma(x)|). None, for XLA's own, of other types than float32."""
    if x.dtype != tf.float32:
        return None
    return tf.cast(of_float64(tf.cast(x, tf.float64)), tf.float32)


def of_float64(wide: tf.Tensor) -> tf.Tensor:
    """log(|gamma(x)|) in float64."""
    is_reflected, z, t = _reduced(wide)
    total = number(_FIRST)
    for i, coefficient in enumerate(_LANCZOS):
        total += number(coefficient) / (z + number(i + 1))
    logarithm = (z + number(0.5)) * tf.math.log(t) - t + tf.math.log(total) + number(0.5 * math.log(2 * math.pi))
    rest = _from_whole(wide)
    sine = tf.abs(rest * polynomial(_SINE, rest * rest))  # 0 at the poles, whose logarithm gives infinity
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
    above, below = number(0.0), number(_FIRST)
    for i, coefficient in enumerate(_LANCZOS):
        place = z + number(i + 1)
        above -= number(coefficient) / (place * place)
        below += number(coefficient) / place
    value = tf.math.log(t) + above / below - number(_G) / t
    rest = _from_whole(wide)
    square = rest * rest
    cotangent = polynomial(_COSINE, square) / (rest * polynomial(_SINE, square))
    found = tf.where(is_reflected, value - number(math.pi) * cotangent, value)
    is_pole = tf.logical_and(wide <= number(0.0), tf.equal(rest, number(0.0)))
    return tf.cast(tf.where(is_pole, number(math.nan), found), tf.float32)


def _reduced(wide: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Whether x is below 1/2, z with gamma(x) of gamma(z + 1), and the t of Lanczos' approximation."""
    is_reflected = wide < number(0.5)
    z = tf.where(is_reflected, -wide, wide - number(1.0))
    return is_reflected, z, z + number(_G + 0.5)


def _from_whole(x: tf.Tensor) -> tf.Tensor:
    """The distance to the nearest whole number, with its sign."""
    return x - tf.floor(x + number(0.5))
