"""Verdicts over simulated nights: how often noise is taken for news, and whether news is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.nightly.reports import figures, outcome, task
from tfaot_pkg.nightly.report.trends import (
    FEWEST,
    Limits,
    Point,
    Trend,
    figures_between,
    judge,
    regressions,
    trend_plot,
    trends_of,
)
from tfaot_pkg.nightly.report.wording import verdict_text
from tfaot_pkg.nightly.types import Outcome

LIMITS = Limits(least=0.1)
Noise = Callable[[random.Random], float]


def normal(width: float) -> Noise:
    return lambda source: 1000 * source.gauss(1, width)


def with_outliers(source: random.Random) -> float:
    """Every tenth night the machine was busy."""
    return 1000 * source.gauss(1, 0.03) * (source.choice((1.5, 3)) if source.random() < 0.1 else 1)


def share_of_worse(noise: Noise, tonight: Noise, *, nights: int, tries: int = 4000) -> float:
    source = random.Random(20261121)
    found = 0
    for _ in range(tries):
        earlier = [noise(source) for _ in range(nights)]
        found += judge(earlier, tonight(source), LIMITS).kind == "worse"
    return found / tries


@pytest.mark.parametrize("width", [0.01, 0.05, 0.1, 0.2])
@pytest.mark.parametrize(("nights", "most"), [(FEWEST, 0.01), (20, 0.002), (30, 0.002)])
def test_noise_is_rarely_taken_for_a_regression(width: float, nights: int, most: float) -> None:
    assert share_of_worse(normal(width), normal(width), nights=nights) <= most


def test_busy_nights_in_the_past_neither_hide_a_regression_nor_make_one() -> None:
    assert share_of_worse(with_outliers, normal(0.03), nights=20) <= 0.002
    assert share_of_worse(with_outliers, lambda source: 1.4 * normal(0.03)(source), nights=20) >= 0.97


@pytest.mark.parametrize(("width", "step"), [(0.01, 1.15), (0.03, 1.3), (0.05, 1.5), (0.1, 2.0)])
def test_a_real_step_is_found(width: float, step: float) -> None:
    found = share_of_worse(normal(width), lambda source: step * normal(width)(source), nights=20)
    assert found >= 0.97


def test_a_small_step_without_any_noise_does_not_matter() -> None:
    assert judge([1000.0] * 20, 1099.0, LIMITS).kind == "steady"
    verdict = judge([1000.0] * 20, 1101.0, LIMITS)
    assert (verdict.kind, verdict.median, verdict.spread) == ("worse", 1000.0, 0.0)
    assert verdict.change == pytest.approx(0.101)
    assert judge([1000.0] * 20, 899.0, LIMITS).kind == "better"


def test_the_formula_is_the_one_that_is_documented() -> None:
    earlier = [100.0 + number for number in range(11)]  # median 105, MAD 3
    limits = Limits(least=0.01)
    edge = 105 + 5 * 1.4826 * 3
    assert judge(earlier, edge - 0.001, limits).kind == "steady"
    assert judge(earlier, edge + 0.001, limits).kind == "worse"
    assert judge(earlier, edge + 0.001, limits).spread == pytest.approx(4.4478)


@pytest.mark.parametrize(
    ("earlier", "value", "kind"),
    [
        ([], 9.0, "too few"),
        ([48.6], 30_258.0, "worse"),
        ([20.0], 70.0, "worse"),
        ([2223.0], 4234.0, "too few"),  # the same code, beside other builds
        ([100.0, 200.0], 499.0, "too few"),  # the slowest counts
        ([100.0, 200.0], 511.0, "worse"),
        ([5000.0] * (FEWEST - 1), 1000.0, "better"),
        ([5000.0] * (FEWEST - 1), 2500.0, "too few"),
    ],
)
def test_times_of_few_builds_are_compared_coarsely_from_the_first_one_on(
    earlier: list[float], value: float, kind: str
) -> None:
    assert judge(earlier, value, Limits(least=0.1, floor=10)).kind == kind


def test_figures_without_noise_are_compared_with_the_last_build() -> None:
    limits = Limits(least=0.02, floor=4096, exact=True)
    assert judge([], 1e6, limits).kind == "too few"
    assert judge([1e6], 1.03e6, limits).kind == "worse"
    assert judge([1e6], 1.01e6, limits).kind == "steady"
    # A spread of earlier versions hides nothing.
    assert judge([1e6, 3e6] * 10, 3.1e6, limits).kind == "worse"
    assert judge([1e6, 3e6] * 10, 2e6, limits).kind == "better"


def test_old_builds_are_forgotten() -> None:
    assert judge([1.0] * 100 + [2.0] * 16, 2.0, LIMITS).kind == "steady", "half of the window is of the new level"
    assert judge([1.0] * 100 + [2.0] * 10, 2.0, LIMITS).kind == "worse"


def test_a_figure_that_was_always_zero_can_get_worse() -> None:
    verdict = judge([0.0] * 12, 1e-3, Limits(least=1.0, floor=1e-6))
    assert (verdict.kind, verdict.change) == ("worse", 0.0)
    assert judge([0.0] * 12, 1e-7, Limits(least=1.0, floor=1e-6)).kind == "steady"


def test_times_of_another_cpu_are_not_compared_and_sizes_are() -> None:
    def built(cpu: str, latency: float, size: int = 100_000) -> Outcome:
        return outcome(task("digits"), figures=replace(figures(latency=latency, size=size), processor=cpu))

    past = [(f"2026-01-{day:02}.1", built("old", 5000)) for day in range(1, 13)]
    moved = built("new", 9000, size=200_000)
    trends = {one.name: one for one in trends_of(moved, "2026-01-13.1", past)}
    assert [one.metric for one in regressions([*trends.values()])] == ["size"]
    assert "on this CPU" in verdict_text(trends["latency, x86-64-v3, batch size 1"])
    assert [line.partition(":")[0] for line in figures_between(past[-1][1].figures, moved.figures)] == ["size"]
    stayed = trends_of(built("old", 9000), "2026-01-14.1", [*past, ("2026-01-13.1", moved)])
    worse = {one.metric: one.verdict for one in regressions(stayed)}
    assert (
        worse.keys() == {"latency"} and worse["latency"] is not None and worse["latency"].median == 50_000
    )  # batch size 16


@pytest.mark.parametrize("values", [[5.0, 5.0], [0.0, 0.0], [1.0, 1e9], [1e-9, 3e-9, 2e-9], [100.0, 104.0] * 45])
def test_a_plot_holds_its_points_within_its_axes(values: list[float]) -> None:
    points = tuple(Point(night=f"2026-01-01.{n + 1}", release="1.0.0", value=value) for n, value in enumerate(values))
    plot = trend_plot(Trend(metric="latency", points=points, verdict=None))
    assert plot is not None
    marks = plot.series[0].points
    assert all(plot.left <= mark.x <= plot.right and plot.top <= mark.y <= plot.bottom for mark in marks)
    assert [mark.x for mark in marks] == sorted(mark.x for mark in marks)
    order = sorted(range(len(values)), key=lambda place: values[place])
    assert [marks[place].y for place in order] == sorted((mark.y for mark in marks), reverse=True)
    assert 2 <= len(plot.up) <= 12
    assert plot.up[0].place == plot.bottom and plot.up[-1].place >= plot.top


def test_one_point_is_no_plot() -> None:
    point = Point(night="2026-01-01.1", release="1.0.0", value=1.0)
    assert trend_plot(Trend(metric="size", points=(point,), verdict=None)) is None
