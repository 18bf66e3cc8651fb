"""The ports of a night's coordinator (run.py): who publishes, who compares, and who shows its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tfaot_pkg.nightly.history import History
from tfaot_pkg.nightly.outcome import Attempt
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.state import Gate
from tfaot_pkg.nightly.types import Comparison, Decision, Outcome, Task


class PublisherPort(Protocol):
    """The publisher (publisher.py)."""

    def require(self) -> None:
        """Raise the error with which publishing would fail without keys or access."""

    def renew(self) -> None:
        """Sign expiring metadata of the registry again."""

    def catch_up(self, results: Results, tasks: Sequence[Task]) -> Mapping[str, str]:
        """Send remotes what earlier nights could not. Returns the tasks that still miss, with the reason.

        `tasks` are those of the definition; others are ignored.
        """

    def publish(self, decision: Decision, results: Results) -> bool:
        """Publish the verified result of `decision`, unless done. Returns whether `send` is to send it to remotes."""

    def send(self, decision: Decision, results: Results) -> str:
        """Send the published package of `decision` to the remotes. Returns why not all have it, or ""."""


class ComparerPort(Protocol):
    """Compares builds with what was published before them (compare.py). Methods raise TfaotError."""

    def exact(self, decision: Decision, results: Results) -> Comparison | None:
        """All except speeds; None if nothing was published before."""

    def timed(self, comparison: Comparison, decision: Decision, results: Results) -> Comparison:
        """`comparison` with speeds, or the reason why there are none. Nothing else is at work here meanwhile."""

    def due(self, decisions: Sequence[Decision], history: History) -> Sequence[Decision]:
        """Of those that are up to date, those that have to be timed again."""


class Watch(Protocol):
    """Displays the progress of a night."""

    def begin(self, night: str, decisions: Sequence[Decision], known: Sequence[Outcome], *, again: bool) -> None:
        """With `again`, the night was cut off, and `known` are its outcomes so far."""

    def stored(self, count: int) -> None:
        """`count` tasks need no build: an earlier build verified them, or failed in this night."""

    def building(self, count: int, where: str, running: Callable[[], Sequence[str]]) -> None:
        """`count` tasks are to be built now; `running` gives those that are being built."""

    def built(self, decision: Decision, attempt: Attempt) -> None:
        """A build ended; a verified result is not published yet."""

    def excluded(self, worker: str, why: str) -> None:
        """`worker` gets no more builds in this night."""

    def gate(self, gate: Gate) -> None:
        """All builds have ended."""

    def compared(self, comparison: Comparison) -> None:
        """A package was timed, in turns with the one before it."""

    def outcome(self, outcome: Outcome) -> None:
        """The outcome of a task is recorded."""
