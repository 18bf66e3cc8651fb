"""Registries that answer wrongly: clear errors, nothing half-written, and passwords for nobody else."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.oci.conftest import PASSWORD, USER, SignedRegistry, auth
from tests.oci.test_artifacts import MACHINE, install, write
from tests.wording import reported
from tfaot_pkg.errors import NetworkError, RegistryError, TfaotError, TrustError
from tfaot_pkg.ground.http.site import Patience
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.registry.oci.credentials import client_for
from tfaot_pkg.registry.oci.pulled import Trusting
from tfaot_pkg.registry.oci.pushing import push
from tfaot_pkg.registry.oci.reference import Reference
from tfaot_pkg.registry.oci.store import HttpStore

BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Server:
    """Answers by `faults`, by path, and else from the layout `root`; `asked` are method, path and Authorization."""

    root: Path
    faults: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    host: str = ""
    asking: threading.local = field(default_factory=threading.local)
    """In the thread that answers: `word`, the Authorization of the request."""

    def answer(self, path: str) -> Answer:
        for part, answer in self.faults.items():
            if part in path:
                return answer
        blob = self.root / "blobs" / "sha256" / path.rpartition("sha256:")[2]
        return (200, {}, blob.read_bytes()) if "sha256:" in path and blob.is_file() else (404, {}, b"")


@contextmanager
def serving(root: Path) -> Iterator[Server]:
    state = Server(root=root)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            state.asking.word = self.headers.get("Authorization", "")
            state.asked.append((self.command, self.path, state.asking.word))
            status, headers, body = state.answer(self.path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 (http.server's names)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class Pulling:
    """A hostile registry with `digits`, whose manifest has the digest `digest`."""

    server: Server
    digest: str
    signed: SignedRegistry
    prefix: Path

    def __call__(self) -> str:
        text = f"oci://{self.server.host}/ada/digits:1.0"
        return install(text, self.prefix, Trusting(keys=(self.signed.key,)))

    @property
    def manifest(self) -> bytes:
        return (self.server.root / "blobs" / "sha256" / self.digest[7:]).read_bytes()


@pytest.fixture
def pulling(signed: SignedRegistry, tmp_path: Path, login: Callable[[str], None]) -> Iterator[Pulling]:
    done = write(signed.registry, "digits", tmp_path / "layout")
    with serving(tmp_path / "layout") as server:
        login(server.host)
        made = Pulling(server, done.digest, signed, tmp_path / "prefix")
        server.faults["/manifests/1.0"] = (200, {}, made.manifest)
        yield made


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_wrong_content_is_not_installed(pulling: Pulling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = json.loads(pulling.manifest)
    archive = manifest["layers"][0]
    lies: list[tuple[dict[str, Answer], type[TfaotError]]] = [
        ({archive["digest"]: (200, {}, b"x" * archive["size"])}, TrustError),
        ({archive["digest"]: (200, {}, b"short")}, TrustError),
        ({archive["digest"]: (200, {}, b"x" * (archive["size"] + 1))}, TrustError),
        ({archive["digest"]: (404, {}, b"")}, RegistryError),
        ({manifest["config"]["digest"]: (200, {}, b"{}")}, TrustError),
        ({"/manifests/1.0": (200, {"Content-Length": str(1 << 40)}, b"{}")}, TrustError),
        ({"/manifests/1.0": (200, {}, b" " * ((4 << 20) + 1))}, TrustError),
        ({"/manifests/1.0": (200, {}, b"[" * 100_000)}, RegistryError),
        ({"/manifests/1.0": (200, {}, b"[]")}, RegistryError),
        ({"/manifests/1.0": (200, {}, json.dumps({**manifest, "artifactType": "text/plain"}).encode())}, RegistryError),
        ({"/manifests/1.0": (200, {}, json.dumps({**manifest, "layers": []}).encode())}, TrustError),
        ({"/manifests/1.0": (200, {}, json.dumps({**manifest, "config": {"digest": "sha256:../../x", "size": 1}}).encode())}, RegistryError),
        ({"/manifests/1.0": (200, {}, json.dumps({"manifests": [{"digest": archive["digest"], "size": 1 << 40, "platform": {"architecture": {"x86_64": "amd64"}.get(MACHINE, "arm64")}}]}).encode())}, RegistryError),
    ]  # fmt: skip
    rightly = dict(pulling.server.faults)
    for number, (faults, error) in enumerate(lies):
        monkeypatch.setenv("TFAOT_HOME", str(tmp_path / f"home {number}"))  # what is right is kept
        pulling.server.faults = {**faults, **{name: one for name, one in rightly.items() if name not in faults}}
        with pytest.raises(error):
            pulling()
        assert not pulling.prefix.exists(), faults
    pulling.server.faults = rightly
    assert pulling() == "1.0"


def test_titles_of_layers_name_no_files(pulling: Pulling, tmp_path: Path) -> None:
    manifest = json.loads(pulling.manifest)
    for layer in manifest["layers"]:
        layer["annotations"] = {"org.opencontainers.image.title": "../../escaped"}
    pulling.server.faults["/manifests/1.0"] = (200, {}, json.dumps(manifest).encode())
    assert pulling() == "1.0"
    assert not list(tmp_path.rglob("escaped"))


def test_a_password_goes_to_the_registry_alone(pulling: Pulling, tmp_path: Path) -> None:
    server, archive = pulling.server, json.loads(pulling.manifest)["layers"][0]["digest"]
    with serving(tmp_path / "layout") as other:
        server.faults[archive] = (307, {"Location": f"http://{other.host}/v2/x/blobs/{archive}"}, b"")
        # What asks for a login is not the registry: it gets no answer to that.
        other.faults[archive] = (401, {"WWW-Authenticate": 'Basic realm="give"'}, b"")
        with reported(NetworkError, varies=(server.host, other.host)) as error:
            pulling()
        assert PASSWORD not in str(error.value) and not pulling.prefix.exists()
        assert [word for *_, word in other.asked] == [""]
        other.faults.clear()
        assert pulling() == "1.0"
        assert not any(word for *_, word in other.asked)


@pytest.mark.parametrize("challenge", ['Basic realm="x"', 'Bearer realm="http://HOST/token",service="s",scope="p"'])
def test_a_login_that_is_never_enough_ends(pulling: Pulling, challenge: str) -> None:
    server = pulling.server
    server.faults = {
        "/token": (200, {}, b'{"token": "abc"}'),
        "/v2/": (401, {"WWW-Authenticate": challenge.replace("HOST", server.host)}, b""),
    }
    with reported(NetworkError, varies=(server.host,)):
        pulling()
    assert len(server.asked) <= 3 and not pulling.prefix.exists()
    sent = [word for _, path, word in server.asked if "/v2/" in path]
    assert sent == ["", BASIC if "Basic" in challenge else "Bearer abc"]
    tokens = [(path, word) for _, path, word in server.asked if path.startswith("/token")]
    assert tokens in ([], [("/token?service=s&scope=p", BASIC)])


def test_a_token_for_writing_serves_threads_that_read(tmp_path: Path, login: Callable[[str], None]) -> None:
    """All are challenged at once; the server gives the same token to all, as one that makes them each second does."""
    threads = 6
    together = threading.Barrier(threads)
    with serving(tmp_path) as server:
        login(server.host)
        reference = Reference.parse(f"{server.host}/ada/digits")
        challenge = f'Bearer realm="http://{server.host}/token",service="s",scope="repository:ada/digits:'

        def answer(path: str) -> Answer:
            if path.startswith("/token"):
                return 200, {}, b'{"token": "writer"}' if "push" in path else b'{"token": "reader"}'
            word = server.asking.word
            needed = ("Bearer writer",) if "uploads" in path else ("Bearer reader", "Bearer writer")
            if not word:
                together.wait(10)
            scope = "pull,push" if "uploads" in path else "pull"
            return (202, {}, b"") if word in needed else (401, {"WWW-Authenticate": f'{challenge}{scope}"'}, b"")

        server.answer = answer  # type: ignore[method-assign]
        client = client_for(reference, Patience(retries=0))

        def ask(number: int) -> int:
            path = "uploads/" if number == 0 else "sha256:0"
            with client.ask(reference.address.join(f"{reference.api}/blobs/{path}"), {}, 20) as found:
                return found.status

        with ThreadPoolExecutor(threads) as pool:
            assert [*pool.map(ask, range(threads))] == [202] * threads
        client.close()


@pytest.mark.parametrize("realm", ["ftp://HOST/token", "http://models.example.org/token", "http://a:b@HOST/token", ""])
def test_a_login_elsewhere_is_not_made(pulling: Pulling, realm: str) -> None:
    server = pulling.server
    challenge = f'Bearer realm="{realm.replace("HOST", server.host)}"'
    server.faults = {"/v2/": (401, {"WWW-Authenticate": challenge}, b"")}
    with reported(NetworkError, varies=(server.host,)):
        pulling()
    assert len(server.asked) == 1


def test_an_upload_elsewhere_says_not_who_sends_it(pulling: Pulling, tmp_path: Path) -> None:
    server = pulling.server
    with serving(tmp_path / "empty") as other:
        server.root = tmp_path / "empty"
        server.faults = {
            "/blobs/uploads/": (202, {"Location": f"http://{other.host}/upload?session=1"}, b""),
            "/manifests/1.0": (404, {}, b""),
        }
        other.faults = {"/upload": (500, {}, b"")}
        reference = Reference.parse(f"{server.host}/ada/digits")
        with HttpStore.open(reference) as store, reported(NetworkError, varies=(server.host, other.host)):
            push(pulling.signed.registry, "digits", store, progress=Silent())
        (asked,) = other.asked
        assert asked[0] == "PUT" and "?session=1&digest=sha256%3A" in asked[1] and not asked[2]
        assert not any(method == "PUT" for method, *_ in server.asked), "no tag, no manifest"


def test_files_of_logins_are_read_as_docker_and_podman_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfaot_pkg.registry.oci.credentials import Credentials, credentials_for

    reference = Reference.parse("registry.example.org/ada/digits")
    assert credentials_for(reference) == Credentials()
    helper = tmp_path / "bin" / "docker-credential-tests"
    helper.parent.mkdir()
    helper.write_text('#!/bin/sh\nread host\necho "{\\"Username\\": \\"<token>\\", \\"Secret\\": \\"for $host\\"}"\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:/usr/bin:/bin")
    known = Credentials(user=USER, password=PASSWORD)
    for document, expected in [
        ({"auths": {"registry.example.org": auth(), "other.example.org": auth("x", "y")}}, known),
        ({"auths": {"registry.example.org/ada": auth(), "registry.example.org": auth("x", "y")}}, known),
        ({"auths": {"https://registry.example.org/v1/": auth()}}, known),
        ({"auths": {"registry.example.org": {"identitytoken": "t"}}}, Credentials(identity="t")),
        ({"credHelpers": {"registry.example.org": "tests"}}, Credentials(identity="for registry.example.org")),
        ({"credsStore": "tests"}, Credentials(identity="for registry.example.org")),
    ]:  # fmt: skip
        (tmp_path / "auth.json").write_text(json.dumps(document))
        monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
        assert credentials_for(reference) == expected
    assert PASSWORD not in repr(known)
    for damaged in ("{", '{"credsStore": "../x"}', '{"auths": {"registry.example.org": {"auth": "!"}}}'):
        (tmp_path / "auth.json").write_text(damaged)
        with reported(NetworkError):
            credentials_for(reference)
