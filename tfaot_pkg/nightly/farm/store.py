"""The store that a coordinator and its workers share, and all that they share: cells and blobs.

A cell is a small document that changes; it is replaced only if nobody else has replaced it (compare and swap). A blob
is named by its SHA-256. Nobody here trusts a store, because others write to it: what is read has a limit, and a blob
counts only if it has the digest that is its name.

    farm/folder.py   in a folder
    farm/s3.py       in S3, or a server with its protocol
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol

from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.keys import sha256_bytes, sha256_file
from tfaot_pkg.ground.storage import storage_errors

MOST = 1 << 20
"""Bytes of a cell; a longer one is not read."""

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,120}")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The content of a cell; `tag` changes with each write of it."""

    data: bytes
    tag: str


class Store(Protocol):
    """Names are lower-case letters, digits and `-`. Methods raise StorageError or NetworkError."""

    @property
    def url(self) -> str:
        """The address."""

    def cells(self) -> dict[str, str]:
        """The tags of all cells by name. Does not read them."""

    def read(self, name: str) -> Cell | None:
        """A cell, cut off after `MOST` bytes; None if there is none."""

    def create(self, name: str, data: bytes) -> str | None:
        """Write a cell that does not exist. Returns its tag; None if it exists."""

    def replace(self, name: str, data: bytes, tag: str) -> str | None:
        """Write a cell whose tag is `tag`. Returns the new tag; None if somebody replaced or removed it."""

    def remove(self, name: str) -> None:
        """Remove a cell, if it exists."""

    def blobs(self) -> list[str]:
        """The digests of all blobs."""

    def upload(self, digest: str, source: Path | bytes) -> None:
        """Write a blob, also if it exists."""

    def opened(self, digest: str) -> AbstractContextManager[tuple[BinaryIO, int]]:
        """A blob and its size. Nobody has compared it with its name."""

    def drop(self, digest: str) -> None:
        """Remove a blob, if it exists."""


def put(store: Store, source: Path | bytes, known: set[str] | None = None) -> str:
    """Write a blob, and add it to `known`, unless it is there; returns its digest."""
    digest = sha256_bytes(source) if isinstance(source, bytes) else sha256_file(source)
    if known is None or digest not in known:
        store.upload(digest, source)
        if known is not None:
            known.add(digest)
    return digest


def get(store: Store, digest: str, most: int) -> bytes:
    """The blob `digest`, of at most `most` bytes. Raises TrustError if it is another one, or larger."""
    with store.opened(digest) as (stream, size):
        _require_size(digest, size, most)
        data = stream.read(most + 1)
    if sha256_bytes(data) != digest:
        raise TrustError(f"the blob {digest} has other content than its name says")
    return data


def fetch(store: Store, digest: str, place: Path, most: int) -> int:
    """Write the blob `digest`, of at most `most` bytes, to the new file `place`; returns its size. Raises as `get`."""
    found, count = sha256(), 0
    with store.opened(digest) as (stream, size), storage_errors(f"write {place}"), place.open("xb") as file:
        _require_size(digest, size, most)
        # One byte more than is allowed: the size that a store tells may be wrong.
        while chunk := stream.read(min(_CHUNK, most + 1 - count)):
            count += len(chunk)
            _require_size(digest, count, most)
            found.update(chunk)
            file.write(chunk)
    if found.hexdigest() != digest:
        raise TrustError(f"the blob {digest} has other content than its name says")
    return count


def _require_size(digest: str, size: int, most: int) -> None:
    if size > most:
        raise TrustError(f"the blob {digest} has {size:,} bytes or more, of which {most:,} are allowed")


def require_name(name: str) -> str:
    """`name`, if a cell may have it. Raises ValueError."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a cell")
    return name
