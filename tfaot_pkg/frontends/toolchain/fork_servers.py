"""Fork servers of toolchains' workers: TensorFlow is imported once, for all packages that a process looks at."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from threading import Lock

from tfaot_pkg.ground.sandbox import ForkServer, may_fork
from tfaot_pkg.ground.storage import keep_newest, storage_errors
from tfaot_pkg.ground.temporary import temporary_folder

START_TIMEOUT = 120.0
"""Seconds in which a worker, or a server, is there: TensorFlow takes some to import (decision 001), and longer from a
slow disk.
"""
_LOG, _KEPT_LOGS = "fork-server", 50
_MOST_KEPT = 2  # of 165 MB each
_PRELOAD = "preloading:preload"


class ForkServers:
    """Servers by interpreter and environment variables, each lent to one worker at a time; they end with the block.

    Where a machine or an environment has none, workers are started one by one. Thread-safe.
    """

    def __init__(self, *, logs: Path) -> None:
        self._logs = logs
        self._stack = ExitStack()
        self._lock = Lock()
        self._idle: dict[object, list[ForkServer]] = {}
        self._without: set[object] = set()
        self._numbers = count()
        self.started: list[ForkServer] = []
        # The kernel ends a server with the thread that started it, and threads of publishers come and go.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="fork-servers")
        self._folder: Path | None = None

    def __enter__(self) -> ForkServers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._starter.shutdown()
        keep_newest(self._logs, f"{_LOG}-*.log", _KEPT_LOGS)

    @property
    def folder(self) -> Path:
        """Where the folders of all workers are. Raises StorageError."""
        with self._lock:
            if self._folder is None:
                with storage_errors("make a temporary folder"):
                    self._folder = self._stack.enter_context(temporary_folder(prefix="tfaot-forked-"))
            return self._folder

    @contextmanager
    def lent(self, python: Path, program: Path, env: Mapping[str, str]) -> Iterator[ForkServer | None]:
        """A server for one process at a time while the block runs; None if there can be none."""
        key = _key(python, program, env)
        server = self._taken(
            key, lambda log: ForkServer(python, program, _PRELOAD, folder=self.folder, log=log, env=env)
        )
        try:
            yield server
        finally:
            if server is not None and not server.ended:
                with self._lock:
                    self._idle.setdefault(key, []).append(server)

    def _taken(self, key: object, make: Callable[[Path], ForkServer]) -> ForkServer | None:
        with self._lock:
            while idle := self._idle.get(key):
                if not (server := idle.pop()).ended:
                    return server
            if key in self._without or not may_fork():
                return None
        with _new_log(self._logs, next(self._numbers)) as log:
            server = self._starter.submit(make, log).result()
        self._stack.callback(server.end)
        if server.is_ready(START_TIMEOUT):
            self.started.append(server)
            return server
        server.end()
        with self._lock:
            self._without.add(key)
        return None


class KeptServers:
    """Servers by interpreter and environment variables, started by one process and used by the builds that it forks,
    one build at a time: `lent` never starts one. All are in the folder `folder`, and end with the block.

    At most _MOST_KEPT are kept: those that were used last.
    """

    def __init__(self, folder: Path, *, logs: Path) -> None:
        self.folder = folder
        self._logs = logs
        # The last used one is the last.
        self._kept: dict[object, ForkServer] = {}
        self._without: set[object] = set()
        self._numbers = count()

    def __enter__(self) -> KeptServers:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._kept.values():
            server.end()
        keep_newest(self._logs, f"{_LOG}-*.log", _KEPT_LOGS)

    def warm(self, python: Path, program: Path, env: Mapping[str, str]) -> None:
        """Have a server that waits. Raises StorageError, and SandboxError."""
        key = _key(python, program, env)
        if key in self._without or not may_fork():
            return
        server = self._kept.pop(key, None)
        # One that a build left with something at work must serve no other.
        if server is not None and not server.is_idle:
            server.end()
            server = None
        if server is None:
            while len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept))).end()
            with _new_log(self._logs, next(self._numbers)) as log:
                server = ForkServer(python, program, _PRELOAD, folder=self.folder, log=log, env=env)
            if not server.is_ready(START_TIMEOUT):
                server.end()
                self._without.add(key)
                return
        self._kept[key] = server

    @contextmanager
    def lent(self, python: Path, program: Path, env: Mapping[str, str]) -> Iterator[ForkServer | None]:
        """As `ForkServers.lent`."""
        key = _key(python, program, env)
        server = self._kept.pop(key, None)
        try:
            yield server if server is not None and not server.ended else None
        finally:
            if server is not None and not server.ended:
                self._kept[key] = server


def _key(python: Path, program: Path, env: Mapping[str, str]) -> object:
    return (python, program, *sorted(env.items()))


@contextmanager
def _new_log(folder: Path, number: int) -> Iterator[Path]:
    """The path of a log for a server that the block starts."""
    log = folder / f"{_LOG}-{os.getpid()}-{number}.log"
    with storage_errors(f"write {log}"):
        log.parent.mkdir(parents=True, exist_ok=True)
        yield log
