"""Figures over nights: their plots, and differences between two nights. Pure.

Whether a build got worse is not read from here: it is compared with what was published before it (nightly/compare.py).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tfaot_pkg.catalogue.plot import Plot, Series, Tick
from tfaot_pkg.catalogue.plot import Point as Mark
from tfaot_pkg.ground.wording import duration, size_text
from tfaot_pkg.nightly.history import Measured
from tfaot_pkg.nightly.report.comparison import day_of
from tfaot_pkg.nightly.report.log import plain
from tfaot_pkg.nightly.types import Figures

Metric = Literal["size", "latency", "numerical error", "build time"]
UNITS: dict[Metric, str] = {"size": "bytes", "latency": "ns", "numerical error": "", "build time": "s"}
_TIMES: tuple[Metric, ...] = ("latency", "build time")
"""The metrics that depend on the machine."""
LONGEST = 90
"""Builds of a trend, at most."""
_LEAST: dict[Metric, tuple[float, float]] = {"size": (0.0, 1), "numerical error": (1.0, 1e-6)}
"""Differences between nights that are told: relative, and in the figure's unit. Times of two nights say little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The value of a version in a night, on a CPU ("": not known)."""

    night: str
    release: str
    value: float
    processor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One figure over the nights, the oldest first. Only latencies have a `target` and a `batch_size`.

    `values` are those of `builds`, which all trends of a task share; NaN for a build without this figure.
    """

    metric: Metric
    builds: tuple[Measured, ...]
    values: array[float]
    target: str = ""
    batch_size: str = ""

    @property
    def name(self) -> str:
        """`latency, x86-64-v3, batch size 4`."""
        where = (self.target, f"batch size {self.batch_size}" if self.batch_size else "")
        return ", ".join(filter(None, (self.metric, *where)))

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(
            Point(night=one.night, release=one.release, value=value, processor=one.figures.processor)
            for one, value in zip(self.builds, self.values, strict=True)
            if not math.isnan(value)
        )

    @property
    def last(self) -> float:
        return self.values[-1]


def trends_of(builds: Sequence[Measured]) -> tuple[Trend, ...]:
    """The trends of the `builds` of a task, of which the last one says which figures there are."""
    shown = tuple(builds[-LONGEST:])
    if not shown:
        return ()
    found = []
    for metric, target, batch_size in _kinds(shown[-1].figures):
        value_of = _reader(metric, target, batch_size)
        values = array("d", (value if (value := value_of(one.figures)) is not None else math.nan for one in shown))
        found.append(Trend(metric=metric, builds=shown, values=values, target=target, batch_size=batch_size))
    return tuple(found)


def figures_between(before: Figures | None, after: Figures | None) -> tuple[str, ...]:
    """The figures that two nights have and that do not depend on the machine, by name, if they differ."""
    if before is None or after is None:
        return ()
    shared = before.answers.keys() & after.answers.keys()
    found = ["answers: other bits"] if any(before.answers[one] != after.answers[one] for one in shared) else []
    for metric, (least, floor) in _LEAST.items():
        value_of = _reader(metric, "", "")
        old, new = value_of(before), value_of(after)
        if old is not None and new is not None and abs(new - old) >= max(least * abs(old), floor):
            found.append(f"{metric}: {value_text(metric, old)} -> {value_text(metric, new)}")
    return tuple(found)


def _kinds(figures: Figures) -> Iterator[tuple[Metric, str, str]]:
    yield "size", "", ""
    for target in sorted(figures.latency):
        # Batch sizes are keys of JSON objects, thus texts: 10 comes after 2.
        for batch_size in sorted(figures.latency[target], key=lambda size: (len(size), size)):
            yield "latency", target, batch_size
    yield "numerical error", "", ""
    yield "build time", "", ""


def _reader(metric: Metric, target: str, batch_size: str) -> Callable[[Figures], float | None]:
    match metric:
        case "size":
            return lambda figures: float(figures.library_size)
        case "latency":
            return lambda figures: figures.latency.get(target, {}).get(batch_size)
        case "numerical error":
            return lambda figures: figures.error
        case "build time":
            return lambda figures: figures.build_time


_WIDTH, _HEIGHT = 520, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 24, 14, 46
_TICKS, _LABELS = 4, 5


def trend_plot(trend: Trend) -> Plot | None:
    """The plot of a trend; None for fewer than two points."""
    points = trend.points
    if len(points) < 2:
        return None
    low, high, step = _scale([point.value for point in points])
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def x(number: int) -> float:
        return round(_LEFT + number / (len(points) - 1) * (right - _LEFT), 1)

    def y(value: float) -> float:
        return round(bottom - (value - low) / (high - low) * (bottom - _TOP), 1)

    marks = tuple(
        Mark(x=x(number), y=y(point.value), title=_title(trend.metric, point)) for number, point in enumerate(points)
    )
    labels = sorted({round(one * (len(points) - 1) / (_LABELS - 1)) for one in range(_LABELS)})
    values = [low + step * number for number in range(round((high - low) / step) + 1)]
    return Plot(
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=right,
        top=_TOP,
        bottom=bottom,
        series=(Series(name="", style=0, points=marks),),
        across=tuple(Tick(place=x(one), label=day_of(points[one].night)[5:]) for one in labels),
        up=tuple(Tick(place=y(value), label=value_text(trend.metric, value)) for value in values),
    )


def value_text(metric: Metric, value: float) -> str:
    """A value with its unit, for people."""
    match metric:
        case "size":
            return size_text(round(value))
        case "latency":
            return duration(value)
        case "build time":
            return f"{value:.3g} s"
        case "numerical error":
            return f"{value:.3g}"


def _title(metric: Metric, point: Point) -> str:
    where = f" on {plain(point.processor)}" if point.processor and metric in _TIMES else ""
    return f"{day_of(point.night)}, {point.release}: {value_text(metric, point.value)}{where}"


def _scale(values: list[float]) -> tuple[float, float, float]:
    """Bounds and distance of grid lines, at 1, 2 or 5 times a power of ten, that enclose all values. The range is at
    least 5 % of the largest value, so that small changes look small.
    """
    low, high = min(values), max(values)
    least = 0.05 * abs(high) or 1.0
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    # 0.999 and 1e-9: a rounding error of floats must not add or drop a grid line.
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.floor(low / step)
    # Figures that are never negative need no grid line below zero.
    if min(values) >= 0:
        first = max(first, 0)
    return first * step, math.ceil(high / step + 1e-9) * step, step
