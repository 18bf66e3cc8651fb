"""Progress of stages, independent of its display.

`Progress` is the port. The command line passes one that draws bars on a terminal (cli/progress.py), logs use
`PlainProgress`, tests and libraries `Silent`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from tfaot_pkg.ground.wording import say


class Step(Protocol):
    """One running stage."""

    def advance(self, amount: float = 1, *, note: str = "") -> None:
        """Report `amount` more units as done; `note` says which."""

    def phase(self, name: str) -> None:
        """Report that a part of a long stage begins, as one unit: a line in logs."""

    def skip(self, reason: str) -> None:
        """Report that the stage has nothing to do, for `reason` ("cached")."""


class Progress(Protocol):
    """The receiver of stages' reports."""

    def step(self, name: str, *, total: float | None = None, unit: str = "") -> AbstractContextManager[Step]:
        """Start a stage of `total` units of work, or None if that is not known."""

    def note(self, text: str) -> None:
        """A line that the user should read at once."""

    def output(self, text: str) -> None:
        """Output of another program: shown with `-v` only."""


class _SilentStep:
    def advance(self, amount: float = 1, *, note: str = "") -> None: ...

    def phase(self, name: str) -> None: ...

    def skip(self, reason: str) -> None: ...


class Silent:
    """Reports nothing."""

    @contextmanager
    def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
        yield _SilentStep()

    def note(self, text: str) -> None: ...

    def output(self, text: str) -> None: ...


class PlainProgress:
    """One line when a stage begins, one when it ends: for logs."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose

    @contextmanager
    def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
        what = unit.removesuffix("s") if total == 1 else unit
        size = f" ({total:,.12g} {what})".replace(" )", ")") if total else ""
        self.note(f"{name}{size} ...")
        step = _PlainStep(name)
        start = time.monotonic()
        yield step
        self.note(f"{name}: {step.skipped or f'done in {time.monotonic() - start:.1f} s'}")

    def note(self, text: str) -> None:
        say(text)

    def output(self, text: str) -> None:
        if self._verbose and text.strip():
            self.note(text.rstrip())


class _PlainStep:
    def __init__(self, name: str) -> None:
        self._name = name
        self.skipped = ""

    def phase(self, name: str) -> None:
        say(f"{self._name}: {name} ...")

    def advance(self, amount: float = 1, *, note: str = "") -> None: ...

    def skip(self, reason: str) -> None:
        self.skipped = reason
