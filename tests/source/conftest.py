"""Real servers, archives and repositories for the tests of `source`."""

from __future__ import annotations

import datetime as dt
import http.server
import ipaddress
import os
import ssl
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.source.parts import Packed, Repository, Server, answer, member, tar
from tfaot_pkg.ground.settings import Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(cache=tmp_path / "cache", data=tmp_path / "data")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing of the machine's own proxies, credentials and git settings."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in (
            "NETRC",
            "REQUESTS_CA_BUNDLE",
            "CURL_CA_BUNDLE",
            "XDG_CONFIG_HOME",
        ):
            monkeypatch.delenv(name)


@pytest.fixture
def model_archive(tmp_path: Path) -> Packed:
    return tar(
        tmp_path / "model.tar.gz",
        member("model", type=tarfile.DIRTYPE, mode=0o700),
        member("model/saved_model.pb", b"graph", mode=0o4777),
        member("model/variables/variables.index", b"index"),
    )


def _serve(context: ssl.SSLContext | None) -> Iterator[Server]:
    class Request(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.seen.append(self.path)
            state.headers.append(dict(self.headers))
            try:
                state.routes[self.path.split("?")[0]](self)
            except KeyError:
                answer(self, 404)
            except OSError:
                pass  # the client went away, as it should where a test sends too much

        def log_message(self, *args: object) -> None: ...

    class Quiet(http.server.ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None: ...

    with Quiet(("127.0.0.1", 0), Request) as listener:
        if context:
            listener.socket = context.wrap_socket(listener.socket, server_side=True)
        state = Server(base=f"http{'s' if context else ''}://127.0.0.1:{listener.server_port}")
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield state
        listener.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a self-signed certificate for 127.0.0.1, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path_factory.mktemp("certificate") / "server.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def untrusted_server(certificate: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    yield from _serve(context)


@pytest.fixture
def server(untrusted_server: Server, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    return untrusted_server


@pytest.fixture
def http_server() -> Iterator[Server]:
    yield from _serve(None)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    path = tmp_path / "repository"
    path.mkdir()
    made = Repository(path)
    made.git("init", "-q", "-b", "main")
    return made
