"""The plot of latency per row over batch size, both axes logarithmic, as places on a drawing.

Pure: numbers in, places out; the template draws them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 16, 48
_STEPS = (1, 2, 5)  # ticks of a decade


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measurement on the drawing; `title` says it in words."""

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
    """A grid line: its place along the axis, and what it says."""

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


def latency_plot(rows: Sequence[tuple[str, int, float]]) -> Plot | None:
    """The plot of (target, batch size, microseconds per call), all positive; None where two points are missing.

    What is drawn is microseconds per row: a horizontal line means that larger batches do not pay.
    """
    if len(rows) < 2:
        return None
    sizes = sorted({size for _, size, _ in rows})
    costs = [time / size for _, size, time in rows]
    across = _Axis(low=sizes[0], high=sizes[-1], start=_LEFT, end=WIDTH - _RIGHT)
    ticks = _ticks(min(costs), max(costs))
    up = _Axis(low=ticks[0], high=ticks[-1], start=HEIGHT - _BOTTOM, end=_TOP)
    targets = list(dict.fromkeys(target for target, _, _ in rows))
    series = tuple(
        Series(
            name=target,
            style=number % 4,
            points=tuple(_point(row, across, up) for row in sorted(rows) if row[0] == target),
        )
        for number, target in enumerate(targets)
    )
    return Plot(
        width=WIDTH,
        height=HEIGHT,
        left=_LEFT,
        right=WIDTH - _RIGHT,
        top=_TOP,
        bottom=HEIGHT - _BOTTOM,
        series=series,
        across=tuple(Tick(place=across.place(size), label=str(size)) for size in sizes),
        up=tuple(Tick(place=up.place(value), label=f"{value:g}") for value in ticks),
    )


def _point(row: tuple[str, int, float], across: _Axis, up: _Axis) -> Point:
    target, size, time = row
    title = f"{target}, batch size {size}: {time / size:.3g} µs per row, {time:.3g} µs per call"
    return Point(x=across.place(size), y=up.place(time / size), title=title)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """A logarithmic axis: the value `low` stands at `start`, `high` at `end`."""

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
    """1, 2 and 5 times powers of ten: the fewest in a row that hold [low, high]."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    grid = [step * 10.0**decade for decade in decades for step in _STEPS]
    first = max(value for value in grid if value <= low)
    last = min(value for value in grid if value >= high)
    return [value for value in grid if first <= value <= last]
