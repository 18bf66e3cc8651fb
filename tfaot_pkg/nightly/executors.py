"""Where builds run: threads of the coordinator, or a Dask cluster. Each build is a process of its own either way.

The standard library's executor imports no Dask. With either one, the result of a build is in the state folder before
anything is said of it, so that a lost worker costs only what was in flight.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.nightly.attempt import Attempt, Request
from tfaot_pkg.nightly.supervise import perform, stop_all

_SHARE = 0.9  # of the memory: the coordinator and the system need the rest
Done = tuple[Request, Attempt]


class Executor(Protocol):
    """Runs requests, as many at once as it has slots."""

    slots: int
    description: str

    def submit(self, request: Request) -> None:
        """Have `request` performed as soon as a slot is free. Does not wait."""

    def next(self, timeout: float | None) -> Done | None:
        """One that has ended; None where none has within `timeout` seconds."""

    def running(self) -> Sequence[str]:
        """The tasks that are at work, the oldest first."""

    def close(self) -> None:
        """Stop what runs. To be called once, however the night ends."""


class LocalExecutor:
    """Builds on this machine, with the standard library only."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.description = f"{slots} at a time on this machine"
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="build")
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._running: dict[str, None] = {}

    def submit(self, request: Request) -> None:
        self._pool.submit(self._perform, request)

    def next(self, timeout: float | None) -> Done | None:
        return next_of(self._done, timeout)

    def running(self) -> Sequence[str]:
        return list(self._running)

    def _perform(self, request: Request) -> None:
        self._running[request.decision.task.id] = None
        try:
            attempt = perform(request)
        except Exception as error:  # noqa: BLE001 (whatever it is: the night waits for an answer)
            attempt = lost(request, error)
        del self._running[request.decision.task.id]
        self._done.put((request, attempt))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        stop_all()
        self._pool.shutdown()


def slots_here(memory: int) -> int:
    """How many builds of `memory` bytes each fit onto this machine: at most one per processor that is ours."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)), int(_SHARE * total) // memory))


def next_of(done: queue.SimpleQueue[Done], timeout: float | None) -> Done | None:
    """The next item of `done`; None where none comes within `timeout` seconds."""
    try:
        return done.get(timeout=timeout)
    except queue.Empty:
        return None


def lost(request: Request, error: BaseException) -> Attempt:
    """What became of `request` where whoever performed it failed."""
    words = str(error) if isinstance(error, TfaotError) else f"{type(error).__name__}: {error}"
    return Attempt(
        kind="infrastructure failed",
        night=request.night,
        error=f"the worker was lost: {words}",
        error_class="lost worker",
    )
