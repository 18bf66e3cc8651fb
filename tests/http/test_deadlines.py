"""A server that drips: whatever part of an exchange it is that never ends, the client ends it in time.

The servers here drip for as long as they are listened to. So a test that fails would hang: `ended` says how long it may
take at most, which is far more than the deadlines of a loaded machine.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from urllib3.connection import HTTPConnection

from tests.remote.faulty import Script, drip, listener, read_head
from tests.source.conftest import certificate
from tests.wording import reported
from tfaot_pkg.errors import NetworkError
from tfaot_pkg.ground.http.client import Client
from tfaot_pkg.ground.http.connection import TooSlow, Watch, WatchedConnection, watching
from tfaot_pkg.ground.http.failure import Missing, Unreachable
from tfaot_pkg.ground.http.site import Patience, Site
from tfaot_pkg.ground.http.transfer import PartialFile, Transfer
from tfaot_pkg.ground.progress import Silent

pytestmark = pytest.mark.slow

__all__ = ["certificate"]

SITE = Site(noun="source", fault=lambda *_: "", otherwise="", takes_pages=True)
IMPATIENT = Patience(connect=0.4, silence=0.4, retries=0)
_TRIES = 5
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
EMPTY_BLOCK = b"\x00\x00\x00\xff\xff"

DRIPS = {
    "the status line": drip(b"HTTP/1.", b"1"),
    "a header": drip(OK + b"X-Slow: ", b"x"),
    "headers": drip(OK, b"X: 1\r\n", pause=0.05),
    "interim answers": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "interim answers at full speed": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n", pause=0),
    "a body of announced length": drip(OK + b"Content-Length: 100000\r\n\r\n", b"x"),
    "a body until the connection closes": drip(OK + b"\r\n", b"x"),
    "the size of a chunk": drip(CHUNKED, b"0"),
    "the extension of a chunk": drip(CHUNKED + b"5;", b"x"),
    "the data of a chunk": drip(CHUNKED + b"ffff\r\n", b"x"),
    "small chunks": drip(CHUNKED, b"1\r\nx\r\n"),
    "a trailer": drip(CHUNKED + b"2\r\n{}\r\n0\r\nT: ", b"x"),
    "trailers": drip(CHUNKED + b"2\r\n{}\r\n0\r\n", b"T: x\r\n"),
    "trailers at full speed": drip(CHUNKED + b"2\r\n{}\r\n0\r\n", b"T: x\r\n" * 1000, pause=0),
    "packed nothing": drip(OK + b"Content-Encoding: gzip\r\n\r\n" + GZIP_HEADER, EMPTY_BLOCK),
}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "NETRC"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def context(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """For servers whose certificate is accepted."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate)
    return made


@contextmanager
def ended(seconds: float = 20) -> Iterator[None]:
    """The block ends in that time, and every thread that it started has ended as well."""
    threads, begin = _clients(), time.monotonic()
    yield
    assert time.monotonic() - begin < seconds
    assert _clients() == threads


def _clients() -> list[str]:
    return [thread.name for thread in threading.enumerate() if not thread.name.startswith("Thread-")]


def error_of(url: str, patience: Patience = IMPATIENT, limit: int = 1 << 30, *, grows: bool = True) -> NetworkError:
    return error_in_time(lambda client: Transfer(client=client).get(url, limit), patience, grows=grows)


def error_in_time(
    attempt: Callable[[Client], object], patience: Patience = IMPATIENT, *, grows: bool = True
) -> NetworkError:
    """What `attempt` raises. A busy machine may need all of so little time to connect: then again, with more of it."""
    for _ in range(_TRIES):
        with ended(), pytest.raises(NetworkError) as caught:
            attempt(Client(SITE, patience))
        if not isinstance(caught.value, Unreachable):
            break
        if grows:
            patience = replace(patience, connect=2 * patience.connect, silence=2 * patience.silence)
    return caught.value


@pytest.mark.parametrize("part", DRIPS)
def test_whatever_drips_is_ended(part: str) -> None:
    with listener(DRIPS[part]) as peer:
        assert "the server is too slow: " in error_of(f"http://{peer}/a").message


@pytest.mark.parametrize("part", ["a header", "the size of a chunk", "trailers at full speed"])
def test_whatever_drips_through_tls_is_ended(part: str, context: ssl.SSLContext) -> None:
    with listener(DRIPS[part], context) as peer:
        assert "the server is too slow: " in error_of(f"https://{peer}/a").message


