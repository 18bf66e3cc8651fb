"""Results as tables of text, and the comparison of two runs: a regression, or noise. Pure.

For each engine and batch size: the ratio of new to old medians, with a 95 % interval from the bootstrap over rounds
(Efron, Annals of Statistics 7, 1979). The machine may differ, or be slower that day, so the ratio is divided by the
factor by which everything else in both runs (roofline and peers) became slower, which has a spread of its own. A change
counts as faster or slower only if it exceeds both, and `TOLERANCE`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.measure.bench.results import OURS, Bench, Cell, Row

Verdict = Literal["faster", "slower", "same"]

TOLERANCE = 0.03
"""Relative. Two builds of the same source differ by as much, because of the addresses of code and data."""

_RESAMPLES = 2000
_SEED = 20240501  # fixed, so that the same two files always give the same verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One engine at one batch size: new over old time, divided by the machine's change, and its 95 % interval."""

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
    """`machine` is the factor by which the machine itself became slower, `spread` its relative uncertainty."""

    same_machine: bool
    machine: float
    spread: float
    changes: tuple[Change, ...]

    @property
    def slower(self) -> tuple[Change, ...]:
        """Our own engines that became slower."""
        return tuple(each for each in self.changes if each.verdict == "slower" and each.engine.startswith("tfaot"))

    def as_dict(self) -> dict[str, object]:
        return {
            "same_machine": self.same_machine,
            "machine": round(self.machine, 4),
            "spread": round(self.spread, 4),
            "changes": list(self.changes),
        }


def compare(new: Bench, old: Bench) -> Comparison:
    """The changes since `old` of all engines and batch sizes that both runs have."""
    pairs = list(_pairs(new.engines, old.engines))
    # Our own engines may have changed; everything else changes only with the machine.
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
    before = {roof.target: roof.nanoseconds for roof in old.roofline}
    return [
        math.log(time / before[roof.target][size])
        for roof in new.roofline
        if roof.target in before
        for size, time in roof.nanoseconds.items()
        if size in before[roof.target]
    ]


def _log_ratio(new: Cell, old: Cell) -> float:
    # Logarithms, in which twice as slow and twice as fast are equally far from no change.
    return math.log(statistics.median(new.rounds) / statistics.median(old.rounds))


def _change(row: Row, new: Cell, old: Cell, shift: float, spread: float) -> Change:
    found = _log_ratio(new, old) - shift
    low, high = (each - shift for each in _interval(new.rounds, old.rounds))
    # The machine's own uncertainty widens both ends, so that noise of the machine is not reported as a change. A normal
    # deviate is within 1.96 standard deviations with a probability of 95 %.
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


