"""Interpolations along an axis: each element of the result is a weighed sum of a few elements.

Not products with a matrix, in which elements that a result does not use have the weight 0: NaN times 0 is NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from framework_types import Array, Bools


def weighed(x: tf.Tensor, axis: int, places: Array, weights: Array) -> tf.Tensor:
    """`x` with `len(places)` elements along `axis`: sums of the elements at `places`, [results, n], times `weights`."""
    shape = [*weights.shape, *[1] * (x.shape.rank - 1 - axis)]
    windows = tf.gather(x, places, axis=axis)
    return tf.reduce_sum(windows * tf.constant(weights.reshape(shape), x.dtype), axis + 1)


def windows_of(matrix: Array, used: Bools) -> tuple[Array, Array]:
    """(places, weights) of a product with `matrix`, [results, elements], whose results read the elements of `used`."""
    most = int(used.sum(1).max())
    places, weights = (np.zeros((len(matrix), most), kind) for kind in (np.int32, matrix.dtype))
    for row, (numbers, mask) in enumerate(zip(matrix, used, strict=True)):
        found = np.flatnonzero(mask)
        # A shorter window repeats its last element. Halves of its weight add up to it, of an infinity too.
        repeated = most - len(found) + 1
        places[row] = [*found[:-1], *[found[-1]] * repeated]
        last = [numbers[found[-1]] / 2 ** min(number, repeated - 1) for number in range(1, repeated + 1)]
        weights[row] = [*numbers[found[:-1]], *last]
    return places, weights