@pytest.mark.parametrize("part", DRIPS)
def test_a_download_that_drips_is_ended(part: str, tmp_path: Path) -> None:
    file = PartialFile(path=tmp_path / "a", limit=1 << 30, label="a", progress=Silent())
    with listener(DRIPS[part]) as peer:
        error = error_in_time(lambda client: Transfer(client=client).download(f"http://{peer}/a", "0" * 64, file))
    assert "the server is too slow: " in error.message


def test_all_tries_at_a_document_share_one_deadline() -> None:
    patience = Patience(connect=0.2, silence=0.2, retries=10_000, backoff=0.01)
    with listener(DRIPS["trailers"]) as peer:
        assert "the server is too slow: " in error_of(f"http://{peer}/a", patience).message


def test_a_packed_document_may_not_be_longer_than_what_is_in_it() -> None:
    with listener(drip(OK + b"Content-Encoding: gzip\r\n\r\n" + GZIP_HEADER, EMPTY_BLOCK * 10_000, pause=0)) as peer:
        error = error_of(f"http://{peer}/a", Patience(retries=0), limit=1000)
    assert "longer than 1000 bytes" in error.message


def test_a_handshake_that_drips_is_ended() -> None:
    def shake(connection: socket.socket) -> None:
        connection.recv(1)
        connection.sendall(b"\x16\x03\x03\x3f\xff")  # a record of 16 KiB is to come
        while True:
            connection.sendall(b"\x02")
            time.sleep(0.02)

    with listener(shake) as peer:
        assert "the server is too slow: 0 bytes" in error_of(f"https://{peer}/a").message


def test_redirects_share_one_deadline() -> None:
    def hop(connection: socket.socket) -> None:
        read_head(connection)
        time.sleep(0.15)
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with listener(hop) as peer:
        assert "the server is too slow: 0 bytes" in error_of(f"http://{peer}/a", grows=False).message


@pytest.mark.parametrize("pause", [0, 0.02])
def test_the_body_of_a_redirect_is_not_waited_for(pause: float) -> None:
    forever = drip(b"HTTP/1.1 302 Found\r\nLocation: /b\r\n\r\n", b"x" * 10_000, pause)

    def answer(connection: socket.socket) -> None:
        if b"GET /b " in connection.recv(1000, socket.MSG_PEEK):
            read_head(connection)
            connection.sendall(OK + b"Content-Length: 2\r\n\r\n{}")
        else:
            forever(connection)

    with listener(answer) as peer, ended():
        document = Transfer(client=Client(SITE, Patience(silence=20, retries=0))).get(f"http://{peer}/a", 1000)
    assert document is not None and document.body == b"{}"


@pytest.mark.parametrize("begin", [b"Content-Length: 1000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"])
def test_the_text_of_a_404_is_not_waited_for(begin: bytes) -> None:
    with listener(drip(b"HTTP/1.1 404 Not Found\r\n" + begin, b"0")) as peer:
        assert isinstance(error_of(f"http://{peer}/a", Patience(silence=60, retries=0)), Missing)


