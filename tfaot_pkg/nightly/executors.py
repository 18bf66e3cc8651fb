"""Where builds run: threads of the coordinator, or a Dask cluster. Each build is a process of its own either way.

`LocalExecutor` imports no Dask. With either, a build's result is in the state folder before it is reported, so a lost
worker loses only the builds that were running.
"""

from __future__ import annotations

import heapq
import os
import queue
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.process import kill_running
from tfaot_pkg.nightly.hosts import BuildHosts
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.standing import Standing, pause_after
from tfaot_pkg.nightly.supervise import perform

_SHARE = 0.9  # of the machine's memory; the coordinator and the system need the rest
Done = tuple[Request, Attempt]


class Executor(Protocol):
    """Runs requests, as many at once as it has slots."""

    slots: int
    description: str

    def submit(self, request: Request, avoid: Collection[str] = ()) -> None:
        """Have `request` performed as soon as a slot is free, by none of the workers `avoid`. Does not wait.

        By any worker, if there is no other one.
        """

    def suspend(self, workers: Collection[str]) -> None:
        """From now on give builds to none of `workers`, unless there is no other one."""

    def workers(self) -> Collection[str]:
        """The workers that there are, by the names that attempts have; none if there is one place only."""

    def refused(self) -> Mapping[str, str]:
        """Workers that get no builds in this night, whatever they do, with the reason."""

    def next(self, timeout: float | None) -> Done | None:
        """A request that has ended; None if none ends within `timeout` seconds."""

    def running(self) -> Sequence[str]:
        """The tasks that are being built, the oldest first."""

    def close(self) -> None:
        """Kill running builds. Called once, however the night ends."""


class LocalExecutor:
    """Builds on this machine, with the standard library only."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.description = f"{slots} at a time on this machine"
        self._hosts = BuildHosts()
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="build")
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        # A dict instead of a set, because it keeps the order: the oldest build first.
        self._running: dict[str, None] = {}

    def submit(self, request: Request, avoid: Collection[str] = ()) -> None:
        self._pool.submit(self._perform, request)

    def suspend(self, workers: Collection[str]) -> None:
        pass  # there is one place

    def workers(self) -> Collection[str]:
        return ()

    def refused(self) -> Mapping[str, str]:
        return {}

    def next(self, timeout: float | None) -> Done | None:
        return next_of(self._done, timeout)

    def running(self) -> Sequence[str]:
        return list(self._running)

    def _perform(self, request: Request) -> None:
        self._running[request.decision.task.id] = None
        try:
            attempt = perform(request, self._hosts)
        except Exception as error:  # noqa: BLE001 (any error: the night waits for an attempt)
            attempt = lost(request, error)
        # Before the result is passed on: an ended build must not be displayed as running.
        del self._running[request.decision.task.id]
        self._done.put((request, attempt))

    def close(self) -> None:
        # First no new builds: a thread whose build is killed would start the next one.
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._running:  # else it would kill what is being published
            kill_running()
        self._pool.shutdown()
        self._hosts.end()


def slots_here(memory: int) -> int:
    """How many builds of `memory` bytes each fit onto this machine: at most one per processor that we may use."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)), int(_SHARE * total) // memory))


def next_of(done: queue.SimpleQueue[Done], timeout: float | None) -> Done | None:
    """The next item of `done`; None if there is none within `timeout` seconds."""
    try:
        return done.get(timeout=timeout)
    except queue.Empty:
        return None


def lost(request: Request, error: BaseException) -> Attempt:
    """The attempt at `request` if its executor failed."""
    words = str(error) if isinstance(error, TfaotError) else f"{type(error).__name__}: {error}"
    return Attempt(
        kind="infrastructure failed",
        night=request.night,
        error=f"the worker was lost: {words}",
        error_class="lost worker",
    )


FIRST_PAUSE = 5.0
"""Seconds before the second try; each further one waits twice as long."""


def attempts(
    executor: Executor,
    requests: Sequence[Request],
    *,
    retries: int,
    pause: float = FIRST_PAUSE,
    excluded: Callable[[str, str], None],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[Request, Attempt, int]]:
    """Perform all `requests`; yield each with its last attempt and the number of tries, as they end.

    After a fault of a machine another one tries, if there is one. `excluded` gets each worker that gets no further
    builds, because it failed what others built or is refused, with the reason. `clock` gives seconds.
    """
    named: set[str] = set()
    standing, tries = Standing(pause=pause), dict.fromkeys((one.decision.task.id for one in requests), 0)
    # A pause occupies no slot. The name orders equal times, because requests cannot be compared.
    waiting: list[tuple[float, str, Request]] = []
    for request in requests:
        executor.submit(request)
    left = len(requests)
    while left:
        now = clock()
        # Also when a worker gets builds again: all others may be gone, or be busy for long.
        due = [one for one in (waiting[0][0] if waiting else None, standing.changes(now)) if one is not None]
        ended = executor.next(max(0.0, min(due) - now) if due else None)
        now = clock()
        workers = executor.workers()
        for worker, why in executor.refused().items():
            if worker not in named:
                excluded(worker, why)
        named.update(executor.refused())
        executor.suspend(standing.suspended(workers, now))
        while waiting and waiting[0][0] <= now:
            request = heapq.heappop(waiting)[2]
            executor.submit(request, standing.failed_at(request.decision.task.id))
        if ended is None:
            continue
        request, attempt = ended
        name = request.decision.task.id
        tries[name] += 1
        for worker, why in standing.ended(name, attempt.worker, failed=not attempt.is_final, now=now):
            excluded(worker, why)
        if not attempt.is_final and standing.counted(name, workers) <= retries:
            heapq.heappush(waiting, (now + pause_after(tries[name] - 1, pause), name, request))
            continue
        left -= 1
        yield request, attempt, tries[name]
