"""`ndtri` and `erfinv` of float32, computed in float64.

XLA computes ndtri(p) by erfinv(2 p - 1) in float32, which is minus infinity for p below 3e-8. The operations here are
those whose float64 results have the same bits on every CPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow as tf
from doubles import number, polynomial

if TYPE_CHECKING:
    from framework_types import NodeDef


# Wichura, "The percentage points of the normal distribution", Algorithm AS 241 (1988), PPND16: relative error 1e-16.
_NEAR = (
    (
        3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
        4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3,
    ),
    (
        1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
        2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3,
    ),
)  # fmt: skip
_MIDDLE = (
    (
        1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
        1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
    ),
    (
        1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
        1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
    ),
)  # fmt: skip
_FAR = (
    (
        6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
        2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
    ),
    (
        1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
        7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
    ),
)  # fmt: skip


def ndtri(_node: NodeDef, p: tf.Tensor) -> tf.Tensor | None:
    """The number below which a normal distribution has probability p. None, for XLA's own, of types but float32."""
    if p.dtype != tf.float32:
        return None
    wide = tf.cast(p, tf.float64)
    return tf.cast(_quantile(wide - number(0.5), tf.minimum(wide, number(1.0) - wide)), tf.float32)


def erfinv(_node: NodeDef, x: tf.Tensor) -> tf.Tensor | None:
    """The number whose erf is x. None, for XLA's own, of other types than float32."""
    if x.dtype != tf.float32:
        return None
    wide = tf.cast(x, tf.float64)
    half = number(0.5)
    found = _quantile(half * wide, half * (number(1.0) - tf.abs(wide)))
    return tf.cast(found * number(math.sqrt(0.5)), tf.float32)


def _quantile(distance: tf.Tensor, tail: tf.Tensor) -> tf.Tensor:
    """Of probability 1/2 + `distance`, of which `tail` is the smaller part; NaN for a negative `tail`."""
    near = distance * _ratio(_NEAR, number(0.180625) - distance * distance)
    root = tf.sqrt(-tf.math.log(tail))
    far = tf.where(root <= number(5.0), _ratio(_MIDDLE, root - number(1.6)), _ratio(_FAR, root - number(5.0)))
    far = tf.where(tf.equal(tail, number(0.0)), number(math.inf), far)
    return tf.where(tf.abs(distance) <= number(0.425), near, tf.sign(distance) * far)


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: tf.Tensor) -> tf.Tensor:
    above, below = (polynomial(each, x) for each in coefficients)
    return above / below
