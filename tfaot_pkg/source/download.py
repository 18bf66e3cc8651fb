"""Getting one file from `https://` or `file://`, checked while it streams. Nothing else is spoken."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter

from tfaot_pkg.errors import NetworkError, SourceError
from tfaot_pkg.progress import Progress, Step
from tfaot_pkg.source.address import path_of_file_url, split, without_secrets
from tfaot_pkg.wording import counted

_CHUNK = 1 << 18
_TRANSIENT = (429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait (seconds) and how often to try again; the pauses grow as `backoff` x 1, 2, 4 ..."""

    connect: float = 15
    silence: float = 60
    whole: float = 3600
    retries: int = 3
    backoff: float = 0.5


PATIENCE = Patience()
SIZE_LIMIT = 2 << 30


def download(
    url: str,
    sha256: str,
    into: Path,
    *,
    progress: Progress,
    limit: int = SIZE_LIMIT,
    patience: Patience = PATIENCE,
) -> None:
    """Write what `url` gives to the file `into`, durable, and check that its SHA-256 is `sha256`.

    `limit` is the largest size in bytes that is taken. The user's proxies, netrc and certificates hold.
    Raises SourceError (refused address, wrong checksum, too large, no such file), NetworkError (the server),
    OSError (the disk).
    """
    scheme = split(url).scheme
    if scheme not in ("https", "file"):
        raise SourceError(
            f"{without_secrets(url)}: archives come by https:// or file:// only", hint="use an https:// address"
        )
    order = _Order(url=url, into=into, progress=progress, limit=limit, patience=patience)
    digest = _copy(order) if scheme == "file" else _transfer(order)
    if digest != sha256.lower():
        raise SourceError(
            f"{order.shown}: checksum mismatch: the spec says sha256 {sha256.lower()}, "
            f"the file has {digest} ({into.stat().st_size} bytes)",
            hint="either the file was replaced or damaged on its way: find out which before you change the spec",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What `download` was asked for."""

    url: str
    into: Path
    progress: Progress
    limit: int
    patience: Patience

    @property
    def shown(self) -> str:
        return without_secrets(self.url)

    def too_large(self) -> SourceError:
        return SourceError(
            f"{self.shown}: larger than {self.limit} bytes ({self.limit / (1 << 30):.3g} GiB)",
            hint="make an archive that holds the model only",
        )


class _BrokenOff(Exception):
    """The body ended too early."""


def _copy(order: _Order) -> str:
    path = path_of_file_url(order.url)
    try:
        # O_NONBLOCK: opening a pipe must not wait for its other end.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}", hint="check the file:// address") from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise SourceError(f"{path} is not a file", hint="an archive is one file; a folder needs no archive")
    with (
        os.fdopen(handle, "rb") as file,
        order.progress.step(f"copy {path.name}", total=status.st_size, unit="B") as step,
    ):
        return _write(iter(lambda: file.read(_CHUNK), b""), order, step)


def _transfer(order: _Order) -> str:
    """Download with new tries: requests repeats a request that fails, but not a body that breaks off."""
    patience = order.patience
    end = time.monotonic() + patience.whole
    with _session(patience) as session:
        for left in reversed(range(patience.retries + 1)):
            try:
                return _attempt(session, order, end)
            except _BrokenOff as error:
                if not left:
                    raise NetworkError(
                        f"{order.shown}: the transfer broke off {counted(patience.retries + 1, 'time')}: {error}",
                        hint="try again later",
                    ) from error
                time.sleep(patience.backoff * 2 ** (patience.retries - left))
    raise AssertionError("unreachable")


def _attempt(session: requests.Session, order: _Order, end: float) -> str:
    with _request(session, order.url, order.patience) as response:
        announced = _announced(response)
        if announced is not None and announced > order.limit:
            raise order.too_large()
        name = PurePosixPath(urlsplit(order.url).path).name or "archive"
        with order.progress.step(f"download {name}", total=announced, unit="B") as step:
            return _write(_body(response, order, end), order, step)


@contextmanager
def _request(session: requests.Session, url: str, patience: Patience) -> Iterator[requests.Response]:
    """The server's good answer, its body not read yet."""
    shown = without_secrets(url)
    try:
        # identity: the checksum is that of the file, and some servers "decompress" a .tar.gz on its way.
        response = session.get(
            url,
            stream=True,
            timeout=(patience.connect, patience.silence),
            headers={"Accept-Encoding": "identity", "User-Agent": "tfaot-pkg"},
        )
    except requests.exceptions.SSLError as error:
        raise NetworkError(
            f"{shown}: the server's certificate is not accepted: {_reason(error)}",
            hint="set REQUESTS_CA_BUNDLE to a file with your own certificate authority, if you have one",
        ) from None
    except requests.exceptions.ProxyError as error:
        raise NetworkError(f"{shown}: the proxy refuses: {_reason(error)}", hint="check HTTPS_PROXY") from None
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, UnicodeError) as error:
        raise NetworkError(
            f"{shown}: the server cannot be reached: {_reason(error)}",
            hint="check the address and your connection; behind a proxy set HTTPS_PROXY",
        ) from None
    try:
        if response.status_code != 200:
            raise _refusal(response, shown)
        yield response
    finally:
        response.close()


