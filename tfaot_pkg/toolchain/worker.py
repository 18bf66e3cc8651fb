"""Worker processes: TensorFlow runs in them and nowhere else.

TensorFlow aborts on bad options, prints at will and reads its flags once per process, so every worker is an exec'd
process with its own flags; a crash is an error message with a log, never the end of the tool.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfaot_pkg.errors import ModelError, SpecError, TfaotError, ToolchainError
from tfaot_pkg.process import describe_exit, end, start
from tfaot_pkg.progress import Step
from tfaot_pkg.storage import keep_newest, refusal_in, refused, storage_errors
from tfaot_pkg.temporary import temporary_folder
from tfaot_pkg.toolchain.environment import ToolchainEnvironment

_PROGRAM = Path(__file__).resolve().parents[1] / "worker_program"
_START_TIMEOUT = 120.0
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE")
_GIGABYTE = 1 << 30
_MOST = 1e7  # of seconds, of GiB
_KEPT_LOGS = 50
_READ_OF_LOG = 1 << 20  # bytes
_SCRATCH = "worker."
_SCRATCH_LOCK = ".in-use"
_STALE_AFTER = 600.0  # seconds; younger ones may be about to be locked
_WANT_OF_MEMORY = (
    "bad_alloc",
    "MemoryError",
    "failed to map segment",
    "Cannot allocate memory",
    # A thread's stack is memory, too.
    "pthread_create",
    "Resource temporarily unavailable",
)
_UNKNOWN_FLAG = re.compile(r"Unknown flags? in (TF_)?XLA_FLAGS: (.*)")
_BAD_VALUE = re.compile(r"Couldn't interpret value (.*) for flag (\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Bounds of one worker: seconds per request, bytes of address space (0: none)."""

    timeout: float = 1800
    memory: int = 0
    confine: bool = True

    @classmethod
    def of_user(cls) -> WorkerLimits:
        """The defaults, changed by TFAOT_WORKER_TIMEOUT (seconds), TFAOT_WORKER_MEMORY (GiB). Raises ToolchainError."""
        timeout = _positive("TFAOT_WORKER_TIMEOUT", "seconds", cls().timeout)
        return cls(timeout=timeout, memory=int(_positive("TFAOT_WORKER_MEMORY", "GiB", 0) * _GIGABYTE))


def _positive(variable: str, unit: str, default: float) -> float:
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < _MOST:  # false for NaN too
        raise ToolchainError(
            f"{variable} must be a number of {unit} greater than 0, got {text!r}", hint=f"correct or unset {variable}"
        )
    return value


