"""Two runs of the benchmark compared, as far as noise allows. Pure.

For each engine and batch size: the ratio of new to old medians, with an interval of 95 % by the bootstrap over rounds
(Efron, Annals of Statistics 7, 1979). The machine may be another one, or slower that day: what everything else that
both runs measured (roofline and peers) became slower by is taken out, with its own spread. Only what is beyond both,
and more than `TOLERANCE`, is called faster or slower.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tfaot_pkg.bench.results import Bench, Cell, Row

Verdict = Literal["faster", "slower", "same"]

TOLERANCE = 0.03
"""Relative; of the placement of code and data in memory alone, two builds of the same source differ by so much."""

_RESAMPLES = 2000
_SEED = 20240501


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One engine at one batch size: new over old time, the machine's own change taken out, and its 95 % interval."""

    engine: str
    batch_size: int
    ratio: float
    low: float
    high: float
    verdict: Verdict

    def as_dict(self) -> dict[str, object]:
        numbers = {name: round(getattr(self, name), 4) for name in ("ratio", "low", "high")}
        return {"engine": self.engine, "batch_size": self.batch_size, **numbers, "verdict": self.verdict}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`machine` is what the machine itself became slower by (1: nothing), `spread` its relative uncertainty."""

    same_machine: bool
    machine: float
    spread: float
    changes: tuple[Change, ...]

    @property
    def slower(self) -> tuple[Change, ...]:
        """Of our own engines."""
        return tuple(each for each in self.changes if each.verdict == "slower" and each.engine.startswith("tfaot"))

    def as_dict(self) -> dict[str, object]:
        return {
            "same_machine": self.same_machine,
            "machine": round(self.machine, 4),
            "spread": round(self.spread, 4),
            "changes": list(self.changes),
        }


def compare(new: Bench, old: Bench) -> Comparison:
    """What changed since `old`, of all engines and batch sizes that both have."""
    pairs = list(_pairs(new.rows, old.rows))
    stable = [_log_ratio(a, b) for row, a, b in pairs if not row.is_ours] + _roof_ratios(new, old)
    shift = statistics.median(stable) if stable else 0.0
    # The median absolute deviation, scaled to a standard deviation, over the root of the count.
    spread = 1.4826 * statistics.median([abs(each - shift) for each in stable]) if stable else 0.0
    spread /= math.sqrt(len(stable)) if stable else 1.0
    return Comparison(
        same_machine=new.machine.get("cpu") == old.machine.get("cpu"),
        machine=math.exp(shift),
        spread=spread,
        changes=tuple(_change(row, a, b, shift, spread) for row, a, b in pairs),
    )


def _pairs(new: Sequence[Row], old: Sequence[Row]) -> list[tuple[Row, Cell, Cell]]:
    before: Mapping[tuple[str, int], Cell] = {(row.name, cell.batch_size): cell for row in old for cell in row.cells}
    return [
        (row, cell, before[row.name, cell.batch_size])
        for row in new
        for cell in row.cells
        if (row.name, cell.batch_size) in before
    ]


def _roof_ratios(new: Bench, old: Bench) -> list[float]:
    before = {roof.limits.target: roof.nanoseconds for roof in old.roofs}
    return [
        math.log(time / before[roof.limits.target][size])
        for roof in new.roofs
        if roof.limits.target in before
        for size, time in roof.nanoseconds.items()
        if size in before[roof.limits.target]
    ]


def _log_ratio(new: Cell, old: Cell) -> float:
    return math.log(statistics.median(new.rounds) / statistics.median(old.rounds))


def _change(row: Row, new: Cell, old: Cell, shift: float, spread: float) -> Change:
    found = _log_ratio(new, old) - shift
    low, high = (each - shift for each in _interval(new.rounds, old.rounds))
    low, high = low - 1.96 * spread, high + 1.96 * spread
    limit = math.log1p(TOLERANCE)
    verdict: Verdict = "same"
    if low > 0 and found > limit:
        verdict = "slower"
    elif high < 0 and found < -limit:
        verdict = "faster"
    return Change(
        engine=row.name, batch_size=new.batch_size, ratio=math.exp(found), low=math.exp(low), high=math.exp(high),
        verdict=verdict,
    )  # fmt: skip


def _interval(new: Sequence[float], old: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the logarithm of the ratio of medians."""
    random = np.random.default_rng(_SEED)

    def medians(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        drawn = random.choice(np.asarray(values, np.float64), (_RESAMPLES, len(values)))
        found: np.ndarray[tuple[int], np.dtype[np.float64]] = np.median(drawn, axis=1)
        return found

    low, high = np.quantile(np.log(medians(new) / medians(old)), (0.025, 0.975))
    return float(low), float(high)
