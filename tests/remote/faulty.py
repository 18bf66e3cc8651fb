"""A web server that serves a registry's folder rightly, but for the paths that a test lets it answer wrongly."""

from __future__ import annotations

import http.server
import itertools
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from tfaot_pkg.ground.http import client
from tfaot_pkg.ground.http.connection import Watch

Request = http.server.BaseHTTPRequestHandler
Behaviour = Callable[[Request], None]


@dataclass
class Clock:
    """Time as the watches of clients measure it, ahead of the real one by `ahead` seconds.

    A server that drips lets minutes of it pass. So no test waits for a deadline, and no deadline has to be so short that a
    busy machine misses it where nothing is wrong.
    """

    ahead: float = 0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class Clocks:
    """The clock of the command that runs now. Each gets a new one: a server may still drip for the last command."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.renew()
        patch.setattr(client, "Watch", lambda patience, whole: Watch(patience, whole, Clocks.now))

    now: ClassVar[Clock] = Clock()

    def renew(self) -> None:
        Clocks.now = Clock()


@dataclass
class Seen:
    """A request that came in."""

    path: str
    headers: dict[str, str]


@dataclass
class FaultyServer:
    """`faults` maps patterns of whole paths to what is done instead of serving; the first that matches holds."""

    url: str
    root: Path
    faults: dict[str, Behaviour] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    sent: int = 0
    """Bytes of bodies that were written by behaviours that count them (`zeros`)."""

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def paths(self) -> list[str]:
        return [seen.path for seen in self.seen]

    def behaviour(self, path: str) -> Behaviour:
        for pattern, behaviour in self.faults.items():
            if re.fullmatch(pattern, path):
                return behaviour
        return self.serve

    def serve(self, request: Request) -> None:
        """As a plain web server does: tags, ranges, 404."""
        path = self.root / request.path.lstrip("/")
        if not path.is_file():
            reply(request, 404, b"no such file", Content_Type="text/plain")
            return
        body = path.read_bytes()
        etag = f'"{hash(body):x}"'
        if request.headers.get("If-None-Match") == etag:
            reply(request, 304)
            return
        wanted = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        if wanted and int(wanted[1]) < len(body):
            start = int(wanted[1])
            reply(request, 206, body[start:], Content_Range=f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            reply(request, 200, body, ETag=etag)

    def content(self, request: Request) -> bytes:
        return (self.root / request.path.lstrip("/")).read_bytes()

    # What may be wrong.

    def tampered(self, request: Request) -> None:
        body = bytearray(self.content(request))
        body[len(body) // 2] ^= 1
        reply(request, 200, bytes(body))

    def cut(self, request: Request) -> None:
        """A shorter file than the one that was signed, but whole as HTTP goes."""
        body = self.content(request)
        reply(request, 200, body[: len(body) // 2])

    def broken_off(self, request: Request) -> None:
        """The connection ends in the middle of the body, whatever part is asked for."""
        body = self.content(request)
        head(request, 200, Content_Length=str(len(body)))
        request.wfile.write(body[: len(body) // 2])
        request.close_connection = True

    def zeros(self, request: Request) -> None:
        """A gigabyte of zeros, of a length that was not announced."""
        head(request, 200, Connection="close")
        chunk = bytes(1 << 16)
        for _ in range(1 << 14):
            request.wfile.write(chunk)
            self.sent += len(chunk)

    def packed_zeros(self, request: Request) -> None:
        """A gigabyte of zeros in a megabyte of gzip."""
        import zlib

        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        head(request, 200, Content_Encoding="gzip", Connection="close")
        for _ in range(1 << 10):
            data = packer.compress(bytes(1 << 20))
            request.wfile.write(data)
            self.sent += len(data)

    def drip_head(self, request: Request) -> None:
        """A header that never ends, a byte at a time."""
        request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        drop_by_drop(request, b"x")

    def endless_trailers(self, request: Request) -> None:
        """All of the file, but the answer does not end."""
        body = self.content(request)
        head(request, 200, Transfer_Encoding="chunked")
        request.wfile.write(b"%x\r\n%b\r\n0\r\n" % (len(body), body))
        drop_by_drop(request, b"X-More: yes\r\n")

    def drip_chunk_size(self, request: Request) -> None:
        head(request, 200, Transfer_Encoding="chunked")
        drop_by_drop(request, b"0")

    def drip_body(self, request: Request) -> None:
        head(request, 200, Content_Length="10000")
        drop_by_drop(request, b" ")


def drop_by_drop(request: Request, drop: bytes, most: int | None = None) -> None:
    """Write `drop` again and again, for as long as somebody listens or `most` times. A minute passes after each."""
    clock = Clocks.now
    for _ in range(most) if most is not None else itertools.count():
        request.wfile.write(drop)
        request.wfile.flush()
        clock.ahead += 60
        time.sleep(0.05)


def head(request: Request, code: int, **headers: str) -> None:
    request.send_response(code)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()


def reply(request: Request, code: int, body: bytes = b"", **headers: str) -> None:
    kept = {} if code == 304 else {"Content_Length": str(len(body))}
    head(request, code, **kept, **headers)
    request.wfile.write(body)


def always(code: int, body: bytes = b"", **headers: str) -> Behaviour:
    return lambda request: reply(request, code, body, **headers)


def html(request: Request) -> None:
    reply(request, 200, b"<!DOCTYPE html><title>Please log in</title>", Content_Type="text/html")


def unlabelled_html(request: Request) -> None:
    reply(request, 200, b"\n <html>Please log in</html>")


def reset(request: Request) -> None:
    """End the connection with RST, as a machine that has lost it does."""
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()
    request.close_connection = True


@contextmanager
def faulty_server(root: Path, context: ssl.SSLContext | None = None, port: int = 0) -> Iterator[FaultyServer]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.seen.append(Seen(self.path, dict(self.headers)))
            try:
                server.behaviour(self.path)(self)
            except (OSError, ValueError):  # the client went away, as it should; or the test has closed the connection
                self.close_connection = True

        def log_message(self, *args: object) -> None: ...

    class Quiet(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64
        block_on_close = False

        def handle_error(self, request: object, client_address: object) -> None: ...

    with Quiet(("127.0.0.1", port), Handler) as listener:
        if context:
            listener.socket = context.wrap_socket(listener.socket, server_side=True)
        scheme = "https" if context else "http"
        server = FaultyServer(url=f"{scheme}://127.0.0.1:{listener.server_port}/", root=root)
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()


Script = Callable[[socket.socket], None]


@contextmanager
def listener(answer: Script, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """`host:port` of a server of bytes, which gives each connection (over TLS with `context`) to `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve(connection: socket.socket) -> None:
            try:
                with context.wrap_socket(connection, server_side=True) if context else connection as opened:
                    answer(opened)
            except OSError:
                pass  # the client went away, as it should

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def read_head(connection: socket.socket) -> bytes:
    """The head of a request."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        more = connection.recv(1)
        if not more:
            raise ConnectionError("the client went away")
        data += more
    return data


def drip(begin: bytes, drop: bytes, pause: float = 0.02) -> Script:
    """Answer a request with `begin`, and then with `drop` again and again, for as long as anybody listens."""

    def answer(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(begin)
        while True:
            connection.sendall(drop)
            time.sleep(pause)

    return answer
