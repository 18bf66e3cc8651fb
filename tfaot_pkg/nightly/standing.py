"""What a night knows of its workers: who failed what, who is given no builds for a while, who none any more. Pure.

A broken worker ends its builds at once, so that it would get most of the night's. It is told from a broken build by
other workers: what they build, and it did not, counts against it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

SUSPENDED_AFTER = 2
"""Different builds in a row that a worker fails, before it has to wait: one may have met a moment without network."""
EXCLUDED_AFTER = 3
"""Builds that a worker failed and others ended, before it gets no more."""
_DOUBTFUL = 5
"""Failures at workers in doubt that do not count against a build: else it would try all workers of a farm."""
LONGEST_PAUSE = 1800.0
"""Seconds after which a build, or a worker, gets another try at the latest."""


def pause_after(failures: int, first: float) -> float:
    """Seconds to wait after `failures` more than one: `first` seconds after one, each time twice as long."""
    # A power of hundreds would be no float.
    return min(first * 2.0 ** min(failures, 64), LONGEST_PAUSE)


class Standing:
    """The workers of one night. `pause` is in seconds: the first wait of a worker that fails; each further one is
    twice as long, and after it the worker gets one more build. Times are those of one clock, in seconds.

    Attempts without the name of a worker count for their task alone.
    """

    def __init__(self, *, pause: float) -> None:
        self._pause = pause
        self._failures: dict[str, list[str]] = defaultdict(list)  # by task: who failed it, each time
        self._in_a_row: dict[str, set[str]] = defaultdict(set)  # by worker: what it failed since it ended something
        self._waits: dict[str, float] = {}  # by worker: until when
        self._proven: dict[str, dict[str, None]] = defaultdict(dict)  # by worker: tasks that others ended
        self._excluded: set[str] = set()

    def ended(self, task: str, worker: str, *, failed: bool, now: float) -> list[tuple[str, str]]:
        """A try at `task` ended at `worker`, by a fault of the machine if `failed`.

        Returns the workers that are excluded from now on, with the reason.
        """
        if failed:
            self._failures[task].append(worker)
            self._in_a_row[worker].add(task)
            if worker and (more := len(self._in_a_row[worker]) - SUSPENDED_AFTER) >= 0:
                self._waits[worker] = now + pause_after(more, self._pause)
            return []
        # It works, or works again: what it failed before was not its own fault, or is over.
        for known in (self._in_a_row, self._waits, self._proven):
            known.pop(worker, None)
        broken = [one for one in dict.fromkeys(self._failures[task]) if self._proves(one, task, worker)]
        return [(one, f"it failed {', '.join(self._proven[one])}, which others built") for one in broken]

    def suspended(self, workers: Collection[str], now: float) -> frozenset[str]:
        """Those of `workers` that get no builds at the time `now`; none if all would be."""
        found = {one for one in workers if one in self._excluded or self._waits.get(one, now) > now}
        return frozenset(found) if len(found) < len(workers) else frozenset()

    def changes(self, now: float) -> float | None:
        """When the next one of those that wait at the time `now` gets a build again; None if none waits."""
        waits = (when for one, when in self._waits.items() if one not in self._excluded)
        return min((when for when in waits if when > now), default=None)

    def failed_at(self, task: str) -> frozenset[str]:
        """The workers that failed `task`."""
        return frozenset(self._failures[task]) - {""}

    def counted(self, task: str, workers: Collection[str]) -> int:
        """How many of the failures of `task` count against it: those at workers that are not in doubt themselves.

        Also those at the others, beyond a few; and all of them if each of `workers`, those that there are, is in doubt
        or has failed it. Then it may be the build that is to blame, and it must not go on for ever.
        """
        doubted, failures = self._excluded | self._waits.keys(), self._failures[task]
        if (doubted | set(failures)).issuperset(workers):
            return len(failures)
        return max(len(failures) - _DOUBTFUL, sum(one not in doubted for one in failures))

    def _proves(self, worker: str, task: str, other: str) -> bool:
        """Whether that `other` ended `task` shows once and for all that `worker` is broken."""
        if worker in ("", other) or worker in self._excluded:
            return False
        self._proven[worker][task] = None
        if len(self._proven[worker]) < EXCLUDED_AFTER:
            return False
        self._excluded.add(worker)
        return True
