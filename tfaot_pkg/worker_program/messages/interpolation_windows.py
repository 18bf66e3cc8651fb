"""Interpolation along an axis as weighed sums of a few elements.

Not products with a matrix, in which elements that a result does not use have the weight 0: NaN times 0 is NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def windows_of(matrix: npt.NDArray[Any], used: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    """(places, weights) of a product with `matrix`, [results, elements], whose results read the elements of `used`."""
    counts = used.sum(1)[:, None]
    if not counts.all():
        raise ValueError("a result reads no element")
    most = int(counts.max())
    # Columns that are used come first, in their order.
    order = np.argsort(~used, axis=1, kind="stable")[:, :most].astype(np.int32)
    numbers = np.arange(most)
    # A shorter window repeats its last element. Halves of its weight add up to it, of an infinity too.
    places = np.take_along_axis(order, np.minimum(numbers, counts - 1), 1)
    halvings = np.clip(numbers - counts + 2, 0, most - counts)
    weights = np.take_along_axis(matrix, places, 1) / 2.0**halvings
    return places, weights.astype(matrix.dtype)
