"""Starts and ends subprocesses. All subprocesses of the tool are started here: with an argv list, never a shell.

Every subprocess leads its own session, is known to `kill_running` while it runs, and is killed on an exception.
"""

from __future__ import annotations

import os
import select
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tfaot_pkg.ground.interruption import shielded
from tfaot_pkg.ground.process_tree import kill_tree

MOST_OUTPUT = 64 << 20
"""Bytes of output that `run` keeps; a program that prints more is killed, because its output would fill our memory."""

_TAIL_LINES = 30
_TAIL_LENGTH = 20_000  # characters of these lines
_PIECE = 1 << 16  # the capacity of a pipe on Linux; pipe(7)
_SHELL_SIGNALS = 128  # a shell exits with 128 + N if its program was killed by signal N

_running: set[subprocess.Popen[bytes]] = set()
_running_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The output of a program that succeeded."""

    stdout: str
    stderr: str


class CommandFailed(Exception):
    """A program could not be started, failed, or ran out of time.

    The text contains the command in a form that can be pasted into a shell, and the end of its output. Callers turn
    it into an error of their own.
    """

    def __init__(self, argv: Sequence[str], cwd: Path | None, reason: str, output: str) -> None:
        self.argv = tuple(argv)
        self.reason = reason
        self.output = output
        self.tail = "\n".join(output.rstrip().splitlines()[-_TAIL_LINES:])[-_TAIL_LENGTH:]
        self.command = (f"cd {shlex.quote(str(cwd))} && " if cwd else "") + shlex.join(argv)
        super().__init__(f"{reason}: {self.command}" + (f"\n{self.tail}" if self.tail else ""))


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    log: Path | None = None,
    stdin: bytes | None = None,
    started: Callable[[subprocess.Popen[bytes]], None] = lambda _: None,
) -> Finished:
    """Run `argv` to its end and return its output.

    `env`, if given, replaces the environment; `timeout` is in seconds; command and output are appended to `log`;
    `started` is called with the process. The program is killed, with all its descendants, on a timeout, on Ctrl-C, and
    if it prints more than MOST_OUTPUT: truncated output could be mistaken for all of it. Raises CommandFailed.
    """
    words = [os.fspath(word) for word in argv]
    try:
        process = start(
            words,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise CommandFailed(words, cwd, f"cannot start {words[0]} ({error.strerror})", "") from error
    talk = _Talk(process, stdin or b"")
    # In this order: the process is ended first, then its pipes are closed.
    with talk, _attended(process):
        started(process)
        fault = talk.until_end(timeout)
    finished = Finished(stdout=_text(talk.output), stderr=_text(talk.errors))
    if log is not None:
        _append(log, words, finished)
    if fault or process.returncode != 0:
        reason = fault or describe_exit(process.returncode)
        raise CommandFailed(words, cwd, reason, finished.stderr or finished.stdout)
    return finished


class _Talk:
    """A program's input and output, as `subprocess.communicate`, but with a limit on the output."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes) -> None:
        assert process.stdout is not None and process.stderr is not None
        self._process, self._stdin = process, process.stdin
        self._left = memoryview(stdin)
        self._stdout, self._stderr = process.stdout, process.stderr
        self._printed = {self._stdout: bytearray(), self._stderr: bytearray()}

    def __enter__(self) -> _Talk:
        return self

    def __exit__(self, *_: object) -> None:
        self._stdout.close()
        self._stderr.close()
        self._close_input()

    @property
    def output(self) -> bytes:
        return bytes(self._printed[self._stdout])

    @property
    def errors(self) -> bytes:
        return bytes(self._printed[self._stderr])

    def until_end(self, timeout: float | None) -> str:
        """Pass input and output until the program ends. Returns the reason to kill it, or "" if it ended."""
        end = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for stream in self._printed:
                selector.register(stream, selectors.EVENT_READ)
            if self._left and self._stdin is not None:
                selector.register(self._stdin, selectors.EVENT_WRITE)
            else:
                self._close_input()
            # Both streams are read as data arrives: a full pipe would otherwise block the program, and us with it.
            while selector.get_map():
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return f"no end after {timeout:g} s"
                for key, _ in selector.select(left):
                    if not (self._write() if key.fileobj is self._stdin else self._read(key.fileobj)):
                        selector.unregister(key.fileobj)
                        if key.fileobj is self._stdin:
                            self._close_input()
                if sum(map(len, self._printed.values())) > MOST_OUTPUT:
                    return f"it printed more than {MOST_OUTPUT >> 20} MiB"
        try:
            # A program may close its output and continue to run.
            self._process.wait(None if end is None else max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return f"no end after {timeout:g} s"
        return ""

    def _read(self, stream: Any) -> bool:
        """Read what is available. Returns whether more can come."""
        data = os.read(stream.fileno(), _PIECE)
        self._printed[stream] += data
        return bool(data)

    def _write(self) -> bool:
        """Write as much as the pipe takes. Returns whether input is left."""
        assert self._stdin is not None
        try:
            # A pipe that is reported as writable takes at least PIPE_BUF bytes; pipe(7).
            self._left = self._left[os.write(self._stdin.fileno(), self._left[: select.PIPE_BUF]) :]  # never blocks
        # The program has closed its input, and need not have failed.
        except BrokenPipeError:
            self._left = self._left[:0]
        return bool(self._left)

    def _close_input(self) -> None:
        if self._stdin is not None:
            self._stdin.close()


def stream(
    argv: Sequence[str | Path],
    *,
    on_line: Callable[[str], None],
    log: Path,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> str:
    """Run `argv` to its end and pass each line of its output to `on_line` at once; return the whole output.

    For programs that run for minutes: both output streams are merged, `log` grows while the program runs, and
    `pass_fds` stay open in it. Raises CommandFailed.
    """
    words = [os.fspath(word) for word in argv]
    log.parent.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {shlex.join(words)}\n")
        try:
            process = start(
                words,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=pass_fds,
            )
        except OSError as error:
            raise CommandFailed(words, None, f"cannot start {words[0]} ({error.strerror})", "") from error
        assert process.stdout is not None
        with _attended(process), process.stdout:
            for raw in process.stdout:
                line = _text(raw)
                lines.append(line)
                file.write(line)
                # Users read the log while the program runs, and after a crash of the tool.
                file.flush()
                on_line(line.rstrip())
            process.wait()
    if process.returncode != 0:
        raise CommandFailed(words, None, describe_exit(process.returncode), "".join(lines))
    return "".join(lines)


def start(
    argv: Sequence[str],
    *,
    stdin: int,
    stdout: int | BinaryIO,
    stderr: int | BinaryIO,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `argv` in a session of its own; the caller gives it to `end`. Raises OSError.

    `kill_running` knows the process before a signal can arrive between its start and the caller's handling of it.
    """
    # Between Popen and the set, a signal would leave a process that nobody would end.
    with shielded():
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=True,
        )
        with _running_lock:
            _running.add(process)
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process of `start` and its descendants, unless it has ended; none of them runs when this returns."""
    if process.poll() is None:
        kill_tree(process.pid)
        process.wait()
    with _running_lock:
        _running.discard(process)


@contextmanager
def _attended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End `process` with the block, which waits for it; on an exception it is killed."""
    try:
        yield
    finally:
        end(process)


def kill_running() -> None:
    """Kill all subprocesses: `run` and `stream` then raise CommandFailed in the threads that wait for them.

    Python raises Ctrl-C in the main thread only; the subprocesses of other threads may run for minutes.
    """
    with _running_lock:
        processes = list(_running)
    for process in processes:
        if process.poll() is None:
            kill_tree(process.pid)


def killed_by(code: int) -> int:
    """The number of the signal that ended a process with this exit code; 0 if none did.

    A shell or a sandbox around the program exits with 128 plus the signal's number.
    """
    if code < 0:
        return -code
    return code - _SHELL_SIGNALS if 0 < code - _SHELL_SIGNALS <= signal.SIGRTMAX else 0


def describe_exit(code: int) -> str:
    """`exit code 1` or `killed by SIGSEGV`."""
    number = killed_by(code)
    if not number:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"killed by signal {number}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _append(log: Path, words: Sequence[str], finished: Finished) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {shlex.join(words)}\n{finished.stdout}{finished.stderr}")
