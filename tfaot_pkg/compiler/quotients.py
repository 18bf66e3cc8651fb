"""Quotients by a known number that are rounded to whole ones: two products give the same whole numbers."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float32]

_MOST = 256
"""Whole numbers beyond it are beyond all bytes, whatever the zero point."""
_AROUND = 6
"""Steps between floats on either side of a boundary that are tried: quotient and products are off by two at most."""


@lru_cache(maxsize=256)
def factors_of(divisor: float) -> tuple[np.float32, np.float32] | None:
    """`factor` and `rest`, with which fma(x, factor, x * rest) is rounded as x / `divisor`, up to +-_MOST.

    They are the reciprocal in two parts. Both sides of the claim grow with x, and so do their roundings: it is true if
    it is where the whole numbers change. Larger quotients stay so large; `rest` is not below zero, so that infinities
    stay as well. None if no such numbers are found: `x * rest` is rounded, too, which may decide.
    """
    reciprocal = 1 / Fraction(divisor)
    with np.errstate(all="ignore"):
        factor = np.float32(float(reciprocal))
        if Fraction(float(factor)) > reciprocal:
            factor = np.nextafter(factor, np.float32(0))
        rest = np.float32(float(reciprocal - Fraction(float(factor))))
        # Parts of numbers that are normal are.
        if not 2.0**-90 < divisor < 2.0**90:
            return None
        for step in (0, 1, -1, 2, -2):
            found = np.float32(rest + step * np.spacing(rest)) if rest else rest
            if found >= 0 and _rounds_as(np.float32(divisor), factor, found):
                return factor, found
    return None


def _rounds_as(divisor: np.float32, factor: np.float32, rest: np.float32) -> bool:
    halves = np.arange(_MOST + 1, dtype=np.float64) + 0.5
    near = (halves * np.float64(divisor)).astype(np.float32)[:, np.newaxis]
    steps = np.arange(-_AROUND, _AROUND + 1).astype(np.int32)
    values = (near.view(np.int32) + steps).view(np.float32)
    wanted = np.rint(values / divisor)
    changes = wanted[:, 0] + 1 == wanted[:, -1]
    # Products of floats are exact in float64, their sum is nearly: it is rounded from both sides.
    total = values.astype(np.float64) * np.float64(factor) + (values * rest).astype(np.float64)
    sides = [np.rint((total * (1 + each)).astype(np.float32)) for each in (-(2.0**-50), 2.0**-50)]
    return bool(np.all(changes) and all(np.all(each == wanted) for each in sides))
