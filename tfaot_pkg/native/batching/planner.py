"""How a batch is composed of compiled sizes, at the least total cost of their runs (as in tfaot/batching.h)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

# The same limit as in tfaot/batching.h: both must compose a batch alike.
_LARGEST_TABLE = 65_536  # rows
_SHOWN = 4
_LARGEST_SHOWN = 1024


class Planner:
    """Composes batches of any number of rows of the sizes that `costs` names (positive, in any unit).

    Dynamic programming: best(0) = 0 and best(n) = min over sizes s of cost(s) + best(max(0, n - s)); of equal costs the
    larger size. Above a limit, some best composition contains the size that is cheapest per row, so that size is run.
    """

    def __init__(self, costs: Mapping[int, float]) -> None:
        self._costs = dict(costs)
        self._cheapest_row = min(costs, key=lambda size: (costs[size] / size, -size))
        # Let s be that size. Of any s runs of other sizes, some add up to a multiple of s (pigeonhole principle), and
        # runs of s replace them at no greater cost. So some best composition has fewer than s runs of other sizes.
        self._limit = max(*costs, min(_LARGEST_TABLE, max(costs) * self._cheapest_row))
        self._best, self._choice = [0.0], [0]

    def next(self, rows: int) -> int:
        """The size to run first if `rows` (at least 1) are left; more than `rows` if it must be padded."""
        if rows > self._limit:
            return self._cheapest_row
        for n in range(len(self._best), rows + 1):
            totals = {size: cost + self._best[max(0, n - size)] for size, cost in self._costs.items()}
            size = min(totals, key=lambda each: (totals[each], -each))
            self._best.append(totals[size])
            self._choice.append(size)
        return self._choice[rows]

    def sizes(self, rows: int) -> tuple[int, ...]:
        """The whole composition of `rows`; the last size may have to be padded."""
        found = []
        while rows > 0:
            found.append(self.next(rows))
            rows -= found[-1]
        return tuple(found)


def written(sizes: Sequence[int]) -> str:
    """A composition as text: `8 + 4 + 3 x 1`."""
    runs = [(size, len(list(run))) for size, run in groupby(sizes)]
    return " + ".join(str(size) if count == 1 else f"{count} x {size}" for size, count in runs)


def unseen(sizes: Sequence[int]) -> tuple[int, ...]:
    """A few batch sizes that are not among the compiled `sizes` (ascending), to show compositions of."""
    near = [*[size - 1 for size in sizes if size > 1], sizes[-1] + 1]
    return tuple(size for size in near if size not in sizes and size <= _LARGEST_SHOWN)[-_SHOWN:]
