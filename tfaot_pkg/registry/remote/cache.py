"""What is kept of a registry on a server: `folders.cache/registries/HASH/`. It may be deleted at any time.

content/ab/cdef...    by SHA-256, checked before it is kept and whenever it is read; good for ever
partial/SHA256        a download that is under way or was broken off, with its lock
mutable/NAME          the last confirmed copy of a file that may change, with what to ask the server for next time;
                      empty if the server had none
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.documents import convert, read_json, write
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import locked, make_folder, storage_errors, sync_folder, write_file
from tfaot_pkg.registry.blobs import open_blob
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.files import FolderFiles
from tfaot_pkg.registry.files.layout import blob_path

_CONTENT = "content/{prefix}/{rest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A file that may change, as it was seen last, `seen` seconds after 1970.

    `etag` is empty if the server gave none that can be trusted.
    """

    body: bytes
    etag: str
    seen: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """The first line of a copy's file; the body follows."""

    etag: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCache:
    """The cache of one registry, below `root`. Every method raises StorageError if the disk fails."""

    root: Path

    @classmethod
    def of(cls, url: str, folders: Folders) -> RemoteCache:
        return cls(root=folders.cache / "registries" / sha256_bytes(url.encode())[:24])

    def describe(self, url: str) -> None:
        """Leave a note for people who look into the folder."""
        note = self.root / "README"
        if not note.exists():
            with self._storage():
                write_file(note, f"What tfaot-pkg keeps of {url}. It may be deleted at any time.\n".encode())

    def copy(self, path: str) -> Copy | None:
        """The copy of a file that may change; None if there is none or it was damaged."""
        with self._storage():
            try:
                with self._mutable(path).open("rb") as file:
                    # The time of the file is when the server last confirmed it (`still_so`).
                    data, seen = file.read(), os.fstat(file.fileno()).st_mtime
            except FileNotFoundError:
                return None
        head, _, body = data.partition(b"\n")
        try:
            note = convert(_Note, read_json(head))
        except ValueError:
            return None
        # A damaged copy is no copy: the server is asked for the whole file.
        return Copy(body=body, etag=note.etag, seen=seen) if note.sha256 == sha256_bytes(body) else None

    def keep_copy(self, path: str, copy: Copy) -> None:
        head = write(_Note(etag=copy.etag, sha256=sha256_bytes(copy.body)))
        with self._storage():
            write_file(self._mutable(path), head + copy.body)

    def still_so(self, path: str) -> None:
        """The server says that the copy is what it has now."""
        with self._storage(), suppress(FileNotFoundError):
            os.utime(self._mutable(path))

    def keep_absent(self, path: str) -> None:
        """The server has no file `path`. A copy of an earlier file stays."""
        with self._storage(), suppress(FileExistsError):
            make_folder(self._mutable(path).parent)
            self._mutable(path).touch(exist_ok=False)

    def was_absent(self, path: str) -> bool:
        """Whether the server had no file `path`, and never did before."""
        with self._storage(), suppress(FileNotFoundError):
            return self._mutable(path).stat().st_size == 0
        return False

    def content(self, sha256: str, limit: int) -> bytes | None:
        """Content by digest; None if it is not there (or is damaged: then it is dropped). Not for large things."""
        path = self._content_path(sha256)
        with self._storage():
            try:
                # The size first: whatever lies there must not fill the memory.
                data = path.read_bytes() if path.stat().st_size <= limit else b""
            except FileNotFoundError:
                return None
            if sha256_bytes(data) == sha256:
                return data
            path.unlink(missing_ok=True)
            return None

    def has_content(self, sha256: str) -> bool:
        """Whether it is there; it is not looked at."""
        return self._content_path(sha256).is_file()

    def keep_content(self, sha256: str, data: bytes) -> None:
        """`data` has that digest: the caller has checked."""
        with self._storage():
            write_file(self._content_path(sha256), data, mode=0o444)

    @contextmanager
    def open_content(self, sha256: str) -> Iterator[BinaryIO | None]:
        """Large content, checked, open at its start; None if it is not there (or is damaged: then it is dropped)."""
        path = self._content_path(sha256)
        with self._storage():
            try:
                blob = BlobRef(sha256=sha256, size=path.stat().st_size)
            except FileNotFoundError:
                yield None
                return
        # Entered by hand: an error of opening drops the file, one of the block that reads must not.
        opened = open_blob(FolderFiles(root=self.root), blob_path(sha256, _CONTENT), blob)
        try:
            file = opened.__enter__()
        except (TrustError, RegistryError):
            with self._storage():
                path.unlink(missing_ok=True)
            yield None
            return
        try:
            yield file
        finally:
            opened.__exit__(None, None, None)

    @contextmanager
    def partial(self, sha256: str) -> Iterator[Path]:
        """The file to download into, for this process alone; it holds what an earlier process has received."""
        path = self.root / "partial" / sha256
        with self._storage():
            make_folder(path.parent)
            # An hour, as long as an attempt at a large file may take (decision 032).
            with locked(path.with_name(f"{sha256}.lock"), what=f"the download of {sha256[:12]}", timeout=3600):
                yield path

    def keep_partial(self, sha256: str) -> None:
        """The download is whole and has that digest: it becomes content. For the holder of `partial`."""
        final = self._content_path(sha256)
        with self._storage():
            make_folder(final.parent)
            partial = self.root / "partial" / sha256
            partial.chmod(0o444)
            os.replace(partial, final)
            sync_folder(final.parent)

    def move_content(self, sha256: str, final: Path) -> None:
        """Content that is there becomes `final`, on the same file system, and is no longer here."""
        with self._storage():
            make_folder(final.parent)
            self._content_path(sha256).rename(final)
            sync_folder(final.parent)

    def _content_path(self, sha256: str) -> Path:
        return self.root / _CONTENT.format(prefix=sha256[:2], rest=sha256[2:])

    def _mutable(self, path: str) -> Path:
        # Without `/` no path of a registry can leave this folder.
        return self.root / "mutable" / quote(path, safe="")

    @contextmanager
    def _storage(self) -> Iterator[None]:
        with storage_errors(f"use the cache {self.root}"):
            yield
