"""How one try at a task ended (`Attempt`), and what is recorded of the task (`Outcome`)."""

from __future__ import annotations

import errno
import os
import platform
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import (
    NetworkError,
    RebuildError,
    SandboxError,
    StorageError,
    TfaotError,
    ToolchainError,
    ValidationError,
)
from tfaot_pkg.ground import documents
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.nightly.types import Decision, Figures, GitSpec, Outcome, OutcomeKind, Policy, Task

AttemptKind = Literal[
    "verified",
    "build failed",
    "validation failed",
    "not reproducible",
    "timed out",
    "out of memory",
    "infrastructure failed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Build `decision` in `night`: the result goes into the state folder `state`, output to the end of `log`.

    `cache` holds toolchains, downloads and the build cache, which builds share. `program` builds in place of
    build_task.py; its last argument is the path of the request's file. `source` is a folder with the model's files, and
    `data` has files of rows by the keys that name them, if they are not where the spec says.
    """

    decision: Decision
    night: str
    state: Path
    log: Path
    cache: Path
    policy: Policy
    program: tuple[str, ...] = ()
    source: Path | None = None
    data: Mapping[str, Path] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the file that the build program reads."""
        path.write_bytes(documents.write(self))

    @classmethod
    def read(cls, path: Path) -> Request:
        """What `write` wrote. Raises StorageError."""
        with storage_errors(f"read {path}"):
            data = path.read_bytes()
        return documents.read(cls, data, str(path), error=StorageError, hint="run the night again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a build failed, for the process that started it: a file beside its request.

    `error` and `error_class` are as in `Outcome`; `cause` is a toolchain error's, "" for all others.
    """

    kind: AttemptKind
    error: str
    error_class: str
    cause: str = ""

    FILE: ClassVar[str] = "answer.json"

    def write(self, request: Path) -> None:
        request.with_name(self.FILE).write_bytes(documents.write(self))

    @classmethod
    def read(cls, request: Path) -> Answer | None:
        """The answer to the request in this file; None if the build gave none. Raises StorageError."""
        path = request.with_name(cls.FILE)
        with storage_errors(f"read {path}"):
            data = path.read_bytes() if path.exists() else None
        hint = "the log of the build shows how it ended"
        return documents.read(cls, data, str(path), error=StorageError, hint=hint) if data is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The result of a request. `seconds` is its duration, `memory` the peak that was measured, in bytes.

    `error`, `error_class` and `builder` are as in `Outcome`; `night` is the night of the build, `worker` the executor's
    name of who built, "" if it has one place only. `builders` are those that built the same bytes, if several had to.
    """

    kind: AttemptKind
    night: str
    seconds: float = 0.0
    memory: int = 0
    error: str = ""
    error_class: str = ""
    figures: Figures | None = None
    builder: str = ""
    worker: str = ""
    builders: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether another try in the same night would end in the same way."""
        return self.kind != "infrastructure failed"

    def would_end_so(self, policy: Policy) -> bool:
        """Whether another build of the same inputs would fail in the same way, as far as `policy` can tell."""
        match self.kind:
            case "timed out":
                return policy.timeout <= self.seconds
            case "out of memory":
                return policy.memory <= self.memory
            case _:
                return self.kind not in ("verified", "infrastructure failed")


_BUILD = "tfaot_pkg.nightly.build"


def builder() -> str:
    """Who builds here, for the record. Nothing trusts it: the publisher checks the result again."""
    return f"user {os.getuid()} on {platform.node()}, tfaot-pkg {__version__} (code {code_digest(_BUILD)[:12]})"


_ENDS: dict[str, AttemptKind] = {
    "out of memory": "out of memory",
    "timed out": "timed out",
    "killed": "infrastructure failed",
}
# A full disk and a file beyond policy.output are both StorageErrors: only their messages differ.
_TOO_LARGE = (os.strerror(errno.EFBIG), "larger than this process may write")
_UNSUPPORTED = re.compile(r"^  (\w+) \(node ", re.MULTILINE)
_CLASSES = (
    (re.compile(r"does not give ([^(:]{1,40}?)'s answers"), r"answers differ from \1's"),
    (re.compile(r"has dtype (\w+), which a compiled model"), r"unsupported dtype \1"),
    (re.compile(r"changes variables"), "the model keeps state"),
    (re.compile(r"operations that reach out of the model|reaches out of the model"), "forbidden operations"),
    (re.compile(r"XLA cannot compile"), "XLA cannot compile the model"),
    (re.compile(r"process crashed \((.*?)\)"), r"the compiler crashed (\1)"),
    (re.compile(r"^two builds of .* differ"), "two builds differ"),
    (re.compile(r"failed on generated code"), "the C++ compiler failed"),
    (re.compile(r"runs? out of memory|ran out of memory"), "out of memory"),
)
# Names, paths, digests and numbers differ between models: without them, similar failures have equal texts.
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|[\w.+-]*/[\w./+@-]*|\b[0-9a-f]{12,}\b|\[[^\]]*\]|\d[\d.e+-]*")
_LONGEST = 100


def kind_of(error: TfaotError) -> AttemptKind:
    """The kind of an attempt that ended with `error`: model faults are never tried again, faults of machines are."""
    match error:
        case ValidationError():
            return "validation failed"
        case RebuildError():
            return "not reproducible"
        case NetworkError() | SandboxError():
            return "infrastructure failed"
        case StorageError():
            # The only limit of file sizes here is the task's own (policy.output).
            return "build failed" if any(words in error.message for words in _TOO_LARGE) else "infrastructure failed"
        case ToolchainError():
            return _ENDS.get(error.cause, "build failed")
        case _:
            return "build failed"


def class_of(error: TfaotError) -> str:
    """A few words that similar failures of different models share: "unsupported operation StringJoin"."""
    unsupported = sorted(set(_UNSUPPORTED.findall(error.message)))
    if unsupported:
        return f"unsupported operation{'s' * (len(unsupported) > 1)} {', '.join(unsupported)}"
    if kind_of(error) == "build failed" and isinstance(error, StorageError):
        return "output too large"
    for pattern, words in _CLASSES:
        if found := pattern.search(error.message):
            return found.expand(words)
    first = error.message.splitlines()[0] if error.message else ""
    return f"{error.kind}: {_PARTICULAR.sub('…', first)[:_LONGEST]}"


UNREACHED = "Conan remote not reached"
_OF_MACHINES = (NetworkError.kind, StorageError.kind)


def outcome_for(
    decision: Decision,
    kind: OutcomeKind,
    *,
    attempt: Attempt | None = None,
    tries: int = 1,
    error: str = "",
    error_class: str = "",
    log: str = "",
) -> Outcome:
    """The outcome of `decision`; `log` is a path in the night's folder, `attempt` the last of `tries`."""
    task = decision.task
    return Outcome(
        task=task.id,
        model=task.model,
        toolchain=task.toolchain,
        kind=kind,
        release=decision.release,
        key=decision.key,
        seconds=attempt.seconds if attempt is not None else 0.0,
        attempts=tries,
        error=error,
        error_class=error_class,
        log=log,
        command=command_for(task),
        reasons=decision.reasons,
        figures=attempt.figures if attempt is not None else None,
        builder=attempt.builder if attempt is not None else "",
    )


def settled(decision: Decision, unsent: str = "") -> Outcome:
    """The outcome of a task that is not built. If it could not be planned, its error is the decision's reason.

    `unsent` says why not all remotes have what is published.
    """
    match decision.action:
        case "up to date" if unsent:
            return outcome_for(decision, "upload failed", error=unsent, error_class=UNREACHED)
        case "up to date":
            return outcome_for(decision, "up to date")
        case "fail":
            # `plan.failed` gives one reason: the kind of the error, and its message.
            (reason,) = decision.reasons
            # A source that cannot be fetched is no fault of the model: CI tells both apart by the exit code.
            kind: OutcomeKind = "infrastructure failed" if reason.what in _OF_MACHINES else "build failed"
            return outcome_for(decision, kind, error=reason.detail, error_class=f"cannot be planned: {reason.what}")
        case "refuse":
            (reason,) = decision.reasons
            return outcome_for(decision, "refused", error=reason.detail)
        case _:
            return outcome_for(decision, "skipped")


def refusal(decision: Decision, why: str) -> Outcome:
    """The outcome of a task in the stored plan that the definition does not ask for.

    It has no command that builds it by hand: that command would build the spec of whoever changed the plan.
    """
    return replace(outcome_for(decision, "infrastructure failed", error=why), command="")


def class_for(kind: OutcomeKind, attempt: Attempt) -> str:
    """The error class of an outcome; for failures of publishing, the build's attempt has none."""
    if kind == "dependency failed":
        return "dependency failed"
    if kind == "upload failed":
        return UNREACHED
    if kind == "infrastructure failed":
        return attempt.error_class or "the machine failed"
    return attempt.error_class


def command_for(task: Task) -> str:
    """A shell command that builds `task` into a prefix of its own.

    It first fetches a spec of another repository, at its commit: the machine of the report's reader does not have it
    in its cache. A task that could not be planned fails in the same way.
    """
    spec, fetch = str(task.spec), ""
    if task.origin is not None:
        folder = f"{task.model}-repository"
        spec, fetch = f"{folder}/{task.origin.path}", f"{_fetch(task.origin, folder)} && "
    toolchain = ["--tensorflow", task.tensorflow] if task.tensorflow else []
    targets = [word for target in task.targets for word in ("--target", target)]
    defines = [word for name, value in task.defines.items() for word in ("-D", f"{name}={value}")]
    words = [
        "tfaot-pkg",
        "build",
        spec,
        *toolchain,
        *targets,
        *defines,
        "-o",
        f"{task.model}-prefix",
    ]
    return f"{fetch}{shlex.join(words)}"


def _fetch(origin: GitSpec, folder: str) -> str:
    """Commands that put the commit's files into `folder`, and may be repeated. `git clone` has no commits of forks."""
    commands = (
        ["git", "init", "--quiet", folder],
        ["git", "-C", folder, "fetch", "--quiet", "--depth=1", origin.url, origin.revision],
        ["git", "-C", folder, "checkout", "--quiet", "--force", "FETCH_HEAD"],
    )
    return " && ".join(map(shlex.join, commands))


def first_words(error: str) -> str:
    """The first line of an error; the first two if the first ends in a colon."""
    first, _, rest = error.partition("\n")
    announced = rest.partition("\n")[0].strip() if first.endswith(":") else ""
    return f"{first} {announced}".rstrip()
