"""Progress of a compilation in notebooks, on terminals, and in logs."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tfaot_pkg.ground.progress import PlainProgress, Progress, Silent, Step


def progress_of() -> Progress:
    """One line that changes in a notebook, bars on a terminal; scripts whose output goes elsewhere are silent."""
    if (display := _display_of_notebook()) is not None:
        return NotebookProgress(display)
    if sys.stderr is None or not sys.stderr.isatty():
        return Notes()
    from tfaot_pkg.cli.progress import TerminalProgress

    return TerminalProgress(verbose=False)


class Notes(Silent):
    """Only what the user should read."""

    def note(self, text: str) -> None:
        PlainProgress(verbose=False).note(text)


def _display_of_notebook() -> Any:
    """IPython's function `display`, in a notebook's kernel; else None."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    return display if shell is not None and type(shell).__name__ == "ZMQInteractiveShell" else None


class NotebookProgress:
    """One output below the cell: the stages that are done with their times, and the running one."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None
        self._done: list[str] = []
        self._notes: list[str] = []

    @contextmanager
    def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
        step = _NotebookStep(self, name, total)
        step.show()
        start = time.monotonic()
        yield step
        self._done.append(f"{name} ({step.skipped or f'{time.monotonic() - start:.1f} s'})")
        self.show("")

    def note(self, text: str) -> None:
        self._notes.append(text)
        self.show("")

    def output(self, text: str) -> None: ...

    def show(self, running: str) -> None:
        line = " · ".join([*self._done, *([f"{running} …"] if running else [])])
        text = "".join(f"<div>{html.escape(each)}</div>" for each in (*self._notes, line))
        shown = {"text/html": f"<small>{text}</small>", "text/plain": "\n".join([*self._notes, line])}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


class _NotebookStep:
    def __init__(self, progress: NotebookProgress, name: str, total: float | None) -> None:
        self._progress, self._name, self._total, self._now = progress, name, total, 0.0
        self.skipped = ""

    def show(self, note: str = "") -> None:
        share = f" {self._now / self._total:.0%}" if self._total else ""
        self._progress.show(f"{self._name}{share}{f': {note}' if note else ''}")

    def advance(self, amount: float = 1, *, note: str = "") -> None:
        self._now += amount
        self.show(note)

    def phase(self, name: str) -> None:
        self.show(name)

    def skip(self, reason: str) -> None:
        self.skipped = reason
