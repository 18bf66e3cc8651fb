"""Arithmetic in float64 for functions of float32 (gammas.py, quantiles.py): its bits are the same on every CPU."""

import tensorflow as tf


def number(value: float):
    """A constant of float64."""
    return tf.constant(value, tf.float64)


def polynomial(coefficients, x):
    """That of x whose `coefficients` begin with the constant, by Horner's scheme."""
    total = number(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + number(coefficient)
    return total
