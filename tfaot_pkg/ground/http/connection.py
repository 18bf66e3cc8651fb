"""The watch over an exchange with a server, and connections that obey it, from name look-up to the last trailer.

A socket's time-out starts again with every byte. So a server could make a client wait forever: with an endless header,
with chunk sizes sent digit by digit, with endless trailers. The watch measures time, and only bytes of the body count
as progress (decision 032).

The user's proxies, netrc and certificates apply, as requests reads them.
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

from tfaot_pkg.ground.http.site import Patience


class TooSlow(TimeoutError):
    """The exchange took too long."""


class Watch:
    """Starts with the exchange, which may take `whole` seconds in total."""

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
        """Whether a connection was made: after that, a delay is the server's and not the network's."""

    @property
    def expired(self) -> bool:
        """Whether the exchange took too long."""
        return self._clock() >= self._until()

    def begin_body(self) -> None:
        """The head of the final answer has arrived, or the first bytes of a request's body are about to leave."""
        self._in_body, self._window = True, self._clock()

    def deliver(self, count: int) -> None:
        """`count` bytes of the body have arrived."""
        self.count += count
        self._delivered += count

    def sent(self) -> None:
        """The body of the request, which was delivered as an answer's is, has left: the answer has its own time."""
        self._in_body, self._begin, self._delivered, self.count = False, self._clock(), 0, 0

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
        """The block may take at most `most` seconds: reads in it fail after that."""
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
        """The time at which the body will have been too slow, if no more bytes arrive."""
        now, length = self._clock(), self._patience.silence
        # A new window starts only after a good one, so the rate is an average: short pauses are allowed.
        if now >= self._window + length and self._delivered >= self._patience.slowest * (now - self._window):
            self._window, self._delivered = now, 0
        enough = self._delivered >= self._patience.slowest * length
        # A window that has enough bytes already gives the next one its full length.
        return self._window + (2 * length if enough else length)


_WATCH: ContextVar[Watch] = ContextVar("watch")


def current() -> Watch:
    """The watch over the exchange that this thread is in."""
    return _WATCH.get()


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Connections that are made or used in the block obey `watch`: requests has no parameter to pass it to them."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


AT_ONCE = 8
"""Connections to one server."""
_Address = tuple[int, int, int, str, Any]


class _WatchedReader(io.RawIOBase):
    """The bytes of `raw`, which reads from `sock`; the watch limits each wait."""

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
    """http.client reads every answer, also a proxy's to CONNECT, through a watched reader."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(_WatchedReader(raw, sock, current()))


class _WatchedSocket:
    """The TLS connection to a proxy: the TLS handshake with the server behind it needs many reads."""

    def __init__(self, sock: Any, watch: Watch) -> None:
        self._sock, self._watch = sock, watch

    def recv(self, *args: Any) -> bytes:
        self._sock.settimeout(self._watch.left())
        received: bytes = self._sock.recv(*args)
        return received

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class WatchedConnection(HTTPConnection):
    """A TCP connection, with or without TLS above it."""

    response_class = _WatchedResponse

    def _new_conn(self) -> socket.socket:
        watch = current()
        # A redirect may lead to another host, to which there is no connection yet.
        watch.connected = False
        wait = watch.left_to_connect()
        until = time.monotonic() + wait
        try:
            sock = _connect(_look_up(self._dns_host, self.port, wait), until, self.socket_options)
            watch.connected = True
            sock.settimeout(watch.left())  # for the whole TLS handshake, which is one call of OpenSSL's
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        # The codec for international host names raises it, not gaierror.
        except UnicodeError:
            raise LocationParseError(f"{self.host!r}, label empty or too long") from None
        except TimeoutError as error:
            raise ConnectTimeoutError(self, f"no connection to {self.host} in {wait:.3g} s") from error
        except OSError as error:
            raise NewConnectionError(self, f"Failed to establish a new connection: {error}") from error
        # As http.client does in the method that this one replaces.
        sys.audit("http.client.connect", self, self.host, self.port)
        return sock

    def _tunnel(self) -> None:
        super()._tunnel()  # http.client's, or urllib3's copy for some releases of Python
        self.sock.settimeout(current().left())

    def send(self, data: Any) -> None:
        if self.sock is not None:  # from the pool: it still has the time-out of its last exchange
            self.sock.settimeout(current().left())
        super().send(data)


class _WatchedTLS(WatchedConnection, HTTPSConnection):
    def _connect_tls_proxy(self, hostname: str, sock: socket.socket) -> Any:
        return _WatchedSocket(super()._connect_tls_proxy(hostname, sock), current())


def _look_up(host: str, port: int, wait: float) -> list[_Address]:
    """The addresses of `host`. Raises TimeoutError after `wait` seconds.

    The system's own limit is half a minute and more. A look-up cannot be cancelled: its thread ends then.
    """
    try:
        # A numeric address needs no look-up, and so no thread.
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
        raise TimeoutError(f"the lookup of {host} timed out") from None
    if isinstance(found, Exception):
        raise found
    return found


def _connect(addresses: list[_Address], until: float, options: Any) -> socket.socket:
    """A connection to the first of `addresses` that answers. Raises OSError."""
    error = OSError("the host has no address")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        # An equal share of the time left: one dead address (IPv6 without a route, say) must not use all of it.
        share = (until - time.monotonic()) / (len(addresses) - number)
        if share <= 0:
            raise TimeoutError("the connection timed out")
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
    """Watched connections, directly and through proxies, without retries of its own (transfer.py has them)."""

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
