"""A program that is confined, ready to run: the only form in which one is started."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg import process
from tfaot_pkg.process import CommandFailed, Finished
from tfaot_pkg.sandbox.disk import DiskWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`argv` is what is started, with `env` as its whole environment; `meant` is the program as people name it.

    `timeout` is in seconds; it holds for `run`. Below `writable` it may take `disk` bytes (0: no limit).
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    meant: tuple[str, ...]
    timeout: float
    writable: tuple[Path, ...] = ()
    disk: int = 0

    def run(self, *, log: Path | None = None, stdin: bytes | None = None) -> Finished:
        """As `process.run`. Raises CommandFailed, which tells of the program, not of its sandbox."""
        watch = DiskWatch(self.writable, self.disk)
        try:
            finished = process.run(
                self.argv, env=self.env, timeout=self.timeout, log=log, stdin=stdin, started=watch.begin
            )
        except CommandFailed as error:
            watch.end()
            raise CommandFailed(self.meant, None, watch.fault or error.reason, error.output) from error
        finally:
            watch.end()
        if watch.fault:
            raise CommandFailed(self.meant, None, watch.fault, finished.stderr or finished.stdout)
        return finished

    def start(self, *, stdin: int, log: BinaryIO, pass_fds: Sequence[int] = ()) -> Running:
        """Start it; it prints to the file `log`, and `pass_fds` stay open in it. Raises OSError."""
        started = process.start(self.argv, env=self.env, stdin=stdin, stdout=log, stderr=log, pass_fds=pass_fds)
        watch = DiskWatch(self.writable, self.disk, Path(log.name))
        watch.begin(started)
        return Running(process=started, watch=watch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A confined program that was started; its owner calls `end`."""

    process: subprocess.Popen[bytes]
    watch: DiskWatch

    def end(self) -> None:
        """Kill it, unless it has ended; it is gone when this returns. Again and again is harmless."""
        process.end(self.process)
        self.watch.end()

    @property
    def fault(self) -> str:
        """The limit of the disk that it did not keep, of which it was killed; "" if it did."""
        return self.watch.fault
