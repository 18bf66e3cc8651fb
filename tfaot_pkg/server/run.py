"""The server as a process: a socket, the log, and a decent end."""

from __future__ import annotations

import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from tfaot_pkg.errors import NetworkError, RegistryError
from tfaot_pkg.server.app import make_app
from tfaot_pkg.server.protocol import Limits, protocol_with
from tfaot_pkg.static.layout import CONFIG

LIMITS = Limits()
_GRACE = 5
"""Seconds that running transfers have to end after Ctrl-C."""


def serve(root: Path, *, host: str, port: int, ready: Callable[[str], None], limits: Limits = LIMITS) -> None:
    """Serve the registry in `root` until SIGINT or SIGTERM; `ready` gets the address once it accepts connections.

    Port 0 takes a free one. A line per request goes to standard error. Raises RegistryError where `root` is no
    registry, NetworkError where the address cannot be had.
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
    """A server for which Ctrl-C is the normal end, so it is not raised again when all is done.

    `ready` is called when requests and signals are answered.
    """

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
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
    """Uvicorn's lines, faults included, on standard error with the time; its chatter at the start is left out."""
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
