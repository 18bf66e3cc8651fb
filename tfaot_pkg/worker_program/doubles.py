"""Arithmetic in float64 for functions of float32 (gammas.py, quantiles.py): its bits are the same on every CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    pass


def number(value: float) -> tf.Tensor:
    """A constant of float64."""
    return tf.constant(value, tf.float64)


def polynomial(coefficients: Sequence[float], x: tf.Tensor) -> tf.Tensor:
    """That of x whose `coefficients` begin with the constant, by Horner's scheme."""
    total = number(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + number(coefficient)
    return total
