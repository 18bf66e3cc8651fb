"""Tables over one column: a tree finds the row of a number by halves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from from_trees.steps import Steps, Table
from messages import forest as trees

if TYPE_CHECKING:
    from framework_types import Array


def lookup(to: Steps, table: Table, place: int, known: Array, rows: Array) -> str:
    """The row for each number of a column: [batch, len(rows[0])].

    `known` rises. `rows` are for numbers below all of them, equal to the first, between the first two, and so on.
    """
    # x < limit, of doubles.
    below = np.nextafter(known, -np.inf)
    limits = np.stack([below, known], 1).ravel()
    left, right, threshold = list[int](), list[int](), list[float]()

    def grow(low: int, high: int) -> int:
        """The node for the rows from `low` to before `high`."""
        if high - low == 1:
            return -1 - low
        node, middle = len(threshold), (low + high) // 2
        threshold.append(limits[middle - 1])
        left.append(0)
        right.append(0)
        left[node], right[node] = grow(low, middle), grow(middle, high)
        return node

    root = grow(0, len(rows))
    count = len(threshold)
    made = trees.forest(
        dtype="float64",
        total="float64",
        features=table.width,
        outputs=rows.shape[1],
        roots=[root],
        target=[0],
        feature=np.full(count, place),
        comparison=np.full(count, trees.LESS_EQUAL),
        threshold=threshold,
        words=np.zeros(count, np.int64),
        missing=np.full(count, trees.NAN),
        default=np.zeros(count, bool),
        left=left,
        right=right,
        sets=np.zeros(0, np.uint32),
        values=rows,
        base=np.zeros(rows.shape[1]),
    )
    return to.sums(table.value, made)
