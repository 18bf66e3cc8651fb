"""What is said where no server answers: in words, with the host, and without the names of anybody's classes."""

from __future__ import annotations

import os
import re
import socket
import threading
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.remote.conftest import Cli, SignedFolder
from tests.remote.faulty import FaultyServer, faulty_server, listener
from tests.wording import worded
from tfaot_pkg.errors import NetworkError
from tfaot_pkg.ground.http.client import Client
from tfaot_pkg.ground.http.failure import Broken, Unreachable
from tfaot_pkg.ground.http.site import Patience
from tfaot_pkg.ground.http.transfer import Transfer
from tfaot_pkg.registry.remote.address import Address


def error_of(url: str, silence: float = 5) -> NetworkError:
    """What a single try to read from `url` raises."""
    patience = Patience(connect=silence, silence=silence, retries=0)
    address = Address.parse(url, allow_http=True)
    transfer = Transfer(client=Client(address.site, patience))
    with pytest.raises(NetworkError) as caught:
        transfer.get(address.join("config.json"), 1000)
    text = f"{caught.value.message} {caught.value.hint}"
    assert not re.search(r"_Watched|urllib3|HTTPConnection|Errno|0x|Error\(", text), text
    return caught.value


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def nobody() -> str:
    """`host:port` where nobody listens."""
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_is_down_refuses_connections(scheme: str, nobody: str) -> None:
    error = error_of(f"{scheme}://{nobody}/models/")
    assert isinstance(error, Unreachable)
    shown = f"{scheme}://{nobody}/models/config.json"
    assert error.message == f"{shown}: the server cannot be reached: {nobody} refuses connections"
    worded(error.hint)


def test_a_name_that_nobody_knows_is_said_to_be_that() -> None:
    error = error_of("https://models.invalid/")
    assert isinstance(error, Unreachable)
    worded(error.message)


def test_a_server_that_hangs_up_is_said_to_have_closed_the_connection() -> None:
    with listener(lambda _: None) as peer:
        error = error_of(f"http://{peer}/")
    assert isinstance(error, Unreachable)
    assert error.message.endswith(f"{peer} closed the connection")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_says_nothing_is_too_slow(scheme: str) -> None:
    done = threading.Event()

    def wait(_: socket.socket) -> None:
        done.wait(60)

    with listener(wait) as peer:
        for silence in (0.3, 3, 30):  # a busy machine may need all of a short time to connect
            error = error_of(f"{scheme}://{peer}/", silence=silence)
            if not isinstance(error, Unreachable):
                break
        done.set()
    worded(error.message)
    worded(error.hint)


def greet(connection: socket.socket) -> None:
    connection.recv(10_000)
    connection.sendall(b"SSH-2.0-somebody \x1b[31melse\r\n")


def test_another_service_is_not_taken_for_a_web_server() -> None:
    with listener(greet) as peer:
        error = error_of(f"http://{peer}/")
    assert isinstance(error, Broken)
    assert error.message.endswith(f"{peer} is not HTTP")
    worded(error.hint)


def test_plain_http_behind_https_is_a_fault_of_tls_and_not_of_a_certificate(signed: SignedFolder) -> None:
    with faulty_server(signed.root) as plain:
        error = error_of(plain.url.replace("http:", "https:"))
    worded(error.message, varies=r"(?<=failed: ).*")  # OpenSSL says
    assert "certificate" not in error.message


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_down_is_named_without_its_password(
    scheme: str, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{scheme}_proxy", f"http://me:secret@{nobody}/")
    error = error_of(f"{scheme}://models.invalid/")
    assert error.message.endswith(f"the proxy cannot be used: {nobody} refuses connections")
    worded(error.hint)
    assert "secret" not in error.message


def test_the_date_of_the_copy_that_is_used_instead_is_said(cli: Cli, signed: SignedFolder) -> None:
    with faulty_server(signed.root) as running:
        added = cli("registry", "add", "r", running.url, "--fingerprint", signed.made.fingerprint)
        assert added.code == 0, added.err
        assert cli("show", "digits", "--registry", "r").code == 0
    done = cli("show", "digits", "--registry", "r")
    assert done.code == 0, done.err
    worded(done.err)
    assert re.search(r"using the copy of \d{4}-\d\d-\d\d \d\d:\d\d UTC\n", done.err)


def test_a_copy_is_as_new_as_the_servers_last_word_on_it(cli: Cli, known: FaultyServer, tfaot_home: Path) -> None:
    assert cli("show", "digits", "--registry", "r").code == 0
    (copy,) = tfaot_home.rglob("mutable/config.json")
    os.utime(copy, (1, 1))
    assert cli("show", "digits", "--registry", "r").code == 0
    assert copy.stat().st_mtime > 1_000_000
