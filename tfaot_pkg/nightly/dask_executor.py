"""Builds on a Dask cluster: one that is made on this machine, or one that runs already.

Workers see the state folder and the cache at the same paths as the coordinator: results do not travel through Dask.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import queue
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import dask
import distributed

from tfaot_pkg.errors import NetworkError
from tfaot_pkg.nightly.executors import Done, lost, next_of
from tfaot_pkg.nightly.hosts import BuildHosts
from tfaot_pkg.nightly.outcome import Attempt, Request, builder
from tfaot_pkg.nightly.supervise import perform
from tfaot_pkg.nightly.types import Policy

_distributed: Any = distributed  # it has few types
# With these settings the coordinator needs 7 to 12 ms of processor time per task (benchmarks/nightly_scaling.py).
_SETTINGS = {
    "distributed.scheduler.allowed-failures": 0,  # a lost worker's task comes back to us: `attempts` counts its tries
    # Builds take minutes: Dask's checks, many per second, would be most of the coordinator's work meanwhile.
    "distributed.admin.tick.interval": "1 s",
    "distributed.admin.tick.limit": "1 minute",
    "distributed.admin.system-monitor.interval": "5 s",
    "distributed.worker.memory.monitor-interval": "1 s",
    "distributed.worker.profile.enabled": False,
    "distributed.worker.daemon": False,  # daemonic processes may not have children, which builds have
    "distributed.logging.distributed": "critical",  # its findings become outcomes, and are reported as such
}
_CONNECT_TIMEOUT = 30.0  # seconds
_LOOK_INTERVAL = 2.0  # seconds, between looks at which workers there are


@cache
def _hosts() -> BuildHosts:
    """Those of a worker; they end with its process, or some minutes after its last build."""
    return BuildHosts()


def perform_here(request: Request) -> Attempt:
    """Perform the request in a worker; an attempt that says so if this machine does not see the state folder."""
    if request.state.is_dir():
        return perform(request, _hosts())
    error = f"there is no {request.state} on this worker: Dask's workers need it, those of `--results` need none"
    return Attempt(
        kind="infrastructure failed",
        night=request.night,
        error=error,
        error_class="no common folder",
        builder=builder(),
    )


class DaskExecutor:
    """Give one of `slots` (a cluster is made on this machine), `scheduler` (its address) or `scheduler_file`.

    `memory` is what one worker of our own cluster may use, in bytes, beside the build that it started; `timeout`, in
    seconds, is for connecting. Constructor and methods raise NetworkError if the scheduler does not answer, or has had
    no worker for `worker_wait` seconds; `note` gets a message when builds wait for one.
    """

    def __init__(
        self,
        *,
        slots: int = 0,
        memory: int = 0,
        scratch: Path,
        scheduler: str = "",
        scheduler_file: Path | None = None,
        timeout: float = _CONNECT_TIMEOUT,
        worker_wait: float = Policy().worker_wait,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._futures: dict[str, Any] = {}
        self._running: dict[str, str] = {}  # by task: its worker
        self._waiting: list[tuple[Request, frozenset[str]]] = []  # with the workers to avoid
        self._threads: dict[str, int] = {}  # by worker
        self._suspended: frozenset[str] = frozenset()
        self._tries = 0
        self._worker_wait, self._note = worker_wait, note
        self._alone_since: float | None = None  # no worker since then
        self._cluster: Any = None
        with dask.config.set(_SETTINGS):
            if slots:
                self._cluster = _cluster_here(slots, memory, scratch)
                self._client = _distributed.Client(self._cluster)
            else:
                self._client = _connected(scheduler, scheduler_file, timeout)
        self._address = self._client.scheduler.address
        self.look()
        self.slots = max(1, sum(self._threads.values()))
        at_once = f"{self.slots} at a time" if slots or self._threads else "as soon as there are workers,"
        self.description = f"{at_once} on Dask, {self._address}"
        if self._client.dashboard_link:
            self.description += f"; dashboard: {self._client.dashboard_link}"

    def submit(self, request: Request, avoid: Collection[str] = ()) -> None:
        self._waiting.append((request, frozenset(avoid)))
        self._fill()

    def suspend(self, workers: Collection[str]) -> None:
        self._suspended = frozenset(workers)

    def workers(self) -> Collection[str]:
        return self._threads.keys()

    def refused(self) -> Mapping[str, str]:
        return {}

    def next(self, timeout: float | None) -> Done | None:
        end = time.monotonic() + timeout if timeout is not None else float("inf")
        while True:
            ended = next_of(self._done, max(0.0, min(_LOOK_INTERVAL, end - time.monotonic())))
            # First: without its scheduler all futures fail, which would count as lost workers.
            if self._client.status in ("closing", "closed"):
                raise self._scheduler_lost("it was lost")
            if ended is not None:
                del self._running[ended[0].decision.task.id]
            if self._waiting or self._running:
                self.look()  # workers come and go
                self._fill()
            if ended is not None or time.monotonic() >= end:
                return ended

    def running(self) -> Sequence[str]:
        return list(self._running)

    def close(self) -> None:
        for future in list(self._futures.values()):  # a copy: futures that end remove themselves
            future.cancel()
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()

    def look(self) -> None:
        """Learn which workers there are. Raises NetworkError."""
        try:
            self._threads = dict(self._client.nthreads())
        except (OSError, asyncio.TimeoutError) as error:
            raise self._scheduler_lost(str(error)) from error
        self._require_workers(len(self._threads))
        # A build that its worker had not begun would wait for it for ever.
        for task, future in list(self._futures.items()):  # a copy: futures that end remove themselves
            if self._running[task] not in self._threads:
                future.cancel()

    def _require_workers(self, workers: int) -> None:
        """Raise NetworkError if there has been no worker for too long."""
        if workers:
            self._alone_since = None
            return
        if self._alone_since is None:
            self._alone_since = time.monotonic()
            self._note(f"the Dask scheduler {self._address} has no worker: waiting for one for {self._worker_wait:g} s")
        if time.monotonic() - self._alone_since >= self._worker_wait:
            raise NetworkError(
                f"the Dask scheduler {self._address} has had no worker for {self._worker_wait:g} s",
                hint="start workers, then run the same command: what was built is kept (policy.worker_wait: the limit)",
            )

    def _scheduler_lost(self, why: str) -> NetworkError:
        return NetworkError(
            f"the Dask scheduler {self._address} does not answer any more: {why}",
            hint="start it again, then the same command: what was built is kept",
        )

    def _fill(self) -> None:
        """Give builds to workers that are free: those that wait at a worker would be lost with it. Workers to avoid
        get one only if there is no other sound one.
        """
        busy, sound = Counter(self._running.values()), self._threads.keys() - self._suspended
        # Without suspended ones: they stay free, and each call would look at all that waits (a night of 10,000).
        free = [one for one in self._threads if one in sound for _ in range(self._threads[one] - busy[one])]
        left = []
        for place, (request, avoid) in enumerate(self._waiting):
            if not free:
                left += self._waiting[place:]
                break
            allowed = sound - avoid or sound
            worker = next((one for one in free if one in allowed), None)
            if worker is None:
                left.append((request, avoid))
            else:
                free.remove(worker)
                self._start(request, worker)
        self._waiting = left

    def _start(self, request: Request, worker: str) -> None:
        task = request.decision.task.id
        self._running[task] = worker
        self._tries += 1
        name = f"{task}-{request.night}-{self._tries}"  # unique: Dask keeps results by name
        try:
            future = self._client.submit(perform_here, request, key=name, pure=False, workers=[worker])
        except Exception as error:  # noqa: BLE001 (any error: Dask did not take the task)
            self._done.put((request, replace(lost(request, error), worker=worker)))
            return
        # Kept, because Dask cancels a task when its last future is garbage-collected.
        self._futures[task] = future
        future.add_done_callback(lambda ended: self._ended(request, worker, ended))

    def _ended(self, request: Request, worker: str, future: Any) -> None:
        try:
            # Dask calls this in a thread of its own: the queue passes the attempt to the coordinator's.
            attempt: Attempt = future.result()
        except BaseException as error:  # noqa: BLE001 (KilledWorker, CancelledError, lost connections)
            attempt = lost(request, error)
        self._futures.pop(request.decision.task.id, None)
        self._done.put((request, replace(attempt, worker=worker)))


def _cluster_here(slots: int, memory: int, scratch: Path) -> Any:
    try:
        return _distributed.LocalCluster(
            n_workers=slots,
            # One build per worker: the loss of a worker costs one build.
            threads_per_worker=1,
            memory_limit=memory or "auto",
            local_directory=str(scratch),
            # The dashboard asks for no password, so it is for this machine only; 0 is any free port.
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            security=True,  # TLS: else any user of this machine could have the scheduler run code as us
        )
    except Exception as error:  # its processes may fail to start with any exception
        raise NetworkError(
            f"no Dask cluster could be started on this machine: {type(error).__name__}: {error}",
            hint="the same command continues the night; --no-dask does so without a cluster",
        ) from error


def _connected(scheduler: str, scheduler_file: Path | None, timeout: float) -> Any:
    try:
        if scheduler_file is not None:
            _wait_for(scheduler_file, timeout)
            return _distributed.Client(scheduler_file=str(scheduler_file), timeout=timeout)
        return _distributed.Client(scheduler, timeout=timeout)
    except (OSError, ValueError) as error:
        raise NetworkError(
            f"the Dask scheduler {scheduler_file or scheduler} does not answer: {error}",
            hint="start one (`dask scheduler`), or leave this option out",
        ) from error


def _wait_for(file: Path, timeout: float) -> None:
    """Wait for the file of a scheduler that was just started; Dask itself would wait forever."""
    end = time.monotonic() + timeout
    while not file.exists():
        if time.monotonic() > end:
            raise FileNotFoundError(errno.ENOENT, f"no such file after {timeout:g} s", str(file))
        time.sleep(0.1)
