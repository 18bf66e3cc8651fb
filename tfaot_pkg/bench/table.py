"""The results as tables: cells of text, which the command line and the documentation set in their own ways. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tfaot_pkg.bench.results import OURS, Bench, Row

_GAP = 2  # spaces between columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`head` and `rows` have the same number of columns; the first is of names, the others of numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self, width: int | None = None) -> str:
        """Columns side by side, numbers to the right.

        Where they are wider than `width` characters, those that are too many stand in a table of their own below.
        """
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
        (f"roofline {roof.limits.target}", *(micro(roof.nanoseconds[size]) for size in sizes)) for roof in bench.roofs
    ]
    rows = [
        (row.title, *(micro(cell.median) if (cell := row.cell(size)) else "-" for size in sizes)) for row in bench.rows
    ]
    shares = [("ours / best other engine", *(_ratio(ratio_to_peers(bench, size)) for size in sizes))]
    for row in bench.rows:
        if (plain := bench.row(f"xla-{row.target}")) and row.is_ours and row.cells and plain.cells:
            ratios = [_median(row, size) / _median(plain, size) for size in sizes]
            shares.append((f"{row.title} / {plain.title}", *map(_ratio, ratios)))
    shares += [
        (f"{row.title} / roofline", *(_ratio(share_of_roof(bench, row, size)) for size in sizes))
        for row in bench.rows
        if row.is_ours and row.cells
    ]
    return Table(head=("us per run, batch size", *map(str, sizes)), rows=(*roofs, *rows, *shares))


def resources(bench: Bench) -> Table:
    """Memory, sizes, first inference, and the largest error of each engine."""
    head = ("engine", "first run ms", "call us", "peak MB", "above empty MB", "model KB", "runtime MB", "max error")
    return Table(head=head, rows=tuple(_resources_of(row) for row in bench.rows if row.cells))


def notes(bench: Bench) -> list[str]:
    """What could not be measured, and why; whose answers are not the model's."""
    missing = [f"{row.title}: not measured: {row.reason}" for row in bench.rows if row.reason]
    wrong = [
        f"{row.title}: its answers differ from TensorFlow's by more than the spec allows, at batch size {sizes}: "
        "its times there are compared with nothing"
        for row in bench.rows
        if (sizes := ", ".join(str(cell.batch_size) for cell in row.cells if cell.failures))
    ]
    return missing + wrong


def best_peer(bench: Bench, batch_size: int) -> Row | None:
    """The quickest engine with right answers that is not this tool, with its kernel library or without."""
    others = [row for row in bench.rows if not row.name.startswith((OURS, "xla"))]
    right = [row for row in others if (cell := row.cell(batch_size)) and not cell.failures]
    return min(right, key=lambda row: _median(row, batch_size), default=None)


def best_ours(bench: Bench, batch_size: int) -> Row | None:
    ours = [row for row in bench.rows if row.is_ours and row.cell(batch_size)]
    return min(ours, key=lambda row: _median(row, batch_size), default=None)


def ratio_to_peers(bench: Bench, batch_size: int) -> float:
    """Our median over the best peer's; below 1 where we are first, NaN where there is no other."""
    ours, peer = best_ours(bench, batch_size), best_peer(bench, batch_size)
    return _median(ours, batch_size) / _median(peer, batch_size) if ours and peer else math.nan


def share_of_roof(bench: Bench, row: Row, batch_size: int) -> float:
    """The median over the roofline of the row's target."""
    roof = bench.roof(row.target)
    return _median(row, batch_size) / roof.nanoseconds[batch_size] if roof else math.nan


def geometric_mean(values: Sequence[float]) -> float:
    """NaN where there are none."""
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
        f"{max(cell.max_absolute for cell in row.cells):.1e}{'!' if any(cell.failures for cell in row.cells) else ''}",
    )
