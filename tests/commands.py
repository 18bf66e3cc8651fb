"""`tfaot-pkg` as a process of its own, which starts without loading Python's modules anew (tests/command_server.py).

Or in the process of the tests, whose errors it raises.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

from typer.testing import CliRunner, Result

from tfaot_pkg.cli.app import app
from tfaot_pkg.cli.command import said

REPOSITORY = Path(__file__).resolve().parent.parent

# What Python and typer read while they start: a command with other values than ours is started anew.
_OF_START = ("PYTHON", "LC_", "LANG", "TERM", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "TYPER_", "_TYPER", "PATH", "LD_")
_Environment = Mapping[str, str]


def invoked(words: Sequence[str]) -> Result:
    """`tfaot-pkg WORDS` in this process. Raises TfaotError."""
    said.forget()
    return CliRunner().invoke(app, words, catch_exceptions=False)


def run_command(
    arguments: Sequence[str | Path],
    *,
    cwd: str | Path | None = None,
    env: _Environment | None = None,
    timeout: float = 900,
) -> subprocess.CompletedProcess[str]:
    """`tfaot-pkg ARGUMENTS`, ended. Raises subprocess.TimeoutExpired; then its process group was killed."""
    words, variables = [*map(str, arguments)], {**(os.environ if env is None else env)}
    argv = [sys.executable, "-m", "tfaot_pkg", *words]
    if _of_start(variables) != _of_start(os.environ):
        return completed(argv, cwd=cwd, env=variables, timeout=timeout)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        request = json.dumps({"argv": words, "cwd": str(cwd or Path.cwd()), "env": variables})
        code = _ended(request, output, errors, argv, timeout)
        printed = [_text(file) for file in (output, errors)]
    return subprocess.CompletedProcess(argv, code, *printed)


def completed(
    argv: Sequence[str | Path], *, timeout: float, cwd: str | Path | None = None, env: _Environment | None = None,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """`argv`, ended. Raises subprocess.TimeoutExpired; then its process group was killed.

    subprocess.run would kill the program alone: what it had started would go on, and slow down all tests after this one.
    """
    words = [*map(str, argv)]
    with subprocess.Popen(
        words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            printed = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, *printed)


def _of_start(environment: _Environment) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_OF_START) and name != "PYTHONPATH"}


def _ended(request: str, output: IO[bytes], errors: IO[bytes], argv: list[str], timeout: float) -> int:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            files = [output.fileno(), errors.fileno(), theirs.fileno()]
            socket.send_fds(_server(os.getpid()), [request.encode()], files)
        with ours.makefile("r") as answers:
            process = int(answers.readline())
            ours.settimeout(timeout)
            try:
                return int(answers.readline())
            except TimeoutError as error:
                os.killpg(process, signal.SIGKILL)
                raise subprocess.TimeoutExpired(argv, timeout) from error


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="surrogateescape").replace("\r\n", "\n")


@cache
def _server(process: int) -> socket.socket:
    """The socket of this process's server. It ends with us, when the socket closes."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, REPOSITORY / "tests" / "command_server.py", str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1"}, pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    atexit.register(_end, server, ours)
    return ours


def _end(server: subprocess.Popen[bytes], requests: socket.socket) -> None:
    requests.close()
    server.wait()
