"""Progress of a night on standard error: a live table on a terminal, else lines."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from tfaot_pkg.cli.progress import shown
from tfaot_pkg.ground.wording import counted, say
from tfaot_pkg.nightly.outcome import Attempt, first_words
from tfaot_pkg.nightly.ports import Watch
from tfaot_pkg.nightly.regression import worse_in
from tfaot_pkg.nightly.report.wording import duration_text
from tfaot_pkg.nightly.state import Gate
from tfaot_pkg.nightly.types import FAILURES, Comparison, Decision, Outcome

_SHOWN = 8
_FEW = 10.0
"""Seconds after which the builds that have ended say something about the others."""
_TOLD_BY_COUNTS = ("up to date", "skipped", "withheld")
"""Kinds of outcomes without a line each: the counts, or the gate's message, tell the same."""


class Lines:
    """One line per event: for logs."""

    def __init__(self) -> None:
        self._total = self._ended = 0
        self._told: set[str] = set()
        self._start = time.monotonic()

    def begin(self, night: str, decisions: Sequence[Decision], known: Sequence[Outcome], *, again: bool) -> None:
        say(_head(night, decisions, known, again=again))

    def stored(self, count: int) -> None:
        say(f"{counted(count, 'task')} built before: their results are used")

    def building(self, count: int, where: str, running: Callable[[], Sequence[str]]) -> None:
        self._total, self._start = count, time.monotonic()
        say(f"building {count:,}: {where}")

    def built(self, decision: Decision, attempt: Attempt) -> None:
        self._ended += 1
        # `outcome` follows with the same kind and error.
        if attempt.kind != "verified":
            self._told.add(decision.task.id)
        left = left_text(time.monotonic() - self._start, self._ended, self._total)
        place = f"[{self._ended}/{self._total}{left}]"
        say(f"{place} {decision.task.id}: {attempt.kind} ({attempt.seconds:.0f} s){_why(attempt.error)}")

    def excluded(self, worker: str, why: str) -> None:
        say(f"no more builds for the worker {worker}: {why}")

    def gate(self, gate: Gate) -> None:
        if gate.withheld:
            say(f"not published: {gate.withheld}")

    def compared(self, comparison: Comparison) -> None:
        for each in worse_in(comparison):
            say(f"{comparison.task}: {each}")

    def outcome(self, outcome: Outcome) -> None:
        if outcome.kind not in _TOLD_BY_COUNTS and outcome.task not in self._told:
            release = f" ({outcome.release})" if outcome.release else ""
            say(f"{outcome.task}: {outcome.kind}{release}{_why(outcome.error)}")


class LiveTable:
    """Counts, a bar, the running builds and the last outcomes. Rich draws it again and again, as it shows seconds."""

    def __init__(self) -> None:
        self._head = self._where = self._stored = ""
        self._total = self._ended = 0
        self._counts: Counter[str] = Counter()
        self._last: list[tuple[str, str, str]] = []
        self._running: Callable[[], Sequence[str]] = tuple
        self._start = self._began = time.monotonic()

    def begin(self, night: str, decisions: Sequence[Decision], known: Sequence[Outcome], *, again: bool) -> None:
        self._head = _head(night, decisions, known, again=again)
        self._counts.update(one.kind for one in known)

    def stored(self, count: int) -> None:
        self._stored = f", {count:,} built before"

    def building(self, count: int, where: str, running: Callable[[], Sequence[str]]) -> None:
        self._total, self._where, self._running = count, where, running
        self._began = time.monotonic()

    def built(self, decision: Decision, attempt: Attempt) -> None:
        self._ended += 1
        self._last.append((decision.task.id, attempt.kind, f"{attempt.seconds:.0f} s{_why(attempt.error)}"))

    def excluded(self, worker: str, why: str) -> None:
        self._last.append((worker, "excluded", why))

    def gate(self, gate: Gate) -> None:
        self._running = tuple  # all builds have ended: the executor that would be asked is closed
        if gate.withheld:
            self._last.append(("", "withheld", gate.withheld))

    def compared(self, comparison: Comparison) -> None:
        self._last += [(comparison.task, "worse", str(each)) for each in worse_in(comparison)]

    def outcome(self, outcome: Outcome) -> None:
        self._counts[outcome.kind] += 1
        # Only what happens after the gate: `built` has told the other failures.
        if outcome.kind in ("published", "upload failed", "dependency failed", "worse"):
            self._last.append((outcome.task, outcome.kind, outcome.release + _why(outcome.error)))

    def __rich__(self) -> RenderableType:
        seconds = time.monotonic() - self._start
        progress = Table.grid(padding=(0, 1))
        # Rich takes a total of 0 for a finished bar.
        bar = ProgressBar(total=max(1, self._total), completed=self._ended, width=40)
        left = left_text(time.monotonic() - self._began, self._ended, self._total)
        progress.add_row(bar, f"{self._ended:,} of {self._total:,} built{self._stored}, {seconds:.0f} s{left}")
        # A copy, made in one step: the night's threads count meanwhile.
        counts = ", ".join(f"{count:,} {kind}" for kind, count in tuple(self._counts.items()))
        running = ", ".join(self._running())
        at_work = [shown(f"running: {running}", cut=True)] if running else []
        head, where = shown(self._head, "bold"), shown(self._where, "dim")
        return Group(head, progress, where, shown(counts), *at_work, self._rows())

    def _rows(self) -> Table:
        rows = Table(box=None, pad_edge=False, show_header=False)
        for name, kind, detail in self._last[-_SHOWN:]:
            style = (
                "bold red"
                if kind in (*FAILURES, "excluded")
                else "yellow"
                if kind in ("withheld", "worse")
                else "green"
            )
            rows.add_row(shown(name), shown(kind, style), shown(detail, cut=True))
        return rows


def left_text(seconds: float, ended: int, total: int) -> str:
    """`, about 12 min left`, if `ended` of `total` builds took `seconds`; empty if that says nothing yet."""
    if not 0 < ended < total or seconds < _FEW:
        return ""
    return f", about {duration_text(seconds / ended * (total - ended))} left"


def _head(night: str, decisions: Sequence[Decision], known: Sequence[Outcome], *, again: bool) -> str:
    taken_up = f", continued after an interruption: {counted(len(known), 'outcome')} known" if again else ""
    return f"night {night}: {counted(len(decisions), 'task')}{taken_up}"


def _why(error: str) -> str:
    return f": {first_words(error)}" if error else ""


@contextmanager
def make_watch() -> Iterator[Watch]:
    """A table if standard error is a terminal, else lines."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    table = LiveTable()
    with Live(table, console=Console(stderr=True), refresh_per_second=4):
        yield table
