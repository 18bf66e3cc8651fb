"""Transfers: one file from a server, again where that helps, never more than was asked for, never for ever."""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TypeVar

import requests
import urllib3

from tfaot_pkg.errors import NetworkError
from tfaot_pkg.registry.files import MissingFile, too_long
from tfaot_pkg.remote.address import Address
from tfaot_pkg.remote.connection import Session
from tfaot_pkg.remote.failure import KEEPER, Broken, Unreachable, broken, failure, slow
from tfaot_pkg.source.address import without_secrets

_CHUNK = 1 << 18
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\*|\d{1,18})", re.ASCII)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait and how often to try again.

    `connect` and `silence` are seconds without any progress, `silence` also the time for the head of an answer;
    `slowest` bytes per second are to come on average over each `silence` seconds of a body. Pauses between tries grow
    as `backoff` x 1, 2, 4 ..., or are what the server asks for, up to `longest` seconds.
    """

    connect: float = 10
    silence: float = 30
    slowest: float = 1000
    retries: int = 3
    backoff: float = 0.5
    longest: float = 60

    @classmethod
    def of_user(cls) -> Patience:
        """TFAOT_HTTP_TIMEOUT (seconds without progress) and TFAOT_HTTP_RETRIES, where they are set."""
        default = cls()
        silence = _number("TFAOT_HTTP_TIMEOUT", default.silence, 0.1, 86_400)
        retries = _number("TFAOT_HTTP_RETRIES", default.retries, 0, 100)
        return cls(connect=min(default.connect, silence), silence=silence, retries=int(retries))


def _number(name: str, default: float, least: float, most: float) -> float:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not least <= value <= most:
        raise NetworkError(
            f"{name}={text} is no number from {least:g} to {most:g}", hint=f"unset {name}, or give it such a number"
        )
    return value


PATIENCE = Patience()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A file, whole. `etag` is empty where it cannot tell this file from its successor."""

    body: bytes
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The bytes of a file from `start` on, as they come in."""

    start: int
    chunks: Iterator[bytes]


class _Again(Exception):
    """A try that failed in a way that may pass. `wait` is how long the server asks to wait (seconds)."""

    def __init__(self, error: NetworkError, wait: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Transfers from the server at `address`."""

    address: Address
    patience: Patience = PATIENCE
    sleep: Callable[[float], None] = time.sleep
    session: Session = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "session", Session(self.address))

    def get(self, path: str, limit: int, etag: str = "") -> Answer | None:
        """The file `path`; None where the server still has the one with `etag`.

        Raises MissingFile, TrustError beyond `limit` bytes (which are the most that are read), NetworkError.
        """
        url = self.address.join(path)
        headers = {"Accept-Encoding": "gzip", "Cache-Control": "no-cache"}
        if etag:
            headers["If-None-Match"] = etag
        return self._repeat(lambda: self._get(url, limit, headers))

    def download(self, path: str, size: int, start: Callable[[], int], take: Callable[[Part], _T]) -> _T:
        """Give the body of the file `path` of `size` bytes to `take`, from byte `start()` on where the server can do
        that; of a server that answers with another part than was asked for, the whole body.

        `take` is called again, after a new `start()`, where a transfer breaks off. Raises as `get`.
        """
        url = self.address.join(path)
        return self._repeat(lambda: self._download(url, size, start(), take))

    def _repeat(self, attempt: Callable[[], _T]) -> _T:
        patience = self.patience
        for number in range(patience.retries + 1):
            try:
                return attempt()
            except _Again as again:
                wait = again.wait if again.wait is not None else patience.backoff * 2**number
                if number == patience.retries or wait > patience.longest:
                    raise again.error from None
                self.sleep(min(max(wait, patience.backoff), patience.longest))
        raise AssertionError("unreachable")

    def _get(self, url: str, limit: int, headers: dict[str, str]) -> Answer | None:
        with self._request(url, headers) as response:
            if response.status_code == 304 and "If-None-Match" in headers:
                return None
            _expect(response, url, (200,))
            _refuse_page(response, url)
            body = self._read(response, url, limit)
            if body.lstrip()[:1] == b"<":
                raise _not_a_registry(url)
            return Answer(body=body, etag=_etag(response))

    def _read(self, response: requests.Response, url: str, limit: int) -> bytes:
        coding = response.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
        if coding not in ("identity", "gzip", "x-gzip"):
            raise NetworkError(
                f"{without_secrets(url)}: the server sends {coding!r}, which was not asked for", hint=KEEPER
            )
        packed = coding != "identity"
        announced = _announced(response)
        if not packed and announced is not None and announced > limit:
            raise too_long(without_secrets(url), limit)
        body = bytearray()
        chunks = self._chunks(response, url)
        for piece in _unpacked(chunks, url) if packed else chunks:
            body += piece
            if len(body) > limit:
                raise too_long(without_secrets(url), limit)
        return bytes(body)

    def _download(self, url: str, size: int, start: int, take: Callable[[Part], _T]) -> _T:
        # identity: the digest is that of the file, and some servers pack, or unpack, a .tar.gz on its way.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with self._request(url, headers) as response:
            if not (start and _is_another_part(response, start, size)):
                return self._take(response, url, start, take)
        headers.pop("Range")
        with self._request(url, headers) as whole:
            return self._take(whole, url, 0, take)

    def _take(self, response: requests.Response, url: str, start: int, take: Callable[[Part], _T]) -> _T:
        _expect(response, url, (200, 206) if start else (200,))
        _refuse_page(response, url)
        if response.status_code == 200:
            start = 0
        return take(Part(start=start, chunks=self._chunks(response, url)))

    def _chunks(self, response: requests.Response, url: str) -> Iterator[bytes]:
        """The body as it was sent (not unpacked). Raises _Again where it breaks off or hardly moves."""
        patience = self.patience
        begin, count = time.monotonic(), 0
        try:
            # read1, because read would wait for a full chunk: a server that drips byte by byte would never time out.
            while chunk := response.raw.read1(_CHUNK, decode_content=False):
                count += len(chunk)
                passed = time.monotonic() - begin
                if passed > patience.silence:
                    if count < patience.slowest * passed:
                        raise _Again(slow(url, count, passed))
                    begin, count = time.monotonic(), 0
                yield chunk
        except urllib3.exceptions.ReadTimeoutError:
            raise _Again(slow(url, count, time.monotonic() - begin)) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _Again(broken(url, error)) from None

    @contextmanager
    def _request(self, url: str, headers: dict[str, str]) -> Iterator[requests.Response]:
        """The server's answer, its body not read yet. Raises _Again, NetworkError."""
        timeouts = (self.patience.connect, self.patience.silence)
        begin = time.monotonic()
        try:
            response = self.session.get(url, headers=headers, stream=True, timeout=timeouts)
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, UnicodeError) as error:
            raise self._no_answer(error, url, time.monotonic() - begin) from None
        with response:
            try:
                yield response
            except MissingFile:
                _spare_connection(response)
                raise

    def _no_answer(self, error: Exception, url: str, passed: float) -> Exception:
        connected = not isinstance(error, requests.exceptions.ConnectTimeout)
        if connected and (isinstance(error, requests.exceptions.ReadTimeout) or passed >= self.patience.silence):
            return _Again(slow(url, 0, passed))
        found = failure(error, url)
        return _Again(found) if isinstance(found, Unreachable | Broken) else found


