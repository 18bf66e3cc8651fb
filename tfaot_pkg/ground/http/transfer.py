"""Transfers: one file from a server, with retries if they can help, and limits of size and time.

The received part of a large file is kept, so that the next attempt resumes it.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import BinaryIO, TypeVar

from tfaot_pkg.errors import NetworkError
from tfaot_pkg.ground.http.client import Answer, Client
from tfaot_pkg.ground.http.failure import Missing, Passing, TooLong, broken
from tfaot_pkg.ground.http.site import Site, without_secrets
from tfaot_pkg.ground.progress import Progress, Step

_READ = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The bytes of a file from `start` on, as they arrive. `total` is the file's size, if the server sends it."""

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
        """Bytes that an earlier try left."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size >= self.limit:  # whole or too much: its digest was wrong, or it would have been moved
            self.drop()
            return 0
        return size

    def drop(self) -> None:
        self.path.unlink(missing_ok=True)

    def take(self, part: Part) -> tuple[str, bool]:
        """Write `part`; return the SHA-256 of the whole file, and whether `part` completes an earlier one.

        Raises TooLong if a whole file exceeds the limit, OSError.
        """
        total = part.total if part.total is not None and part.total <= self.limit else None
        with self.progress.step(self.label, total=total, unit="B") as step, self._opened(part.start) as file:
            digest = hashlib.sha256()
            # A digest's state cannot be stored, so the earlier part is read again.
            while chunk := file.read(_READ):
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
                    return  # with a wrong digest, so that the caller fetches the whole file again
                raise TooLong(f"{self.label}: longer than {self.limit} bytes")
            digest.update(chunk)
            file.write(chunk)
            step.advance(len(chunk))
        file.flush()
        os.fsync(file.fileno())


_CHUNK = 1 << 18
_SLACK = 1 << 16
"""Bytes by which a gzip body may be longer than its content."""
# What servers and gateways answer when overloaded or restarting; 425 is Too Early (RFC 8470).
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\*|\d{1,18})", re.ASCII)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A complete file. `etag` is empty if it might not change when the file is replaced."""

    body: bytes
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Transfers from the servers of the client's site."""

    client: Client
    sleep: Callable[[float], None] = time.sleep

    def get(self, url: str, limit: int, etag: str = "") -> Document | None:
        """The file at `url`; None if it still has the tag `etag`.

        Raises Missing, TooLong above `limit` bytes (no more are read), NetworkError.
        """
        headers = {"Accept-Encoding": "gzip", "Cache-Control": "no-cache"}
        if etag:
            headers["If-None-Match"] = etag
        until = time.monotonic() + self.client.patience.document
        return self.repeat(lambda: self._get(url, limit, headers, until), until)

    def download(self, url: str, sha256: str, file: PartialFile, size: int | None = None) -> str:
        """Complete `file` from `url`, resuming an earlier try; return its SHA-256.

        If that is not `sha256` and part of the file is from an earlier try, all of it is fetched again. `size` is that
        of the whole file, if known. Raises as `get`, and OSError.
        """
        found, resumed = self.repeat(lambda: self._download(url, file, size))
        if found != sha256 and resumed:  # the earlier part or the new one was wrong, and nothing tells which
            file.drop()
            found, _ = self.repeat(lambda: self._download(url, file, size))
        return found

    @property
    def _site(self) -> Site:
        return self.client.site

    def repeat(self, attempt: Callable[[], _T], until: float = math.inf) -> _T:
        """The result of `attempt`, retried if that can help; no try starts after `until` (monotonic clock)."""
        patience = self.client.patience
        for number in range(patience.retries + 1):
            try:
                return attempt()
            except Passing as error:
                wait = error.wait if error.wait is not None else patience.backoff * 2**number
                # A server that asks for a long pause gets an error with its wish, not a silent wait.
                if number == patience.retries or wait > patience.longest or time.monotonic() + wait >= until:
                    raise
                self.sleep(min(max(wait, patience.backoff), patience.longest))
        raise AssertionError("unreachable")

    def _get(self, url: str, limit: int, headers: dict[str, str], until: float) -> Document | None:
        with self.client.ask(url, headers, until - time.monotonic()) as answer:
            if answer.status == 304 and "If-None-Match" in headers:
                return None
            self.expect(answer, (200,))
            body = self._read(answer, limit)
            # Login pages of networks may come with any Content-Type.
            if not self._site.takes_pages and body.lstrip()[:1] == b"<":
                raise self._page(answer)
            return Document(body=body, etag=_etag(answer))

    def _read(self, answer: Answer, limit: int) -> bytes:
        coding = answer.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
        if coding not in ("identity", "gzip", "x-gzip"):
            raise NetworkError(
                f"{without_secrets(answer.url)}: the server sends {coding[:40]!r}, which was not requested",
                hint=self._site.tell,
            )
        # The length of a packed body says nothing about its content.
        packed = coding != "identity"
        announced = _announced(answer)
        if not packed and announced is not None and announced > limit:
            raise _too_long(answer, limit)
        body = bytearray()
        for piece in self._unpacked(answer, limit) if packed else answer.chunks():
            body += piece
            if len(body) > limit:
                raise _too_long(answer, limit)
        return bytes(body)

    def _unpacked(self, answer: Answer, limit: int) -> Iterator[bytes]:
        """Gzip's content in pieces of limited size, so that a small body cannot grow beyond `limit`."""
        # 31: the largest window, and gzip's header; zlib.h, inflateInit2.
        unpacker = zlib.decompressobj(31)
        try:
            for chunk in answer.chunks():
                # Empty gzip blocks unpack to nothing, so the packed bytes need a limit of their own.
                if answer.watch.count > limit + _SLACK:
                    raise _too_long(answer, limit)
                data = chunk
                while data:
                    yield unpacker.decompress(data, _CHUNK)
                    data = unpacker.unconsumed_tail
            yield unpacker.flush()
        except zlib.error as error:
            raise Passing(
                f"{without_secrets(answer.url)}: the server sends damaged gzip ({error})", hint=self._site.tell
            ) from None
        if not unpacker.eof:
            raise broken(answer.url, EOFError("the compressed content is incomplete"))

    def _download(self, url: str, file: PartialFile, size: int | None) -> tuple[str, bool]:
        # identity: the digest is that of the file, and some servers compress, or decompress, a .tar.gz while sending.
        headers, start = {"Accept-Encoding": "identity"}, file.size()
        whole = self.client.patience.file
        if start:
            with self.client.ask(url, {**headers, "Range": f"bytes={start}-"}, whole) as answer:
                if not _is_another_part(answer, start, size):
                    return self._take(answer, start, file)
        with self.client.ask(url, headers, whole) as answer:
            return self._take(answer, 0, file)

    def _take(self, answer: Answer, start: int, file: PartialFile) -> tuple[str, bool]:
        self.expect(answer, (200, 206) if start else (200,))
        # The server ignores ranges and sends the whole file.
        if answer.status == 200:
            start = 0
        announced = _announced(answer)
        total = start + announced if announced is not None else None
        # With a start, the total may come from a wrong part; the digest and a second try decide.
        if total is not None and total > file.limit and not start:
            raise _too_long(answer, file.limit)
        return file.take(Part(start=start, total=total, chunks=answer.chunks()))

    def expect(self, answer: Answer, good: tuple[int, ...]) -> None:
        """Raise the error for a status that is not in `good`, or for a web page."""
        status, shown = answer.status, without_secrets(answer.url)
        if status in good:
            kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if not self._site.takes_pages and kind in ("text/html", "application/xhtml+xml"):
                raise self._page(answer)
            return
        reason = "".join(letter for letter in answer.reason if letter.isprintable())[:80]
        said = f"{shown}: the server answers {status} {reason}".rstrip()
        if status in (404, 410):
            # A missing file is usual (the next root of a registry), and the connection is needed again.
            answer.skip()
            raise Missing(said, hint=self._site.check, status=status)
        if status in (401, 403, 407):
            raise NetworkError(said, hint=self._site.login)
        if status in _TRANSIENT:
            raise _busy(answer, said)
        raise NetworkError(said, hint=f"{self._site.check}, or {self._site.tell}")

    def _page(self, answer: Answer) -> NetworkError:
        return NetworkError(
            f"{without_secrets(answer.url)}: the server answers with a web page, not with the {self._site.noun}'s file",
            hint="check the address; it may be a login page of the network or of the server",
        )


