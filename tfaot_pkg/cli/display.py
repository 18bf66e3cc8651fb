"""Progress for people: bars on a terminal, plain lines elsewhere.

Always on standard error: standard output is for results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from tfaot_pkg.progress import Step


class PlainProgress:
    """One line when a stage begins, one when it ends: for logs."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose

    @contextmanager
    def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
        size = f" ({total:,.12g} {unit})".replace(" )", ")") if total else ""
        self.note(f"{name}{size} ...")
        step = _PlainStep()
        start = time.monotonic()
        yield step
        self.note(f"{name}: {step.skipped or f'done in {time.monotonic() - start:.1f} s'}")

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def output(self, text: str) -> None:
        if self._verbose and text.strip():
            self.note(text.rstrip())


class _PlainStep:
    skipped = ""

    def advance(self, amount: float = 1, *, note: str = "") -> None: ...

    def skip(self, reason: str) -> None:
        self.skipped = reason


class TerminalProgress:
    """A bar for the running stage; finished stages stay as a list above it."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose
        self._console = Console(stderr=True)
        self._bars: Progress | None = None

    @contextmanager
    def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
        bars, outermost = self._opened()
        task = bars.add_task(name, total=total, note="")
        step = _BarStep(bars, task, total)
        try:
            yield step
            step.finish()
        finally:
            if outermost:
                bars.stop()
                self._bars = None

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def output(self, text: str) -> None:
        if self._verbose and text.strip():
            self._console.print(text.rstrip(), markup=False, highlight=False, style="dim")

    def _opened(self) -> tuple[Progress, bool]:
        """The running display, and whether this call opened it: stages may lie inside of one another."""
        if self._bars is not None:
            return self._bars, False
        self._bars = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[note]}"),
            console=self._console,
        )
        self._bars.start()
        return self._bars, True


class _BarStep:
    def __init__(self, bars: Progress, task: TaskID, total: float | None) -> None:
        self._bars, self._task, self._total = bars, task, total
        self._skipped = ""

    def advance(self, amount: float = 1, *, note: str = "") -> None:
        self._bars.update(self._task, advance=amount, note=note)

    def skip(self, reason: str) -> None:
        self._skipped = reason

    def finish(self) -> None:
        total = self._total or 1
        self._bars.update(self._task, total=total, completed=total, note=self._skipped)


def make_progress(*, verbose: bool) -> PlainProgress | TerminalProgress:
    """Bars where standard error is a terminal, else lines."""
    return TerminalProgress(verbose=verbose) if sys.stderr.isatty() else PlainProgress(verbose=verbose)
