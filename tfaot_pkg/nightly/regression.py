"""What got worse from the published build to the next one, and what policy.regression does not let pass. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tfaot_pkg.ground.wording import duration, size_text
from tfaot_pkg.nightly.types import Comparison, Regression
from tfaot_pkg.verify.turns import Speed

Metric = Literal["speed", "size", "error", "memory"]

_LEAST, _LEAST_BYTES = 1.02, 4096
_LEAST_ERROR, _LEAST_FACTOR = 1e-6, 2.0
"""Changes that are told: 2 % and 4 KiB; twice the error and 1e-6, because units in the last place are no news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worse:
    """A figure that got worse, by `factor`; `text` says it in words."""

    metric: Metric
    factor: float
    text: str

    def __str__(self) -> str:
        return self.text


def worse_in(comparison: Comparison) -> tuple[Worse, ...]:
    """All that got worse enough to be told."""
    return tuple(each for each in _changes(comparison) if each.metric == "speed" or _matters(each.metric, comparison))


def kept_back(comparison: Comparison, allowed: Regression) -> str:
    """Why it is not published; "" if it may be. What could not be measured refuses nothing."""
    found = [
        f"{each.text} (policy.regression.{each.metric}: {limit:g})"
        for each in _changes(comparison)
        if (limit := getattr(allowed, each.metric)) is not None and each.factor > limit
    ]
    if allowed.answers == "refuse" and comparison.apart is not None and comparison.is_of_one_version:
        found.append(f"other answers: {comparison.apart} (policy.regression.answers: refuse)")
    return f"compared with {comparison.base}: {'; '.join(found)}" if found else ""


def speed_text(speed: Speed) -> str:
    """`x86-64-v3, batch size 4: 400 ns -> 450 ns, 1.12 times (x86...)`."""
    where = f"{speed.target}, batch size {speed.batch_size}"
    return f"{where}: {duration(speed.before)} -> {duration(speed.after)}, in turns {speed.ratio:.3g} times as long"


def _changes(comparison: Comparison) -> Iterator[Worse]:
    """All that grew, however little; of speed, what is told to be slower."""
    for speed in comparison.turns.slower if comparison.turns is not None else ():
        yield Worse(metric="speed", factor=speed.ratio, text=f"latency, {speed_text(speed)}")
    for metric in ("size", "memory"):
        pair: tuple[int, int] | None = getattr(comparison, metric)
        if pair is not None and pair[1] > pair[0]:
            text = f"{metric}: {size_text(pair[0])} -> {size_text(pair[1])}"
            yield Worse(metric=metric, factor=_factor(*pair), text=text)
    if comparison.error is not None and comparison.error[1] > comparison.error[0]:
        before, now = comparison.error
        yield Worse(metric="error", factor=_factor(before, now), text=f"numerical error: {before:.3g} -> {now:.3g}")


def _factor(before: float, now: float) -> float:
    return now / before if before > 0 else float("inf")


def _matters(metric: Metric, comparison: Comparison) -> bool:
    before, now = getattr(comparison, metric)
    if metric == "error":
        return bool(now > _LEAST_FACTOR * before and now - before > _LEAST_ERROR)
    return bool(now > _LEAST * before and now - before > _LEAST_BYTES)


def told_of(comparison: Comparison) -> Iterator[str]:
    """All that people want to know of it, in lines: answers first."""
    if comparison.apart is not None:
        yield f"other answers: {comparison.apart}"
    elif comparison.not_compared:
        yield f"answers are not compared: {comparison.not_compared}"
    yield from map(str, (each for each in worse_in(comparison) if each.metric != "speed"))
    if comparison.not_timed:
        yield f"not timed: {comparison.not_timed}"
    for speed in comparison.turns.speeds if comparison.turns is not None else ():
        if speed.kind != "the same":
            yield f"{speed.kind}: {speed_text(speed)}"
