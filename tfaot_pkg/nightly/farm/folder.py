"""A store in a folder, which may be that of a network file system."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from stat import S_ISREG
from typing import BinaryIO

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.nightly.farm.store import MOST, NAME, Cell, require_name

_CELL = re.compile(rf"({NAME.pattern})\.([1-9][0-9]{{0,8}})")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderStore:
    """`cells/NAME.VERSION` and `blobs/SHA256` in the folder `url`.

    A cell is replaced by a hard link with the next version, which only one process can make: a process that is stopped
    at any moment holds up nobody, as it would with a lock. No symbolic link is followed, because others write here.
    """

    url: str

    @classmethod
    def of(cls, root: Path) -> FolderStore:
        root = root.expanduser().absolute()
        with storage_errors(f"write {root}"):
            for name in ("cells", "blobs"):
                (root / name).mkdir(parents=True, exist_ok=True)
        return cls(url=str(root))

    def cells(self) -> dict[str, str]:
        with self._folder("cells") as folder:
            return {name: str(version) for name, version in _newest(folder).items()}

    def read(self, name: str) -> Cell | None:
        with self._folder("cells") as folder:
            # Another process may remove a version as soon as it has written the next one.
            while version := _newest(folder).get(name):
                with suppress(FileNotFoundError), _file(f"{name}.{version}", folder) as (stream, _):
                    return Cell(data=stream.read(MOST), tag=str(version))
        return None

    def create(self, name: str, data: bytes) -> str | None:
        return self._write(name, data, 0)

    def replace(self, name: str, data: bytes, tag: str) -> str | None:
        return self._write(name, data, int(tag))

    def remove(self, name: str) -> None:
        with self._folder("cells") as folder:
            for version in _versions(folder, name):
                _unlink(f"{name}.{version}", folder)

    def blobs(self) -> list[str]:
        with self._folder("blobs") as folder:
            return [name for name in os.listdir(folder) if not name.startswith(".")]

    def upload(self, digest: str, source: Path | bytes) -> None:
        with self._folder("blobs") as folder, _temporary(source, folder) as temporary:
            os.rename(temporary, require_name(digest), src_dir_fd=folder, dst_dir_fd=folder)

    @contextmanager
    def opened(self, digest: str) -> Iterator[tuple[BinaryIO, int]]:
        with self._folder("blobs") as folder, _file(require_name(digest), folder) as found:
            yield found

    def drop(self, digest: str) -> None:
        with self._folder("blobs") as folder:
            _unlink(digest, folder)

    def _write(self, name: str, data: bytes, before: int) -> str | None:
        """Make the version after `before`; None if that is not the newest one, or is gone."""
        made = f"{require_name(name)}.{before + 1}"
        with self._folder("cells") as folder:
            with _temporary(data, folder) as temporary:
                try:
                    os.link(temporary, made, src_dir_fd=folder, dst_dir_fd=folder)
                except FileExistsError:
                    return None
            # Whoever was stopped before the link may be late by many versions, which are removed; the newest is not.
            known = _versions(folder, name)
            # Without any, the end of the night has removed the cell.
            if not known or max(known) != before + 1 or (before and before not in known):
                _unlink(made, folder)
                return None
            for version in known - {before + 1}:
                _unlink(f"{name}.{version}", folder)
        return str(before + 1)

    @contextmanager
    def _folder(self, name: str) -> Iterator[int]:
        """A handle of the folder `name`, which is no link: a worker could have put one there."""
        path = Path(self.url, name)
        with storage_errors(f"use the results in {self.url}"):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                yield handle
            finally:
                os.close(handle)


def _newest(folder: int) -> dict[str, int]:
    """The newest version of each cell."""
    newest: dict[str, int] = {}
    for name, version in _all(folder):
        newest[name] = max(version, newest.get(name, 0))
    return newest


def _versions(folder: int, name: str) -> set[int]:
    return {version for each, version in _all(folder) if each == name}


def _all(folder: int) -> Iterator[tuple[str, int]]:
    # Twice: if a cell is replaced during a scan, that may come too late for the old version and too early for the new.
    for entry in {*os.listdir(folder), *os.listdir(folder)}:
        if found := _CELL.fullmatch(entry):
            yield found[1], int(found[2])


@contextmanager
def _file(name: str, folder: int) -> Iterator[tuple[BinaryIO, int]]:
    # A pipe in its place would wait for a writer, a link could lead anywhere.
    with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder), "rb") as stream:
        status = os.fstat(stream.fileno())
        if not S_ISREG(status.st_mode):
            raise StorageError(f"{name} in the store is not a file")
        yield stream, status.st_size


@contextmanager
def _temporary(source: Path | bytes, folder: int) -> Iterator[str]:
    """A new, whole file in `folder`, which is removed after the block unless the block renames it."""
    name = f".{token_hex(16)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(name, flags, 0o644, dir_fd=folder), "wb") as file:
        try:
            if isinstance(source, bytes):
                file.write(source)
            else:
                with source.open("rb") as content:
                    while chunk := content.read(_CHUNK):
                        file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            yield name
        finally:
            _unlink(name, folder)


def _unlink(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
