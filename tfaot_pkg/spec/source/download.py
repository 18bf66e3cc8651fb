"""Download one file from `https://` or copy it from `file://`, and check its SHA-256. No other scheme is supported."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from tfaot_pkg.errors import SourceError
from tfaot_pkg.ground.http.client import Client
from tfaot_pkg.ground.http.failure import TooLong
from tfaot_pkg.ground.http.site import Patience, Site, without_secrets
from tfaot_pkg.ground.http.transfer import Part, PartialFile, Transfer
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.spec.source.address import path_of_file_url, split

_CHUNK = 1 << 18
SIZE_LIMIT = 2 << 30


def download(
    url: str,
    sha256: str,
    into: Path,
    *,
    progress: Progress,
    limit: int = SIZE_LIMIT,
    patience: Patience | None = None,
) -> None:
    """Download `url` to the file `into`, make it durable, and check that its SHA-256 is `sha256`.

    The transfer resumes if an earlier call was interrupted and left part of the file. `limit` is the maximum size in
    bytes; without `patience` the user's settings apply. Raises SourceError (address not allowed, wrong checksum, too
    large), NetworkError (the server), OSError (the disk).
    """
    scheme = split(url).scheme
    if scheme not in ("https", "file"):
        raise SourceError(
            f"{without_secrets(url)}: archives come by https:// or file:// only", hint="use an https:// address"
        )
    name = PurePosixPath(urlsplit(url).path).name or "archive"
    verb = "copy" if scheme == "file" else "download"
    file = PartialFile(path=into, limit=limit, label=f"{verb} {name}", progress=progress)
    try:
        found = _copied(url, file) if scheme == "file" else _transferred(url, sha256, file, patience)
    except TooLong:
        raise SourceError(
            f"{without_secrets(url)}: larger than {limit} bytes ({limit / (1 << 30):.3g} GiB)",
            hint="make an archive that contains the model only",
        ) from None
    if found != sha256.lower():
        size = into.stat().st_size
        # Otherwise the next call would resume from wrong bytes.
        file.drop()
        raise SourceError(
            f"{without_secrets(url)}: checksum mismatch: the spec says sha256 {sha256.lower()}, "
            f"the file has {found} ({size} bytes)",
            hint="either the file was replaced or damaged on its way: find out which before you change the spec",
        )


def _copied(url: str, file: PartialFile) -> str:
    path = path_of_file_url(url)
    try:
        # O_NONBLOCK: opening a pipe must not wait for its other end.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}", hint="check the file:// address") from error
    # Of the open file, not of the path: that may name something else by now.
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise SourceError(f"{path} is not a file", hint="an archive is one file; a folder needs no archive")
    with os.fdopen(handle, "rb") as original:
        chunks = iter(lambda: original.read(_CHUNK), b"")
        return file.take(Part(start=0, total=status.st_size, chunks=chunks))[0]


def _transferred(url: str, sha256: str, file: PartialFile, patience: Patience | None) -> str:
    with closing(Client(_SOURCE, patience or Patience.of_user())) as client:
        return Transfer(client=client).download(url, sha256.lower(), file)


def _fault(url: str, _: str) -> str:
    return "" if urlsplit(url).scheme == "https" and urlsplit(url).hostname else "it is not https"


_SOURCE = Site(
    noun="source",
    fault=_fault,
    otherwise="a file:// address needs none",
    # Servers may send an archive with any Content-Type; the checksum decides what it is.
    takes_pages=True,
)
