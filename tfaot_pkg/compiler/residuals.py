"""Sums of the bytes of a quantized layer and of others: so few that a claim about them is tested with all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.compiler.attributes import Quantized
from tfaot_pkg.compiler.program import NUMPY_TYPES

_Floats = NDArray[np.float32]


def sums_of_bytes(given: Quantized, dtype: str, factors: _Floats) -> _Floats:
    """What a layer with `given.residual` divides, for all bytes of its result, and of `dtype` that are added."""
    ends = np.iinfo(NUMPY_TYPES[dtype])
    result = np.arange(given.low - given.zero, given.high - given.zero + 1).astype(np.float32) * factors[0]
    added = np.arange(ends.min - given.residual[0], ends.max - given.residual[0] + 1).astype(np.float32) * factors[1]
    return np.unique(result[:, np.newaxis] + added)


def reciprocal_of(sums: _Floats, divisor: np.float32) -> np.float32:
    """1 / divisor if a quotient by it and its correction are the quotients of all `sums` (Residual of kernels.h), or 0.

    Sums of floats that are computed here in float64 are not exact, but close: they are rounded from both sides.
    """
    with np.errstate(all="ignore"):
        reciprocal: np.float32 = np.float32(1) / divisor
        near = sums * reciprocal
        # Exact: a product of two float32 has 48 bits.
        rest = (sums - near.astype(np.float64) * np.float64(divisor)).astype(np.float32)
        found = near + rest.astype(np.float64) * np.float64(reciprocal)
        error = np.abs(found) * 2.0**-50
        wanted = sums / divisor
        is_right = [np.all((found + each).astype(np.float32) == wanted) for each in (-error, error)]
    return reciprocal if all(is_right) and np.isfinite(reciprocal) else np.float32(0)
