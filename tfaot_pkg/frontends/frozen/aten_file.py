"""Reads an .aten file, which export.py wrote beside PyTorch: its document, weights and answers. Files are untrusted.

No framework takes part, and no pickle: members are JSON and the bytes of arrays, uncompressed.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.aten_lowering.document import HINT, ArrayType, Document, Module, read
from tfaot_pkg.ground.arrays import Array

DOCUMENT = "program.json"
_MOST_DOCUMENT = 256 << 20


def read_module(path: Path) -> Module:
    """The module in the file at `path`. Raises ModelError, OSError."""
    with _opened(path) as archive:
        document = _document(archive, path)
        numbers = sorted(set(document.weights.values()))
        arrays = {number: _array(archive, number, document.arrays[number]) for number in numbers}
    return Module(
        document=document,
        weights={name: arrays[number] for name, number in document.weights.items()},
        bits=frozenset(name for name, n in document.weights.items() if document.arrays[n].dtype == "bfloat16"),
    )


def read_document(path: Path) -> Document:
    """The document alone. Raises ModelError, OSError."""
    with _opened(path) as archive:
        return _document(archive, path)


def read_answers(path: Path) -> dict[str, Array]:
    """What PyTorch answered when the model was exported, by "in/NAME" and "out/NAME". Raises ModelError, OSError."""
    with _opened(path) as archive:
        document = _document(archive, path)
        return {name: _array(archive, number, document.arrays[number]) for name, number in document.answers.items()}


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            _require_plain(archive, path.stat().st_size)
            yield archive
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError) as error:
        raise ModelError(f"{path} is damaged: {error}", hint=HINT) from error


def _require_plain(archive: zipfile.ZipFile, size: int) -> None:
    """Raise ValueError if members are compressed, occur twice, or are longer than the file together."""
    members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("its members are compressed")
    if len({member.filename for member in members}) < len(members):
        raise ValueError("a member occurs twice")
    # Several members may refer to the same bytes of the file.
    if sum(member.file_size for member in members) > size:
        raise ValueError("its members are longer than the file")


def _document(archive: zipfile.ZipFile, path: Path) -> Document:
    if archive.getinfo(DOCUMENT).file_size > _MOST_DOCUMENT:
        raise ValueError(f"{DOCUMENT} has more than {_MOST_DOCUMENT >> 20} MB")
    return read(archive.read(DOCUMENT), str(path))


def _array(archive: zipfile.ZipFile, number: int, kind: ArrayType) -> Array:
    name = f"arrays/{number}"
    # Before anything is read: the sizes in the document may be anything.
    if archive.getinfo(name).file_size != kind.nbytes:
        raise ValueError(f"{name} has {archive.getinfo(name).file_size} bytes, not {kind.nbytes}")
    content = archive.read(name)
    if hashlib.sha256(content).hexdigest() != kind.sha256:
        raise ValueError(f"{name} has another digest than the document says")
    # Copied: NumPy's operations need aligned, native arrays.
    return np.frombuffer(content, kind.held).reshape(kind.shape).astype(kind.held.newbyteorder("="))
