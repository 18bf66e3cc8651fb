"""What is wrong with an export, for its author."""

from __future__ import annotations


class ExportError(Exception):
    """The message says what is wrong and what to do."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error` says so. It tells nothing of the model, so nothing may be concluded from it.

    PyTorch has a type for it on GPUs alone: its allocator for CPUs raises RuntimeError.
    """
    said = str(error)
    return isinstance(error, MemoryError) or "allocate memory" in said or "out of memory" in said


def said(error: BaseException) -> str:
    """What `error` says, or its type: the assertions of many models say nothing."""
    return str(error) or type(error).__name__
