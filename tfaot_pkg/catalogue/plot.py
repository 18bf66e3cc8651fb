"""Plots of numbers as SVG: a package's latencies, and figures over nights (nightly/report/trends.py). Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tfaot_pkg.ground.wording import duration

WIDTH, HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 120, 16, 48
_LABEL = 16  # height of a line's name
_OTHER = 4  # the style of a line of another engine
_STEPS = (1, 2, 5)  # ticks of a decade


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measurement on the drawing; `title` is its text."""

    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The measurements of one target, by batch size; `style` numbers its colour."""

    name: str
    style: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A grid line: its position along the axis, and its label."""

    place: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    series: tuple[Series, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]

    @property
    def names(self) -> tuple[tuple[Series, float], ...]:
        """The lines that have names, with the heights of these: each at the end of its line, none over another."""
        named = sorted((line for line in self.series if line.name), key=lambda line: line.points[-1].y)
        found: list[tuple[Series, float]] = []
        for line in named:
            y = line.points[-1].y + 4
            found.append((line, max(y, found[-1][1] + _LABEL) if found else y))
        return tuple(found)


def latency_plot(rows: Sequence[tuple[str, int, float]], other: Sequence[tuple[str, int, float]] = ()) -> Plot | None:
    """The plot of (target, batch size, nanoseconds per call), all positive; None for fewer than two points.

    `other` are the rows of another engine, whose line is dashed.
    The plot shows the time per row: a horizontal line means that larger batches bring nothing.
    """
    every = (*rows, *other)
    if not rows or len(every) < 2:
        return None
    sizes = sorted({size for _, size, _ in every})
    # A call of 64 rows takes longer than one of 1: only times per row can be compared along the axis.
    costs = [time / size for _, size, time in every]
    across = _Axis(low=sizes[0], high=sizes[-1], start=_LEFT, end=WIDTH - _RIGHT)
    ticks = _ticks(min(costs), max(costs))
    up = _Axis(low=ticks[0], high=ticks[-1], start=HEIGHT - _BOTTOM, end=_TOP)
    targets = list(dict.fromkeys(target for target, _, _ in rows))
    series = tuple(
        Series(
            name=target,
            # site.css has four colours of series.
            style=number % 4,
            points=tuple(_point(row, across, up) for row in sorted(rows) if row[0] == target),
        )
        for number, target in enumerate(targets)
    )
    if other:
        marks = tuple(_point(row, across, up) for row in sorted(other))
        # Without the variant in brackets: there is little room at the end of a line.
        name = other[0][0].partition(" (")[0]
        series = (*series, Series(name=name, style=_OTHER, points=marks))
    return Plot(
        width=WIDTH,
        height=HEIGHT,
        left=_LEFT,
        right=WIDTH - _RIGHT,
        top=_TOP,
        bottom=HEIGHT - _BOTTOM,
        series=series,
        across=tuple(Tick(place=across.place(size), label=str(size)) for size in sizes),
        up=tuple(Tick(place=up.place(value), label=duration(value)) for value in ticks),
    )


def _point(row: tuple[str, int, float], across: _Axis, up: _Axis) -> Point:
    target, size, time = row
    title = f"{target}, batch size {size}: {duration(time / size)} per row, {duration(time)} per call"
    return Point(x=across.place(size), y=up.place(time / size), title=title)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """A logarithmic axis: the value `low` is at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        if self.low == self.high:
            return (self.start + self.end) / 2
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.start + part * (self.end - self.start), 1)


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten: the fewest consecutive ones that enclose [low, high]."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    grid = [step * 10.0**decade for decade in decades for step in _STEPS]
    first = max(value for value in grid if value <= low)
    last = min(value for value in grid if value >= high)
    return [value for value in grid if first <= value <= last]
