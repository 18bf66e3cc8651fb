"""Progress of long work: what a stage reports, without knowing who looks.

`Progress` is the port; the command line passes one that draws bars on a terminal or prints plain lines
(see cli/display.py), tests and libraries pass `Silent`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Step(Protocol):
    """One running stage."""

    def advance(self, amount: float = 1, *, note: str = "") -> None:
        """`amount` more units are done; `note` says which."""

    def skip(self, reason: str) -> None:
        """The stage has nothing to do, for `reason` ("cached")."""


class Progress(Protocol):
    """Where stages report to."""

    def step(self, name: str, *, total: float | None = None, unit: str = "") -> AbstractContextManager[Step]:
        """Open a stage: `total` units of work, or None where that is not known beforehand."""

    def note(self, text: str) -> None:
        """A line worth reading at once."""

    def output(self, text: str) -> None:
        """What another program printed: shown with `-v` only."""


class _SilentStep:
    def advance(self, amount: float = 1, *, note: str = "") -> None: ...

    def skip(self, reason: str) -> None: ...


class Silent:
    """Reports nothing."""

    @contextmanager
    def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
        yield _SilentStep()

    def note(self, text: str) -> None: ...

    def output(self, text: str) -> None: ...
