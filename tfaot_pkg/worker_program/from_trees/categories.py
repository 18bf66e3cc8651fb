"""Columns of categories, as data frames have them: x contains values, trees compare codes.

A column of a data frame has a list of categories, and for each row the code of one: its position in this list.
Libraries train on codes, and turn the values of later frames into these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from from_trees.fitted import Trees
from messages import forest as trees
from messages.requests import ModelFault
from messages.sources import CategoryColumn

if TYPE_CHECKING:
    import pandas as pd


_ASIDE = (
    "set `trees: {categories: codes}` in the spec, and give x their positions in the list of the package's info.json"
)


@dataclass(frozen=True, kw_only=True)
class Column:
    """The column `place` of x, called `name`: its categories `values` in the order of their codes, which are bool, int,
    float or str. `kind` is the type of a data frame's index of them, "" for the one that pandas chooses. If it
    `is_closed`, the library rejects other categories; if not, they count as missing.
    """

    place: int
    name: str
    values: tuple[bool | int | float | str, ...]
    kind: str = ""
    is_closed: bool = False

    @property
    def is_text(self) -> bool:
        return any(isinstance(each, str) for each in self.values)

    def numbers(self, dtype: str) -> np.ndarray:
        """What x of type `dtype` contains for each category, float64: the value, or the position of a text.

        Raises ModelFault if two categories have the same number.
        """
        given = np.arange(len(self.values)) if self.is_text else np.array([float(each) for each in self.values])
        found = given.astype(dtype).astype(np.float64)
        if len(np.unique(found)) != len(found) or not np.isfinite(found).all():
            raise ModelFault(
                f"the categories of the column {self.name or self.place} are no different {dtype} numbers",
                _ASIDE if dtype == "float64" else f"set `trees: {{dtype: float64}}` in the spec; or {_ASIDE}",
            )
        return found

    def described(self) -> CategoryColumn:
        given: Literal["positions", "values"] = "positions" if self.is_text else "values"
        return CategoryColumn(column=self.place, name=self.name, given=given, values=self.values)

    def _foreign(self) -> int | float | str | None:
        """A category that the column does not have, of the same type; None if there is none."""
        if self.is_closed:
            return None
        if self.is_text:
            return "x" * (1 + max(map(len, map(str, self.values))))
        if any(isinstance(each, bool) for each in self.values):
            return None
        kind = float if any(isinstance(each, float) for each in self.values) else int
        return next((kind(each) for each in range(len(self.values) + 1) if each not in self.values), None)

    def series(self, x: np.ndarray) -> pd.Categorical:
        """The column of a data frame whose numbers in x are these; unknown ones are of a category that it lacks.

        Raises ValueError for unknown ones if it `is_closed`.
        """
        import pandas as pd

        numbers = self.numbers(x.dtype.name)
        order = np.argsort(numbers)
        place = order[np.minimum(np.searchsorted(numbers[order], x), len(numbers) - 1)]
        is_known = numbers[place] == x
        if self.is_closed and not (is_known | np.isnan(x)).all():
            raise ValueError(f"the column {self.name} has categories that training did not see")
        foreign = self._foreign()
        # In another order than in training: libraries must find the codes by the values.
        listed = [*([] if foreign is None else [foreign]), *reversed(self.values)]
        codes = np.where(is_known, len(listed) - 1 - place, -1 if foreign is None else 0)
        index = pd.Index(listed, dtype=self.kind or None)
        return pd.Categorical.from_codes(np.where(np.isnan(x), -1, codes), categories=index)


def frame(x: np.ndarray, columns: Iterable[Column], names: Sequence[str]) -> pd.DataFrame:
    """A data frame of x, with these `columns` of categories; `names` are those of all columns, or empty."""
    import pandas as pd

    known = {each.place: each for each in columns}
    return pd.DataFrame(
        {
            names[place] if names else str(place): known[place].series(x[:, place]) if place in known else x[:, place]
            for place in range(x.shape[1])
        }
    )


def encoder(columns: Iterable[Column], *, features: int, dtype: str, unknown: float) -> trees.Forest:
    """A forest whose outputs are the columns of x with codes for categories, and 0 for all other columns.

    Numbers that are no category become `unknown`, NaN stays NaN.
    """
    made = Trees()
    for column in columns:
        _grow(made, column, dtype, unknown)
    return trees.forest(
        dtype=dtype,
        total=dtype,
        features=features,
        outputs=features,
        base=np.zeros(features),
        target=[each.place for each in columns],
        **made.arrays(),
    )


def _grow(made: Trees, column: Column, dtype: str, unknown: float) -> None:
    """A tree that finds the code of a number: by halves, then by equality. Its first node has NaN on its right."""
    numbers = column.numbers(dtype)
    codes = np.argsort(numbers)
    ordered, count = numbers[codes], len(codes)
    comparison, threshold, left, right = [trees.LESS_EQUAL], [np.inf], [1], [-1 - made.leaves]

    def grow(low: int, high: int) -> int:
        """The node for the numbers from `low` to before `high`, numbered from this tree's root."""
        node, middle = len(threshold), (low + high) // 2
        is_last = high - low == 1
        comparison.append(trees.EQUAL if is_last else trees.LESS_EQUAL)
        threshold.append(ordered[low] if is_last else ordered[middle - 1])
        # Leaves: NaN, then the code and `unknown` for each number.
        left.append(-2 - made.leaves - 2 * low)
        right.append(-3 - made.leaves - 2 * low)
        if not is_last:
            left[node], right[node] = grow(low, middle), grow(middle, high)
        return node

    grow(0, count)
    nodes = len(threshold)
    lefts, rights = (np.where(np.array(side) < 0, side, np.array(side) + made.nodes) for side in (left, right))
    made.add(
        roots=np.array([made.nodes]), feature=np.full(nodes, column.place), threshold=np.array(threshold),
        words=np.zeros(nodes, np.int64), comparison=np.array(comparison), missing=np.full(nodes, trees.NAN),
        default=np.zeros(nodes, bool), left=lefts, right=rights,
        values=np.concatenate([[np.nan], np.stack([codes, np.full(count, unknown)], 1).ravel()]).reshape(-1, 1),
    )  # fmt: skip