def _expect(response: requests.Response, url: str, good: tuple[int, ...]) -> None:
    """Raise what an answer other than `good` means."""
    status, shown = response.status_code, without_secrets(url)
    if status in good:
        return
    if status in (404, 410):
        raise MissingFile(
            f"the registry has no file {shown} (the server answers {status})",
            hint="check the registry's address; if other files are there, tell its keeper",
        )
    reason = "".join(letter for letter in response.reason or "" if letter.isprintable())[:80]
    answer = f"{shown}: the server answers {status} {reason}".rstrip()
    if status in (401, 403, 407):
        raise NetworkError(answer, hint="put a name and password for this host into ~/.netrc, if you have one")
    if status in _TRANSIENT:
        wait = _retry_after(response)
        asked = f"; it asks to wait {wait:.0f} s" if wait is not None else ""
        raise _Again(NetworkError(f"{answer}{asked}", hint="try again later"), wait)
    raise NetworkError(answer, hint="check the registry's address, or tell its keeper")


def _spare_connection(response: requests.Response) -> None:
    """Take the short text of a 404 off the connection, so that the next request need not make another one."""
    with suppress(urllib3.exceptions.HTTPError, OSError):
        response.raw.read1(_CHUNK, decode_content=False)  # waits for no more than has come


def _is_another_part(response: requests.Response, start: int, size: int) -> bool:
    """Whether what was asked for, the bytes of a file of `size` bytes from `start` on, is not what comes."""
    if response.status_code != 206:
        return response.status_code == 416
    found = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    return not found or (int(found[1]), int(found[2])) != (start, size - 1) or found[3] not in ("*", str(size))


def _refuse_page(response: requests.Response, url: str) -> None:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        raise _not_a_registry(url)


def _not_a_registry(url: str) -> NetworkError:
    return NetworkError(
        f"{without_secrets(url)}: the server answers with a web page, not with the registry's file",
        hint="check the address; a login page of the network or of the server may stand in between",
    )


def _retry_after(response: requests.Response) -> float | None:
    """Seconds that the server asks to wait (RFC 9110, 10.2.3: a number or a date)."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), 10**9))
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(timezone.utc)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _etag(response: requests.Response) -> str:
    """The validator for the next request.

    Empty where the file was replaced less than two seconds before the answer: nginx makes its tags of whole seconds
    and the size, so a second replacement in that time could have the same one (RFC 9110, 8.8.2.2).
    """
    etag = response.headers.get("ETag", "")
    if not etag or len(etag) > 200 or not etag.isprintable():
        return ""
    try:
        date = parsedate_to_datetime(response.headers["Date"])
        modified = parsedate_to_datetime(response.headers["Last-Modified"])
        return etag if (date - modified).total_seconds() >= 2 else ""
    except (KeyError, ValueError, TypeError):
        return etag


def _announced(response: requests.Response) -> int | None:
    text = response.headers.get("Content-Length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _unpacked(chunks: Iterator[bytes], url: str) -> Iterator[bytes]:
    """Gzip's content in pieces of limited size, so that a small body cannot grow beyond the caller's limit."""
    unpacker = zlib.decompressobj(31)
    try:
        for chunk in chunks:
            data = chunk
            while data:
                yield unpacker.decompress(data, _CHUNK)
                data = unpacker.unconsumed_tail
        yield unpacker.flush()
    except zlib.error as error:
        raise _Again(
            NetworkError(f"{without_secrets(url)}: the server sends damaged gzip ({error})", hint=KEEPER)
        ) from None
    if not unpacker.eof:
        raise _Again(broken(url, EOFError("the packed content has no end")))
