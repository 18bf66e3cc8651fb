"""What is kept of draws of random numbers: a few elements of each output, and whether they hang together."""

from typing import Any

import numpy as np
import numpy.typing as npt

_ELEMENTS = 8


def features(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Of an output of numbers: elements spread over it, the differences of neighbours among them, and a sum of all."""
    flat = np.asarray(array, np.float64).ravel()
    if not flat.size:
        return np.zeros(0)
    chosen = flat[np.unique(np.linspace(0, flat.size - 1, _ELEMENTS).astype(np.int64))]
    return np.concatenate([chosen, np.diff(chosen), [flat.mean()]])