class Worker:
    """One running worker process. Use `worker()` to make one."""

    def __init__(self, process: subprocess.Popen[bytes], answers: int, log: Path, limits: WorkerLimits) -> None:
        self._process = process
        self._answers = answers
        self._buffer = b""
        self._log = log
        self._limits = limits
        self.confined = ""

    def start(self, writable: Sequence[Path]) -> None:
        """Hand over the options and wait until the process answers."""
        options = {
            "memory": self._limits.memory,
            "confine": self._limits.confine,
            "writable": [str(path) for path in writable],
        }
        self._send(options)
        self.confined = str(self._receive(min(_START_TIMEOUT, self._limits.timeout))["confined"])

    def call(self, operation: str, args: Mapping[str, object], *, step: Step | None = None) -> dict[str, Any]:
        """Run one operation to its end; its progress goes to `step`.

        Raises ModelError where the model is at fault, SpecError where a flag is, StorageError where the disk refuses,
        ToolchainError where the process crashed, hung or ran out of memory.
        """
        end = time.monotonic() + self._limits.timeout
        self._send({"op": operation, "args": args})
        while True:
            answer = self._receive(end - time.monotonic())
            if "event" not in answer:
                return self._result(operation, answer)
            if step is not None:
                step.advance(answer["event"]["advance"], note=answer["event"]["note"])

    def kill(self) -> None:
        """End the process at once; a call that waits for it, in another thread, fails."""
        end(self._process)

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

    def _result(self, operation: str, answer: dict[str, Any]) -> dict[str, Any]:
        if "ok" in answer:
            result = answer["ok"]
            assert isinstance(result, dict)
            return result
        if "fault" in answer:
            if line := refusal_in(answer["fault"]["message"]):
                raise refused("write what TensorFlow makes", line)
            raise ModelError(answer["fault"]["message"], hint=answer["fault"]["hint"], log=self._log)
        if "memory" in answer:
            raise self._memory_error("")
        raise self._explained(answer["error"]) or ToolchainError(
            f"TensorFlow failed in {operation!r}: {answer['error']}", log=self._log
        )

    def _explained(self, text: str) -> TfaotError | None:
        """The error that `text`, printed by a worker that failed, tells of, where it is one that has a name."""
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
            return refused("write what TensorFlow makes", line)
        if any(words in text for words in _WANT_OF_MEMORY):
            return self._memory_error(_line_with(_WANT_OF_MEMORY, text))
        return None

    def _memory_error(self, line: str) -> ToolchainError:
        limit = f" (limit: {self._limits.memory / _GIGABYTE:g} GiB)" if self._limits.memory else ""
        return ToolchainError(
            f"TensorFlow's process ran out of memory{limit}" + (f": {line}" if line else ""),
            hint="raise TFAOT_WORKER_MEMORY (GiB; TensorFlow itself needs 2), or free some memory",
            log=self._log,
            cause="out of memory",
        )

    def _send(self, message: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._crash() from None

    def _receive(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self.kill()
                raise ToolchainError(
                    f"TensorFlow's process gave no answer within {self._limits.timeout:g} s and was stopped",
                    hint="raise TFAOT_WORKER_TIMEOUT (seconds) where the model really needs longer",
                    log=self._log,
                    cause="timed out",
                )
            data = os.read(self._answers, 1 << 16)
            if not data:
                raise self._crash()
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def _crash(self) -> TfaotError:
        """The error for a process that ended by itself: its log tells whose fault it was."""
        code = self._process.wait()
        text = _end_of(self._log)
        if explained := self._explained(text):
            return explained
        if code == -signal.SIGKILL:
            return ToolchainError(
                "TensorFlow's process was killed (SIGKILL): by the system for want of memory, or by someone",
                hint="repeat the command; where it happens again, free some memory",
                log=self._log,
                cause="killed",
            )
        tail = "\n".join(text.rstrip().splitlines()[-8:])
        return ToolchainError(
            f"TensorFlow's process crashed ({describe_exit(code)})" + (f":\n{tail}" if tail else ""),
            hint="the log holds all that it printed",
            log=self._log,
            cause="crashed",
        )


def _end_of(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _READ_OF_LOG))
        return file.read().decode("utf-8", "replace")


def _line_with(words: Sequence[str], text: str) -> str:
    return next(line.strip() for line in text.splitlines() if any(word in line for word in words))


@contextmanager
def worker(
    environment: ToolchainEnvironment,
    *,
    log: Path,
    writable: Sequence[Path] = (),
    xla_flags: Sequence[str] = (),
    tf_xla_flags: Sequence[str] = (),
    limits: WorkerLimits | None = None,
) -> Iterator[Worker]:
    """A worker in `environment`, which ends with the block; it writes below `writable` only and prints to `log`."""
    limits = limits or WorkerLimits.of_user()
    with storage_errors(f"write {log}"):
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("wb")
    read_end, write_end = os.pipe()
    try:
        process = start(
            [str(environment.python), "-I", "-B", str(_PROGRAM), str(write_end)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=[write_end],
            env=_variables(environment, xla_flags, tf_xla_flags),
        )
    except OSError as error:
        os.close(read_end)
        raise ToolchainError(f"cannot start {environment.python}: {error.strerror}") from error
    finally:
        os.close(write_end)
        output.close()
    started = Worker(process, read_end, log, limits)
    try:
        started.start(writable)
        yield started
    finally:
        started.stop()


def _variables(
    environment: ToolchainEnvironment, xla_flags: Sequence[str], tf_xla_flags: Sequence[str]
) -> dict[str, str]:
    """A small environment: the user's secrets and stray TF_* settings do not reach the model."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {
        **kept,
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        # TensorFlow's answers must be the same on every machine: neither the number of cores nor what the CPU has
        # beyond AVX2 may choose the order of its sums. Validation reports, which packages carry, hold differences
        # from them.
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "XLA_FLAGS": " ".join([*environment.toolchain.xla_flags, *xla_flags]),
        "TF_XLA_FLAGS": " ".join(tf_xla_flags),
    }


class WorkerPool:
    """Workers by flags and number, each started when it is first asked for and kept until the block ends.

    All may write below `scratch` only, which goes with the pool: what they made must be moved away before. Where the
    tool itself is killed its scratch stays, and the next pool with the same root removes it.
    """

    def __init__(self, environment: ToolchainEnvironment, *, scratch_root: Path, logs: Path) -> None:
        self.environment = environment
        self._scratch_root = scratch_root
        self._logs = logs
        self._stack = ExitStack()
        self._workers: dict[tuple[object, ...], Worker] = {}
        self._scratch: Path | None = None
        self._started = 0

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        keep_newest(self._logs, "worker-*.log", _KEPT_LOGS)

    @property
    def scratch(self) -> Path:
        if self._scratch is None:
            with storage_errors(f"write the build cache {self._scratch_root}"):
                self._scratch_root.mkdir(parents=True, exist_ok=True)
                _drop_stale_scratch(self._scratch_root)
                # Pushed before any worker, so it goes after all of them.
                folder = temporary_folder(self._scratch_root, prefix=_SCRATCH)
                self._scratch = self._stack.enter_context(folder)
                self._stack.callback(os.close, _hold(self._scratch))
        return self._scratch

    def new_folder(self, name: str) -> Path:
        """An empty folder that the workers may fill. Raises StorageError."""
        with storage_errors(f"write the build cache {self._scratch_root}"):
            return Path(tempfile.mkdtemp(dir=self.scratch, prefix=f"{name}."))

    def get(self, *, xla_flags: Sequence[str] = (), tf_xla_flags: Sequence[str] = (), number: int = 0) -> Worker:
        """The worker `number` that runs with exactly these flags, a new one where it has ended.

        Not for several threads at once.
        """
        identity = (tuple(xla_flags), tuple(tf_xla_flags), number)
        if identity not in self._workers or self._workers[identity].ended:
            self._started += 1
            started = worker(
                self.environment,
                log=self._logs / f"worker-{os.getpid()}-{self._started - 1}.log",
                writable=[self.scratch],
                xla_flags=xla_flags,
                tf_xla_flags=tf_xla_flags,
            )
            self._workers[identity] = self._stack.enter_context(started)
        return self._workers[identity]


def _hold(scratch: Path) -> int:
    """Lock `scratch` for as long as the file handle is open: the kernel frees it however this process ends."""
    handle = os.open(scratch / _SCRATCH_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def _drop_stale_scratch(root: Path) -> None:
    """Remove scratch folders that nobody holds; those that were made just now may be about to be locked."""
    for folder in root.glob(f"{_SCRATCH}*"):
        try:
            if time.time() - folder.stat().st_mtime < _STALE_AFTER:
                continue
            handle = _hold(folder)
        except OSError:  # in use, not ours, or gone
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)
