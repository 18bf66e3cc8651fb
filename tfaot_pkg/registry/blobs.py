"""Content by digest: written once, never overwritten, checked whenever it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.storage import storage_errors, write_chunks
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.files import Files, MissingFile
from tfaot_pkg.registry.files.mirrored import lacking

_CHUNK = 1 << 20


@contextmanager
def open_blob(files: Files, path: str, blob: BlobRef) -> Iterator[BinaryIO]:
    """The blob at `path`, open at its start, after its size and digest were checked.

    Raises RegistryError if it is missing, TrustError if it was changed, StorageError, NetworkError.
    """
    where = f"{files.location}/{path}"
    try:
        # Entered by hand: an error of opening must not be mixed up with one of the block that reads.
        opened = files.open(path, blob.size)
        file = opened.__enter__()
    except MissingFile as error:
        if partial := lacking(files, path):
            raise partial from error
        raise RegistryError(
            f"the registry lacks the blob {where}",
            hint="publish the package again, or copy the blob from a mirror of the registry",
        ) from error
    except TrustError as error:  # longer than it should be
        raise changed(where, blob) from error
    try:
        with storage_errors(f"read the registry {files.location}"):
            verify(where, blob, file)
        yield file
    finally:
        opened.__exit__(None, None, None)


def verify(where: str, blob: BlobRef, file: BinaryIO) -> None:
    """Raise TrustError if `file` is not `blob`; else leave it at its start."""
    digest, size = hashlib.sha256(), 0
    # A file that is longer than expected is not read to its end.
    while size <= blob.size and (chunk := file.read(_CHUNK)):
        digest.update(chunk)
        size += len(chunk)
    if size != blob.size or digest.hexdigest() != blob.sha256:
        raise changed(where, blob)
    file.seek(0)


def changed(where: str, blob: BlobRef) -> TrustError:
    return TrustError(
        f"the blob {where} was changed: it is not the {blob.size} bytes with SHA-256 {blob.sha256}",
        hint="nothing of it was used; the registry's maintainer repairs it: move that file away, then publish the "
        "package again or copy the blob from a mirror",
    )


def place(path: Path, blob: BlobRef, source: Path | bytes | BinaryIO) -> None:
    """Make `source`, which must be `blob`, the file `path`. Raises TrustError if it is something else, OSError."""
    # `checked` raises after the last chunk, before write_chunks renames: nothing wrong gets this name.
    write_chunks(path, checked(blob, source), mode=0o444)


def checked(blob: BlobRef, source: Path | bytes | BinaryIO) -> Iterator[bytes]:
    """The source's chunks; raises TrustError at their end if they are not `blob`."""
    digest, size = hashlib.sha256(), 0
    for chunk in _chunks(source):
        digest.update(chunk)
        size += len(chunk)
        yield chunk
    if size != blob.size or digest.hexdigest() != blob.sha256:
        name = source if isinstance(source, Path) else "the content"
        raise TrustError(
            f"{name} is not what is to be published: {blob.size} bytes with SHA-256 {blob.sha256} are expected",
            hint="it was changed during publication: run the command again",
        )


def _chunks(source: Path | bytes | BinaryIO) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
        while chunk := file.read(_CHUNK):
            yield chunk
