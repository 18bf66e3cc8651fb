"""Rows at which the answers of decision trees change: thresholds, their neighbours, categories, missing numbers.

Random numbers nearly never equal a threshold, and are no categories: they would not show that numbers are compared in
another type, or that values are taken for codes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from from_trees.categories import Column
from from_trees.fitted import Fitted
from from_trees.steps import Steps
from messages import forest as trees

FILE = "rows.npz"
_MOST_ROWS, _MOST_NUMBERS = 256, 1 << 22
_SHARE_OF_MISSING = 0.15


def rows_of(model: Fitted) -> np.ndarray:
    """Rows for x; in the first half no number is missing, because some models reject rows with such numbers."""
    forest, dtype = model.trees, np.dtype(model.input)
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


_EDGES, _HALVINGS = 64, 90
_MOST_TRIED = 256


def rows_of_steps(model: Fitted, steps: Steps, run: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Rows for x of a model with steps: usual numbers, categories, and missing numbers in columns that may have them.

    If trees behind the steps get the same bits everywhere, there are also pairs of neighbours between which an answer
    changes. `run` gives the library's answers.
    """
    rng, dtype = np.random.default_rng(0), np.dtype(model.input)
    count = max(2, min(_MOST_ROWS, _MOST_NUMBERS // steps.features))
    usual = np.array([steps.usual.get(each, (0.0, 1.0)) for each in range(steps.features)])
    made = (usual[:, 0] + usual[:, 1] * rng.standard_normal((count, steps.features))).astype(dtype)
    for column in model.columns:
        made[:, column.place] = rng.choice(_categories(column, dtype.name), count)
    edges = [] if model.forest is None or steps.is_rounded else _edges(made, steps, run, rng)
    takes = _takes_missing(made, run)
    is_missing = (rng.random(made.shape) < _SHARE_OF_MISSING) & (np.arange(count) >= count // 2)[:, None] & takes
    return np.concatenate([np.where(is_missing, dtype.type(np.nan), made), *edges])


def _takes_missing(made: np.ndarray, run: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Whether the library takes NaN, by column."""

    def takes(places: list[int]) -> bool:
        row = made[:1].copy()
        row[:, places] = np.nan
        try:
            run(row)
        except ValueError:
            return False
        return True

    columns = range(made.shape[1])
    if takes([*columns]):
        return np.ones(len(columns), bool)
    return np.array([place < _MOST_TRIED and takes([place]) for place in columns])


def _edges(
    made: np.ndarray, steps: Steps, run: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator
) -> list[np.ndarray]:
    """Rows that differ in one number, by a rounding or little more, and in their answers: by halving distances."""
    free = [each for each in range(steps.features) if each not in steps.columns]
    if not free:
        return []
    low = made[:_EDGES].copy()
    rows, columns, high = np.arange(len(low)), rng.choice(free, len(low)), low.copy()
    high[rows, columns] = np.roll(low, 1, axis=0)[rows, columns]
    try:
        first = run(low)
        differs = (run(high) != first).reshape(len(low), -1).any(1)
        for _ in range(_HALVINGS):
            middle = low.copy()
            middle[rows, columns] += (high[rows, columns] - low[rows, columns]) / 2
            is_low = (run(middle) == first).reshape(len(low), -1).all(1)
            low, high = np.where(is_low[:, None], middle, low), np.where(is_low[:, None], high, middle)
    except ValueError:  # the library rejects such rows
        return []
    return [low[differs], high[differs]]


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
