"""Worker processes: TensorFlow, and the frameworks of front-ends, run only in them.

TensorFlow aborts on bad options, prints to the terminal and reads its flags once per process, so every worker is a
subprocess with its own flags; a crash becomes an error message with a log. Models are programs, so workers run in the
sandbox (sandbox/): they can read the toolchain, the model and what they are given, and write to a scratch folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from tfaot_pkg.errors import ModelError, SpecError, TfaotError, ToolchainError
from tfaot_pkg.frontends.toolchain.environment import ToolchainEnvironment
from tfaot_pkg.frontends.toolchain.fork_servers import START_TIMEOUT, ForkServers, KeptServers
from tfaot_pkg.frontends.toolchain.frontends import Frontend, FrontendEnvironments
from tfaot_pkg.frontends.toolchain.pinned import PythonEnvironment
from tfaot_pkg.ground.process import describe_exit, killed_by
from tfaot_pkg.ground.progress import Step
from tfaot_pkg.ground.sandbox import Forked, Limits, Running, Sandbox
from tfaot_pkg.ground.storage import end_of_file, keep_newest, refusal_in, refused, storage_errors
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.ground.walk import entries_below, remove_tree, require_flat
from tfaot_pkg.worker_program.messages import requests
from tfaot_pkg.worker_program.messages.wire import built, decoded, encoded

Answer = TypeVar("Answer")
TENSORFLOW = "TensorFlow"
"""The engine of toolchains' workers, in errors."""
Answering = Callable[[requests.Ask, Path, float], requests.Told]
"""Answers a question of a worker, which wrote a file for it, within some seconds. Raises ValueError for a wrong one."""
_OPERATIONS = {pair: name for name, pair in requests.OPERATIONS.items()}
_PROGRAM = Path(__file__).resolve().parents[2] / "worker_program"
_GIGABYTE = 1 << 30
_KEPT_LOGS = 50
_LONGEST_ANSWER = 1 << 30  # bytes; that of a large model is some megabytes
_SCRATCH = "worker."
_MADE, _GIVEN, _APART = "made", "given", "apart"
_AUTHOR = "the operations' author"
_SCRATCH_LOCK = ".in-use"
_STALE_AFTER = 600.0  # seconds; younger ones may be about to be locked
_WANT_OF_MEMORY = (
    "bad_alloc",
    "MemoryError",
    "failed to map segment",
    "Cannot allocate memory",
    # A thread needs memory for its stack.
    "pthread_create",
    "Resource temporarily unavailable",
)
# XLA prints these lines and aborts: only the log tells which flag it was.
_UNKNOWN_FLAG = re.compile(r"Unknown flags? in (TF_)?XLA_FLAGS: (.*)")
_BAD_VALUE = re.compile(r"Couldn't interpret value (.*) for flag (\w+)")


