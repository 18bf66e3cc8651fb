"""A night of 10,000 builds on a farm of 200 workers, some of which are broken, in virtual time.

    python -m benchmarks.nightly_farm [--tasks N] [--workers N] [--seeds N]

Everything is the product's except the builds, the cluster and the publisher: the coordinator, the executor's choice of
workers, retries, and the exclusion of workers. 5 % of the workers fail each build at once, 5 % freeze at some moment
(Dask takes five minutes to notice), 5 % leave at some moment. A build takes about five minutes. The ideal time is that
of a perfect distribution of the builds to workers that are known not to be broken, as long as they are there.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.nightly.nights import coordinator, home_of, stub_decision
from tfaot_pkg.nightly import executors
from tfaot_pkg.nightly.dask_executor import DaskExecutor
from tfaot_pkg.nightly.executors import FIRST_PAUSE, Done
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.types import Decision, Policy, Task

_MEDIAN, _SPREAD = 300.0, 0.3  # of a build, in seconds; the standard deviation of its logarithm
_BROKEN = 1.0  # seconds after which a broken worker has failed a build
_TTL = 300.0  # seconds after which a scheduler drops a worker that is silent


class Farm(DaskExecutor):
    """Workers in virtual time: `gone` says when some freeze (True) or leave (False)."""

    def __init__(self, workers: Sequence[str], broken: frozenset[str], gone: Mapping[str, tuple[float, bool]]) -> None:
        self.now = 0.0
        self._broken = broken
        self._threads = dict.fromkeys(workers, 1)
        self._running: dict[str, str] = {}
        self._waiting = []
        self._suspended = frozenset()
        self._requests: dict[str, Request] = {}
        self._frozen: set[str] = set()
        self._events: list[tuple[float, int, str, str, str]] = []
        self._count = 0
        for worker, (when, freezes) in gone.items():
            self._at(when, "freezes" if freezes else "leaves", worker)
        self.slots, self.description = len(workers), "virtual"
        self.builds = 0

    def look(self) -> None: ...

    def close(self) -> None: ...

    def next(self, timeout: float | None) -> Done | None:
        end = math.inf if timeout is None else self.now + timeout + 1e-6
        while True:
            self._fill()
            if not self._events or self._events[0][0] > end:
                assert end < math.inf, "the night never ends"
                self.now = end
                return None
            self.now, _, what, worker, task = heapq.heappop(self._events)
            if what == "freezes":
                self._frozen.add(worker)
                self._at(_TTL, "leaves", worker)
            elif what == "leaves":
                self._threads.pop(worker, None)
                for lost in [one for one, place in self._running.items() if place == worker]:
                    return self._ended(lost, worker, "infrastructure failed")
            elif worker in self._threads and worker not in self._frozen:
                return self._ended(task, worker, "infrastructure failed" if worker in self._broken else "verified")

    def _start(self, request: Request, worker: str) -> None:
        task = request.decision.task.id
        self._running[task], self._requests[task] = worker, request
        self.builds += 1
        if worker not in self._frozen:
            self._at(_BROKEN if worker in self._broken else seconds_of(task), "ends", worker, task)

    def _ended(self, task: str, worker: str, kind: str) -> Done:  # type: ignore[override]
        del self._running[task]
        self._fill()
        return self._requests[task], Attempt(kind=kind, night="n", worker=worker)  # type: ignore[arg-type]

    def _at(self, seconds: float, what: str, worker: str, task: str = "") -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, what, worker, task))


def seconds_of(task: str) -> float:
    return _MEDIAN * math.exp(random.Random(task).gauss(0.0, _SPREAD))


class _Registry:
    """A publisher that counts."""

    def __init__(self) -> None:
        self.published: Counter[str] = Counter()

    def require(self) -> None: ...

    def renew(self) -> None: ...

    def catch_up(self, results: Results, tasks: Sequence[Task]) -> dict[str, str]:
        return {}

    def publish(self, decision: Decision, results: Results) -> bool:
        self.published[decision.task.id] += 1
        return False

    def send(self, decision: Decision, results: Results) -> str:
        return ""


def ideal(tasks: Sequence[str], workers: int, gone: Sequence[float]) -> float:
    """The time in which `workers`, and others until they are gone, have done all."""
    work, low, high = sum(map(seconds_of, tasks)), 0.0, 1e9
    while high - low > 0.1:
        middle = (low + high) / 2
        enough = workers * middle + sum(min(middle, one) for one in gone) >= work
        low, high = (low, middle) if enough else (middle, high)
    return high


def night(seed: int, tasks: int, workers: int) -> tuple[float, Counter[str], Counter[str], int, int]:
    """Relative time, outcomes, publications by task, builds that were begun, workers that were excluded."""
    moments = random.Random(seed)
    names = [f"w{number}" for number in range(workers)]
    share = workers // 20
    chosen = moments.sample(names, 3 * share)
    decisions = [stub_decision(f"m{number}") for number in range(tasks)]
    ids = [one.task.id for one in decisions]
    about = sum(map(seconds_of, ids)) / workers
    gone = {name: (moments.uniform(0, about), number < share) for number, name in enumerate(chosen[share:])}
    farm = Farm(names, frozenset(chosen[:share]), gone)
    registry = _Registry()
    with tempfile.TemporaryDirectory() as folder, in_time_of(farm):
        root = Path(folder)
        made = coordinator(
            root, home_of(root), policy=Policy(), executor=lambda _: farm, publisher=registry, pause=FIRST_PAUSE
        )
        done = made.run(lambda: decisions)
        summary = done.night.summary()
        excluded = len(summary.excluded) if summary is not None else 0
    best = ideal(ids, workers - 3 * share, [when for when, _ in gone.values()])
    return farm.now / best, Counter(one.kind for one in done.outcomes), registry.published, farm.builds, excluded


@contextmanager
def in_time_of(farm: Farm) -> Iterator[None]:
    """The coordinator's clock is that of `farm`."""
    defaults: dict[str, Any] = executors.attempts.__kwdefaults__ or {}
    real = defaults["clock"]
    defaults["clock"] = lambda: farm.now
    try:
        yield
    finally:
        defaults["clock"] = real


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    for seed in range(given.seeds):
        relative, kinds, published, builds, excluded = night(seed, given.tasks, given.workers)
        twice = sum(count > 1 for count in published.values())
        counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        print(f"seed {seed}: {relative:.2f} times the ideal time; {counts}; {twice} published twice")
        print(f"  {builds:,} builds begun, {excluded} workers excluded")


if __name__ == "__main__":
    main()
