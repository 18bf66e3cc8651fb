"""The cheapest way to make a batch of compiled sizes, as tfaot/batching.h finds it: to show what costs lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

_SHOWN = 4
_LARGEST_SHOWN = 1024


def cheapest(rows: int, costs: Mapping[int, float]) -> tuple[int, ...]:
    """The sizes to run for `rows` (at least 1), given what a run of each compiled size costs; the last may be padded.

    With best(0) = 0 and best(n) = min over sizes s of cost(s) + best(max(0, n - s)); of equal costs the larger size.
    """
    best, choice = [0.0], [0]
    for n in range(1, rows + 1):
        totals = {size: cost + best[max(0, n - size)] for size, cost in costs.items()}
        size = min(totals, key=lambda each: (totals[each], -each))
        best.append(totals[size])
        choice.append(size)
    sizes = []
    while rows > 0:
        sizes.append(choice[rows])
        rows -= choice[rows]
    return tuple(sizes)


def written(sizes: Sequence[int]) -> str:
    """A composition for people: `8 + 4 + 3 x 1`."""
    runs = [(size, len(list(run))) for size, run in groupby(sizes)]
    return " + ".join(str(size) if count == 1 else f"{count} x {size}" for size, count in runs)


def unseen(sizes: Sequence[int]) -> tuple[int, ...]:
    """A few batch sizes that are not among the compiled `sizes` (ascending), to show compositions of."""
    near = [*[size - 1 for size in sizes if size > 1], sizes[-1] + 1]
    return tuple(size for size in near if size not in sizes and size <= _LARGEST_SHOWN)[-_SHOWN:]
