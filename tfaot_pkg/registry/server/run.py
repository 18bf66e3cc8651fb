"""The server as a process: a socket, limits of connections, the log, and an orderly end.

uvicorn lets a client that never ends its request, or never reads the answer, hold its connection. So a timer runs
whenever the client is to send something (a head, the rest of a body, the next request), another while it is to read.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tfaot_pkg.errors import NetworkError, RegistryError
from tfaot_pkg.registry.files.layout import CONFIG
from tfaot_pkg.registry.server.app import make_app


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for one client: times in seconds, sizes in bytes.

    `head` is the time for a request's whole head (and for the rest of a body, which is dropped), `idle` the pause
    between two requests, `stall` the time in which a client must read some of the response.
    """

    head: float = 10
    idle: float = 30
    stall: float = 120
    head_size: int = 32 << 10
    connections: int = 500


def protocol_with(limits: Limits) -> type[H11Protocol]:
    """The protocol class with `limits`: uvicorn takes a class and makes the instances itself."""

    class Limited(LimitedProtocol):
        LIMITS = limits

    return Limited


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 within `LIMITS`. If there are too many connections, the one that has been idle longest is closed."""

    LIMITS = Limits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._expected: Literal["head", "rest", "nothing"] = "head"
        self._asking: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._unsent = 0
        self.waits_since: float | None = None
        """Since when the server has waited for the client; None while it answers a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn itself does
        super().connection_made(transport)
        self._expect("head")
        if len(self.connections) > self.LIMITS.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing_more()
        _cancel(self._reading)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._expected == "nothing":  # the next request begins
            self._expect("head")
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        # While the server answers, the client has nothing to send: no timer runs for it.
        if self.cycle is not None and not self.cycle.response_complete:
            self._expect_nothing_more()
        elif self._expected == "rest" and self.conn.their_state is not h11.SEND_BODY:
            self._expect("nothing")

    def on_response_complete(self) -> None:
        self._expect("rest" if self.conn.their_state is h11.SEND_BODY else "nothing")
        self._expect_reading()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._expect_reading()

    def _expect(self, what: Literal["head", "rest", "nothing"]) -> None:
        """Start the timer for what the client is to send: `head` seconds, or `idle` to begin the next request."""
        self._expect_nothing_more()
        self._expected = what
        self.waits_since = self.loop.time()
        self._asking = self.loop.call_later(self.LIMITS.idle if what == "nothing" else self.LIMITS.head, self._end)

    def _expect_nothing_more(self) -> None:
        _cancel(self._asking)
        self._asking = self.waits_since = None

    def _end(self) -> None:
        """The client was too slow. A response that is still in the buffer may go out first."""
        if self.transport.get_write_buffer_size():
            self.transport.close()
        else:
            self.transport.abort()

    def _expect_reading(self) -> None:
        """Start the timer in which the client must read some of the buffered response."""
        _cancel(self._reading)
        self._unsent = self.transport.get_write_buffer_size()
        if self._unsent:
            self._reading = self.loop.call_later(self.LIMITS.stall, self._check_reading)

    def _check_reading(self) -> None:
        # A slow client that reads some of it may go on for as long as it needs.
        if self.transport.get_write_buffer_size() < self._unsent:
            self._expect_reading()
        else:
            self.transport.abort()

    def _make_room(self) -> None:
        others = [
            one for one in self.connections if isinstance(one, LimitedProtocol) and not one.transport.is_closing()
        ]
        waiting = [(one.waits_since, id(one), one) for one in others if one.waits_since is not None]
        min(waiting)[2].transport.abort()  # never empty: this new connection waits too


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


LIMITS = Limits()
_GRACE = 5
"""Seconds that running transfers have to finish after Ctrl-C."""


def serve(root: Path, *, host: str, port: int, ready: Callable[[str], None], limits: Limits = LIMITS) -> None:
    """Serve the registry in `root` until SIGINT or SIGTERM; `ready` gets the address once it accepts connections.

    Port 0 takes a free one. A line per request goes to standard error. Raises RegistryError if `root` is not
    a registry, NetworkError if the address cannot be bound.
    """
    if not (root / CONFIG).is_file():
        raise RegistryError(
            f"{root} is not a registry: it has no {CONFIG}",
            hint="name the registry's folder; publishing a package makes one, and so does tfaot-pkg registry init",
        )
    listening = _listen(host, port)
    with listening:
        config = uvicorn.Config(
            make_app(root),
            log_config=None,
            lifespan="off",
            ws="none",
            server_header=False,
            http=protocol_with(limits),
            timeout_keep_alive=limits.idle,  # type: ignore[arg-type] # a float does as well
            timeout_graceful_shutdown=_GRACE,
            h11_max_incomplete_event_size=limits.head_size,
        )
        with _log():
            _Server(config, lambda: ready(f"http://{_shown(host, listening)}/")).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError, UnicodeError) as error:
        raise NetworkError(
            f"cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or error}",
            hint="choose another --port (0 takes any free one) or --host",
        ) from error


def _shown(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Server(uvicorn.Server):
    """A server that exits normally on Ctrl-C: uvicorn would raise the signal again after its shutdown.

    `ready` is called once requests and signals are handled.
    """

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Python lets only the main thread set signal handlers.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _log() -> Iterator[None]:
    """Uvicorn's log lines and errors on standard error, with the time; without its messages at the start."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    loggers = {"uvicorn.access": logging.INFO, "uvicorn.error": logging.WARNING}
    for name, level in loggers.items():
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
    try:
        yield
    finally:
        for name in loggers:
            logging.getLogger(name).removeHandler(handler)