_GAP = 2  # spaces between columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`head` and `rows` have the same number of columns: the first has names, the others numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self, width: int | None = None) -> str:
        """Columns side by side, numbers aligned to the right. Columns beyond `width` characters form another table."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        blocks: list[list[int]] = [[]]
        for column in range(1, len(self.head)):
            taken = widths[0] + sum(_GAP + widths[i] for i in (*blocks[-1], column))
            if blocks[-1] and width is not None and taken > width:
                blocks.append([])
            blocks[-1].append(column)
        return "\n\n".join(
            "\n".join(
                (" " * _GAP).join([line[0].ljust(widths[0]), *(line[i].rjust(widths[i]) for i in block)]).rstrip()
                for line in lines
            )
            for block in blocks
        )

    def markdown(self) -> str:
        rule = ("---", *["--:"] * (len(self.head) - 1))
        return "\n".join(f"| {' | '.join(line)} |" for line in (self.head, rule, *self.rows))


def latencies(bench: Bench) -> Table:
    """Microseconds of one run; then ours over the best peer's, over XLA's alone, and over the roofline."""
    sizes = bench.batch_sizes
    roofs = [
        (f"roofline {roof.target} {roof.precision}", *(micro(roof.nanoseconds[size]) for size in sizes))
        for roof in bench.roofline
    ]
    rows = [
        (row.title, *(micro(cell.median) if (cell := row.cell(size)) else "-" for size in sizes))
        for row in bench.engines
    ]
    shares = [("ours / best other engine", *(_ratio(ratio_to_peers(bench, size)) for size in sizes))]
    for row in bench.engines:
        if (plain := bench.row(f"xla-{row.target}")) and row.is_ours and row.cells and plain.cells:
            ratios = [_median(row, size) / _median(plain, size) for size in sizes]
            shares.append((f"{row.title} / {plain.title}", *map(_ratio, ratios)))
    shares += [
        (f"{row.title} / roofline", *(_ratio(share_of_roof(bench, row, size)) for size in sizes))
        for row in bench.engines
        if row.is_ours and row.cells
    ]
    return Table(head=("us per run, batch size", *map(str, sizes)), rows=(*roofs, *rows, *shares))


def cold_calls(bench: Bench) -> Table | None:
    """Microseconds of one call after other work; None if no engine was measured so, as in files of earlier versions."""
    rows = [
        (
            row.title,
            *(micro(cell.cold) if (cell := row.cell(size)) and cell.cold else "-" for size in bench.batch_sizes),
        )
        for row in bench.engines
        if any(cell.cold for cell in row.cells)
    ]
    head = ("us per call after other work, batch size", *map(str, bench.batch_sizes))
    return Table(head=head, rows=tuple(rows)) if rows else None


def resources(bench: Bench) -> Table:
    """Memory, sizes, first inference, and the largest error of each engine."""
    head = ("engine", "first run ms", "call us", "peak MB", "above empty MB", "model KB", "runtime MB", "max error")
    return Table(head=head, rows=tuple(_resources_of(row) for row in bench.engines if row.cells))


def notes(bench: Bench) -> list[str]:
    """Engines that could not be measured, with the reason, and engines whose answers differ from the model's."""
    missing = [f"{row.title}: not measured: {row.reason}" for row in bench.engines if row.reason]
    wrong = [
        f"{row.title}: its answers differ from the source framework's by more than the spec allows, "
        f"at batch size {sizes}: its times there are compared with nothing"
        for row in bench.engines
        if (sizes := ", ".join(str(cell.batch_size) for cell in row.cells if cell.failures))
    ]
    # Only one line, because all targets have the same engine.
    engines = [f"{row.title}: {row.engine}" for row in bench.engines if row.engine][:1]
    return [*engines, *missing, *wrong]


def best_peer(bench: Bench, batch_size: int) -> Row | None:
    """The fastest engine with right answers, except this tool; XLA alone counts as another engine."""
    others = [row for row in bench.engines if not row.name.startswith((OURS, "program"))]
    right = [row for row in others if (cell := row.cell(batch_size)) and not cell.failures]
    return min(right, key=lambda row: _median(row, batch_size), default=None)


def picked_ours(bench: Bench, batch_size: int) -> Row | None:
    """The row of the code that our library selects on this machine: that of the highest target."""
    ours = [row for row in bench.engines if row.is_ours and row.cell(batch_size)]
    return max(ours, key=lambda row: TARGETS[row.target].level, default=None)


def ratio_to_peers(bench: Bench, batch_size: int) -> float:
    """Our median over the best peer's; below 1 if ours is the fastest, NaN if there is no other."""
    ours, peer = picked_ours(bench, batch_size), best_peer(bench, batch_size)
    return _median(ours, batch_size) / _median(peer, batch_size) if ours and peer else math.nan


def share_of_roof(bench: Bench, row: Row, batch_size: int) -> float:
    """The median over the roofline of the row's target; NaN where reading is the limit, which measures no code."""
    roof = bench.roof(row.target)
    if roof is None or batch_size in roof.by_reading:
        return math.nan
    return _median(row, batch_size) / roof.nanoseconds[batch_size]


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; NaN of no values."""
    known = [value for value in values if value > 0]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan


def micro(nanoseconds: float) -> str:
    """Microseconds, with about three digits."""
    value = nanoseconds / 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _median(row: Row, batch_size: int) -> float:
    cell = row.cell(batch_size)
    return cell.median if cell else math.inf


def _ratio(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _resources_of(row: Row) -> tuple[str, ...]:
    return (
        row.title,
        f"{row.first_inference / 1e6:.2f}",
        f"{row.call_overhead / 1e3:.2f}" if row.call_overhead else "-",
        f"{row.memory / 1024:.1f}",
        f"{(row.memory - row.memory_empty) / 1024:.1f}",
        f"{row.model_bytes / 1024:.0f}",
        f"{row.runtime_bytes / 2**20:.1f}" if row.runtime_bytes else "-",
        f"{_largest_difference(row):.1e}{'!' if any(cell.failures for cell in row.cells) else ''}",
    )


def _largest_difference(row: Row) -> float:
    return max(math.inf if cell.max_absolute is None else cell.max_absolute for cell in row.cells)
