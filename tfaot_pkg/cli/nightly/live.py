"""How a night looks while it runs: a table on a terminal, lines elsewhere. On standard error."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tfaot_pkg.nightly.attempt import Attempt
from tfaot_pkg.nightly.run import Watch
from tfaot_pkg.nightly.state import Verdict
from tfaot_pkg.nightly.types import FAILURES, Decision, Outcome

_SHOWN = 8


class Lines:
    """One line per event: for logs."""

    def __init__(self) -> None:
        self._total = self._ended = 0

    def begin(self, night: str, decisions: Sequence[Decision], known: Sequence[Outcome], *, again: bool) -> None:
        _print(
            f"night {night}: {len(decisions)} tasks"
            + (f", taken up where it was cut off: {len(known)} are known" if again else "")
        )

    def building(self, count: int, where: str) -> None:
        self._total = count
        _print(f"building {count}: {where}")

    def built(self, decision: Decision, attempt: Attempt) -> None:
        self._ended += 1
        place = f"[{self._ended}/{max(self._total, self._ended)}]"
        _print(f"{place} {decision.task.id}: {attempt.kind} ({attempt.seconds:.0f} s){_why(attempt.error)}")

    def gate(self, verdict: Verdict) -> None:
        if verdict.withheld:
            _print(f"nothing is published: {verdict}")

    def outcome(self, outcome: Outcome) -> None:
        if outcome.kind in ("published", "dependency failed"):
            _print(f"{outcome.task}: {outcome.kind} ({outcome.release}){_why(outcome.error)}")


class LiveTable:
    """Counts, a bar, and what ended last."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._head = self._where = ""
        self._total = self._ended = 0
        self._counts: Counter[str] = Counter()
        self._last: list[tuple[str, str, str]] = []
        self._start = time.monotonic()

    def begin(self, night: str, decisions: Sequence[Decision], known: Sequence[Outcome], *, again: bool) -> None:
        self._head = f"night {night}: {len(decisions)} tasks" + (
            f", taken up where it was cut off: {len(known)} are known" if again else ""
        )
        self._counts.update(one.kind for one in known)
        self._update()

    def building(self, count: int, where: str) -> None:
        self._total, self._ended, self._where = count, 0, where
        self._update()

    def built(self, decision: Decision, attempt: Attempt) -> None:
        self._ended += 1
        self._last.append((decision.task.id, attempt.kind, f"{attempt.seconds:.0f} s{_why(attempt.error)}"))
        self._update()

    def gate(self, verdict: Verdict) -> None:
        if verdict.withheld:
            self._last.append(("", "withheld", str(verdict)))
        self._update()

    def outcome(self, outcome: Outcome) -> None:
        self._counts[outcome.kind] += 1
        if outcome.kind in ("published", "dependency failed"):
            self._last.append((outcome.task, outcome.kind, outcome.release + _why(outcome.error)))
        self._update()

    def _update(self) -> None:
        self._live.update(self._table())

    def _table(self) -> RenderableType:
        counts = ", ".join(f"{count} {kind}" for kind, count in self._counts.items())
        seconds = time.monotonic() - self._start
        rows = Table(box=None, pad_edge=False, show_header=False)
        for name, kind, detail in self._last[-_SHOWN:]:
            style = "bold red" if kind in FAILURES else "yellow" if kind == "withheld" else "green"
            rows.add_row(name, Text(kind, style=style), Text(detail, overflow="ellipsis", no_wrap=True))
        bar = ProgressBar(total=max(1, self._total), completed=self._ended, width=40)
        state = Text(f"{self._ended} of {self._total} built, {seconds:.0f} s   {self._where}", style="dim")
        return Group(Text(self._head, style="bold"), bar, state, Text(counts), rows)


def _why(error: str) -> str:
    return f": {error.splitlines()[0]}" if error else ""


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def make_watch() -> Iterator[Watch]:
    """A table where standard error is a terminal, else lines."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    with Live(console=Console(stderr=True), refresh_per_second=4) as live:
        yield LiveTable(live)
