"""Publishing several results at a time, in threads: most of the time is that of workers and compilers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType

from tfaot_pkg.ground.process import kill_running
from tfaot_pkg.nightly.types import Decision


class Publications:
    """Calls `publish` for each decision, for `at_once` at a time; it may begin further ones. For a `with` block.

    If the block raises, running ones are killed, and those that wait are dropped.
    """

    def __init__(self, at_once: int, publish: Callable[[Decision], None]) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="publish")
        self._publish = publish
        self._futures: set[Future[None]] = set()

    def begin(self, decision: Decision) -> None:
        """Have it published as soon as a thread is free. Does not wait."""
        self._futures.add(self._pool.submit(self._publish, decision))

    def check(self) -> None:
        """Raise what `publish` has raised so far."""
        for one in [one for one in self._futures if one.done()]:
            self._futures.remove(one)
            one.result()

    def finish(self) -> None:
        """Wait for all, and those that they begin. Raises what `publish` raises."""
        # A publication begins others before it ends, so none is missed.
        while self._futures:
            ended, _ = wait(tuple(self._futures), return_when=FIRST_COMPLETED)
            self._futures -= ended
            for one in ended:
                one.result()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            kill_running()
        self._pool.shutdown()
