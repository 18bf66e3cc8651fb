"""What errors of builds count as, and what they have in common."""

from __future__ import annotations

import errno
import os

import pytest

from tfaot_pkg.errors import (
    CompilerError,
    ModelError,
    NetworkError,
    ProcessEnd,
    RebuildError,
    SandboxError,
    SourceError,
    SpecError,
    StorageError,
    TfaotError,
    ToolchainError,
    ValidationError,
)
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.nightly.outcome import class_of, kind_of


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SpecError("bad"), "build failed"),
        (SourceError("no such folder"), "build failed"),
        (ModelError("unsupported"), "build failed"),
        (CompilerError("failed on generated code"), "build failed"),
        (ValidationError("differs"), "validation failed"),
        (RebuildError("two builds of x differ in 2 files"), "not reproducible"),
        (NetworkError("away"), "infrastructure failed"),
        (SandboxError("no user namespaces"), "infrastructure failed"),
        (StorageError("the disk is full"), "infrastructure failed"),
    ],
)
def test_an_error_is_a_fault_of_the_model_or_of_the_machine(error: TfaotError, kind: str) -> None:
    assert kind_of(error) == kind


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("", "build failed"),
        ("crashed", "build failed"),
        ("killed", "infrastructure failed"),
        ("out of memory", "out of memory"),
        ("timed out", "timed out"),
    ],
)
def test_ends_of_tensorflow_are_told_apart(cause: ProcessEnd, kind: str) -> None:
    assert kind_of(ToolchainError("TensorFlow's process ended", cause=cause)) == kind


@pytest.mark.parametrize(("number", "kind"), [(errno.EFBIG, "build failed"), (errno.ENOSPC, "infrastructure failed")])
def test_a_file_beyond_the_limit_is_the_models_fault_and_a_full_disk_is_not(number: int, kind: str) -> None:
    with pytest.raises(StorageError) as caught, storage_errors("write the build cache"):
        raise OSError(number, os.strerror(number))
    assert kind_of(caught.value) == kind


_UNSUPPORTED = (
    "the model has operations that cannot be compiled:\n  StringJoin (node a/b): no kernel\n  {more} (node c): no"
)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModelError(_UNSUPPORTED.format(more="StringJoin")), "unsupported operation StringJoin"),
        (ModelError(_UNSUPPORTED.format(more="Print")), "unsupported operations Print, StringJoin"),
        (ModelError("input 'x' has dtype string, which a compiled model cannot take"), "unsupported dtype string"),
        (
            ToolchainError("TensorFlow's process crashed (killed by SIGSEGV):\n..."),
            "the compiler crashed (killed by SIGSEGV)",
        ),
        (
            ValidationError("model a: the compiled library does not give TensorFlow's answers (rtol 1)"),
            "answers differ from TensorFlow's",
        ),
        (
            ValidationError("model a: the compiled library does not give ONNX Runtime's answers (rtol 1)"),
            "answers differ from ONNX Runtime's",
        ),
        (SourceError("the folder /data/models/tagger 3.1 is missing"), "source: the folder … … is missing"),
    ],
)
def test_equal_failures_of_different_models_share_words(error: TfaotError, words: str) -> None:
    assert class_of(error) == words
