"""The client: requests a URL, follows redirects that its site allows, and gives the answer with its body unread.

Each exchange has one watch (connection.py); all errors are those of failure.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, Protocol
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import NetworkError
from tfaot_pkg.ground.http.connection import Watch, WatchedAdapter, watching
from tfaot_pkg.ground.http.failure import broken, failure, slow
from tfaot_pkg.ground.http.site import Patience, Site, refused, without_secrets

_CHUNK = 1 << 18
_MOST_REDIRECTS = 10
_LONGEST_ADDRESS = 8192
_REDIRECTS = (301, 302, 303, 307, 308)
_NEVER_IN_ADDRESSES = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The final answer to a request, after redirects. `url` is the address that gave it."""

    url: str
    status: int
    reason: str
    headers: Mapping[str, str]
    raw: urllib3.HTTPResponse
    watch: Watch

    def chunks(self) -> Iterator[bytes]:
        """The body as it was sent (not unpacked). Raises Passing if it is interrupted or too slow."""
        self.watch.begin_body()
        try:
            while chunk := self._next():
                self.watch.deliver(len(chunk))
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            # The socket raises the same error if the server is silent and if the watch has expired: ask the watch.
            raise (slow(self.url, self.watch) if self.watch.expired else broken(self.url, error)) from None

    def _next(self) -> bytes:
        with watching(self.watch):
            # read1, because read would wait for a full chunk, and the watch counts bytes as they arrive.
            return self.raw.read1(_CHUNK, decode_content=False)

    def skip(self) -> None:
        """Read a short body, so that the next request can use the same connection."""
        with self.watch.brief(), suppress(urllib3.exceptions.HTTPError, OSError, ValueError):
            self._next()


class Authorization(Protocol):
    """Who asks, for servers that want to know it in a form of their own (others get what ~/.netrc has)."""

    def header(self, url: str) -> str:
        """The value of `Authorization` for a request to `url`, also one that a server redirects to; empty: none."""

    def challenged(self, answer: Answer, sent: str) -> bool:
        """Whether `header` gives something else than what was `sent` for this answer, which has the status 401.

        Several threads may ask at once. Raises NetworkError.
        """


class Client:
    """Sends requests to the servers of `site`. Several threads may use it at once."""

    def __init__(self, site: Site, patience: Patience, authorization: Authorization | None = None) -> None:
        self.site = site
        self.patience = patience
        self._authorization = authorization
        self._session = _Session(site.accept)

    def close(self) -> None:
        self._session.close()

    @contextmanager
    def ask(
        self, url: str, headers: Mapping[str, str], whole: float, *, method: str = "GET", body: BinaryIO | None = None
    ) -> Iterator[Answer]:
        """The answer for `url`, which must be complete within `whole` seconds. `body` is sent from its start.

        Only what is read is asked for elsewhere, too, if the server redirects. Raises NetworkError: Passing (no answer,
        or too slow an answer), or a redirect that the site does not allow.
        """
        # One watch for all redirects: a circle of slow ones must not get a new deadline each time.
        watch, was_challenged = Watch(self.patience, whole), False
        for _ in range(_MOST_REDIRECTS + 1):
            known = self._authorization.header(url) if self._authorization else ""
            with self._request(method, url, headers, watch, body, known) as response:
                answer = Answer(
                    url=url,
                    status=response.status_code,
                    reason=response.reason or "",
                    headers=response.headers,
                    raw=response.raw,
                    watch=watch,
                )
                if answer.status == 401 and self._authorization and not was_challenged:
                    was_challenged = True
                    if self._authorization.challenged(answer, known):
                        answer.skip()
                        continue
                if answer.status not in _REDIRECTS or method not in ("GET", "HEAD"):
                    yield answer
                    return
                url = self._target(answer)
                answer.skip()
        raise NetworkError(
            f"{without_secrets(url)}: the server redirects in circles: {_MOST_REDIRECTS} times", hint=self.site.tell
        )

    def _request(
        self, method: str, url: str, headers: Mapping[str, str], watch: Watch, body: BinaryIO | None, known: str
    ) -> requests.Response:
        # The watch sets shorter times; requests needs some, or it would wait without limit.
        timeout = (self.patience.silence, self.patience.silence)
        try:
            with watching(watch):
                return self._session.request(
                    method,
                    url,
                    headers=dict(headers),
                    data=_Sent(body, watch) if body else None,
                    auth=_As(known) if known else None,
                    stream=True,
                    timeout=timeout,
                    allow_redirects=False,
                )
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            # An expired watch before that is a connection that failed: `failure` says why.
            late = watch.connected and watch.expired
            raise (slow(url, watch) if late else failure(error, url, self.site)) from None

    def _target(self, answer: Answer) -> str:
        """The target of a redirect. Raises NetworkError if the site does not allow it."""
        location = answer.headers.get("Location", "")
        try:
            target = joined(answer.url, location)
        except ValueError as error:
            raise refused(location, answer.url, str(error), self.site) from None
        fault = self.site.fault(target, answer.url)
        if fault:
            raise refused(target, answer.url, fault, self.site)
        return target


def joined(origin: str, location: str) -> str:
    """The address that `location` means at `origin`. Raises ValueError."""
    if not location.strip():
        raise ValueError("it names no address")
    if len(location) > _LONGEST_ADDRESS:
        raise ValueError(f"it is longer than {_LONGEST_ADDRESS} characters")
    # Browsers drop such characters and read a backslash as '/': the address would mean another host to them.
    if _NEVER_IN_ADDRESSES.search(location):
        raise ValueError("it contains characters that no address may have")
    try:
        text = location.strip().encode("latin-1").decode()  # http.client takes the bytes of headers for Latin-1
        target = requests.utils.requote_uri(urljoin(origin, text))
        parts = urlsplit(target)
        _ = parts.port
    except ValueError as error:  # UnicodeError is one
        raise ValueError("that is not an address") from error
    if "@" in parts.netloc:
        raise ValueError("a name and password in an address end up in logs")
    return target


class _As(requests.auth.AuthBase):
    """requests replaces a header that it is given by what ~/.netrc has, but not what an object like this one sets."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._value
        return request


class _Sent:
    """The body of a request: bytes that leave are the progress that the watch asks for."""

    def __init__(self, body: BinaryIO, watch: Watch) -> None:
        self._body, self._watch = body, watch
        self._size = body.seek(0, os.SEEK_END)
        body.seek(0)

    def __len__(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:
        if self._body.tell() == 0:
            self._watch.begin_body()
        chunk = self._body.read(size)
        if chunk:
            self._watch.deliver(len(chunk))
        else:
            self._watch.sent()
        return chunk


class _Session(requests.Session):
    """Follows nothing by itself: requests would read the body of a redirect, whatever its length."""

    def __init__(self, accept: str) -> None:
        super().__init__()
        # requests would add Accept-Encoding: a packed body has another digest than the file.
        self.headers.clear()
        self.headers.update({"User-Agent": f"tfaot-pkg/{__version__}", "Accept": accept})
        self.adapters.clear()
        for scheme in ("http://", "https://"):
            self.mount(scheme, WatchedAdapter())

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None
