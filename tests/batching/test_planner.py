"""The cheapest composition of a batch, as `tune` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfaot_pkg.native.batching.planner import Planner, unseen, written


@pytest.mark.parametrize(
    ("rows", "costs", "sizes"),
    [
        (5, {1: 1.0, 4: 4.0}, (4, 1)),  # as cheap as five single rows: fewer calls
        (5, {1: 10.0, 4: 11.0}, (4, 1)),
        (7, {1: 10.0, 4: 11.0}, (4, 4)),  # padded
        (7, {1: 1.0, 4: 11.0}, (1,) * 7),
        (3, {4: 1.0}, (4,)),
        (9, {4: 1.0, 8: 1.5}, (8, 4)),
    ],
)
def test_a_batch_is_made_as_cheaply_as_it_can_be(rows: int, costs: dict[int, float], sizes: tuple[int, ...]) -> None:
    assert Planner(costs).sizes(rows) == sizes


@given(
    rows=st.integers(1, 9),
    costs=st.dictionaries(st.sampled_from([1, 2, 3, 5, 8]), st.integers(1, 50).map(float), min_size=1),
)
def test_no_composition_is_cheaper(rows: int, costs: dict[int, float]) -> None:
    every = (combinations_with_replacement(sorted(costs), count) for count in range(1, rows + 1))
    least = min(sum(costs[size] for size in sizes) for group in every for sizes in group if sum(sizes) >= rows)
    found = Planner(costs).sizes(rows)
    assert sum(costs[size] for size in found) == least
    assert sum(found) >= rows > sum(found[:-1])


@given(
    rows=st.integers(1, 400),
    costs=st.dictionaries(st.sampled_from([1, 2, 3, 5, 8]), st.integers(1, 50).map(float), min_size=1),
)
def test_many_rows_are_made_no_less_cheaply(rows: int, costs: dict[int, float]) -> None:
    best = [0.0]
    for n in range(1, rows + 1):
        best.append(min(cost + best[max(0, n - size)] for size, cost in costs.items()))
    found = Planner(costs).sizes(rows)
    assert sum(costs[size] for size in found) == best[rows]
    assert sum(found) >= rows > sum(found[:-1])


def test_any_number_of_rows_is_planned_at_once() -> None:
    assert Planner({1: 1.0, 65_536: 60_000.0}).next(10**12) == 65_536


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [((1, 2, 4, 8, 16), (3, 7, 15, 17)), ((1,), (2,)), ((4, 8), (3, 7, 9)), ((1, 2), (3,)), ((2048,), ())],
)
def test_sizes_beside_the_compiled_ones_are_shown(sizes: Sequence[int], shown: tuple[int, ...]) -> None:
    assert unseen(sizes) == shown


def test_repetitions_are_written_as_such() -> None:
    assert written((8, 4, 1, 1, 1)) == "8 + 4 + 3 x 1"
