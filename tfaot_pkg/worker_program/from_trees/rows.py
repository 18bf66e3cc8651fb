"""Rows at which the answers of decision trees change: thresholds, their neighbours, categories, missing numbers.

Random numbers nearly never equal a threshold, and are no categories: they would not show that numbers are compared in
another type, or that values are taken for codes.
"""

from __future__ import annotations

import numpy as np
from from_trees.categories import Column
from from_trees.fitted import Fitted
from messages import forest as trees

FILE = "rows.npz"
_MOST_ROWS, _MOST_NUMBERS = 256, 1 << 22
_SHARE_OF_MISSING = 0.15


def rows_of(model: Fitted) -> np.ndarray:
    """Rows for x; in the first half no number is missing, because some models reject rows with such numbers."""
    forest, dtype = model.forest, np.dtype(model.input)
    # A fixed seed: the same file must get the same rows.
    rng = np.random.default_rng(0)
    count = max(2, min(_MOST_ROWS, _MOST_NUMBERS // forest.features))
    made = rng.standard_normal((count, forest.features)).astype(dtype)
    known = {each.place: each for each in model.columns}
    order = np.argsort(forest.feature, kind="stable")
    for nodes in np.split(order, np.flatnonzero(np.diff(forest.feature[order])) + 1) if len(order) else ():
        column = int(forest.feature[nodes[0]])
        pool = _categories(known[column], dtype.name) if column in known else _numbers(forest, nodes, dtype)
        if len(pool):
            made[:, column] = rng.choice(pool, count).astype(dtype)
    special = [np.nan, *([] if model.missing is None else [model.missing])]
    is_missing = (rng.random(made.shape) < _SHARE_OF_MISSING) & (np.arange(count) >= count // 2)[:, None]
    return np.where(is_missing, rng.choice(special, made.shape), made).astype(dtype)


def _categories(column: Column, dtype: str) -> np.ndarray:
    """Mostly known categories, and numbers that are none if the library takes them."""
    numbers = column.numbers(dtype)
    others = [] if column.is_closed else [numbers, [-1.0, numbers.max() + 1, numbers.min() - 0.5]]
    return np.concatenate([numbers, *others])


def _numbers(forest: trees.Forest, nodes: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers around the thresholds of `nodes`, and of their categories."""
    is_set = forest.comparison[nodes] >= trees.IN
    limits = forest.threshold[nodes[~is_set]]
    limits = np.unique(limits[np.isfinite(limits)])
    with np.errstate(over="ignore"):
        given = limits.astype(dtype)
        # What a threshold becomes if it is rounded to float: not equal to it in double.
        rounded = limits.astype(np.float32).astype(dtype)
        near = [given, *(np.nextafter(given, end, dtype=dtype) for end in (-np.inf, np.inf)), rounded]
    found = np.concatenate(near)
    found = found[np.isfinite(found)]
    if is_set.any():
        members = np.concatenate([_members(forest, each) for each in nodes[is_set][:1000]])
        found = np.concatenate([found, members, [-1.0, -0.5, 0.5, members.max(initial=0) + 1.0]])
    return found


def _members(forest: trees.Forest, node: int) -> np.ndarray:
    first = int(forest.threshold[node])
    words = forest.sets[first : first + int(forest.words[node])]
    return np.flatnonzero(np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")).astype(np.float64)
