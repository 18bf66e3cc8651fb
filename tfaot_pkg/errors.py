"""All errors for users: the fault, its place, advice, and a stable exit code.

There is one class per party at fault, because that decides who acts: the author of the spec, the author of the model,
the administrator of the machine, the registry's maintainer. Only the command line prints errors and exits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

ProcessEnd = Literal["", "crashed", "killed", "out of memory", "timed out"]


class TfaotError(Exception):
    """Base of all expected failures.

    `hint` says what to do next; `log` is a file with the full output of the tool that failed.
    """

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "", log: Path | None = None) -> None:
        # File names and messages of libraries may contain surrogates, which UTF-8 cannot encode.
        # Escaped here, so that neither printing nor JSON fails on them.
        self.message = message.encode("utf-8", "backslashreplace").decode()
        self.hint = hint.encode("utf-8", "backslashreplace").decode()
        super().__init__(self.message)
        self.log = log

    def as_dict(self) -> dict[str, object]:
        """The form that `--json` prints."""
        return {
            "kind": self.kind,
            "exit_code": self.exit_code,
            "message": self.message,
            "hint": self.hint,
            "log": str(self.log) if self.log else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of an input file: `spec.yaml:14: compilation.batch_sizes[1]: must be at least 1, got -2`."""

    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"


class SpecError(TfaotError):
    """The spec is wrong: all of its faults at once."""

    exit_code = 10
    kind = "spec"

    def __init__(self, faults: list[Fault] | tuple[Fault, ...] | str, *, hint: str = "") -> None:
        self.faults: tuple[Fault, ...] = () if isinstance(faults, str) else tuple(faults)
        message = faults if isinstance(faults, str) else "\n".join(map(str, self.faults))
        super().__init__(message, hint=hint)

    def as_dict(self) -> dict[str, object]:
        faults = [{"file": f.file, "line": f.line, "path": f.path, "message": f.message} for f in self.faults]
        return {**super().as_dict(), "faults": faults}


class SourceError(TfaotError):
    """The model's files cannot be fetched or read: missing folder, wrong checksum, unsafe archive, unknown revision."""

    exit_code = 11
    kind = "source"


class ModelError(TfaotError):
    """The model itself cannot be compiled: damaged SavedModel, unknown signature, unsupported operation.

    `newer`: a newer toolchain may be able to read it.
    """

    exit_code = 12
    kind = "model"

    def __init__(self, message: str, *, hint: str = "", log: Path | None = None, newer: bool = False) -> None:
        super().__init__(message, hint=hint, log=log)
        self.newer = newer


class ToolchainError(TfaotError):
    """TensorFlow's environment is missing or broken, or its process crashed, hung or ran out of memory.

    `cause` says how a process ended; it is empty for other errors.
    """

    exit_code = 13
    kind = "toolchain"

    def __init__(self, message: str, *, hint: str = "", log: Path | None = None, cause: ProcessEnd = "") -> None:
        super().__init__(message, hint=hint, log=log)
        self.cause = cause


class CompilerError(TfaotError):
    """The C++ compiler or linker is missing, or failed on generated code."""

    exit_code = 14
    kind = "compiler"


class ValidationError(TfaotError):
    """The compiled library does not give the framework's answers within the tolerance."""

    exit_code = 15
    kind = "validation"


class RegistryError(TfaotError):
    """The registry rejects or lacks something: unknown package, same version with other content."""

    exit_code = 16
    kind = "registry"


class NetworkError(TfaotError):
    """A server cannot be reached or answers wrongly."""

    exit_code = 17
    kind = "network"


class TrustError(TfaotError):
    """Content differs from what was signed or locked: wrong digest or signature, or outdated metadata."""

    exit_code = 18
    kind = "trust"


class ConanError(TfaotError):
    """Conan failed on the package."""

    exit_code = 19
    kind = "conan"


class StorageError(TfaotError):
    """Disk full, read-only, permission denied, or a lock held by another process."""

    exit_code = 20
    kind = "storage"


class RunError(TfaotError):
    """A library cannot be loaded or run, or got arrays that do not fit."""

    exit_code = 21
    kind = "run"


class PrefixError(TfaotError):
    """Nothing can be installed or found in the prefix: files in the way, no such package, damaged manifest."""

    exit_code = 22
    kind = "prefix"


class RebuildError(TfaotError):
    """A published package cannot be built again here: another compiler, another version of this tool, no source."""

    exit_code = 23
    kind = "rebuild"


class SandboxError(TfaotError):
    """The machine cannot confine code of a model, or the sandbox would show it files that it must not read."""

    exit_code = 29
    kind = "sandbox"
