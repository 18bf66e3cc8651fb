"""A private copy of a model's files: what a build reads is what its key was made from.

Others may write the model's files at any time (a training job that exports again). So a build reads none of them:
workers read a copy, made once, whose digests must be those of the source tree.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg.errors import SourceError, TfaotError
from tfaot_pkg.source.tree import SourceTree
from tfaot_pkg.storage import storage_errors

_FICLONE = 0x40049409  # ioctl_ficlone(2)
_CHUNK = 1 << 20


class Snapshot:
    """The copy of the files of `source`, made when it is first asked for in the folder that `new_folder` gives."""

    def __init__(self, source: SourceTree, new_folder: Callable[[str], Path]) -> None:
        self._source = source
        self._new_folder = new_folder
        self._model: Path | None = None

    @property
    def model(self) -> Path:
        """The SavedModel's folder, or the model's file, in the copy. Raises SourceError, StorageError."""
        if self._model is None:
            folder = self._new_folder("model")
            for name, digest in self._source.files.items():
                self._copy(name, digest, folder)
            single = self._source.model != self._source.folder
            self._model = folder / self._source.model.name if single else folder
        return self._model

    @contextmanager
    def named(self) -> Iterator[Path]:
        """`model`; errors of the block name the user's files instead."""
        copy = self.model
        try:
            yield copy
        except TfaotError as error:
            error.message = error.message.replace(str(copy), str(self._source.model))
            error.args = (error.message,)
            raise

    def _copy(self, name: str, digest: str, folder: Path) -> None:
        origin, place = self._source.folder / name, folder / name
        try:
            content = open(origin, "rb", opener=_at_once)  # noqa: SIM115 (the next block closes it)
        except OSError as error:
            raise _changed(origin) from error
        with content, storage_errors("copy the model's files"):
            place.parent.mkdir(parents=True, exist_ok=True)
            if copy_hashed(content, place) != digest:
                raise _changed(origin)


def copy_hashed(content: BinaryIO, place: Path) -> str:
    """Copy `content` to the new file `place`, and give the SHA-256 of what is there then. Raises OSError.

    Where the file system can share blocks between files, nothing is copied until one of them is written.
    """
    digest = hashlib.sha256()
    with place.open("xb+") as copy:
        reading, writing = (copy, None) if _cloned(content, copy) else (content, copy)
        while chunk := reading.read(_CHUNK):
            digest.update(chunk)
            if writing is not None:
                writing.write(chunk)
    return digest.hexdigest()


def _cloned(content: BinaryIO, copy: BinaryIO) -> bool:
    try:
        fcntl.ioctl(copy.fileno(), _FICLONE, content.fileno())
    except OSError:  # another file system, or one that cannot
        return False
    return True


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting: a named pipe in its place would keep us for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def _changed(file: Path) -> SourceError:
    return SourceError(
        f"the model's files changed while the model was built: {file}",
        hint="build again when nothing writes to them any more; nothing was kept",
    )
