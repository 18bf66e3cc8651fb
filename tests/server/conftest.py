"""A registry's folder with all that may and may not be served, behind each of the two servers."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.registry.conftest import snapshot

__all__ = ["snapshot"]

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DIGEST = "0123456789abcdef" * 4
BLOB = bytes(range(256)) * 1000

FILES: Mapping[str, bytes] = {
    "config.json": b'{"format":1}\n',
    "metadata/timestamp.json": b'{"signed":{}}\n',
    "metadata/12.snapshot.json": b'{"signed":{"a":' + b'"' + b"x" * 2000 + b'"}}\n',
    "metadata/1.bin-0f.json": b"{}\n",
    "index/di/gi/tfaot-model-digits": b'{"v":1}\n' * 400,
    f"index/di/gi/{DIGEST}.tfaot-model-digits": b'{"v":1}\n' * 400,
    f"search/{DIGEST}.0a.jsonl": b"{}\n",
    f"blobs/sha256/{DIGEST[:2]}/{DIGEST[2:]}": BLOB,
    "index.html": b"<!doctype html><title>Models</title>" + b"<p>words" * 200,
    "packages/digits/index.html": b"<!doctype html><title>Digits</title>",
    f"site.{DIGEST[:16]}.css": b"body{}\n",
    "site.js": b"void 0\n",
    "graph.svg": b"<svg/>",
}
SECRETS: Mapping[str, bytes] = {
    ".publish.lock": b"secret",
    ".publish.lock.owner": b"secret",
    "index/di/gi/.tfaot-model-digits.x.part": b"secret",
    "index/di/gi/tfaot-model-digits.lock": b"secret",
    "blobs/sha256/01/.half": b"secret",
    "keys/root.json": b"secret",
    "private/notes.txt": b"secret",
    "root.pem": b"secret",
    "root.key": b"secret",
    ".git/config": b"secret",
    "packages/.draft/index.html": b"secret",
    "index.html~": b"secret",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server under test. `ask` sends the path as it stands, which no well-behaved client library does."""

    name: str
    port: int
    root: Path

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            response = connection.getresponse()
            return Answer(
                status=response.status,
                headers={name.lower(): value for name, value in response.getheaders()},
                body=response.read(),
            )
        finally:
            connection.close()


def make_folder(root: Path) -> None:
    """The registry, its secrets, and links that lead out of it."""
    for path, content in {**FILES, **SECRETS}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "passwd").write_bytes(b"secret")
    (root / "passwd").symlink_to(outside / "passwd")
    (root / "packages" / "out").symlink_to(outside)
    (root / "relative").symlink_to("../outside/passwd")
    old = time.time() - 3600
    for path in FILES:
        os.utime(root / path, (old, old))


@contextmanager
def tfaot_server(root: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`tfaot-pkg serve` in a process of its own, with its address."""
    argv = [sys.executable, "-m", "tfaot_pkg", "serve", str(root), "--port", "0", *options]
    log = root.parent / "serve.log"
    with log.open("w") as errors:
        process = subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://[^\s\"]+", line)
        assert found, f"{line!r} {log.read_text()}"
        yield process, found[0]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(10)
        if process.stdout:
            process.stdout.close()


@contextmanager
def nginx_server(program: str, root: Path, folder: Path) -> Iterator[int]:
    """Nginx with the project's configuration, in which only the lines marked HERE are changed; its port."""
    port = free_port()
    text = (REPOSITORY / "registry" / "nginx.conf").read_text()
    text, listens = re.subn(r"listen 8080;", f"listen 127.0.0.1:{port};", text)
    text, roots = re.subn(r"root /srv/tfaot-registry;", f'root "{root}";', text)
    assert (listens, roots) == (1, 1)
    temporary = "\n".join(f'{name}_temp_path "{folder}/{name}";' for name in NGINX_TEMPORARY)
    user = "user root;\n" if os.geteuid() == 0 else ""
    conf = folder / "nginx.conf"
    conf.write_text(
        f'{user}daemon off;\nworker_processes 1;\npid "{folder}/pid";\nerror_log "{folder}/error.log";\n'
        f'events {{}}\nhttp {{\naccess_log "{folder}/access.log";\n{temporary}\n{text}\n}}\n'
    )
    process = subprocess.Popen([program, "-p", str(folder), "-c", str(conf), "-e", str(folder / "error.log")])
    try:
        wait_for(port, process, folder / "error.log")
        yield port
    finally:
        process.terminate()
        process.wait(10)


NGINX_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(200):
        assert process.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("nginx does not listen")


def nginx_program(require_program: Callable[[str], str]) -> str:
    beside = Path("/usr/sbin/nginx")  # Debian's place for it, which is not on everyone's PATH
    return str(beside) if beside.exists() else require_program("nginx")


@pytest.fixture(scope="session", params=["tfaot-pkg", "nginx"])
def server(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    require_program: Callable[[str], str],
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(request.param)
    root = folder / "registry"
    make_folder(root)
    if request.param == "nginx":
        with nginx_server(nginx_program(require_program), root, folder) as port:
            yield Server(name="nginx", port=port, root=root)
    else:
        with tfaot_server(root) as (_, url):
            yield Server(name="tfaot-pkg", port=int(url.rstrip("/").rpartition(":")[2]), root=root)
