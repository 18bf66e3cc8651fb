"""Trends as places on a drawing: a value per night, both axes even, in the catalogue's form of a plot. Pure."""

from __future__ import annotations

import math

from tfaot_pkg.catalogue.plot import Plot, Series, Tick
from tfaot_pkg.catalogue.plot import Point as Mark
from tfaot_pkg.catalogue.site import size_text
from tfaot_pkg.nightly.report.comparison import day_of
from tfaot_pkg.nightly.report.trends import Metric, Point, Trend

_WIDTH, _HEIGHT = 520, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 24, 14, 46
_TICKS, _LABELS = 4, 5


def trend_plot(trend: Trend) -> Plot | None:
    """The plot of a trend; None where there is one point only."""
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
            return f"{value / 1000:.4g} µs"
        case "build time":
            return f"{value:.3g} s"
        case "numerical error":
            return f"{value:.3g}"


def _title(metric: Metric, point: Point) -> str:
    return f"{day_of(point.night)}, {point.release}: {value_text(metric, point.value)}"


def _scale(values: list[float]) -> tuple[float, float, float]:
    """Bounds and distance of grid lines, at 1, 2 or 5 times a power of ten, that hold all values and do not magnify
    changes of less than 5 %.
    """
    low, high = min(values), max(values)
    least = 0.05 * abs(high) or 1.0
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.floor(low / step)
    if min(values) >= 0:
        first = max(first, 0)
    return first * step, math.ceil(high / step + 1e-9) * step, step
