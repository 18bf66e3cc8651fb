"""Progress on a terminal: bars. A separate module, because importing Rich takes as long as a short command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from tfaot_pkg.ground.progress import Step
from tfaot_pkg.ground.wording import printable


def shown(text: str, style: str = "", *, cut: bool = False) -> Text:
    """`text` from any source, safe to draw: not parsed as markup; with `cut`, on one line that may be cut off."""
    if cut:
        return Text(printable(text), style=style, overflow="ellipsis", no_wrap=True)
    return Text(printable(text), style=style)


class TerminalProgress:
    """A bar for the running stage; finished stages stay listed above it."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose
        self._console = Console(stderr=True)
        self._bars: Progress | None = None

    @contextmanager
    def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
        bars, outermost = self._opened()
        task = bars.add_task(printable(name), total=total, note="")
        step = _BarStep(bars, task, total)
        try:
            yield step
            # Not in `finally`: the bar of a stage that failed must not look finished.
            step.finish()
        finally:
            if outermost:
                bars.stop()
                self._bars = None

    def note(self, text: str) -> None:
        # With the console of the bars, which then moves them below the note; other output would tear them.
        self._console.print(shown(text))

    def output(self, text: str) -> None:
        if self._verbose and text.strip():
            self._console.print(shown(text.rstrip(), "dim"))

    def _opened(self) -> tuple[Progress, bool]:
        """The running display, and whether this call opened it: stages may be nested."""
        if self._bars is not None:
            return self._bars, False
        self._bars = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<10}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=self._console,
        )
        self._bars.start()
        return self._bars, True


class _BarStep:
    def __init__(self, bars: Progress, task: TaskID, total: float | None) -> None:
        self._bars, self._task, self._total = bars, task, total
        self._skipped = ""

    def advance(self, amount: float = 1, *, note: str = "") -> None:
        self._bars.update(self._task, advance=amount, note=printable(note))

    def phase(self, name: str) -> None:
        self.advance(note=name)

    def skip(self, reason: str) -> None:
        self._skipped = reason

    def finish(self) -> None:
        # A bar without a total would stay in motion.
        total = self._total or 1
        self._bars.update(self._task, total=total, completed=total, note=printable(self._skipped))