class Worker:
    """One running worker process. Use `worker()` to make one."""

    def __init__(
        self, running: Running | Forked, answers: int, log: Path, limits: Limits, engine: str = TENSORFLOW
    ) -> None:
        self._engine = engine
        self._running = running
        self._process = running.process
        self._answers = answers
        self._buffer = b""
        self._log = log
        self._limits = limits
        self.made: Path | None = None
        """Its TMPDIR."""
        self.answering: Answering | None = None
        """What answers its questions; without it, it may have none."""

    def wait_until_ready(self) -> None:
        self._receive(self.within(START_TIMEOUT), self.within(START_TIMEOUT))

    def call(
        self, request: object, answer: type[Answer], *, step: Step | None = None, seconds: float | None = None
    ) -> Answer:
        """Send one request, which may take `seconds` at most; its progress goes to `step`.

        `request` and `answer` are a pair of OPERATIONS. Raises ModelError if the model is at fault, SpecError if a flag
        is, StorageError if the disk is full or cannot be written, ToolchainError if the process crashed, hung, ran out
        of memory or answered something else.
        """
        operation = _OPERATIONS[type(request), answer]
        most = self.within(seconds)
        end = time.monotonic() + most
        self._send(requests.Call(op=operation, args=request))
        while isinstance(reply := self._receive(end - time.monotonic(), most), requests.Event | requests.Asked):
            if isinstance(reply, requests.Asked):
                self._tell(reply.asked, end - time.monotonic())
            elif step is not None:
                step.advance(reply.event.advance, note=reply.event.note)
        result = self._result(operation, reply)
        with self._readable():
            return decoded(answer, result, operation)

    def within(self, seconds: float | None = None) -> float:
        """The seconds that a request which asks for `seconds` may take."""
        return self._limits.seconds(seconds)

    def kill(self) -> None:
        """Kill the process; a call that waits for it in another thread fails."""
        self._running.end()

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        self.kill()
        os.close(self._answers)
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass

    def _tell(self, asked: requests.Ask, seconds: float) -> None:
        """Answer a question of the process."""
        with self._readable():
            # It may name a file of its own folder, in which it can make no links.
            if self.answering is None or self.made is None or Path(asked.inputs).name != asked.inputs:
                raise ValueError("a question that it may not ask")
            told = self.answering(asked, self.made / asked.inputs, max(0.0, seconds))
        self._send(told)

    def _result(self, operation: str, reply: requests.Reply) -> object:
        match reply:
            case requests.Done(ok=result):
                return result
            case requests.Faulty(fault=fault):
                # Writing the frozen graph may fail because the disk is full, which is not the model's fault.
                if line := refusal_in(fault.message):
                    raise refused(f"write what {self._engine} makes", line)
                raise ModelError(fault.message, hint=fault.hint, log=self._log, newer=fault.newer)
            case requests.OutOfMemory(memory=True):
                raise self._memory_error("")
            case requests.Failed(error=text):
                raise self._explained(text) or ToolchainError(
                    f"{self._engine} failed in {operation!r}: {text}", log=self._log
                )
        self.kill()
        raise unreadable(self._log, engine=self._engine)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """The block decodes an answer. If that fails, the process no longer runs our program: kill it."""
        try:
            yield
        except (ValueError, RecursionError) as error:
            self.kill()
            raise unreadable(self._log, engine=self._engine) from error

    def _explained(self, text: str) -> TfaotError | None:
        """The specific error that `text`, the output of a failed worker, names; None if it names none."""
        if found := _UNKNOWN_FLAG.search(text):
            field = "tf_xla_flags" if found[1] else "xla_flags"
            return SpecError(
                f"compilation.{field}: the toolchain does not know this flag: {found[2].strip()}",
                hint="remove it from the spec, or choose another toolchain (compilation.tensorflow)",
            )
        if found := _BAD_VALUE.search(text):
            name, value = found[2], found[1]
            field = "tf_xla_flags" if name.startswith("tf_") else "xla_flags"
            return SpecError(
                f"compilation.{field}: the toolchain cannot take the value {value!r} for the flag --{name}",
                hint="correct it in the spec; most flags take true, false or a number",
            )
        if line := refusal_in(text):
            return refused(f"write what {self._engine} makes", line)
        if any(words in text for words in _WANT_OF_MEMORY):
            return self._memory_error(_line_with(_WANT_OF_MEMORY, text))
        return None

    def _memory_error(self, line: str) -> ToolchainError:
        limit = f" (limit: {self._limits.memory / _GIGABYTE:g} GiB)" if self._limits.memory else ""
        return ToolchainError(
            f"{self._engine}'s process ran out of memory{limit}" + (f": {line}" if line else ""),
            hint="raise TFAOT_WORKER_MEMORY (GiB; TensorFlow itself needs 2), or free some memory",
            log=self._log,
            cause="out of memory",
        )

    def _send(self, message: requests.Call | requests.Told) -> None:
        assert self._process.stdin is not None
        try:
            # One line per message: JSON escapes ends of lines.
            self._process.stdin.write(encoded(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._crash() from None

    def _receive(self, seconds: float, allowed: float) -> requests.Reply:
        """The next message, `seconds` from now at the latest; the request was `allowed` as many or more."""
        end = time.monotonic() + seconds
        # Bytes, not readline: select sees only the file descriptor, not what a buffered reader holds.
        while (left := end - time.monotonic()) <= 0 or b"\n" not in self._buffer:
            # A worker that reports progress all the time has the same deadline as a silent one.
            ready = left > 0 and select.select([self._answers], [], [], left)[0]
            if not ready:
                self.kill()
                raise ToolchainError(
                    f"{self._engine}'s process gave no answer within {allowed:g} s and was stopped",
                    hint="raise TFAOT_WORKER_TIMEOUT (seconds) if the model really needs longer",
                    log=self._log,
                    cause="timed out",
                )
            data = os.read(self._answers, 1 << 16)
            if not data:
                raise self._crash()
            self._buffer += data
            # A hostile model must not fill the memory of the tool.
            if len(self._buffer) > _LONGEST_ANSWER:
                self.kill()
                raise ToolchainError(f"{self._engine}'s process gave an answer that is too long", log=self._log)
        line, self._buffer = self._buffer.split(b"\n", 1)
        with self._readable():
            reply: requests.Reply = built(requests.Reply, json.loads(line), "reply")
            return reply

    def _crash(self) -> TfaotError:
        """The error for a process that ended by itself, from its log."""
        code = self._process.wait()
        # Before the log: a process that was killed for its use of the disk looks as if the system had killed it.
        if self._running.fault:
            return ToolchainError(
                f"{self._engine}'s process {self._running.fault} and was stopped",
                hint="raise the limit that is named if the model really needs more; no model prints as much",
                log=self._log,
                cause="out of memory" if "TFAOT_WORKER_MEMORY" in self._running.fault else "",
            )
        text = end_of_file(self._log)
        if explained := self._explained(text):
            return explained
        if killed_by(code) == signal.SIGKILL:
            return ToolchainError(
                f"{self._engine}'s process was killed (SIGKILL): by the system for lack of memory, or by a person",
                hint="repeat the command; if it happens again, free some memory",
                log=self._log,
                cause="killed",
            )
        tail = "\n".join(text.rstrip().splitlines()[-8:])
        return ToolchainError(
            f"{self._engine}'s process crashed ({describe_exit(code)})" + (f":\n{tail}" if tail else ""),
            hint="the log has its whole output",
            log=self._log,
            cause="crashed",
        )


def unreadable(log: Path | None = None, *, engine: str = TENSORFLOW) -> ToolchainError:
    """The error for an answer, or a file, of a worker that is not what was requested."""
    return ToolchainError(f"{engine}'s process gave an answer that cannot be read", log=log)


@contextmanager
def from_worker() -> Iterator[None]:
    """The block reads answers or files of a worker, which are not trusted. Raises ToolchainError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise unreadable() from error


def _line_with(words: Sequence[str], text: str) -> str:
    return next(line.strip() for line in text.splitlines() if any(word in line for word in words))


@contextmanager
def worker(
    environment: PythonEnvironment,
    *,
    log: Path,
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    xla_flags: Sequence[str] = (),
    tf_xla_flags: Sequence[str] = (),
    limits: Limits | None = None,
    engine: str = TENSORFLOW,
    compiles: bool = False,
    servers: ForkServers | KeptServers | None = None,
) -> Iterator[Worker]:
    """A worker in `environment`, which ends with the block and prints to `log`; `engine` is its name in errors.

    If it `compiles`, it sees the system's programs and may start them, in its sandbox. It is forked by one of
    `servers`, if they are given and can, and its folders must be in theirs.

    It reads the environment and `readable`, and writes below `writable`. Flags are for toolchains.
    Raises ToolchainError, SandboxError.
    """
    limits = limits or Limits.of_user()
    programs = _compiler_places() if compiles else ()
    box = Sandbox(readable=(*readable, *programs), writable=tuple(writable), limits=limits, starts_programs=compiles)
    variables = _variables(environment, xla_flags, tf_xla_flags)
    if compiles:
        variables |= {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    with storage_errors(f"write {log}"):
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("wb")
    with ExitStack() as stack:
        server = None
        if servers is not None and not compiles:
            server = stack.enter_context(servers.lent(environment.python, _PROGRAM, variables))
        read_end, write_end = os.pipe()
        running: Running | Forked
        try:
            if server is not None:
                running = server.fork(box, log=output, answers=write_end)
            else:
                command = box.python(environment.python, _PROGRAM, [str(write_end)], env=variables)
                running = command.start(stdin=subprocess.PIPE, log=output, pass_fds=[write_end])
        except OSError as error:
            os.close(read_end)
            raise ToolchainError(f"cannot start {environment.python}: {error.strerror}") from error
        finally:
            # Ours: only if no other process holds it does a worker's end close the pipe.
            os.close(write_end)
            output.close()
        started = Worker(running, read_end, log, limits, engine)
        stack.callback(started.stop)
        started.wait_until_ready()
        yield started


def warm(servers: KeptServers, environment: ToolchainEnvironment) -> None:
    """Let `servers` have one for workers in `environment` without further flags. Raises StorageError, SandboxError."""
    servers.warm(environment.python, _PROGRAM, _variables(environment, (), ()))


def _compiler_places() -> tuple[Path, ...]:
    """What the compiler g++ and the scripts that call it consist of."""
    found = shutil.which("g++")
    # Beside its bin/, a compiler's prefix holds its own libraries and headers.
    prefixes = () if found is None else (Path(found).resolve().parents[1],)
    return (Path("/usr"), Path("/bin"), *prefixes)


def _variables(environment: PythonEnvironment, xla_flags: Sequence[str], tf_xla_flags: Sequence[str]) -> dict[str, str]:
    if not isinstance(environment, ToolchainEnvironment) or not environment.toolchain.has_tensorflow:
        return {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {
        # Warnings and errors only.
        "TF_CPP_MIN_LOG_LEVEL": "1",
        # A user's own TensorFlow may find a GPU, which gives other answers.
        "CUDA_VISIBLE_DEVICES": "",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        # TensorFlow's answers must be the same on every machine: neither the number of cores nor what the CPU has
        # beyond AVX2 may choose the order of its sums. Validation reports, which packages carry, hold differences
        # from them.
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "XLA_FLAGS": " ".join([*environment.toolchain.xla_flags, *xla_flags]),
        "TF_XLA_FLAGS": " ".join(tf_xla_flags),
    }


class WorkerPool:
    """Workers by flags and number, each started at its first use and kept until the block ends.

    Workers read what is given to them and write their results, in two folders that are removed with the pool: take the
    results before. They see no other files of the user. If the tool is killed, the next pool with the same root removes
    the folders.
    """

    def __init__(
        self,
        environment: ToolchainEnvironment,
        *,
        scratch_root: Path,
        logs: Path,
        frontends: FrontendEnvironments | None = None,
        servers: ForkServers | KeptServers | None = None,
    ) -> None:
        self.environment = environment
        self._frontends = frontends
        self._servers = servers
        self._scratch_root = scratch_root
        self._logs = logs
        self._stack = ExitStack()
        self._workers: dict[tuple[object, ...], Worker] = {}
        self._scratch: Path | None = None
        self._given: dict[Path, Path] = {}
        self._started = 0
        self._answering: Answering | None = None
        self._apart: dict[Path, Worker] = {}

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        # Logs of failed builds must outlive the pool, but not grow without limit.
        keep_newest(self._logs, "worker-*.log", _KEPT_LOGS)

    def new_folder(self, name: str) -> Path:
        """An empty folder that the workers may fill. Raises StorageError."""
        return self._new_folder(_MADE, name)

    def given_folder(self, name: str) -> Path:
        """An empty folder for what the workers may only read. Raises StorageError."""
        return self._new_folder(_GIVEN, name)

    def give(self, path: Path) -> Path:
        """A copy of the file or folder `path` that the workers can read. Raises StorageError."""
        if path not in self._given:
            copy = self.given_folder("copy") / path.name
            with storage_errors(f"write the build cache {self._scratch_root}"):
                if path.is_dir():
                    require_flat(path)
                    shutil.copytree(path, copy)
                else:
                    shutil.copyfile(path, copy)
            self._given[path] = copy
        return self._given[path]

    def take(self, made: Path, folder: Path) -> None:
        """Copy the results of workers below `made` into `folder`, where they can no longer change them.

        Raises ToolchainError for anything except files and folders, StorageError.
        """
        with storage_errors(f"write the build cache {self._scratch_root}"):
            for entry in entries_below(made):
                place = folder / Path(entry.path).relative_to(made)
                if entry.is_dir(follow_symlinks=False):
                    place.mkdir(exist_ok=True)
                elif entry.is_file(follow_symlinks=False):
                    shutil.copyfile(entry.path, place)
                else:
                    raise ToolchainError(f"TensorFlow's process made something other than a file: {entry.name}")

    def get(
        self,
        *,
        xla_flags: Sequence[str] = (),
        tf_xla_flags: Sequence[str] = (),
        number: int = 0,
        frontend: Frontend | None = None,
    ) -> Worker:
        """The worker `number` with exactly these flags, or that of `frontend`; a new one if it has ended.

        Not thread-safe. Raises the errors of making the front-end's environment.
        """
        if frontend is None and not self.environment.toolchain.has_tensorflow:
            raise ModelError(
                "TensorFlow takes no part in this model, which becomes a program without it",
                hint="look at --what program or cpp; for other forms of it, convert the file where it was made",
            )
        identity = (tuple(xla_flags), tuple(tf_xla_flags), number, frontend)
        if identity not in self._workers or self._workers[identity].ended:
            scratch = self._folder()
            started = worker(
                self.environment_of(frontend),
                log=self._log(),
                readable=[scratch / _GIVEN],
                writable=[scratch / _MADE],
                xla_flags=xla_flags,
                tf_xla_flags=tf_xla_flags,
                engine=TENSORFLOW if frontend is None else frontend.reference,
                compiles=frontend is not None and frontend.compiles,
                servers=self._servers if frontend is None else None,
            )
            self._workers[identity] = self._stack.enter_context(started)
            self._workers[identity].made = scratch / _MADE
        self._workers[identity].answering = self._answering
        return self._workers[identity]

    def answer_with(self, answering: Answering) -> None:
        """Let `answering` answer the questions of workers, also of those that run (references.py)."""
        self._answering = answering
        for each in self._workers.values():
            each.answering = answering

    def apart(self, given: Path, made: Path) -> Worker:
        """A worker for code of the model's author: of all files here, it reads those in `given` and writes those in
        `made`, which are folders of `folders_apart`. It may ask nothing.
        """
        if made not in self._apart or self._apart[made].ended:
            started = worker(self.environment, log=self._log(), readable=[given], writable=[made], engine=_AUTHOR)
            self._apart[made] = self._stack.enter_context(started)
        return self._apart[made]

    def folders_apart(self) -> tuple[Path, Path]:
        """Two empty folders, beside those of the other workers. Raises StorageError."""
        return self._new_folder(_APART, "given"), self._new_folder(_APART, "made")

    def _log(self) -> Path:
        # The process id: several builds share the folder of logs.
        self._started += 1
        return self._logs / f"worker-{os.getpid()}-{self._started - 1}.log"

    def environment_of(self, frontend: Frontend | None) -> PythonEnvironment:
        """That of `frontend`, made now if it is missing; the toolchain if it is None."""
        if frontend is None:
            return self.environment
        if self._frontends is None:
            raise ToolchainError(f"there is no environment of {frontend.title} here", hint="report this")
        return self._frontends.ensure(frontend, self.environment.python)

    def _new_folder(self, kind: str, name: str) -> Path:
        with storage_errors(f"write the build cache {self._scratch_root}"):
            return Path(tempfile.mkdtemp(dir=self._folder() / kind, prefix=f"{name}."))

    def _folder(self) -> Path:
        """The pool's own folder, with the two folders and the lock that says that it is in use."""
        if self._scratch is None:
            with storage_errors(f"write the build cache {self._scratch_root}"):
                # Pushed before any worker, so it is removed after all of them have ended.
                folder = self._stack.enter_context(scratch_folder(self._scratch_root))
                for kind in (_MADE, _GIVEN, _APART):
                    (folder / kind).mkdir()
                self._scratch = folder
        return self._scratch


@contextmanager
def scratch_folder(root: Path) -> Iterator[Path]:
    """A new folder below `root`, which is removed after the block, or by a later call if this process is killed.

    Raises OSError.
    """
    root.mkdir(parents=True, exist_ok=True)
    _drop_stale_scratch(root)
    with temporary_folder(root, prefix=_SCRATCH) as folder:
        handle = _hold(folder)
        try:
            yield folder
        finally:
            os.close(handle)


def _hold(scratch: Path) -> int:
    """Lock `scratch` while the file descriptor is open: the kernel releases it, however this process ends."""
    handle = os.open(scratch / _SCRATCH_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def _drop_stale_scratch(root: Path) -> None:
    """Remove scratch folders that no process has locked, except new ones, which may not be locked yet."""
    for folder in root.glob(f"{_SCRATCH}*"):
        try:
            if time.time() - folder.stat().st_mtime < _STALE_AFTER:
                continue
            handle = _hold(folder)
        except OSError:  # in use, not ours, or gone
            continue
        remove_tree(folder)
        os.close(handle)
