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
from messages.series import FAR, MIDDLE, NEAR

if TYPE_CHECKING:
    from framework_types import NodeDef


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
    near = distance * _ratio(NEAR, number(0.180625) - distance * distance)
    root = tf.sqrt(-tf.math.log(tail))
    far = tf.where(root <= number(5.0), _ratio(MIDDLE, root - number(1.6)), _ratio(FAR, root - number(5.0)))
    far = tf.where(tf.equal(tail, number(0.0)), number(math.inf), far)
    return tf.where(tf.abs(distance) <= number(0.425), near, tf.sign(distance) * far)


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: tf.Tensor) -> tf.Tensor:
    above, below = (polynomial(each, x) for each in coefficients)
    return above / below
