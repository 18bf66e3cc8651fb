"""Sums of the bytes of a quantized layer and of others: so few that a claim about them is tested with all."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.compiler.attributes import Quantized
from tfaot_pkg.compiler.program import NUMPY_TYPES

_Floats = NDArray[np.float32]
_Form = tuple[np.float32, np.float32, np.float32]
_FARTHEST, _LEAST = 3, np.float32(2**-19)
"""How many steps between floats away an affine form is looked for, and the least step of its offset, which is added to
numbers of up to 8 bits: 100 of 100 triples of random scales had one."""
_CLOSE = 1e-3
"""Numbers farther from the middle of two whole ones are tried last, as hardly any form rounds them otherwise."""


def sums_of_bytes(given: Quantized, dtype: str, factors: _Floats) -> _Floats:
    """What a layer with `given.residual` divides: of its results in rows, and in columns of bytes that are added."""
    result, added = _bytes(given, dtype)
    sums: _Floats = result[:, np.newaxis] * factors[0] + (added - np.float32(given.residual[0])) * factors[1]
    return sums


def _bytes(given: Quantized, dtype: str) -> tuple[_Floats, _Floats]:
    """Results less their zero point, and bytes that are added as they are."""
    ends = np.iinfo(NUMPY_TYPES[dtype])
    result = np.arange(given.low - given.zero, given.high - given.zero + 1)
    return result.astype(np.float32), np.arange(ends.min, ends.max + 1).astype(np.float32)


def affine_form(given: Quantized, dtype: str, factors: _Floats) -> _Form | None:
    """Numbers with which two fused operations give the bytes of `given.residual` (Residual of kernels.h).

    They are the quotients of the scales, or some steps between floats from them: roundings of either way decide for the
    few pairs of bytes that lie almost between two numbers. None if none are found.
    """
    result, added = _bytes(given, dtype)
    result = result[:, np.newaxis]
    zero_of_added, zero, low, high = given.residual
    ends = np.float32(low - zero), np.float32(high - zero)
    with np.errstate(all="ignore"):
        wanted = np.clip(np.rint(sums_of_bytes(given, dtype, factors) / factors[2]), *ends)
        quotients = factors[:2] / factors[2]
        start = *quotients, np.float32(-zero_of_added * np.float64(quotients[1]))
        exact = _fused(start, result, added)
        rows, columns = np.nonzero(np.abs(exact - np.floor(exact) - 0.5) < _CLOSE)
        spaces = *np.spacing(quotients), max(np.spacing(np.abs(start[2])), _LEAST)
        away = range(-_FARTHEST, _FARTHEST + 1)
        for steps in sorted(itertools.product(away, away, away), key=lambda each: sum(map(abs, each))):
            factor, of_added, offset = (
                np.float32(number + step * space) for number, step, space in zip(start, steps, spaces, strict=True)
            )
            form = factor, of_added, offset
            if factor == 0 or not np.all(np.isfinite(form)):
                return None
            if not _gives(form, result[rows, 0], added[columns], wanted[rows, columns], ends):
                continue
            if _gives(form, result, added, wanted, ends):
                return form
    return None


def _gives(form: _Form, result: _Floats, added: _Floats, wanted: _Floats, ends: tuple[np.float32, np.float32]) -> bool:
    """Whether the form gives the numbers `wanted`.

    Sums of floats that are computed here in float64 are not exact, but close: they are rounded from both sides.
    """
    found = _fused(form, result, added)
    error = np.abs(found) * 2.0**-50
    sides = [np.rint((found + each).astype(np.float32)).clip(*ends) for each in (-error, error)]
    return all(bool(np.all(each == wanted)) for each in sides)


def _fused(form: _Form, result: _Floats, added: _Floats) -> NDArray[np.float64]:
    """fma(result, factor, fma(added, factorOfAdded, offset)), whose last step is not rounded to float32."""
    factor, of_added, offset = map(np.float64, form)
    addend = (added.astype(np.float64) * of_added + offset).astype(np.float32)
    return np.asarray(result.astype(np.float64) * factor + addend, np.float64)
