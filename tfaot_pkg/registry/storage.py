"""The port through which a registry's files are written, wherever they are, and its form for a folder.

registry/storage.py   in a folder
registry/bucket.py    in a bucket of S3, or of a server with its protocol
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.storage import locked, make_folder, storage_errors, sync_folder
from tfaot_pkg.registry.blobs import open_blob, place
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.files import Files, FolderFiles
from tfaot_pkg.registry.files.layout import LOCK


class Storage(Files, Protocol):
    """A registry's files where they can be written. What is written is durable when a method returns."""

    @property
    def has_lock(self) -> bool:
        """Whether others wait while something is changed."""

    def changing(self, timeout: float) -> AbstractContextManager[None]:
        """Around one change: nothing that others write meanwhile is lost.

        Either they wait, and this raises StorageError, which names the holder, after `timeout` seconds; or `put`
        raises `Conflict`.
        """

    def put(self, path: str, data: bytes) -> None:
        """Replace a file in one step. Raises Conflict, OSError, StorageError, NetworkError."""

    def place(self, path: str, blob: BlobRef, source: Path | bytes) -> None:
        """Make the file `path` of `source`, which must be `blob`. If it is there, folders compare it instead.

        Raises TrustError if `source` or the file is something else, StorageError, NetworkError.
        """

    def items(self, folder: str) -> Iterator[Item]:
        """All files below `folder`; with an empty one those in no folder. Raises StorageError, NetworkError."""

    def remove(self, path: str) -> None:
        """Remove a file, if it exists. Raises StorageError, NetworkError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A file as it is listed; `modified` is the time of its last change in seconds since 1970."""

    path: str
    size: int
    modified: float


class Conflict(StorageError):
    """Somebody else has changed the registry since it was read, so nothing was changed."""


class Occupied(Conflict):
    """There is a file of a name that should be new: of another writer, or of one that was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderStorage(FolderFiles):
    """Files below `root`. Whoever changes them holds a lock."""

    @property
    def has_lock(self) -> bool:
        return True

    @contextmanager
    def changing(self, timeout: float) -> Iterator[None]:
        with storage_errors(f"write the registry {self.root}"):
            with locked(self.root / LOCK, what=f"the registry {self.root}", timeout=timeout):
                yield

    def put(self, path: str, data: bytes) -> None:
        """Replace a file in one step; durable when this returns. Raises OSError.

        The temporary name is fixed: only the holder of the registry's lock writes, so the next one overwrites
        what a killed one left.
        """
        final = self.root / path
        temporary = final.with_name(f".{final.name}.part")
        make_folder(final.parent)
        try:
            # O_NOFOLLOW: the name is predictable, and a link there would choose which file is overwritten.
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                # Readable by a web server, whatever the umask of the publisher is.
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            os.replace(temporary, final)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(final.parent)

    def place(self, path: str, blob: BlobRef, source: Path | bytes) -> None:
        # A damaged copy must not pass for the blob that is being published.
        if self.has(path):
            with open_blob(self, path, blob):
                return
        with storage_errors(f"write the registry {self.root}"):
            self._drop_leftovers(self.root / path)
            place(self.root / path, blob, source)

    def _drop_leftovers(self, path: Path) -> None:
        """Remove what a publisher that was killed left beside `path`: we hold the lock, so nobody writes there."""
        if path.parent.is_dir():
            for name in os.listdir(path.parent):
                if name.startswith(f".{path.name}.") and name.endswith(".part"):
                    (path.parent / name).unlink()

    def items(self, folder: str) -> Iterator[Item]:
        with storage_errors(f"read the registry {self.root}"):
            try:
                entries = sorted(os.scandir(self.root / folder), key=lambda entry: entry.name)
            except FileNotFoundError:
                return
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                # Links may lead out of the registry.
                if entry.is_dir(follow_symlinks=False):
                    if folder:
                        yield from self.items(path)
                elif entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    yield Item(path=path, size=status.st_size, modified=status.st_mtime)

    def remove(self, path: str) -> None:
        with storage_errors(f"write the registry {self.root}"):
            (self.root / path).unlink(missing_ok=True)
