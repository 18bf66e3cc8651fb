"""Transfers: one file from a server, again if that helps, never more than was asked for, never for ever."""

from __future__ import annotations

import math
import re
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TypeVar

from tfaot_pkg.errors import NetworkError
from tfaot_pkg.http.address import without_secrets
from tfaot_pkg.http.client import Answer, Client
from tfaot_pkg.http.failure import Missing, Passing, TooLong, broken
from tfaot_pkg.http.partial import Part, PartialFile
from tfaot_pkg.http.site import Site

_CHUNK = 1 << 18
_SLACK = 1 << 16
"""Bytes by which a packed document may be longer than the document."""
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\*|\d{1,18})", re.ASCII)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file, whole. `etag` is empty if it cannot tell this file from its successor."""

    body: bytes
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Transfers from the servers of the client's site."""

    client: Client
    sleep: Callable[[float], None] = time.sleep

    def get(self, url: str, limit: int, etag: str = "") -> Document | None:
        """The file at `url`; None if the server still has the one with `etag`.

        Raises Missing, TooLong beyond `limit` bytes (which are the most that are read), NetworkError.
        """
        headers = {"Accept-Encoding": "gzip", "Cache-Control": "no-cache"}
        if etag:
            headers["If-None-Match"] = etag
        until = time.monotonic() + self.client.patience.document
        return self._repeat(lambda: self._get(url, limit, headers, until), until)

    def download(self, url: str, sha256: str, file: PartialFile, size: int | None = None) -> str:
        """Complete `file` from `url`, from where an earlier try has stopped; return its SHA-256.

        If that is not `sha256` and some of it was there before, then all of it is fetched anew. `size` is that of the
        whole file, if it is known. Raises as `get`, and OSError.
        """
        found, resumed = self._repeat(lambda: self._download(url, file, size))
        if found != sha256 and resumed:  # what was there already, or what came after it, was the wrong part
            file.drop()
            found, _ = self._repeat(lambda: self._download(url, file, size))
        return found

    @property
    def _site(self) -> Site:
        return self.client.site

    def _repeat(self, attempt: Callable[[], _T], until: float = math.inf) -> _T:
        """What `attempt` gives; again if that helps, but no new try begins after `until` on the monotonic clock."""
        patience = self.client.patience
        for number in range(patience.retries + 1):
            try:
                return attempt()
            except Passing as error:
                wait = error.wait if error.wait is not None else patience.backoff * 2**number
                if number == patience.retries or wait > patience.longest or time.monotonic() + wait >= until:
                    raise
                self.sleep(min(max(wait, patience.backoff), patience.longest))
        raise AssertionError("unreachable")

    def _get(self, url: str, limit: int, headers: dict[str, str], until: float) -> Document | None:
        with self.client.ask(url, headers, until - time.monotonic()) as answer:
            if answer.status == 304 and "If-None-Match" in headers:
                return None
            self._expect(answer, (200,))
            body = self._read(answer, limit)
            if not self._site.takes_pages and body.lstrip()[:1] == b"<":
                raise self._page(answer)
            return Document(body=body, etag=_etag(answer))

    def _read(self, answer: Answer, limit: int) -> bytes:
        coding = answer.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
        if coding not in ("identity", "gzip", "x-gzip"):
            raise NetworkError(
                f"{without_secrets(answer.url)}: the server sends {coding[:40]!r}, which was not asked for",
                hint=self._site.tell,
            )
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
        unpacker = zlib.decompressobj(31)
        try:
            for chunk in answer.chunks():
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
            raise broken(answer.url, EOFError("the packed content has no end"))

    def _download(self, url: str, file: PartialFile, size: int | None) -> tuple[str, bool]:
        # identity: the digest is that of the file, and some servers pack, or unpack, a .tar.gz on its way.
        headers, start = {"Accept-Encoding": "identity"}, file.size()
        whole = self.client.patience.file
        if start:
            with self.client.ask(url, {**headers, "Range": f"bytes={start}-"}, whole) as answer:
                if not _is_another_part(answer, start, size):
                    return self._take(answer, start, file)
        with self.client.ask(url, headers, whole) as answer:
            return self._take(answer, 0, file)

    def _take(self, answer: Answer, start: int, file: PartialFile) -> tuple[str, bool]:
        self._expect(answer, (200, 206) if start else (200,))
        if answer.status == 200:
            start = 0
        announced = _announced(answer)
        total = start + announced if announced is not None else None
        if total is not None and total > file.limit and not start:
            raise _too_long(answer, file.limit)
        return file.take(Part(start=start, total=total, chunks=answer.chunks()))

    def _expect(self, answer: Answer, good: tuple[int, ...]) -> None:
        """Raise what an answer other than `good` means, or a web page."""
        status, shown = answer.status, without_secrets(answer.url)
        if status in good:
            kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if not self._site.takes_pages and kind in ("text/html", "application/xhtml+xml"):
                raise self._page(answer)
            return
        reason = "".join(letter for letter in answer.reason if letter.isprintable())[:80]
        said = f"{shown}: the server answers {status} {reason}".rstrip()
        if status in (404, 410):
            answer.skip()
            raise Missing(said, hint=self._site.check, status=status)
        if status in (401, 403, 407):
            raise NetworkError(said, hint="put a name and password for this host into ~/.netrc, if you have one")
        if status in _TRANSIENT:
            raise _busy(answer, said)
        raise NetworkError(said, hint=f"{self._site.check}, or {self._site.tell}")

    def _page(self, answer: Answer) -> NetworkError:
        return NetworkError(
            f"{without_secrets(answer.url)}: the server answers with a web page, not with the {self._site.noun}'s file",
            hint="check the address; a login page of the network or of the server may stand in between",
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
    """Whether what was asked for, the bytes of a file (of `size` bytes) from `start` on, is not what comes."""
    if answer.status != 206:
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
