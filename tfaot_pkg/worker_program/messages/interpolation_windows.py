"""Interpolation along an axis as weighed sums of a few elements.

Not products with a matrix, in which elements that a result does not use have the weight 0: NaN times 0 is NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def windows_of(matrix: npt.NDArray[Any], used: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    """(places, weights) of a product with `matrix`, [results, elements], whose results read the elements of `used`."""
    most = int(used.sum(1).max())
    places, weights = np.zeros((len(matrix), most), np.int32), np.zeros((len(matrix), most), matrix.dtype)
    for row, (numbers, mask) in enumerate(zip(matrix, used, strict=True)):
        found = np.flatnonzero(mask)
        # A shorter window repeats its last element. Halves of its weight add up to it, of an infinity too.
        repeated = most - len(found) + 1
        places[row] = [*found[:-1], *[found[-1]] * repeated]
        last = [numbers[found[-1]] / 2 ** min(number, repeated - 1) for number in range(1, repeated + 1)]
        weights[row] = [*numbers[found[:-1]], *last]
    return places, weights