def _busy(answer: Answer, said: str) -> Passing:
    wait = _retry_after(answer)
    asked = f"; it asks to wait {wait:.0f} s" if wait is not None else ""
    error = Passing(f"{said}{asked}", hint="try again later")
    error.wait = wait
    return error


def _too_long(answer: Answer, limit: int) -> TooLong:
    return TooLong(f"{without_secrets(answer.url)}: longer than {limit} bytes")


def _is_another_part(answer: Answer, start: int, size: int | None) -> bool:
    """Whether the answer is not the requested range: the bytes of a file (of `size` bytes) from `start` on."""
    if answer.status != 206:
        # 416: the file is shorter than the part that is there, so it is another one.
        return answer.status == 416
    found = _RANGE.fullmatch(answer.headers.get("Content-Range", "").strip())
    if not found:
        return True
    if size is None:
        return int(found[1]) != start or found[3] not in ("*", str(int(found[2]) + 1))
    return (int(found[1]), int(found[2])) != (start, size - 1) or found[3] not in ("*", str(size))


def _retry_after(answer: Answer) -> float | None:
    """Seconds that the server asks to wait (RFC 9110, 10.2.3: a number or a date)."""
    text = answer.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), 10**9))
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(timezone.utc)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _etag(answer: Answer) -> str:
    """The validator for the next request.

    Empty if the file was replaced less than two seconds before the answer: nginx makes its tags of whole seconds and
    the size, so a second replacement in that time could have the same one (RFC 9110, 8.8.2.2).
    """
    etag = answer.headers.get("ETag", "")
    if not etag or len(etag) > 200 or not etag.isprintable():
        return ""
    try:
        date = parsedate_to_datetime(answer.headers["Date"])
        modified = parsedate_to_datetime(answer.headers["Last-Modified"])
        return etag if (date - modified).total_seconds() >= 2 else ""
    except (KeyError, ValueError, TypeError):
        return etag


def _announced(answer: Answer) -> int | None:
    text = answer.headers.get("Content-Length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
