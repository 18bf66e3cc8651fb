"""A registry's files in a bucket of S3, or of a server with its protocol.

Nobody can lock a bucket. So each file that others may change is replaced on condition that it still is what was read,
and each file that should be new is written on condition that it is: whoever comes second gets a `Conflict`, reads
again and changes what there is then.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from tfaot_pkg.ground.objects import BucketAddress, Objects
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.registry.blobs import checked
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.files import MissingFile, too_long
from tfaot_pkg.registry.storage import Conflict, Item, Occupied

_CHUNK = 1 << 20


class BucketStorage:
    """The objects below an address, as a registry's files."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._seen: dict[str, str | None] | None = None
        """While something is changed: the tags of what was read, None for what was not there."""

    @classmethod
    def at(cls, address: BucketAddress) -> BucketStorage:
        """Raises NetworkError if there are no credentials, TfaotError without boto3."""
        return cls(Objects.open(address))

    @property
    def location(self) -> str:
        return self._objects.address.url

    def get(self, path: str, limit: int) -> bytes:
        found = self._objects.read(path, limit)
        self._see(path, found and found[1])
        if found is None:
            raise self._missing(path)
        if len(found[0]) > limit:
            raise too_long(f"{self.location}/{path}", limit)
        return found[0]

    @contextmanager
    def open(self, path: str, limit: int) -> Iterator[BinaryIO]:
        with tempfile.TemporaryFile() as copy:
            self._copy(path, limit, copy)
            copy.seek(0)
            yield cast(BinaryIO, copy)

    def _copy(self, path: str, limit: int, copy: IO[bytes]) -> None:
        with self._objects.stream(path) as found:
            if found is None:
                raise self._missing(path)
            source, size = found
            left = limit + 1
            # Of a size that a server tells, no more than that must be true.
            while size <= limit and left and (chunk := source.read(min(_CHUNK, left))):
                left -= len(chunk)
                with storage_errors("write a temporary file"):
                    copy.write(chunk)
            if size > limit or not left:
                raise too_long(f"{self.location}/{path}", limit)

    def has(self, path: str) -> bool:
        tag = self._objects.tag(path)
        self._see(path, tag)
        return tag is not None

    @property
    def has_lock(self) -> bool:
        return False

    @contextmanager
    def changing(self, timeout: float) -> Iterator[None]:
        self._seen = {}
        try:
            yield
        finally:
            self._seen = None

    def put(self, path: str, data: bytes) -> None:
        seen = {} if self._seen is None else self._seen
        tag = self._objects.replace(path, data, seen.get(path))
        if tag is None:
            # Also an answer that was lost on its way: the same request was sent again.
            found = self._objects.read(path, len(data))
            if found is None or found[0] != data:
                raise self._conflict(Conflict if path in seen else Occupied, path)
            tag = found[1]
        seen[path] = tag

    def place(self, path: str, blob: BlobRef, source: Path | bytes) -> None:
        for _ in checked(blob, source):
            pass
        # Also if it is there: to read that in order to compare it would take as long.
        self._objects.write(path, source, blob.sha256)

    def items(self, folder: str) -> Iterator[Item]:
        start = f"{folder}/" if folder else ""
        for path, item in self._objects.listed(start).items():
            if folder or "/" not in path:
                self._see(start + path, item.tag)
                yield Item(path=start + path, size=item.size, modified=item.modified)

    def paths(self) -> list[str]:
        """The paths of all objects. Raises NetworkError."""
        return list(self._objects.listed(""))

    def remove(self, path: str) -> None:
        self._objects.remove(path)

    def _see(self, path: str, tag: str | None) -> None:
        if self._seen is not None and self._seen.setdefault(path, tag) != tag:
            raise self._conflict(Conflict, path)

    def _conflict(self, kind: type[Conflict], path: str) -> Conflict:
        # An ordinary change takes other numbers than those that a killed one has left.
        otherwise = "; if that does not help, first: tfaot-pkg registry refresh" if kind is Occupied else ""
        return kind(
            f"somebody else changed {self.location} at the same time ({path})",
            hint=f"run the same command again{otherwise}",
        )

    def _missing(self, path: str) -> MissingFile:
        return MissingFile(
            f"the registry lacks the file {self.location}/{path}",
            hint="restore it from a mirror of the registry, or publish again",
        )