def _refusal(response: requests.Response, shown: str) -> NetworkError:
    hints = {
        401: "put a name and password for this host into ~/.netrc",
        403: "you have no access; put a name and password for this host into ~/.netrc if it needs one",
        404: "check the address",
        410: "the file was withdrawn: find another address",
    }
    reason = "".join(letter for letter in response.reason or "" if letter.isprintable())
    return NetworkError(
        f"{shown}: the server answers {response.status_code} {reason}".rstrip(),
        hint=hints.get(response.status_code, "try again later"),
    )


class _HttpsOnly(requests.Session):
    """A session that follows redirects to https only, and says so when it does not."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target is not None and urlsplit(urljoin(resp.url, target)).scheme != "https":
            resp.close()
            raise NetworkError(
                f"{without_secrets(resp.url)}: refused the redirect to {without_secrets(target)}: not https",
                hint="the server sends you to an unprotected address: tell its keeper, or use another address",
            )
        return target


def _session(patience: Patience) -> requests.Session:
    retry = urllib3.util.Retry(
        total=patience.retries,
        other=0,  # a bad certificate does not get better
        backoff_factor=patience.backoff,
        status_forcelist=_TRANSIENT,
        allowed_methods={"GET"},
        raise_on_status=False,
        respect_retry_after_header=False,  # it may ask for hours
    )
    session = _HttpsOnly()
    session.max_redirects = 10
    session.adapters.clear()
    session.mount("https://", HTTPAdapter(max_retries=retry))
    return session


def _announced(response: requests.Response) -> int | None:
    text = response.headers.get("Content-Length", "")
    return int(text) if text.isascii() and text.isdigit() else None


def _body(response: requests.Response, order: _Order, end: float) -> Iterator[bytes]:
    """The bytes as the server sent them (not decoded), until `end` on the monotonic clock."""
    try:
        # read1, because read would wait for a full chunk: a server that drips byte by byte would never time out.
        while chunk := response.raw.read1(_CHUNK, decode_content=False):
            yield chunk
            if time.monotonic() > end:
                raise NetworkError(
                    f"{order.shown}: not complete after {order.patience.whole:g} s",
                    hint="the server is too slow: download the file by other means and use a file:// address",
                )
    except urllib3.exceptions.HTTPError as error:
        raise _BrokenOff(_reason(error)) from None


def _write(chunks: Iterator[bytes], order: _Order, step: Step) -> str:
    """Write `chunks` to the file and return their SHA-256. Raises SourceError above the size limit."""
    digest = hashlib.sha256()
    size = 0
    with order.into.open("wb") as file:
        for chunk in chunks:
            size += len(chunk)
            if size > order.limit:
                raise order.too_large()
            digest.update(chunk)
            file.write(chunk)
            step.advance(len(chunk))
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _reason(error: BaseException) -> str:
    """The innermost reason in the nested errors of requests and urllib3, without secrets."""
    for _ in range(10):
        inner = getattr(error, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((arg for arg in error.args if isinstance(arg, BaseException)), None)
        if inner is None:
            break
        error = inner
    text = str(error) or type(error).__name__
    if text.startswith("<") or ">: " in text:  # "<urllib3.connection.HTTPSConnection object at 0x..>: Failed to ..."
        text = text.split(">: ", 1)[-1]
    return without_secrets(text)
