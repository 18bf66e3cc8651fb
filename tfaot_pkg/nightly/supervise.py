"""Holding one build to its limits, from outside, and saying what became of it.

Time and memory are watched from here, because the build may be hung; files are limited by the kernel (RLIMIT_FSIZE).
Memory is what the build's processes have for themselves (processes.py): an address-space limit would count what
TensorFlow maps and never touches, several times what it uses.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.nightly.build_task import ANSWER, INTERNAL
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.processes import kill_tree, memory_below, oom_kills
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.types import Policy
from tfaot_pkg.process import describe_exit

_MIB = 2**20
_FIRST_LOOK, _LAST_LOOK = 0.1, 0.5  # seconds between looks at a build: at first, and in the long run

_running: set[subprocess.Popen[bytes]] = set()
_running_lock = threading.Lock()


def perform(request: Request) -> Attempt:
    """Build what is asked for, unless that was done: what came of it. Raises nothing that a machine's fault explains.

    Runs anywhere that sees the state folder and the cache: in a thread of the coordinator, or in a Dask worker.
    """
    start = time.monotonic()
    results, key = Results(root=request.state), request.decision.key
    try:
        known = results.get(key, request.night)
        if known is None:
            with results.scratch() as scratch:
                attempt = _supervised(request, scratch, start)
            if attempt.is_final and attempt.kind != "verified":
                results.put(key, attempt)
            return attempt
    except (OSError, TfaotError) as error:
        return _infrastructure(request, start, str(error), "the machine failed")
    _say(request.log, f"{request.decision.task.id}: taken from the result of {known.night}")
    return known


def environment_of_builds(given: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The variables that a build gets: few of `given` (`public`), and folders of its own."""
    package = str(Path(__file__).resolve().parents[2])
    own = {"TFAOT_HOME": scratch / "home", "CONAN_HOME": scratch / "conan", "TMPDIR": scratch / "tmp"}
    return {
        **public(given),
        **{name: str(path) for name, path in own.items()},
        "PYTHONPATH": package,
        "PYTHONUNBUFFERED": "1",
    }


def stop_all() -> None:
    """Kill all builds that threads of this process wait for."""
    with _running_lock:
        for process in _running:
            kill_tree(process.pid)


def _supervised(request: Request, scratch: Path, start: float) -> Attempt:
    (scratch / "tmp").mkdir()
    file = scratch / "request.json"
    request.write(file)
    program = request.program or (sys.executable, "-m", "tfaot_pkg.nightly.build_task")
    _say(request.log, f"{request.decision.task.id}: build of {request.decision.release}")
    killed_before = oom_kills()
    ended = _run([*program, str(file)], environment_of_builds(os.environ, scratch), request)
    answer = scratch / ANSWER
    told = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else None
    attempt = _attempt(request, ended, told, start, killed_for_memory=oom_kills() > killed_before)
    if attempt.kind != "verified":
        _say(request.log, f"error: {attempt.kind}: {attempt.error}")
        return attempt
    stored = Results(root=request.state).get(request.decision.key, request.night)
    if stored is None:
        return _infrastructure(request, start, "the build ended well, but left no result", "no result")
    return replace(stored, memory=ended.memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """How a build ended: `code` is the exit code, `limit` what it went beyond, `memory` the most bytes seen in use."""

    code: int
    limit: Literal["", "time", "memory"]
    memory: int


def _run(argv: Sequence[str], env: Mapping[str, str], request: Request) -> _Ended:
    """Run `argv` within the limits of `request`. Raises OSError where it cannot be started."""
    read_end, write_end = os.pipe()  # closed at the far end when the program has ended, which needs no polling
    try:
        with request.log.open("ab") as log:
            process = subprocess.Popen(
                argv,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[write_end],
                start_new_session=True,
            )
        os.close(write_end)
        write_end = -1
        with _counted(process):
            return _watch(process, read_end, request.policy)
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)


