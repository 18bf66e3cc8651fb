"""A large file on its way: what has come so far is kept, so that the next try goes on where this one stopped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg.http.failure import TooLong
from tfaot_pkg.progress import Progress, Step

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The bytes of a file from `start` on, as they come in. `total` is the size of the file, if the server tells it."""

    start: int
    total: int | None
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialFile:
    """The file `path` of a download, at most `limit` bytes. One process at a time may use it."""

    path: Path
    limit: int
    label: str
    progress: Progress

    def size(self) -> int:
        """How much of it is there."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size >= self.limit:  # whole or too much: its digest was wrong, or it would have been moved
            self.drop()
            return 0
        return size

    def drop(self) -> None:
        self.path.unlink(missing_ok=True)

    def take(self, part: Part) -> tuple[str, bool]:
        """Write `part`; the SHA-256 of the whole file, and whether `part` is not all of it.

        Raises TooLong if a whole file goes on beyond the limit, OSError.
        """
        total = part.total if part.total is not None and part.total <= self.limit else None
        with self.progress.step(self.label, total=total, unit="B") as step, self._opened(part.start) as file:
            digest = hashlib.sha256()
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
            step.advance(part.start, note="resumed" if part.start else "")
            self._write(part, file, digest, step)
        return digest.hexdigest(), part.start > 0

    @contextmanager
    def _opened(self, start: int) -> Iterator[BinaryIO]:
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "r+b") as file:
            file.truncate(start)
            yield file

    def _write(self, part: Part, file: BinaryIO, digest: hashlib._Hash, step: Step) -> None:
        size = part.start
        for chunk in part.chunks:
            size += len(chunk)
            if size > self.limit:
                self.drop()
                if part.start:
                    return  # with a wrong digest
                raise TooLong(f"{self.label}: longer than {self.limit} bytes")
            digest.update(chunk)
            file.write(chunk)
            step.advance(len(chunk))
        file.flush()
        os.fsync(file.fileno())
