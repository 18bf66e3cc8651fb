"""What the tests of `source` are made of: archives, servers and repositories to fill."""

from __future__ import annotations

import hashlib
import http.server
import io
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tfaot_pkg.ground.settings import Folders


def complete_entries(folders: Folders) -> list[str]:
    """Names of what lies in the downloads, without lock files; a name that begins with a dot is a half entry."""
    root = folders.downloads
    return sorted(path.name for path in root.glob("*/*/*") if not path.name.endswith((".lock", ".owner")))


@dataclass
class Packed:
    """An archive and its checksum."""

    path: Path
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        self.sha256 = hashlib.sha256(self.path.read_bytes()).hexdigest()

    @property
    def url(self) -> str:
        return self.path.as_uri()


Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, data: bytes = b"", **fields: object) -> Member:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def tar(path: Path, *members: Member, mode: str = "w:gz") -> Packed:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return Packed(path)


Handler = Callable[[http.server.BaseHTTPRequestHandler], None]


@dataclass
class Server:
    """A server whose answer to each path is a function of the test; `seen` holds the paths that were asked for."""

    base: str
    routes: dict[str, Handler] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def gives(self, path: str, body: bytes, **headers: str) -> str:
        self.routes[path] = lambda request: answer(request, 200, body, **headers)
        return self.base + path


def answer(request: http.server.BaseHTTPRequestHandler, code: int, body: bytes = b"", **headers: str) -> None:
    request.send_response(code)
    request.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    request.wfile.write(body)


@dataclass
class Repository:
    """A git repository that a test fills."""

    path: Path

    def git(self, *arguments: str) -> str:
        argv = ["git", "-C", str(self.path), "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, files: dict[str, bytes]) -> str:
        for name, data in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "-m", "a commit")
        return self.git("rev-parse", "HEAD")
