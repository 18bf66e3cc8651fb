"""Writes files whole, or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import ExportError


def require_writable(target: Path, *, has_classes: bool) -> None:
    """Fail before the export, which may take minutes."""
    if target.suffix.lower() not in (".aten", ".onnx", ".pt2"):
        raise ExportError(f"{target}: give the file a name that ends with .aten, .onnx or .pt2")
    if has_classes and target.suffix.lower() != ".aten":
        raise ExportError(f"{target}: only .aten files have answers to random inputs: leave out ranges and batches")
    if not os.access(target.absolute().parent, os.W_OK | os.X_OK):
        raise ExportError(f"{target}: no such folder, or no permission to write to it")


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path for the block to write to: the whole file replaces `target`, or nothing."""
    with tempfile.TemporaryDirectory(dir=target.absolute().parent, prefix=".export-") as folder:
        made = Path(folder, target.name)
        yield made
        # The folder is beside the target, on the same file system: this is a rename, which readers see whole.
        os.replace(made, target)


def bytes_of(torch: Any, tensor: Any) -> bytes:
    """Its elements in order, little-endian as PyTorch's machines are."""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data) if tensor.numel() else b""


def write_archive(path: Path, document: Mapping[str, Any], arrays: list[Any], answers: set[int]) -> None:
    import torch

    with zipfile.ZipFile(path, "w") as archive:
        # The same bytes from the same model: members have no date.
        archive.writestr(zipfile.ZipInfo("program.json"), json.dumps(document, allow_nan=False))
        for place, tensor in enumerate(arrays):
            kind = zipfile.ZIP_DEFLATED if place in answers else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(f"arrays/{place}"), bytes_of(torch, tensor), kind)
