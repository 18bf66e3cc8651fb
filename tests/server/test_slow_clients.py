"""Clients that hold a connection and never end: each is cut, and nobody else is kept waiting by them."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.server.conftest import FILES, REPOSITORY, make_folder

pytestmark = pytest.mark.slow

_SERVE = """
import sys
from pathlib import Path
from tfaot_pkg.registry.server.run import Limits
from tfaot_pkg.registry.server.run import serve
limits = Limits({limits})
serve(Path(sys.argv[1]), host="127.0.0.1", port=0, ready=lambda url: print(url, flush=True), limits=limits)
"""
BIG = "/blobs/sha256/ff/big"


@contextmanager
def limited_server(root: Path, limits: str) -> Iterator[int]:
    """The port of a server with these limits."""
    argv = [sys.executable, "-c", _SERVE.format(limits=limits), str(root)]
    with subprocess.Popen(
        argv, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield int(re.findall(r":(\d+)/", process.stdout.readline())[0])
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_folder(tmp_path / "registry")
    (tmp_path / "registry" / BIG[1:]).parent.mkdir()
    (tmp_path / "registry" / BIG[1:]).write_bytes(os.urandom(24 << 20))
    return tmp_path / "registry"


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def is_cut(connection: socket.socket, drop: bytes, most: float = 30) -> bool:
    """Whether the server ends the connection while it is sent `drop` again and again."""
    connection.settimeout(0.05)
    begin = time.monotonic()
    while time.monotonic() - begin < most:
        try:
            if drop:
                connection.sendall(drop)
            if connection.recv(10_000) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def status(port: int, path: str = "/config.json") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


GET = b"GET /config.json HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /config.json HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        (b"", b""),
        (b"", b"G"),
        (GET, b""),
        (GET + b"X: ", b"x"),
        (GET, b"X: 1\r\n"),
        (POST, b"x"),
        (POST, b""),
        (GET + b"\r\n", b""),
        (GET + b"\r\nG", b"E"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    ],
    ids=[
        "silence",
        "a request line that drips",
        "half a head",
        "a header that drips",
        "headers that drip",
        "a body that drips",
        "a body that never comes",
        "silence after an answer",
        "a second head that drips",
        "a size of a chunk that drips",
    ],
)
def test_a_client_that_never_ends_its_request_is_cut(root: Path, begin: bytes, drop: bytes) -> None:
    with limited_server(root, "head=0.5, idle=0.5") as port, connect(port) as connection:
        connection.sendall(begin)
        assert is_cut(connection, drop)
        assert status(port) == 200


def test_a_head_that_is_too_large_is_refused(root: Path) -> None:
    with limited_server(root, "head=20, head_size=4096") as port, connect(port) as connection:
        connection.sendall(GET + b"X: " + b"x" * 5000)
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
        assert is_cut(connection, b"")


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
def test_a_client_that_does_not_read_is_cut(root: Path, close: bytes) -> None:
    with limited_server(root, "stall=0.5, idle=0.5") as port, connect(port) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(f"GET {BIG} HTTP/1.1\r\nHost: a\r\n".encode() + close + b"\r\n")
        wait_for_no_connection(port)


def wait_for_no_connection(port: int) -> None:
    """Until the server has no connection but that of a client that is gone. Raises AssertionError."""
    wanted = f":{port:04X}"
    for _ in range(600):
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        if not any(row[1].endswith(wanted) and row[3] == "01" for row in rows):
            return
        time.sleep(0.05)
    raise AssertionError("the connection is still there")


def test_a_client_that_reads_slowly_gets_it_all(root: Path) -> None:
    with limited_server(root, "head=0.5, idle=0.5, stall=3") as port, connect(port) as connection:
        connection.sendall(f"GET {BIG} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        received = 0
        while received < 24 << 20:
            data = connection.recv(1 << 18)
            assert data, received
            received += len(data)
            time.sleep(0.03)


def test_each_request_has_the_whole_limit_for_its_head(root: Path) -> None:
    with limited_server(root, "head=2, idle=20") as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        with contextlib.closing(connection):
            for _ in range(4):
                connection.request("GET", "/config.json")
                assert connection.getresponse().read() == FILES["config.json"]  # it may come in several packets
                time.sleep(0.7)


def test_a_full_house_makes_room_for_who_asks(root: Path) -> None:
    with limited_server(root, "head=60, connections=8") as port, ExitStack() as stack:
        silent = [stack.enter_context(connect(port)) for _ in range(20)]
        for _ in range(12):
            assert status(port) == 200
        assert is_cut(silent[0], b""), "it has waited longest"
