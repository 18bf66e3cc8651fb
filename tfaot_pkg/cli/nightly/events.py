"""`nightly run --events FILE`: what happens in a night as JSON lines, for programs that watch it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfaot_pkg.ground.documents import utc_now, write
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.nightly.outcome import Attempt
from tfaot_pkg.nightly.ports import Watch
from tfaot_pkg.nightly.state import Gate
from tfaot_pkg.nightly.types import Comparison, Decision, Outcome


@dataclass(frozen=True)
class Events:
    """Writes a line for each event, then tells `then`. A line has `event`, `time` in UTC, and what it is about."""

    line: Callable[[bytes], object]
    then: Watch

    def begin(self, night: str, decisions: Sequence[Decision], known: Sequence[Outcome], *, again: bool) -> None:
        self._say("begin", night=night, tasks=len(decisions), known=len(known), again=again)
        self.then.begin(night, decisions, known, again=again)

    def stored(self, count: int) -> None:
        self._say("stored", count=count)
        self.then.stored(count)

    def building(self, count: int, where: str, running: Callable[[], Sequence[str]]) -> None:
        self._say("building", count=count, where=where)
        self.then.building(count, where, running)

    def built(self, decision: Decision, attempt: Attempt) -> None:
        self._say(
            "built", task=decision.task.id, release=decision.release, kind=attempt.kind, seconds=attempt.seconds,
            memory=attempt.memory, worker=attempt.worker, error=attempt.error,
        )  # fmt: skip
        self.then.built(decision, attempt)

    def excluded(self, worker: str, why: str) -> None:
        self._say("excluded", worker=worker, why=why)
        self.then.excluded(worker, why)

    def gate(self, gate: Gate) -> None:
        self._say("gate", withheld=gate.withheld)
        self.then.gate(gate)

    def compared(self, comparison: Comparison) -> None:
        self._say("compared", comparison=comparison)
        self.then.compared(comparison)

    def outcome(self, outcome: Outcome) -> None:
        self._say(
            "outcome", task=outcome.task, release=outcome.release, kind=outcome.kind, seconds=outcome.seconds,
            error=outcome.error, error_class=outcome.error_class,
        )  # fmt: skip
        self.then.outcome(outcome)

    def _say(self, event: str, **fields: Any) -> None:
        self.line(write({"event": event, "time": utc_now(), **fields}))


@contextmanager
def events_to(path: Path | None, then: Watch) -> Iterator[Watch]:
    """`then`, with events at the end of the file `path` (a pipe, too). Raises StorageError."""
    if path is None:
        yield then
        return
    with storage_errors(f"write {path}"):
        # Without a buffer: each line is there as soon as it happened.
        file = path.open("ab", buffering=0)
    with file:
        yield Events(file.write, then)
