"""Where builds run: threads of the coordinator, or a Dask cluster. Each build is a process of its own either way.

The standard library's executor imports no Dask. With either one, the result of a build is in the state folder before
anything is said of it, so that a lost worker costs only what was in flight.
"""

from __future__ import annotations

import os
import queue
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

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

    def close(self) -> None:
        """Stop what runs. To be called once, however the night ends."""


class LocalExecutor:
    """Builds on this machine, with the standard library only."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.description = f"{slots} at a time on this machine"
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="build")
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()

    def submit(self, request: Request) -> None:
        self._pool.submit(lambda: self._done.put((request, perform(request))))

    def next(self, timeout: float | None) -> Done | None:
        return next_of(self._done, timeout)

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
