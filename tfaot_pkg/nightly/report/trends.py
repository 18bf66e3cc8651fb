"""Figures over nights: telling a regression from normal noise, and their plots. Pure.

A value x is compared with the up to 30 values of earlier builds by their median m and their spread
s = 1.4826 MAD, where MAD is the median of |x_i - m|; for normal noise s estimates the standard deviation, and up to
half of the earlier values may be outliers. x differs if

    |x - m| > max(5 s, least * |m|, floor)

that is, beyond the noise, and by a change that matters. Figures that have no noise (sizes, errors) are compared with
the last build alone, without s. Times of fewer than 10 builds say nothing about their noise: x is worse only if it
exceeds all of them by more than a busy machine explains (2.5 times: builds beside others took up to 1.9 times as long),
and better if it is as far below all of them. Source: the modified z-score of B. Iglewicz and D. C. Hoaglin,
"How to Detect and Handle Outliers" (ASQC, 1993), with 5 in place of their 3.5: a night has thousands of figures, and
with the fewest values (10), 3.5 is exceeded by 1.7 % of nights of plain normal noise, 5 by 0.5 % (by 0.05 % with 20).
A new level becomes normal when half of the values are at that level.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tfaot_pkg.catalogue.plot import Plot, Series, Tick
from tfaot_pkg.catalogue.plot import Point as Mark
from tfaot_pkg.ground.wording import duration, size_text
from tfaot_pkg.nightly.report.comparison import Past, day_of
from tfaot_pkg.nightly.report.log import plain
from tfaot_pkg.nightly.types import Figures, Outcome

VerdictKind = Literal["worse", "better", "steady", "too few"]

WINDOW, FEWEST = 30, 10
_THRESHOLD, _NORMAL = 5.0, 1.4826
_BUSY = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The smallest change that matters, relative to the median (`least`) and in the figure's unit (`floor`).

    `exact`: the figure is the same on any machine at any time.
    """

    least: float
    floor: float = 0.0
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`median` and `spread` are of the earlier values that were compared, in their unit; `change` is relative to the
    median (0.1: 10 % more). With `too few` values, and if the median is 0, `change` is 0.
    """

    kind: VerdictKind
    median: float = 0.0
    spread: float = 0.0
    change: float = 0.0


def judge(earlier: Sequence[float], value: float, limits: Limits) -> Verdict:
    """Compare `value` with the `earlier` values, the oldest first, of a figure for which less is better."""
    recent = earlier[-1:] if limits.exact else earlier[-WINDOW:]
    if not recent:
        return Verdict(kind="too few")
    median = statistics.median(recent)
    spread = _NORMAL * statistics.median(abs(one - median) for one in recent)
    difference = value - median
    if len(recent) < FEWEST and not limits.exact:
        differs = value > _BUSY * max(recent) + limits.floor or _BUSY * value + limits.floor < min(recent)
        if not differs:
            return Verdict(kind="too few")
    else:
        differs = abs(difference) > max(_THRESHOLD * spread, limits.least * abs(median), limits.floor)
    kind: VerdictKind = "steady" if not differs else "worse" if difference > 0 else "better"
    return Verdict(kind=kind, median=median, spread=spread, change=difference / median if median else 0.0)


Metric = Literal["size", "latency", "numerical error", "build time"]
UNITS: dict[Metric, str] = {"size": "bytes", "latency": "ns", "numerical error": "", "build time": "s"}
LIMITS: dict[Metric, Limits] = {
    "size": Limits(least=0.02, floor=4096, exact=True),
    # The medians of runs of nanoseconds are exact to a few of them.
    "latency": Limits(least=0.10, floor=10),
    "numerical error": Limits(
        least=1.0, floor=1e-6, exact=True
    ),  # a few units in the last place of float32 are no news
    "build time": Limits(least=0.30, floor=5),
}
TIMES: tuple[Metric, ...] = ("latency", "build time")
"""The metrics that depend on the machine."""
_LONGEST = 90


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

    `verdict` is that of the last point, tonight's; None if tonight has no value. Times are compared with those of the
    same CPU only.
    """

    metric: Metric
    points: tuple[Point, ...]
    verdict: Verdict | None
    target: str = ""
    batch_size: str = ""

    @property
    def name(self) -> str:
        """`latency, x86-64-v3, batch size 4`."""
        where = (self.target, f"batch size {self.batch_size}" if self.batch_size else "")
        return ", ".join(filter(None, (self.metric, *where)))


def trends_of(outcome: Outcome, night: str, past: Past) -> tuple[Trend, ...]:
    """The trends of a task up to `outcome`, which is of `night`.

    Excludes nights without figures, and those that used the result of an earlier night: it is not a second
    measurement, and would make the spread too small.
    """
    rows: list[tuple[str, str, Figures]] = []
    measured = set()
    for name, one in (*past, (night, outcome)):
        if one.figures is not None and one.key not in measured:
            measured.add(one.key)
            rows.append((name, one.release, one.figures))
    if not rows:
        return ()
    last = rows[-1][2]
    trends = []
    for metric, target, batch_size in _kinds(last):
        value_of = _reader(metric, target, batch_size)
        points = [
            Point(night=name, release=release, value=value, processor=figures.processor)
            for name, release, figures in rows
            if (value := value_of(figures)) is not None
        ]
        # Times of another CPU say nothing about the model.
        timed, cpu = metric in TIMES, points[-1].processor
        values = [one.value for one in points if not timed or one.processor == cpu]
        ours = points[-1].night == night
        trends.append(
            Trend(
                metric=metric,
                target=target,
                batch_size=batch_size,
                points=tuple(points[-_LONGEST:]),
                verdict=judge(values[:-1], values[-1], LIMITS[metric]) if ours else None,
            )
        )
    return tuple(trends)


def figures_between(before: Figures | None, after: Figures | None) -> tuple[str, ...]:
    """The figures that two nights have, by name, if they differ by more than what matters: times of one CPU only."""
    if before is None or after is None:
        return ()
    shared = before.answers.keys() & after.answers.keys()
    found = ["answers: other bits"] if any(before.answers[one] != after.answers[one] for one in shared) else []
    for metric, target, batch_size in _kinds(after):
        if metric in TIMES and before.processor != after.processor:
            continue
        value_of, limits = _reader(metric, target, batch_size), LIMITS[metric]
        old, new = value_of(before), value_of(after)
        if old is not None and new is not None and abs(new - old) > max(limits.least * abs(old), limits.floor):
            name = Trend(metric=metric, points=(), verdict=None, target=target, batch_size=batch_size).name
            found.append(f"{name}: {value_text(metric, old)} -> {value_text(metric, new)}")
    return tuple(found)


def regressions(trends: Sequence[Trend]) -> tuple[Trend, ...]:
    """Those that got worse."""
    return tuple(one for one in trends if one.verdict is not None and one.verdict.kind == "worse")


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
    where = f" on {plain(point.processor)}" if point.processor and metric in TIMES else ""
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
