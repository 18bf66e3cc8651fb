"""Publishing several results at a time, in threads: most of the time is that of workers and compilers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Event
from types import TracebackType

from tfaot_pkg.ground.process import kill_running
from tfaot_pkg.nightly.types import Decision

_KILL_INTERVAL = 0.2  # seconds


class Publications:
    """Calls `publish` for each decision, for `at_once` at a time; it may begin further ones. For a `with` block.

    If the block raises, running ones are killed, and those that wait are dropped.
    """

    def __init__(self, at_once: int, publish: Callable[[Decision], None]) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="publish")
        self._publish = publish
        self._futures: set[Future[None]] = set()
        self._stopped = Event()

    def begin(self, decision: Decision) -> None:
        """Have it published as soon as a thread is free. Does not wait."""
        self._futures.add(self._pool.submit(self._publish, decision))

    def check(self) -> None:
        """Raise what `publish` has raised so far."""
        # A copy, made in one step: publications begin others meanwhile.
        for one in tuple(self._futures):
            if one.done():
                self._futures.remove(one)
                one.result()

    def finish(self) -> bool:
        """Wait for all, and those that they begin. Returns whether there were any. Raises what `publish` raises."""
        waited = bool(self._futures)
        # A publication begins others before it ends, so none is missed.
        while self._futures:
            ended, _ = wait(tuple(self._futures), return_when=FIRST_COMPLETED)
            self._futures -= ended
            for one in ended:
                one.result()
        return waited

    @property
    def is_stopped(self) -> bool:
        """Whether the night ends early. How a publication then fails says nothing about its package."""
        return self._stopped.is_set()

    def pause(self, seconds: float) -> bool:
        """Wait, for a publication. Returns at once whether the night ends early."""
        return self._stopped.wait(seconds)

    @contextmanager
    def stopped_by_errors(self) -> Iterator[None]:
        """Begin no more if the block raises. For blocks in which subprocesses are killed then."""
        try:
            yield
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stop()
            # Again and again: a publication starts one process after another.
            while running := [one for one in tuple(self._futures) if not one.done()]:
                kill_running()
                wait(running, timeout=_KILL_INTERVAL)
        self._pool.shutdown()
