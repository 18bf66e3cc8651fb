"""Interpolations along an axis: each element of the result is a weighed sum of a few elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from framework_types import Array


def weighed(x: tf.Tensor, axis: int, places: Array, weights: Array) -> tf.Tensor:
    """`x` with `len(places)` elements along `axis`: sums of the elements at `places`, [results, n], times `weights`."""
    shape = [*weights.shape, *[1] * (x.shape.rank - 1 - axis)]
    windows = tf.gather(x, places, axis=axis)
    return tf.reduce_sum(windows * tf.constant(weights.reshape(shape), x.dtype), axis + 1)
