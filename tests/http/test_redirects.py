"""Where a server may send us: redirects that are malformed, secret or forbidden are errors with the network's code."""

from __future__ import annotations

import socket

import pytest

from tests.http.test_deadlines import OK
from tests.remote.conftest import Cli, cli, known, registry_template, server, signed
from tests.remote.faulty import FaultyServer, Request, always, listener, read_head, reply
from tests.wording import reported
from tfaot_pkg.errors import NetworkError
from tfaot_pkg.ground.http.client import Client
from tfaot_pkg.ground.http.site import Patience, Site
from tfaot_pkg.ground.http.transfer import Transfer
from tfaot_pkg.registry.remote.address import Address

__all__ = ["cli", "known", "registry_template", "server", "signed"]

REGISTRY = Address.parse("http://127.0.0.1/").site
ANYTHING = Site(noun="source", fault=lambda *_: "", otherwise="", takes_pages=True)
MALFORMED = {
    "nothing": b"",
    "blanks": b"   ",
    "half an IPv6 address": b"http://[::1",
    "a name in brackets": b"http://[models]/",
    "no host": b"https://",
    "no host but a port": b"https://:443/",
    "no such port": b"http://127.0.0.1:99999/",
    "a port that is no number": b"http://127.0.0.1:x/",
    "slashes": b"///",
    "a tab": b"http://127.0.0.1/\ta",
    "a bell": b"/\x07",
    "a backslash": b"http://127.0.0.1\\@models.invalid/",
    "no UTF-8": b"/\xff\xfe",
    "another scheme": b"ftp://127.0.0.1/",
    "a local file": b"file:///etc/passwd",
    "data": b"data:,x",
    "no scheme": b"://",
    "a password": b"http://me:secret@127.0.0.1/",
    "a password without a scheme": b"//me:secret@127.0.0.1/",
    "10,000 characters": b"/" + b"x" * 10_000,
    "a host name of 300 characters": b"http://" + b"x" * 300 + b"/",
    "an empty label": b"http://models..invalid/",
    "a host name that is none": b"http://\xc2\xad/",
}


def ask(location: bytes, site: Site) -> NetworkError:
    """The error for a redirect to `location`, to a reader of `site`."""

    def answer(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location + b"\r\n\r\n")

    with listener(answer) as peer, pytest.raises(NetworkError) as caught:
        Transfer(client=Client(site, Patience(silence=20, retries=0))).get(f"http://{peer}/a", 1000)
    return caught.value


@pytest.mark.parametrize("site", [REGISTRY, ANYTHING], ids=["registry", "anything"])
@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_location_is_an_error(kind: str, site: Site) -> None:
    error = ask(MALFORMED[kind], site)
    assert error.hint
    assert len(error.message) < 700
    assert error.message.isprintable()
    assert "secret" not in error.message


@pytest.mark.parametrize("kind", ["half an IPv6 address", "no UTF-8", "nothing"])
def test_a_malformed_location_ends_a_command_with_the_code_of_the_network(
    cli: Cli, known: FaultyServer, kind: str
) -> None:
    known.faults[".*"] = always(302, Location=MALFORMED[kind].decode("latin-1"))
    done = cli("show", "digits", "--registry", "r")
    assert done.code == 17, done.err
    assert "not followed, because" in done.error and "maintainer" in done.hint


def test_a_blob_folder_that_is_no_address_is_an_error() -> None:
    with reported(NetworkError):
        Address.parse("http://127.0.0.1/").join("http://[::1")


@pytest.mark.parametrize("location", ["/a b", "/ü", "/%C3%BC", "b?x=1#y", "//127.0.0.1:{port}/b"])
def test_a_location_that_browsers_take_is_followed(known: FaultyServer, location: str) -> None:
    def answer(request: Request) -> None:
        if len(known.seen) == 1:
            where = location.format(port=known.port).encode().decode("latin-1")
            reply(request, 302, Location=where)
        else:
            reply(request, 200, b"{}")

    known.faults[".*"] = answer
    document = Transfer(client=Client(REGISTRY, Patience(silence=20, retries=0))).get(f"{known.url}a", 1000)
    assert document is not None and document.body == b"{}"
    assert known.seen[1].path.isascii()


def test_credentials_of_one_host_are_not_sent_to_another(
    known: FaultyServer, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w") as file:
        file.write("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", netrc)
    heads: list[bytes] = []

    def elsewhere(connection: socket.socket) -> None:
        heads.append(read_head(connection))
        connection.sendall(OK + b"Content-Length: 2\r\n\r\n{}")

    with listener(elsewhere) as other:
        known.faults[".*"] = always(302, Location=f"http://localhost:{other.rpartition(':')[2]}/")
        Transfer(client=Client(REGISTRY, Patience(silence=20, retries=0))).get(f"{known.url}a", 1000)
    assert known.seen[0].headers["Authorization"].startswith("Basic ")
    assert b"authorization" not in heads[0].lower()
