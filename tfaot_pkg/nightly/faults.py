"""Whose fault a failed build was, and what it has in common with others. Pure.

Model faults are never tried again, faults of the machines are: what is said here decides which of them a failure is.
"""

from __future__ import annotations

import errno
import os
import re

from tfaot_pkg.errors import NetworkError, RebuildError, StorageError, TfaotError, ToolchainError, ValidationError
from tfaot_pkg.nightly.attempt import AttemptKind

_ENDS: dict[str, AttemptKind] = {
    "out of memory": "out of memory",
    "timed out": "timed out",
    "killed": "infrastructure failed",
}
_TOO_LARGE = (os.strerror(errno.EFBIG), "larger than this process may write")
_UNSUPPORTED = re.compile(r"^  (\w+) \(node ", re.MULTILINE)
_CLASSES = (
    (re.compile(r"does not give TensorFlow's answers"), "answers differ from TensorFlow's"),
    (re.compile(r"has dtype (\w+), which a compiled model"), r"unsupported dtype \1"),
    (re.compile(r"changes variables"), "the model keeps state"),
    (re.compile(r"operations that reach out of the model|reaches out of the model"), "forbidden operations"),
    (re.compile(r"XLA cannot compile"), "XLA cannot compile the model"),
    (re.compile(r"process crashed \((.*?)\)"), r"the compiler crashed (\1)"),
    (re.compile(r"^two builds of .* differ"), "two builds differ"),
    (re.compile(r"failed on generated code"), "the C++ compiler failed"),
    (re.compile(r"runs? out of memory|ran out of memory"), "out of memory"),
)
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|[\w.+-]*/[\w./+@-]*|\b[0-9a-f]{12,}\b|\[[^\]]*\]|\d[\d.e+-]*")
_LONGEST = 100


def kind_of(error: TfaotError) -> AttemptKind:
    """What a build that ended with `error` counts as."""
    match error:
        case ValidationError():
            return "validation failed"
        case RebuildError():
            return "not reproducible"
        case NetworkError():
            return "infrastructure failed"
        case StorageError():
            # The only limit on files here is the task's own.
            return "build failed" if any(words in error.message for words in _TOO_LARGE) else "infrastructure failed"
        case ToolchainError():
            return _ENDS.get(error.cause, "build failed")
        case _:
            return "build failed"


def class_of(error: TfaotError) -> str:
    """A few words that equal failures of different models share: "unsupported operation StringJoin"."""
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
