"""A program that is confined, ready to run: the only form in which one is started."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg import process
from tfaot_pkg.process import CommandFailed, Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`argv` is what is started, with `env` as its whole environment; `meant` is the program as people name it.

    `timeout` is in seconds; it holds for `run`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    meant: tuple[str, ...]
    timeout: float

    def run(self, *, log: Path | None = None, stdin: bytes | None = None) -> Finished:
        """As `process.run`. Raises CommandFailed, which tells of the program, not of its sandbox."""
        try:
            return process.run(self.argv, env=self.env, timeout=self.timeout, log=log, stdin=stdin)
        except CommandFailed as error:
            raise CommandFailed(self.meant, None, error.reason, error.output) from error

    def start(
        self, *, stdin: int, stdout: int | BinaryIO, stderr: int | BinaryIO, pass_fds: Sequence[int] = ()
    ) -> subprocess.Popen[bytes]:
        """As `process.start`: the caller gives it to `process.end`, and `pass_fds` stay open in it. Raises OSError."""
        return process.start(self.argv, env=self.env, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds)