def tunnel(to: str, answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Script:
    """A proxy that connects whoever asks with `to`."""

    def relay(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(answer)
        host, _, port = to.rpartition(":")
        with socket.create_connection((host, int(port))) as onward:
            back = threading.Thread(target=copy, args=(onward, connection), daemon=True)
            back.start()
            copy(connection, onward)

    def copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(10_000):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    return relay


@pytest.mark.parametrize("part", ["the status line", "a header", "headers"])
def test_a_proxy_whose_answer_drips_is_ended(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with listener(DRIPS[part]) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy}")
        assert "the server is too slow: 0 bytes" in error_of("https://models.invalid/a").message


@pytest.mark.parametrize("part", ["a header", "the size of a chunk", "trailers"])
def test_whatever_drips_through_a_plain_proxy_is_ended(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with listener(DRIPS[part]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy}")
        assert "the server is too slow: " in error_of("http://models.invalid/a").message


@pytest.mark.parametrize("part", ["a header", "the size of a chunk", "trailers"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_whatever_drips_through_a_tunnel_is_ended(
    part: str, scheme: str, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        peer = stack.enter_context(listener(DRIPS[part], context))
        proxy = stack.enter_context(listener(tunnel(peer), context if scheme == "https" else None))
        monkeypatch.setenv("HTTPS_PROXY", f"{scheme}://{proxy}")
        assert "the server is too slow: " in error_of(f"https://{peer}/a").message


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_handshake_that_drips_behind_a_proxy_is_ended(
    scheme: str, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shake(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        connection.recv(1)
        connection.sendall(b"\x16\x03\x03\x3f\xff")
        while True:
            connection.sendall(b"\x02")
            time.sleep(0.02)

    with listener(shake, context if scheme == "https" else None) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"{scheme}://{proxy}")
        assert "the server is too slow: 0 bytes" in error_of("https://models.invalid/a").message


def test_a_document_through_a_tunnel_in_tls_arrives(context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(OK + b"Content-Length: 2\r\n\r\n{}")

    with ExitStack() as stack:
        peer = stack.enter_context(listener(answer, context))
        proxy = stack.enter_context(listener(tunnel(peer), context))
        monkeypatch.setenv("HTTPS_PROXY", f"https://{proxy}")
        document = Transfer(client=Client(SITE, Patience(retries=0))).get(f"https://{peer}/a", 1000)
    assert document is not None and document.body == b"{}"


def test_a_name_that_nobody_looks_up_in_time_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that hangs needs a machine of its own, so the system's function stands in for it here."""
    asked, done = threading.Event(), threading.Event()
    real = socket.getaddrinfo

    def hang(host: str, *args: object, **kwargs: object) -> object:
        if host != "models.invalid" or kwargs.get("flags"):
            return real(host, *args, **kwargs)  # type: ignore[arg-type]
        asked.set()
        done.wait(60)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with ended_without_threads(), reported(Unreachable):
        Transfer(client=Client(SITE, IMPATIENT)).get("http://models.invalid/a", 1000)
    done.set()
    assert asked.is_set()


@contextmanager
def ended_without_threads(seconds: float = 20) -> Iterator[None]:
    begin = time.monotonic()
    yield
    assert time.monotonic() - begin < seconds


def test_a_connection_that_waited_in_the_pool_has_the_whole_time_again() -> None:
    def answer(connection: socket.socket) -> None:
        while True:
            read_head(connection)
            time.sleep(0.5)
            connection.sendall(OK + b"Content-Length: 2\r\n\r\n{}")

    with listener(answer) as peer:
        transfer = Transfer(client=Client(SITE, Patience(silence=20, retries=0)))
        for _ in range(3):
            document = transfer.get(f"http://{peer}/a", 1000)
            assert document is not None and document.body == b"{}"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def watch(whole: float = 1000) -> tuple[Watch, Clock]:
    clock = Clock()
    return Watch(Patience(connect=2, silence=10, slowest=100), whole, clock), clock


def test_a_request_over_a_used_connection_has_the_time_of_its_own_exchange() -> None:
    watched, clock = watch()
    clock.now = 3
    ours, theirs = socket.socketpair()
    with ours, theirs, watching(watched):
        ours.settimeout(1e-9)  # what was left of the exchange before
        connection = WatchedConnection("models.invalid")
        connection.sock = ours
        connection.request("GET", "/a")
        assert ours.gettimeout() == 7


def test_the_time_that_a_proxy_takes_is_not_given_to_the_handshake_again(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, clock = watch()

    def tunnel_in_nine_seconds(_: object) -> None:
        clock.now += 9

    monkeypatch.setattr(HTTPConnection, "_tunnel", tunnel_in_nine_seconds)
    ours, theirs = socket.socketpair()
    with ours, theirs, watching(watched):
        connection = WatchedConnection("models.invalid")
        connection.sock = ours
        connection._tunnel()
        assert ours.gettimeout() == 1


def rounds(watched: Watch, clock: Clock, count: int) -> float:
    """When it ends, if `count` bytes come each second."""
    for _ in range(1000):
        clock.now += 1
        watched.deliver(count)
        try:
            watched.left()
        except TooSlow:
            return clock.now
    raise AssertionError("it never ends")


def test_what_comes_before_the_body_has_one_deadline() -> None:
    watched, clock = watch()
    assert (watched.left(), watched.left_to_connect()) == (10, 2)
    clock.now = 9
    assert (watched.left(), watched.left_to_connect()) == (1, 1)
    clock.now = 10
    with pytest.raises(TooSlow):
        watched.left()


def test_a_body_lives_as_long_as_it_is_fast_enough() -> None:
    watched, clock = watch()
    clock.now = 5
    watched.begin_body()
    assert watched.left() == 10
    for _ in range(20):
        clock.now += 9
        watched.deliver(1000)
        assert watched.left() > 0
    clock.now += 21
    with pytest.raises(TooSlow):
        watched.left()


def test_a_body_that_is_too_slow_ends_though_it_never_pauses() -> None:
    watched, clock = watch()
    watched.begin_body()
    assert rounds(watched, clock, 99) == 10


def test_nothing_lasts_longer_than_the_whole() -> None:
    watched, clock = watch(whole=50)
    watched.begin_body()
    assert rounds(watched, clock, 10_000) == 50
