"""Reads an .aten file, which tfaot_pkg/export wrote beside PyTorch: its document, weights, answers. It is untrusted.

No framework takes part, and no pickle: members are JSON and the bytes of arrays; answers are compressed.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfaot_pkg.compiler.program import BATCH, Size
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.aten_lowering.document import HINT, ArrayType, Document, Module, Output, read
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.worker_program.messages.sources import SourceModel, SourceTensor

DOCUMENT = "program.json"
MODULE = "module.aten"
"""The copy of a model's file in the folder of its parts."""
_MOST_DOCUMENT, _MOST_COMPRESSED = 256 << 20, 1 << 30


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredRun:
    """The arrays of a Run of the document."""

    rows: int
    ran: Array
    outputs: Mapping[str, Array]
    beside: Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredClass:
    """The arrays of an AnsweredClass of the document."""

    name: str
    sizes: Mapping[str, int]
    inputs: Mapping[str, Array]
    runs: tuple[StoredRun, ...]


def read_classes(path: Path) -> tuple[StoredClass, ...]:
    """PyTorch's answers to the classes of inputs. Raises ModelError, OSError."""
    with _opened(path) as archive:
        document = _document(archive, path)
        kept: dict[int, Array] = {}

        def arrays(numbers: Mapping[str, int]) -> dict[str, Array]:
            for number in numbers.values():
                if number not in kept:
                    kept[number] = _array(archive, number, document.arrays[number])
            return {name: kept[number] for name, number in numbers.items()}

        return tuple(
            StoredClass(
                name=each.name,
                sizes=each.sizes,
                inputs=arrays(each.inputs),
                runs=tuple(
                    StoredRun(
                        rows=run.rows,
                        ran=arrays({"ran": run.ran})["ran"],
                        outputs=arrays(run.outputs),
                        beside=arrays(run.beside),
                    )
                    for run in each.runs
                ),
            )
            for each in document.classes
        )


def described(path: Path, out: Path | None) -> SourceModel:
    """The description of the file at `path`; a copy of it is written to `out` if it is given.

    Raises ModelError, StorageError.
    """
    with storage_errors(f"read {path}"):
        found = read_document(path)
        if out is not None:
            shutil.copyfile(path, out / MODULE)
    answered = next((each.sizes for each in found.classes), {})
    return SourceModel(
        file=str(path),
        origin=f"PyTorch {found.version}",
        inputs=tuple(
            SourceTensor(name=each.name, key=each.name, dtype=each.dtype, shape=tuple(map(_axis, each.axes)))
            for each in found.inputs
        ),
        outputs=tuple(
            SourceTensor(name=each.name, key=each.name, dtype=kind.dtype, shape=_shape_of_output(found, each, kind))
            for each in found.outputs
            for kind in [found.arrays[found.answers[f"out/{each.name}"]]]
        ),
        by_row=False,
        # The first class has the largest sizes that were answered, also of axes without a limit.
        symbols={
            name: (max(least, 1), most or answered.get(name, 0))
            for name, (least, most) in found.symbols.items()
            if name != BATCH
        },
    )


def _axis(axis: int | str) -> int | str | None:
    return None if axis == BATCH else axis


def _shape_of_output(found: Document, output: Output, kind: ArrayType) -> tuple[int | str | None, ...]:
    """What the document says of an output; an axis that is neither a number nor one symbol is as in its answers."""
    result = next((node.results[0] for node in found.nodes if node.name == output.value and node.results), None)
    stated = result.sizes if result is not None and len(result.sizes) == len(kind.shape) else [None] * len(kind.shape)
    symbols = {Size.symbol(each): each for each in found.symbols}
    return tuple(
        _axis(symbols[size]) if size in symbols else size.constant if size is not None and size.is_constant else length
        for size, length in zip(stated, kind.shape, strict=True)
    )


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            _require_plain(archive, path.stat().st_size)
            yield archive
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ModelError(f"{path} is damaged: {error}", hint=HINT) from error


def _require_plain(archive: zipfile.ZipFile, size: int) -> None:
    """Raise ValueError if members occur twice, or are longer than the file together, or than a limit if compressed."""
    members = archive.infolist()
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
        raise ValueError("its members are compressed in another way")
    if len({member.filename for member in members}) < len(members):
        raise ValueError("a member occurs twice")
    compressed = sum(member.file_size for member in members if member.compress_type == zipfile.ZIP_DEFLATED)
    if compressed > _MOST_COMPRESSED:
        raise ValueError(f"its compressed members have more than {_MOST_COMPRESSED >> 20} MB")
    # Several members may refer to the same bytes of the file.
    if sum(member.file_size for member in members) - compressed > size:
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
