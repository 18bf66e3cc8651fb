"""The watch over an exchange with a server, and connections that keep to it, from the name to the last trailer.

A socket's time-out begins anew with every byte. So a server could keep a client waiting for ever: with a header that
never ends, with the sizes of chunks sent digit by digit, with trailers without end. Here time is what counts, and only
bytes of the body are progress.

The user's proxies, netrc and certificates hold, as requests reads them.
"""

from __future__ import annotations

import http.client
import io
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
)
from urllib3.poolmanager import PoolManager

from tfaot_pkg.http.site import Patience


class TooSlow(TimeoutError):
    """The exchange has taken too long."""


class Watch:
    """Begins with the exchange. `whole` is the longest time (seconds) for all of it."""

    def __init__(self, patience: Patience, whole: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._clock = clock
        self._begin = clock()
        self._end = self._begin + max(whole, patience.silence)
        self._in_body = False
        self._window = self._begin
        self._delivered = 0
        self._brief = float("inf")
        self.count = 0
        """Bytes of the body so far."""
        self.connected = False
        """Whether a machine has answered: what is slow is a server then, and not the way to it."""

    @property
    def expired(self) -> bool:
        """Whether it has taken too long."""
        return self._clock() >= self._until()

    def begin_body(self) -> None:
        """The head of the final answer is there."""
        self._in_body, self._window = True, self._clock()

    def deliver(self, count: int) -> None:
        """`count` bytes of the body have come."""
        self.count += count
        self._delivered += count

    @property
    def passed(self) -> float:
        """Seconds since the exchange began."""
        return self._clock() - self._begin

    def left(self) -> float:
        """The longest time (seconds) that may now pass without any byte. Raises TooSlow."""
        left = self._until() - self._clock()
        if left <= 0:
            raise TooSlow
        return left

    def left_to_connect(self) -> float:
        """The longest time (seconds) for a connection that is made now. Raises TooSlow."""
        return min(self.left(), self._patience.connect)

    @contextmanager
    def brief(self, most: float = 0.5) -> Iterator[None]:
        """What is done inside is not worth more than `most` seconds, and may fail."""
        self._brief = self._clock() + most
        try:
            yield
        finally:
            self._brief = float("inf")

    def _until(self) -> float:
        if not self._in_body:
            return min(self._begin + self._patience.silence, self._end, self._brief)
        return min(self._window_end(), self._end, self._brief)

    def _window_end(self) -> float:
        """When the body will have been too slow, if nothing more comes."""
        now, length = self._clock(), self._patience.silence
        if now >= self._window + length and self._delivered >= self._patience.slowest * (now - self._window):
            self._window, self._delivered = now, 0
        enough = self._delivered >= self._patience.slowest * length
        return self._window + (2 * length if enough else length)


_WATCH: ContextVar[Watch] = ContextVar("watch")


def current() -> Watch:
    """The watch over the exchange that this thread is in."""
    return _WATCH.get()


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Connections that are made or used inside keep to `watch`: requests has no way to hand it to them."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


AT_ONCE = 8
"""Connections to one server."""
_Address = tuple[int, int, int, str, Any]


class _WatchedReader(io.RawIOBase):
    """The bytes of `raw`, which reads from `sock`: each wait ends when the watch says."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, watch: Watch) -> None:
        super().__init__()
        self._raw, self._sock, self._watch = raw, sock, watch

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._watch.left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _WatchedResponse(http.client.HTTPResponse):
    """All that http.client reads of an answer, the one of a proxy to CONNECT too, comes through a watched reader."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(_WatchedReader(raw, sock, current()))


class _WatchedSocket:
    """The TLS connection to a proxy: its handshake with the server behind it is many reads."""

    def __init__(self, sock: Any, watch: Watch) -> None:
        self._sock, self._watch = sock, watch

    def recv(self, *args: Any) -> bytes:
        self._sock.settimeout(self._watch.left())
        received: bytes = self._sock.recv(*args)
        return received

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class WatchedConnection(HTTPConnection):
    """Without TLS, or below it."""

    response_class = _WatchedResponse

    def _new_conn(self) -> socket.socket:
        watch = current()
        watch.connected = False
        wait = watch.left_to_connect()
        until = time.monotonic() + wait
        try:
            sock = _connect(_look_up(self._dns_host, self.port, wait), until, self.socket_options)
            watch.connected = True
            sock.settimeout(watch.left())  # for the whole of a TLS handshake
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        except UnicodeError:
            raise LocationParseError(f"{self.host!r}, label empty or too long") from None
        except TimeoutError as error:
            raise ConnectTimeoutError(self, f"no connection to {self.host} in {wait:.3g} s") from error
        except OSError as error:
            raise NewConnectionError(self, f"Failed to establish a new connection: {error}") from error
        sys.audit("http.client.connect", self, self.host, self.port)
        return sock

    def _tunnel(self) -> None:
        super()._tunnel()  # http.client's, or the copy that urllib3 has for some releases of Python
        self.sock.settimeout(current().left())

    def send(self, data: Any) -> None:
        if self.sock is not None:  # it may have been used before, and have that exchange's time
            self.sock.settimeout(current().left())
        super().send(data)


class _WatchedTLS(WatchedConnection, HTTPSConnection):
    def _connect_tls_proxy(self, hostname: str, sock: socket.socket) -> Any:
        return _WatchedSocket(super()._connect_tls_proxy(hostname, sock), current())


def _look_up(host: str, port: int, wait: float) -> list[_Address]:
    """What the system knows of the name `host`, or TimeoutError after `wait` seconds.

    Its own limit is half a minute and more. A look-up cannot be ended from outside: its thread goes on until then.
    """
    try:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
    except socket.gaierror:
        pass
    answer: queue.SimpleQueue[list[_Address] | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
        except (OSError, UnicodeError) as error:
            answer.put(error)

    threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    try:
        found = answer.get(timeout=wait)
    except queue.Empty:
        raise TimeoutError(f"nobody told in time where {host} is") from None
    if isinstance(found, Exception):
        raise found
    return found


def _connect(addresses: list[_Address], until: float, options: Any) -> socket.socket:
    """A connection to the first of `addresses` that answers; each has its share of the time. Raises OSError."""
    error = OSError("it has no address")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        share = (until - time.monotonic()) / (len(addresses) - number)
        if share <= 0:
            raise TimeoutError("no connection in time")
        sock = socket.socket(family, kind, protocol)
        try:
            for option in options or ():
                sock.setsockopt(*option)
            sock.settimeout(share)
            sock.connect(address)
            return sock
        except OSError as failed:
            sock.close()
            error = failed
    raise error


class _Pool(HTTPConnectionPool):
    ConnectionCls = WatchedConnection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedTLS


class WatchedAdapter(HTTPAdapter):
    """Watched connections, directly and through proxies; no tries of its own."""

    def __init__(self) -> None:
        super().__init__(max_retries=0, pool_maxsize=AT_ONCE)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        _watch(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        _watch(manager)
        return manager


def _watch(manager: PoolManager) -> None:
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}
