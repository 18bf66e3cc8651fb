"""Plots of figures over the nights, and which of them a trend has."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from tests.nightly.reports import figures
from tfaot_pkg.nightly.history import Measured
from tfaot_pkg.nightly.report.trends import Trend, trend_plot, trends_of


def builds(count: int) -> tuple[Measured, ...]:
    return tuple(
        Measured(night=f"2026-01-01.{number + 1}", release="1.0.0", key=str(number), figures=figures())
        for number in range(count)
    )


def test_builds_without_a_figure_have_no_point() -> None:
    first, second, third = builds(3)
    other = replace(second, figures=replace(second.figures, latency={}))
    found = {one.name: one for one in trends_of((first, other, third))}
    assert [point.night for point in found["latency, x86-64-v3, batch size 1"].points] == [first.night, third.night]
    assert len(found["size"].points) == 3


@pytest.mark.parametrize("values", [[5.0, 5.0], [0.0, 0.0], [1.0, 1e9], [1e-9, 3e-9, 2e-9], [100.0, 104.0] * 45])
def test_a_plot_holds_its_points_within_its_axes(values: list[float]) -> None:
    plot = trend_plot(Trend(metric="latency", builds=builds(len(values)), values=array("d", values)))
    assert plot is not None
    marks = plot.series[0].points
    assert all(plot.left <= mark.x <= plot.right and plot.top <= mark.y <= plot.bottom for mark in marks)
    assert [mark.x for mark in marks] == sorted(mark.x for mark in marks)
    order = sorted(range(len(values)), key=lambda place: values[place])
    assert [marks[place].y for place in order] == sorted((mark.y for mark in marks), reverse=True)
    assert 2 <= len(plot.up) <= 12
    assert plot.up[0].place == plot.bottom and plot.up[-1].place >= plot.top


def test_one_point_is_no_plot() -> None:
    assert trend_plot(Trend(metric="size", builds=builds(1), values=array("d", [1.0]))) is None
