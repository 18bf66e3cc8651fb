"""The one place that starts other programs: an argv list, never a shell."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg.interruption import shielded

_TAIL_LINES = 30
_KILL_INTERVAL = 0.002  # seconds between looks at what has been killed
_SHELL_SIGNALS = 128
_KILLED_AFTER = 10.0  # seconds; longer is what hangs in the kernel, on a dead network disk say

_running: set[subprocess.Popen[bytes]] = set()
_running_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a program that ended well printed."""

    stdout: str
    stderr: str


class CommandFailed(Exception):
    """A program could not be started, failed, or ran out of time.

    The text names the command in a form that can be pasted into a shell, and the end of its output.
    Callers turn it into the error of their own family.
    """

    def __init__(self, argv: Sequence[str], cwd: Path | None, reason: str, output: str) -> None:
        self.argv = tuple(argv)
        self.reason = reason
        self.output = output
        self.tail = "\n".join(output.rstrip().splitlines()[-_TAIL_LINES:])
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
) -> Finished:
    """Run `argv` to its end and return what it printed.

    `env` replaces the environment where given; `timeout` is in seconds; `log` gets command and output appended.
    The program leads a process group of its own, which is killed on a time-out and on Ctrl-C.
    Raises CommandFailed.
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
    try:
        with _attended(process):
            out, err = process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        out, err = process.communicate()
        raise CommandFailed(words, cwd, f"no end after {timeout:g} s", _text(err) or _text(out)) from None
    finished = Finished(stdout=_text(out), stderr=_text(err))
    if log is not None:
        _append(log, words, finished)
    if process.returncode != 0:
        raise CommandFailed(words, cwd, describe_exit(process.returncode), finished.stderr or finished.stdout)
    return finished


def stream(
    argv: Sequence[str | Path],
    *,
    on_line: Callable[[str], None],
    log: Path,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> str:
    """Run `argv` to its end, with every line of its output given to `on_line` at once; return the whole output.

    As `run`, but for programs that work for minutes: both streams are one, `log` grows while it runs, and
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

    It is known to `kill_running` before an interruption can come between its start and the caller's care for it.
    """
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
    """Kill what `start` gave, with all that it started, unless it has ended; it is gone when this returns."""
    if process.poll() is None:
        kill_group(process)
        process.wait()
    with _running_lock:
        _running.discard(process)


@contextmanager
def _attended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """The block waits for `process`, which does not outlive an exception."""
    try:
        yield
    finally:
        end(process)


def kill_running() -> None:
    """Kill what any thread of this process has started and waits for: `run` and `stream` raise CommandFailed.

    Ctrl-C reaches the main thread only, and what other threads run may take minutes.
    """
    with _running_lock:
        processes = list(_running)
    for process in processes:
        if process.poll() is None:
            kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started with `start_new_session`, and all that it started; none of them works any more.

    A process group is not enough: ninja gives each of its commands a group of its own. Call it before the process has
    been waited for: until then no other session can have its number.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    last = time.monotonic() + _KILLED_AFTER
    # What is killed may have started something in between, and may still be making a file.
    while (members := list(_session(process.pid))) and time.monotonic() < last:
        for member in members:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        time.sleep(_KILL_INTERVAL)


def _session(leader: int) -> Iterator[int]:
    """The running processes of the session that `leader` leads; proc_pid_stat(5)."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            state, _, _, session = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()[:4]
        except (OSError, ValueError):  # it has ended
            continue
        if int(session) == leader and state not in (b"Z", b"X"):
            yield int(name)


def killed_by(code: int) -> int:
    """The number of the signal that ended a process with this exit code, 0 if none did.

    What ran in a shell or in a sandbox ends with 128 and the signal's number.
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
