"""Threads that compute the calls of a loaded model together: a tfaot_team of the library's own thread pool."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any

from tfaot_pkg.errors import RunError
from tfaot_pkg.runtime.c_interface import CModel, CTeam, CThreadPool

MOST_THREADS = 256
"""The most threads that a library divides a call among."""


class Team:
    """`size` threads, of which the calling thread is one; the others wait for calls until the team is collected.

    They start at the first call of a process, and in the child of a fork again. They hold no lock of the interpreter
    while they wait or compute.
    """

    def __init__(self, table: Any, size: int) -> None:
        self.size, self._table = size, table
        self._lock = threading.Lock()
        self._lent: CTeam | None = None
        self._stop: weakref.finalize[..., Team] | None = None
        _teams.add(self)

    def reset(self) -> None:
        """Forget the threads: in the child of a fork there are none, and those of the parent may have held any lock."""
        self._lock = threading.Lock()
        if self._stop is not None:
            self._stop.detach()
        self._stop, self._lent = None, None

    def lent(self) -> Any:
        """The tfaot_team, whose threads run."""
        if self._lent is None:
            with self._lock:
                if self._lent is None:
                    self._lent = self._started()
        return ctypes.byref(self._lent)

    def _started(self) -> CTeam:
        table, pool = self._table, CThreadPool()
        # Daemons: the interpreter does not wait for them before it stops them.
        threads = [
            threading.Thread(target=table.serve_thread_pool, args=(ctypes.byref(pool),), name=f"tfaot-{i}", daemon=True)
            for i in range(1, self.size)
        ]
        self._stop = weakref.finalize(self, _stop, table, pool, threads)
        for thread in threads:
            thread.start()
        run = ctypes.cast(table.run_on_thread_pool, ctypes.c_void_p)
        return CTeam(ctypes.addressof(pool), self.size, run)


def _stop(table: Any, pool: CThreadPool, threads: list[threading.Thread]) -> None:
    table.stop_thread_pool(ctypes.byref(pool))
    for thread in threads:
        if thread.ident is not None:  # not if an earlier one could not be started
            thread.join()


_teams: weakref.WeakSet[Team] = weakref.WeakSet()


def _reset_teams() -> None:
    for team in list(_teams):
        team.reset()


os.register_at_fork(after_in_child=_reset_teams)


def team_of(table: Any, threads: int) -> Team | None:
    """A team of so many threads; None if the calling thread computes alone. Raises RunError for other numbers.

    In libraries that are too old for teams it does so in any case.
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
        raise RunError(
            f"threads must be a whole number from 1 to {MOST_THREADS}, got {threads!r}",
            hint="threads=1 computes a call on the thread that makes it, more threads share large calls",
        )
    known = table.struct_size >= CModel.run_on_thread_pool.offset + CModel.run_on_thread_pool.size
    return Team(table, threads) if known and threads > 1 else None
