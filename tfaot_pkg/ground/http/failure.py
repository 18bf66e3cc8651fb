"""Errors of requests, turned into messages that say what failed and what to do next.

requests uses urllib3, http.client, ssl and the system; each wraps the error that tells the reason in its own.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import requests
import urllib3

from tfaot_pkg.errors import NetworkError
from tfaot_pkg.ground.http.connection import Watch
from tfaot_pkg.ground.http.site import Site, one_line, without_secrets
from tfaot_pkg.ground.wording import counted

_DEPTH = 12


class Passing(NetworkError):
    """A retry may succeed. `wait` is how long the server asks to wait first (seconds)."""

    wait: float | None = None


class Unreachable(Passing):
    """No server answered: a cached copy may be used instead."""


class Broken(Passing):
    """The transfer was interrupted."""


class Missing(NetworkError):
    """The server has no such file. `status` is its answer."""

    def __init__(self, message: str, *, hint: str, status: int) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class TooLong(NetworkError):
    """The server sends more than the limit."""


def failure(error: Exception, url: str, site: Site) -> NetworkError:
    """The error for a request to `url` that got no answer."""
    shown = without_secrets(url)
    proxied = requests.exceptions.ProxyError | requests.exceptions.InvalidProxyURL
    # For SOCKS proxies requests raises other errors: without PySocks, InvalidSchema.
    if isinstance(error, proxied) or _proxy(url).startswith("socks"):
        return Unreachable(
            f"{shown}: the proxy cannot be used: {reason(error, _proxy(url))}",
            hint="check HTTP_PROXY, HTTPS_PROXY and NO_PROXY",
        )
    if isinstance(error, ValueError):  # InvalidURL and the like are ValueErrors too
        return NetworkError(f"{shown} is not an address: {one_line(str(error))}", hint=site.check)
    peer = _peer(_proxy(url) or url)
    secured = next((each for each in _chain(error) if isinstance(each, ssl.SSLError)), None)
    if secured is not None:
        return _tls_failure(secured, shown, peer, site)
    if any(isinstance(each, http.client.HTTPException) and not _is_closed(each) for each in _chain(error)):
        return Broken(
            f"{shown}: the answer of {peer} is not HTTP",
            hint="check the address and its port: another service may use the port, or it may need http:// or https://",
        )
    return Unreachable(
        f"{shown}: the server cannot be reached: {reason(error, _proxy(url) or url)}",
        hint=f"check the address and your connection; behind a proxy set HTTPS_PROXY; {site.otherwise}",
    )


def _tls_failure(error: ssl.SSLError, shown: str, peer: str, site: Site) -> NetworkError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return NetworkError(
            f"{shown}: the server's certificate is not accepted: {error.verify_message}",
            hint="set REQUESTS_CA_BUNDLE to a file with your own certificate authority, if you have one; for one that "
            f"has expired, check this machine's clock, then {site.tell}",
        )
    what = (error.reason or "no reason given").replace("_", " ").lower()
    return NetworkError(
        f"{shown}: the TLS handshake with {peer} failed: {what}",
        hint="check the address and its port; a proxy may answer instead, or the server has only http://",
    )


def slow(url: str, watch: Watch) -> Passing:
    """The error if the watch over a request has expired."""
    return Passing(
        f"{without_secrets(url)}: the server is too slow: {counted(watch.count, 'byte')} in {watch.passed:.3g} s",
        hint="try again later; TFAOT_HTTP_TIMEOUT=SECONDS waits longer",
    )


def broken(url: str, error: Exception) -> Broken:
    """The error if an answer ended too early."""
    return Broken(
        f"{without_secrets(url)}: the transfer was interrupted: {reason(error, url)}",
        hint="try again later: a download resumes where it stopped",
    )


def reason(error: BaseException, url: str = "") -> str:
    """Why no answer came from the host of `url`."""
    peer = _peer(url) or "the server"
    chain = list(_chain(error))
    # The innermost error is the most exact: the ones around it repeat it in other words.
    for each in reversed(chain):
        if isinstance(each, urllib3.exceptions.NameResolutionError | socket.gaierror):
            return f"the name {urlsplit(url).hostname or peer} is not known (misspelt, or no network)"
        if isinstance(each, ConnectionRefusedError):
            return f"{peer} refuses connections"
        if isinstance(each, TimeoutError | urllib3.exceptions.TimeoutError | requests.exceptions.Timeout):
            return f"{peer} did not answer in time"
        if _is_closed(each):
            return f"{peer} closed the connection"
        if isinstance(each, OSError) and each.errno and each.strerror:
            return f"{peer}: {each.strerror.lower()}"
    return one_line(str(chain[-1])) or "no reason given"


def _is_closed(error: BaseException) -> bool:
    early = ConnectionResetError | ConnectionAbortedError | BrokenPipeError | http.client.IncompleteRead
    return isinstance(error, early | urllib3.exceptions.IncompleteRead | http.client.RemoteDisconnected)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """`error` and the errors that it wraps, innermost last."""
    # A limit, because causes may refer to each other in a circle.
    for _ in range(_DEPTH):
        yield error
        # urllib3 keeps the inner error in `reason`, requests in its arguments, Python in the last two.
        inner = [getattr(error, "reason", None), *error.args, error.__cause__, error.__context__]
        found = next((one for one in inner if isinstance(one, BaseException)), None)
        if found is None:
            return
        error = found


def _peer(url: str) -> str:
    """Host and port of `url`, without name and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _proxy(url: str) -> str:
    """The proxy that the environment sets for `url`; empty for a direct connection."""
    return requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url)) or ""
