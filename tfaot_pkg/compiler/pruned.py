"""Weights most of which are zero, as lists of those that are not: SparseDense of the kernel library (decision 095)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROWS = 16
"""Rows that are computed at a time (kSparseRows of tfaot_kernels/kernels.h)."""
_COLUMNS = 8
"""Columns whose lists lie side by side (kSparseColumns)."""
_MOST_INPUTS = 2**16 - 1
"""Places in lists have 16 bits."""

# Measured by benchmarks/pruned.py.
_MOST_KEPT = 0.3
"""The share of weights that lists may hold: 16 rows take 0.65 to 0.8 of their time (AVX-512; AVX2: 0.55 to 0.64)."""
_LEAST_WEIGHTS = 2**14
"""With fewer, all weights stay in the first cache."""
_LARGE_WEIGHTS = 2**19
"""With more, they come from beyond the second cache, which takes most of the time of few rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """`weights` and `places` of the groups, one after the other; `columns` of each list; `counts` of each group."""

    weights: NDArray[np.float32]
    places: NDArray[np.uint16]
    columns: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    fewest: int
    """The number of rows from which on they are used."""


def lists(weights: NDArray[np.float32], bias: NDArray[np.float32] | None, among: int = 0) -> Lists | None:
    """The lists of weights of shape (inputs, outputs); None if it is no slower to multiply the zeros as well.

    `among` is how many weights a program reads between two uses of these.
    """
    if weights.size < _LEAST_WEIGHTS or len(weights) > _MOST_INPUTS:
        return None
    held = kept(weights, bias)
    share = np.count_nonzero(held) / weights.size
    return listed(weights, held, _fewest(share, max(among, weights.size))) if share <= _MOST_KEPT else None


def kept(weights: NDArray[np.float32], bias: NDArray[np.float32] | None) -> NDArray[np.bool_]:
    """Which weights lists hold: those that are not zero, and all of a column whose sum begins with -0.

    There the sign of a product with zero is seen, and the kernel library would compute such rows with all weights.
    """
    held: NDArray[np.bool_] = weights != 0
    return held if bias is None else held | ((bias == 0) & np.signbit(bias))


def _fewest(share: float, size: int) -> int:
    """The number of rows that take as long with all weights; lists take the time of 16 rows."""
    if size > _LARGE_WEIGHTS and share <= 0.2:
        return 1
    return min(ROWS, math.ceil(ROWS * (0.06 + 2.1 * share)))


def listed(weights: NDArray[np.float32], held: NDArray[np.bool_], fewest: int) -> Lists:
    """The lists of those weights that are held."""
    order = np.argsort(held.sum(axis=0), kind="stable")  # so that lists of a group are of nearly one length
    columns = np.pad(order, (0, -weights.shape[1] % _COLUMNS), mode="edge").reshape(-1, _COLUMNS)
    groups = []
    for group in columns:
        numbers = [np.flatnonzero(held[:, column]) for column in group]
        longest = max(map(len, numbers))
        # A product of -0 and 0 changes no sum, not even -0.
        places = np.full((longest, _COLUMNS), len(weights), np.uint16)
        values = np.full((longest, _COLUMNS), -0.0, np.float32)
        for lane, (column, here) in enumerate(zip(group, numbers, strict=True)):
            places[: len(here), lane] = here
            values[: len(here), lane] = weights[here, column]
        groups.append((values, places))
    return Lists(
        weights=np.concatenate([values.ravel() for values, _ in groups]),
        places=np.concatenate([places.ravel() for _, places in groups]),
        columns=columns.ravel().astype(np.uint32),
        counts=np.array([len(values) for values, _ in groups], np.uint32),
        fewest=fewest,
    )
