"""The port through which a registry's files are read, wherever they are, and its form for a folder.

All paths are relative, with `/`. Nothing that is read here is trusted yet: trust/ and registry/blobs.py check it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.storage import storage_errors


class MissingFile(RegistryError):
    """The registry has no file of that name (a server's 404)."""


class Files(Protocol):
    """A registry's files: in a folder (below), or on a server."""

    @property
    def location(self) -> str:
        """Folder or URL, for messages."""

    def get(self, path: str, limit: int) -> bytes:
        """The whole file. Raises MissingFile, TrustError beyond `limit` bytes (`too_long`), StorageError, NetworkError.

        No more than `limit` bytes are read or kept, even if the server sends or announces more.
        """

    def open(self, path: str, limit: int) -> AbstractContextManager[BinaryIO]:
        """The file, open at its start and seekable: for what is too large for memory. Raises as `get`."""

    def has(self, path: str) -> bool:
        """Whether there is such a file; its content is not looked at."""


def too_long(where: str, limit: int) -> TrustError:
    """The error for a file of more than `limit` bytes."""
    return TrustError(
        f"{where} is longer than its limit of {limit} bytes",
        hint="nothing of it was used; tell the registry's maintainer, or read from another mirror",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFiles:
    """Files below `root`."""

    root: Path

    @property
    def location(self) -> str:
        return str(self.root)

    def get(self, path: str, limit: int) -> bytes:
        with self._opened(path, limit) as file, storage_errors(f"read the registry {self.root}"):
            # One byte more than is allowed shows that the file is too long, also if it grows or has no size.
            data = file.read(limit + 1)
        if len(data) > limit:
            raise too_long(str(self.root / path), limit)
        return data

    @contextmanager
    def open(self, path: str, limit: int) -> Iterator[BinaryIO]:
        with self._opened(path, limit) as file:
            yield file

    def has(self, path: str) -> bool:
        with storage_errors(f"read the registry {self.root}"):
            return (self.root / path).is_file()

    @contextmanager
    def _opened(self, path: str, limit: int) -> Iterator[BinaryIO]:
        with storage_errors(f"read the registry {self.root}"):
            try:
                file = (self.root / path).open("rb")
            except (FileNotFoundError, NotADirectoryError):
                raise missing(self.root / path) from None
        with file:
            status = os.fstat(file.fileno())
            # Of the open file, so that nobody can exchange it after the check.
            if stat.S_ISREG(status.st_mode) and status.st_size > limit:
                raise too_long(str(self.root / path), limit)
            yield file


def missing(path: Path) -> MissingFile:
    return MissingFile(
        f"the registry lacks the file {path}", hint="restore it from a mirror of the registry, or publish again"
    )
