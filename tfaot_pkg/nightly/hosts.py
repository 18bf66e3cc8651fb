"""Hosts of builds: processes that have their imports behind them and fork each build (build_task.py), kept in between.

Time and memory of a build are watched from here, because it may hang. A host is killed, with all that it started, if
its build exceeds a limit or crashes: the next build gets a new one.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Literal

from tfaot_pkg.ground import process
from tfaot_pkg.ground.process_tree import memory_of
from tfaot_pkg.nightly.build_task import LENGTH, Order

_CODE = Path(__file__).resolve().parents[2]
_PARTING = 10.0  # seconds in which an idle host ends by itself
_FIRST_LOOK, _LAST_LOOK = 0.1, 0.5  # seconds between looks at a build's memory: at first, and in the long run

Limit = Literal["", "time", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a build ended: its exit code, the limit that it exceeded ("": none), and its peak memory in bytes."""

    code: int
    limit: Limit
    memory: int


class BuildHosts:
    """Hosts, each for one build at a time; they end with the block, or with this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[_Host] = []
        # The kernel ends a host with the thread that started it, and threads of executors come and go.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="build-hosts")

    def __enter__(self) -> BuildHosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End all hosts; no build may run. May be called several times."""
        for host in self._idle:
            host.dismiss()
        while self._idle:
            self._idle.pop().end(_PARTING)
        self._starter.shutdown()

    def run(self, order: Order, *, env: Mapping[str, str], timeout: float, memory: int) -> Ended:
        """Build to the end. A new host has the variables `env`, and prints to the build's log.

        The build is killed with all its descendants if it takes more than `timeout` seconds, if they use more than
        `memory` bytes together, and on an exception. Raises OSError if no host can be started.
        """
        host = self._taken() or self._started(order, env)
        try:
            ended = host.build(order, timeout, memory)
            if ended is None:  # it has ended, as hosts do that wait for long, or whose code was changed
                host.end()
                host = self._started(order, env)
                ended = host.build(order, timeout, memory) or Ended(code=host.code, limit="", memory=0)
        except BaseException:
            host.end()
            raise
        # After a crash, something of the build may still be at work.
        if ended.limit or ended.code < 0 or host.ended:
            host.end()
        else:
            with self._lock:
                self._idle.append(host)
        return ended

    def _taken(self) -> _Host | None:
        with self._lock:
            while self._idle:
                if not (host := self._idle.pop()).ended:
                    return host
                host.end()
        return None

    def _started(self, order: Order, env: Mapping[str, str]) -> _Host:
        return self._starter.submit(_Host, Path(order.log), env).result()


class _Host:
    """One host. Raises OSError if it cannot be started."""

    def __init__(self, log: Path, env: Mapping[str, str]) -> None:
        self._control, given = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with log.open("ab") as output:
                self._process = process.start(
                    [sys.executable, "-m", "tfaot_pkg.nightly.build_task", str(given.fileno()), str(os.getpid())],
                    # Not the coordinator's folder, which may be that of the specs: with -m, Python would import modules
                    # of their authors.
                    cwd=_CODE, env=env,
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=[given.fileno()],
                )  # fmt: skip
        except BaseException:
            self._control.close()
            raise
        finally:
            given.close()

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def code(self) -> int:
        """Its exit code, when it has ended."""
        return self._process.wait()

    def dismiss(self) -> None:
        """Let it remove its files and end, while nothing is at work in it."""
        self._control.close()

    def end(self, patience: float = 0.0) -> None:
        """Kill it with all that it started, unless it ends within `patience` seconds. May be called several times."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        process.end(self._process)
        self._control.close()

    def build(self, order: Order, timeout: float, memory: int) -> Ended | None:
        """As `BuildHosts.run`; None if it ended by itself without beginning."""
        deadline, interval, most = time.monotonic() + timeout, _FIRST_LOOK, 0
        begun: int | None = None  # what host and servers have for themselves, which is not the build's
        limit: Limit = ""
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended: no answer comes, either
            self._control.send(json.dumps(asdict(order)).encode())
        while not limit:
            if select.select([self._control], [], [], interval)[0]:
                said = _said(self._control)
                if not said:
                    break
                word, number = said.split()
                if word == b"ended":
                    return Ended(code=int(number), limit="", memory=most)
                begun, interval = int(number), _FIRST_LOOK
            if begun is not None:
                most = max(most, memory_of(self._process.pid) - begun)
            if most > memory:
                limit = "memory"
            elif time.monotonic() > deadline:
                limit = "time"
            # Short intervals first, because a program may fill the memory at once; later, looking should cost little.
            interval = min(interval * 1.5, _LAST_LOOK, max(0.0, deadline - time.monotonic()))
        if limit:
            self.end()
            return Ended(code=-signal.SIGKILL, limit=limit, memory=most)
        if self.code == os.EX_OK and begun is None:
            return None
        return Ended(code=self.code, limit="", memory=most)


def _said(control: socket.socket) -> bytes:
    try:
        return control.recv(LENGTH)
    except ConnectionResetError:
        return b""
