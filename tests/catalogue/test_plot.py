"""The latency plot: places follow from logarithms, whatever the numbers."""

from __future__ import annotations

import pytest

from tfaot_pkg.catalogue.plot import latency_plot


def test_equal_factors_are_equal_distances_and_per_row_costs_are_drawn() -> None:
    # 8, 4, 2 microseconds a row: halved twice, while the batch is quadrupled twice
    plot = latency_plot([("x86-64-v3", 1, 8000.0), ("x86-64-v3", 4, 16000.0), ("x86-64-v3", 16, 32000.0)])
    assert plot is not None
    first, second, third = plot.series[0].points
    assert second.x - first.x == pytest.approx(third.x - second.x, abs=0.2)
    assert second.y - first.y == pytest.approx(third.y - second.y, abs=0.2)
    assert first.x == plot.left and third.x == plot.right
    assert first.y < second.y < third.y, "the cheaper, the lower on the page"
    assert [tick.label for tick in plot.across] == ["1", "4", "16"]
    assert [tick.label for tick in plot.up] == ["2 µs", "5 µs", "10 µs"]
    assert first.title == "x86-64-v3, batch size 1: 8 µs per row, 8 µs per call"


def test_targets_are_lines_of_their_own() -> None:
    plot = latency_plot([("b", 1, 2.0), ("a", 1, 1.0), ("a", 2, 2.0), ("b", 2, 4.0)])
    assert plot is not None
    assert [(line.name, len(line.points)) for line in plot.series] == [("b", 2), ("a", 2)]


def test_equal_numbers_and_extreme_ones_are_drawn_and_a_single_one_is_not() -> None:
    assert latency_plot([("a", 1, 5.0)]) is None
    assert latency_plot([("a", 1, 5.0), ("b", 1, 5.0)]) is not None
    assert latency_plot([("a", 1, 1e-6), ("a", 10**14, 1e14)]) is not None