def _watch(process: subprocess.Popen[bytes], end: int, policy: Policy) -> _Ended:
    deadline, look, most = time.monotonic() + policy.timeout, _FIRST_LOOK, 0
    limit: Literal["", "time", "memory"] = ""
    while not limit and not select.select([end], [], [], look)[0] and process.poll() is None:
        most = max(most, memory_below(process.pid))
        if most > policy.memory:
            limit = "memory"
        elif time.monotonic() > deadline:
            limit = "time"
        look = min(look * 1.5, _LAST_LOOK, max(0.0, deadline - time.monotonic()))
    if limit:
        kill_tree(process.pid)
    return _Ended(code=process.wait(), limit=limit, memory=most)


@contextmanager
def _counted(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Know of `process` while it runs; it does not outlive an exception."""
    with _running_lock:
        _running.add(process)
    try:
        yield
    except BaseException:
        kill_tree(process.pid)
        process.wait()
        raise
    finally:
        with _running_lock:
            _running.discard(process)


def _attempt(
    request: Request, ended: _Ended, told: Mapping[str, str] | None, start: float, *, killed_for_memory: bool
) -> Attempt:
    """What a build that ended so counts as."""
    policy, seconds = request.policy, time.monotonic() - start

    def failed(kind: str, error: str, error_class: str) -> Attempt:
        return Attempt(
            kind=kind,  # type: ignore[arg-type]
            night=request.night, seconds=seconds, memory=ended.memory, error=error, error_class=error_class,
        )  # fmt: skip

    if ended.limit == "time":
        return failed("timed out", f"no end after {policy.timeout:g} s (policy.timeout)", "timed out")
    if ended.limit == "memory":
        words = f"it used {ended.memory / _MIB:,.0f} MiB; policy.memory allows {policy.memory / _MIB:,.0f} MiB"
        return failed("out of memory", words, "out of memory")
    if ended.code == 0:
        return Attempt(kind="verified", night=request.night, seconds=seconds, memory=ended.memory)
    killed = (told is None and ended.code == -signal.SIGKILL) or (told is not None and told.get("cause") == "killed")
    if killed and killed_for_memory:
        return failed("out of memory", "the system killed it: the machine was out of memory", "out of memory")
    if told is not None:
        return failed(told["kind"], told["error"], told["error_class"])
    if ended.code == -signal.SIGXFSZ:
        return failed(
            "build failed", f"a file of more than {policy.output:,} bytes (policy.output)", "output too large"
        )
    if ended.code == INTERNAL:
        return failed("infrastructure failed", f"internal error: {_last_line(request.log)}", "internal error")
    words = f"the build ended without a word ({describe_exit(ended.code)})"
    return failed("infrastructure failed", words, f"build process: {describe_exit(ended.code)}")


def _infrastructure(request: Request, start: float, error: str, error_class: str) -> Attempt:
    seconds = time.monotonic() - start
    return Attempt(
        kind="infrastructure failed", night=request.night, seconds=seconds, error=error, error_class=error_class
    )


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "")


def _say(log: Path, text: str) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


KEPT = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "CXX", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "no_proxy", "NO_PROXY", "TFAOT_WORKER_TIMEOUT", "TFAOT_WORKER_MEMORY", "TFAOT_WORKER_DISK",
    "TFAOT_UNCONFINED",
)  # fmt: skip
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_OF_COORDINATOR = ("TERM", "COLUMNS", "LINES", "NO_COLOR", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "TFAOT_HOME", "USER")


def public(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of `given` that builds may have: those that they need. A proxy only where no password is in it."""
    kept = {name: given[name] for name in KEPT if name in given}
    return kept | {name: given[name] for name in _PROXIES if name in given and "@" not in given[name]}


def hide_secrets(environ: MutableMapping[str, str]) -> None:
    """Take everything else out of this process's `environ`: what it starts from now on does not get it.

    To be called once passwords have been read. The kernel still shows what this process was started with.
    """
    kept = {**public(environ), **{name: environ[name] for name in _OF_COORDINATOR if name in environ}}
    for name in set(environ) - kept.keys():
        del environ[name]
