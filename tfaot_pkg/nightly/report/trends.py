"""What is compared from night to night, as series over the nights, each with a verdict. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tfaot_pkg.nightly.report.comparison import Past
from tfaot_pkg.nightly.report.regression import Limits, Verdict, judge
from tfaot_pkg.nightly.types import Figures, Outcome

Metric = Literal["size", "latency", "numerical error", "build time"]
UNITS: dict[Metric, str] = {"size": "bytes", "latency": "ns", "numerical error": "", "build time": "s"}
LIMITS: dict[Metric, Limits] = {
    "size": Limits(least=0.02, floor=4096),
    "latency": Limits(least=0.10, floor=50),
    "numerical error": Limits(least=1.0, floor=1e-6),  # a few units in the last place of float32 are no news
    "build time": Limits(least=0.30, floor=5),
}
_LONGEST = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value in a night, and the version that it is of."""

    night: str
    release: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One figure over the nights, the oldest first. Only latencies have a `target` and a `batch_size`.

    `verdict` is about the last point: tonight's; None where tonight has none.
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

    Nights without figures do not show in them, nor do those that took an earlier night's result: that is no second
    measurement, and would make the spread look smaller than it is.
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
            Point(night=name, release=release, value=value)
            for name, release, figures in rows
            if (value := value_of(figures)) is not None
        ]
        values = [one.value for one in points]
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


def regressions(trends: Sequence[Trend]) -> tuple[Trend, ...]:
    """Those that got worse."""
    return tuple(one for one in trends if one.verdict is not None and one.verdict.kind == "worse")


def _kinds(figures: Figures) -> Iterator[tuple[Metric, str, str]]:
    yield "size", "", ""
    for target in sorted(figures.latency):
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
