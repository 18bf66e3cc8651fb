"""Processes that run a model on request: one engine each, pinned to a core, one request at a time."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.process import CommandFailed, describe_exit
from tfaot_pkg.ground.sandbox import Command, Limits, Sandbox
from tfaot_pkg.ground.storage import end_of_file
from tfaot_pkg.measure.bench.peers import QUIET
from tfaot_pkg.measure.bench_program.messages import Failure, Memory, Options, Rate, Started, Times, Written
from tfaot_pkg.worker_program.messages.wire import built, encoded

_Answer = TypeVar("_Answer")
_TIMEOUT = 600.0
COPIES = 8
"""The number of copies of a model that cold calls use in turn, as in templates/bench/serving.h."""
_LONGEST_ANSWER = 64 << 20  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The start of an engine: `program` with `arguments`, in which `{}` is the number of the descriptor for answers.

    `python` is the interpreter of a program in Python, `readable` are the files that it reads. `greeting` is the
    first line on its standard input ("" for none); `has_overhead` says whether it can measure the cost of a call. All
    but programs in Python measure cold calls.
    """

    program: Path
    arguments: tuple[str, ...]
    python: Path | None = None
    readable: tuple[Path, ...] = ()
    greeting: str = ""
    has_overhead: bool = False


class Serving:
    """One running engine, in the sandbox: it writes below `writable`. Its errors are raised as RunError."""

    def __init__(self, program: Program, *, core: int, writable: Path, log: Path) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        # Answers have a pipe of their own: engines print on standard output whatever they like.
        self._answers, theirs = os.pipe()
        try:
            with log.open("ab") as output:
                command = _command(program, theirs, core, writable)
                self._running = command.start(stdin=subprocess.PIPE, log=output, pass_fds=[theirs])
            self._process = self._running.process
        except (OSError, CommandFailed) as error:
            os.close(self._answers)
            raise RunError(f"cannot start {program.program}: {error}", log=log) from error
        finally:
            # Only the engine may keep this end open, so that reading ends when the engine ends.
            os.close(theirs)
        self._buffer = b""
        if program.greeting:
            self._send(program.greeting)

    def start(self, batch_size: int) -> float:
        """Load the engine and run once; nanoseconds of both."""
        return self._ask(f"start {batch_size}", Started).nanoseconds

    def times(self, batch_size: int, *, shortest: int, duration: int) -> list[float]:
        """Nanoseconds of one run, by chunks of at least `shortest` nanoseconds, for `duration` nanoseconds."""
        return list(self._ask(f"time {batch_size} {shortest} {duration}", Times).times)

    def cold_times(self, batch_size: int, count: int) -> list[float]:
        """Nanoseconds of `count` runs, each by another copy of the model and after other work. For native programs."""
        return list(self._ask(f"cold {batch_size} {count}", Times).times)

    def overhead(self, *, shortest: int, duration: int) -> list[float]:
        """As `times`, for a model that does nothing: the cost of a call. For engines in peers' environments."""
        return list(self._ask(f"overhead {shortest} {duration}", Times).times)

    def write_answers(self, batch_size: int, file: Path) -> None:
        self._ask(f"answers {batch_size} {file}", Written)

    def memory(self) -> Memory:
        return self._ask("memory", Memory)

    def rate(self, request: str) -> float:
        """A limit of the machine, from templates/bench/limits.cc."""
        return self._ask(request, Rate).rate

    def close(self) -> None:
        self._running.end()
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:  # the engine has ended already
                pass
        os.close(self._answers)

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: str, kind: type[_Answer]) -> _Answer:
        """Raises RunError for an engine's error, and for an answer that is not a `kind`."""
        self._send(request)
        try:
            answer = built(kind | Failure, json.loads(self._line()), "answer")
        except (ValueError, RecursionError) as error:
            raise RunError("an answer that cannot be read", log=self._log) from error
        if isinstance(answer, Failure):
            raise RunError(answer.error, log=self._log)
        assert isinstance(answer, kind)
        return answer

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _line(self) -> bytes:
        # One deadline for the whole line, so that an engine cannot extend it by sending a byte now and then.
        seconds = min(_TIMEOUT, Limits.of_user().timeout)
        end = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise RunError(f"no answer within {seconds:g} s", log=self._log)
            data = os.read(self._answers, 1 << 20)
            if not data:
                raise self._ended()
            self._buffer += data
            # An engine must not fill the memory of this process either.
            if len(self._buffer) > _LONGEST_ANSWER:
                raise RunError("an answer that is too long", log=self._log)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _ended(self) -> RunError:
        code = self._process.wait()
        if self._running.fault:
            return RunError(f"the process {self._running.fault} and was stopped", log=self._log)
        lines = end_of_file(self._log).strip().splitlines()[-1:]
        last = "".join(f": {line}" for line in lines)
        return RunError(f"the process ended ({describe_exit(code)}){last}", log=self._log)


def _command(program: Program, answers: int, core: int, writable: Path) -> Command:
    box = Sandbox(readable=program.readable, writable=(writable,), core=core)
    words = [word.replace("{}", str(answers)) for word in program.arguments]
    if program.python is None:
        return box.native([program.program, *words], env=QUIET)
    return box.python(program.python, program.program, words, env=QUIET)


def python_program(python: Path, program: Path, options: Options, readable: Sequence[Path]) -> Program:
    return Program(
        program=program, arguments=("{}",), python=python, readable=tuple(readable), greeting=encoded(options),
        has_overhead=True,
    )  # fmt: skip


def native_program(
    program: Path, *arguments: str | Path, readable: Sequence[Path] = (), has_overhead: bool = False
) -> Program:
    return Program(
        program=program, arguments=("{}", *map(str, arguments)), readable=tuple(readable), has_overhead=has_overhead
    )
