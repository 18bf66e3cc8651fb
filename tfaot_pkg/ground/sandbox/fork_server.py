"""A Python that has its imports behind it and forks a confined process for each program: who starts many pays once.

The server runs in the sandbox's namespaces and reads nothing of a model. What it forks takes the last step of every
confined program (enter.py) before its first line: Landlock lets it see the folders of its own sandbox alone, and the
filter denies signals and everything else that reaches other processes, of which the server is one. A server has one
such process at a time, and its files and pipes are new each time: nothing of one program reaches the next.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg.ground import process
from tfaot_pkg.ground.process_tree import kill_tree, tree_of
from tfaot_pkg.ground.sandbox.command import Watch
from tfaot_pkg.ground.sandbox.enter import ANSWERS
from tfaot_pkg.ground.sandbox.policy import Sandbox

_END = 10.0  # seconds in which a killed process is gone
_LENGTH = 64  # bytes of an answer


class ForkServer:
    """A server in the interpreter `python` for the program in the folder `program`; it prints to the file `log`.

    `preload` names what it imports ("module:function" of the program). All folders of what it forks are below `folder`.
    Raises OSError if it cannot be started, SandboxError. Not thread-safe.
    """

    def __init__(
        self, python: Path, program: Path, preload: str, *, folder: Path, log: Path, env: Mapping[str, str]
    ) -> None:
        self._python, self._program, self._owner = python, program, os.getpid()
        self._control, given = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            box = Sandbox(writable=(folder,))
            command = box.fork_server(python, program, preload, given.fileno(), env=env)
            with log.open("wb") as output:
                self._process = process.start(
                    command.argv, env=command.env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    pass_fds=[given.fileno()],
                )  # fmt: skip
        except BaseException:
            self._control.close()
            raise
        finally:
            given.close()
        # Not Popen's own poll: in a process that the owner forks, it cannot wait for a process that is no child of it.
        self._alive: int | None = os.pidfd_open(self._process.pid)
        self._size = 0

    def is_ready(self, seconds: float) -> bool:
        """Whether its imports succeeded; waits for them at most `seconds`."""
        if not select.select([self._control], [], [], seconds)[0] or self._control.recv(_LENGTH) == b"":
            return False
        self._size = len(tree_of(self._process.pid))
        return True

    def fork(self, box: Sandbox, *, log: BinaryIO, answers: int) -> Forked:
        """Run the program confined by `box`; its one argument is the number of its file descriptor of `answers`.

        It prints to `log`. One runs at a time. Raises OSError if the server has ended, SandboxError.
        """
        orders = json.dumps(box.forked(self._python, self._program, [str(ANSWERS)])).encode()
        watch = box.watch(Path(log.name))
        # Of the server and of what it forks: both count, and both are killed. Before there is something to watch: once
        # the orders are sent, nothing may fail here, or the next process would get this one's end.
        watch.begin(self._process)
        given, write_end = os.pipe()
        try:
            socket.send_fds(self._control, [orders], [given, log.fileno(), answers])
        except OSError:
            os.close(write_end)
            watch.end()
            raise
        finally:
            os.close(given)
        return Forked(process=ForkedProcess(self, os.fdopen(write_end, "wb")), watch=watch)

    def ending(self, seconds: float) -> int | None:
        """How what it forked has ended: an exit code, or minus the number of a signal. None if it runs longer."""
        if not select.select([self._control], [], [], seconds)[0]:
            return None
        said = self._control.recv(_LENGTH)
        return int(said) if said else -signal.SIGKILL  # the server has ended, and the kernel ends its children

    def kill(self) -> None:
        """Kill what it forked."""
        with suppress(OSError):  # the server has ended
            self._control.send(b"kill")

    @property
    def ended(self) -> bool:
        return self._alive is None or bool(select.select([self._alive], [], [], 0)[0])

    @property
    def is_idle(self) -> bool:
        """Whether it runs and has nothing at work, and no end of anything is left to be read."""
        unread = self.ended or bool(select.select([self._control], [], [], 0)[0])
        return not unread and len(tree_of(self._process.pid)) == self._size

    def end(self) -> None:
        """Kill it with what it forked. May be called several times, also in a process that the owner forked."""
        if os.getpid() != self._owner:
            if not self.ended:
                kill_tree(self._process.pid)
            return
        self._control.close()
        process.end(self._process)
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None


@dataclass(slots=True)
class ForkedProcess:
    """What a server forked; `stdin` is the other end of its standard input. As subprocess.Popen, as far as it goes."""

    server: ForkServer
    stdin: BinaryIO
    _code: int | None = None

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        if self._code is None:
            self._code = self.server.ending(0)
        return self._code

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        while self._code is None:
            self._code = self.server.ending(_END)
        return self._code

    def end(self) -> None:
        """Kill it, unless it has ended; it is gone when this returns."""
        if self.poll() is None:
            self.server.kill()
            self._code = self.server.ending(_END)
            if self._code is None:
                self.server.end()
                self._code = -signal.SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A confined program that was forked; as command.Running."""

    process: ForkedProcess
    watch: Watch

    def end(self) -> None:
        """Kill it, unless it has ended; it is gone when this returns. May be called several times."""
        self.process.end()
        self.watch.end()

    @property
    def fault(self) -> str:
        """The limit for which it was killed; "" if it was not."""
        return self.watch.fault
