"""Running one build within its limits, and turning its end into an `Attempt`.

Time and memory are watched from this process (hosts.py); the kernel limits files (RLIMIT_FSIZE).
Memory is what the build's processes have for themselves (process_tree.py): an address-space limit would count what
TensorFlow maps and never touches, several times what it uses.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.process import describe_exit
from tfaot_pkg.ground.process_tree import oom_kills
from tfaot_pkg.nightly.build_task import INTERNAL, Order
from tfaot_pkg.nightly.hosts import BuildHosts, Ended
from tfaot_pkg.nightly.outcome import Answer, Attempt, AttemptKind, Request, builder
from tfaot_pkg.nightly.results import Results

_MIB = 2**20


def perform(request: Request, hosts: BuildHosts) -> Attempt:
    """Perform the request, unless its result exists, and return the attempt. Errors of the machine become attempts too.

    Runs anywhere that sees the state folder and the cache: in a thread of the coordinator, or in a Dask worker.
    """
    start = time.monotonic()
    results, key = Results(root=request.state), request.decision.key
    try:
        known = results.get(key, request.night)
        if known is None:
            with results.scratch() as scratch:
                attempt = _supervised(request, hosts, scratch, start)
                attempt = replace(attempt, builder=attempt.builder or builder())
            # Faults of machines are not stored: the next try, or a resumed night, has to build again.
            if attempt.is_final and attempt.kind != "verified":
                results.put(key, attempt)
            return attempt
    except (OSError, TfaotError) as error:
        return replace(_infrastructure(request, start, str(error), "the machine failed"), builder=builder())
    _say(request.log, f"{request.decision.task.id}: taken from the result of {known.night}")
    return known


def environment_of_builds(given: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The variables that a build gets: few of `given` (`public`), and folders of its own."""
    # Not the user's folders: they hold registries, pinned roots and the remotes of Conan, and a build runs what a model
    # and its recipe bring.
    own = {"TFAOT_HOME": scratch / "home", "CONAN_HOME": scratch / "conan", "TMPDIR": scratch / "tmp"}
    return {**_shared(given), **{name: str(path) for name, path in own.items()}}


def _shared(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of all builds."""
    return {
        **public(given),
        # The build must import the same code as this process, also in a checkout that is not installed.
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "PYTHONUNBUFFERED": "1",  # the log of a build that was killed has its last words
    }


def _environment_of_hosts(given: Mapping[str, str]) -> dict[str, str]:
    # Without threads of NumPy, which would be missing in what a host forks.
    return {**_shared(given), "OPENBLAS_NUM_THREADS": "1"}


def _supervised(request: Request, hosts: BuildHosts, scratch: Path, start: float) -> Attempt:
    # Python and compilers fall back to /tmp if TMPDIR names no folder.
    (scratch / "tmp").mkdir()
    file = scratch / "request.json"
    request.write(file)
    order = Order(
        request=str(file), folder=str(scratch), environment=environment_of_builds(os.environ, scratch),
        log=str(request.log), program=request.program,
        cache=str(request.cache), tensorflow=request.decision.task.tensorflow,
    )  # fmt: skip
    _say(request.log, f"{request.decision.task.id}: build of {request.decision.release}")
    # The kernel does not tell a parent why a child got SIGKILL: its count of kills for memory is the only evidence.
    killed_before = oom_kills()
    ended = hosts.run(
        order, env=_environment_of_hosts(os.environ), timeout=request.policy.timeout, memory=request.policy.memory
    )
    attempt = _attempt(request, ended, Answer.read(file), start, killed_for_memory=oom_kills() > killed_before)
    if attempt.kind != "verified":
        _say(request.log, f"error: {attempt.kind}: {attempt.error}")
        return attempt
    stored = Results(root=request.state).get(request.decision.key, request.night)
    if stored is None:
        return _infrastructure(request, start, "the build succeeded, but left no result", "no result")
    # The build stored its result before it ended: the peak of all of its processes is known only here.
    return replace(stored, memory=ended.memory)


def _attempt(request: Request, ended: Ended, told: Answer | None, start: float, *, killed_for_memory: bool) -> Attempt:
    """The attempt for a build that ended in this way."""
    policy, seconds = request.policy, time.monotonic() - start

    def failed(kind: AttemptKind, error: str, error_class: str) -> Attempt:
        return Attempt(
            kind=kind, night=request.night, seconds=seconds, memory=ended.memory, error=error, error_class=error_class
        )

    # Limits first: it was killed for them, so its exit code says nothing more.
    if ended.limit == "time":
        return failed("timed out", f"no end after {policy.timeout:g} s (policy.timeout)", "timed out")
    if ended.limit == "memory":
        words = f"exceeded policy.memory: used {ended.memory / _MIB:,.0f} MiB, limit {policy.memory / _MIB:,.0f} MiB"
        return failed("out of memory", words, "out of memory")
    if ended.code == 0:
        return Attempt(kind="verified", night=request.night, seconds=seconds, memory=ended.memory)
    # SIGKILL ended the build itself, or a program that it started: then the build could still report it.
    killed = (told is None and ended.code == -signal.SIGKILL) or (told is not None and told.cause == "killed")
    if killed and killed_for_memory:
        return failed("out of memory", "the system killed it: the machine was out of memory", "out of memory")
    if told is not None:
        return failed(told.kind, told.error, told.error_class)
    if ended.code == -signal.SIGXFSZ:
        return failed(
            "build failed", f"a file of more than {policy.output:,} bytes (policy.output)", "output too large"
        )
    if ended.code == INTERNAL:
        return failed("infrastructure failed", f"internal error: {_last_line(request.log)}", "internal error")
    words = f"the build ended without an answer ({describe_exit(ended.code)})"
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


# What finds programs and libraries, what fetching sources needs (certificates, proxies), and the limits of workers.
KEPT = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "CXX", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "no_proxy", "NO_PROXY", "TFAOT_WORKER_TIMEOUT", "TFAOT_WORKER_MEMORY", "TFAOT_WORKER_DISK",
    "TFAOT_WORKER_THREADS",
    "TFAOT_UNCONFINED",
)  # fmt: skip
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
# What the coordinator's terminal, imports and folders need; builds get their own values of these, or none.
_OF_COORDINATOR = ("TERM", "COLUMNS", "LINES", "NO_COLOR", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "TFAOT_HOME", "USER")


def public(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of `given` that builds may have: those that they need. A proxy only if no password is in it."""
    kept = {name: given[name] for name in KEPT if name in given}
    return kept | {name: given[name] for name in _PROXIES if name in given and "@" not in given[name]}


def hide_secrets(environ: MutableMapping[str, str]) -> None:
    """Take everything else out of this process's `environ`: what it starts from now on does not get it.

    To be called once passwords have been read. The kernel still shows what this process was started with.
    """
    kept = {**public(environ), **{name: environ[name] for name in _OF_COORDINATOR if name in environ}}
    for name in set(environ) - kept.keys():
        del environ[name]
