"""Progress for people: bars on a terminal, plain lines elsewhere.

Always on standard error: standard output is for results.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tfaot_pkg.progress import Progress, Step

_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal does not show but obeys: but for ends of lines and tabs."""


def printable(text: str) -> str:
    """`text`, which a model or a server may have written, without power over the terminal."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class PlainProgress:
    """One line when a stage begins, one when it ends: for logs."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose

    @contextmanager
    def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
        what = unit.removesuffix("s") if total == 1 else unit
        size = f" ({total:,.12g} {what})".replace(" )", ")") if total else ""
        self.note(f"{name}{size} ...")
        step = _PlainStep()
        start = time.monotonic()
        yield step
        self.note(f"{name}: {step.skipped or f'done in {time.monotonic() - start:.1f} s'}")

    def note(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)

    def output(self, text: str) -> None:
        if self._verbose and text.strip():
            self.note(text.rstrip())


class _PlainStep:
    skipped = ""

    def advance(self, amount: float = 1, *, note: str = "") -> None: ...

    def skip(self, reason: str) -> None:
        self.skipped = reason


def make_progress(*, verbose: bool) -> Progress:
    """Bars where standard error is a terminal, else lines."""
    if not sys.stderr.isatty():
        return PlainProgress(verbose=verbose)
    from tfaot_pkg.cli.bars import TerminalProgress

    return TerminalProgress(verbose=verbose)
