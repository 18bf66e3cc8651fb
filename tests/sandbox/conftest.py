"""A place for sandboxes, with a secret beside it, a process and a server outside of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_HERE = Path(__file__).resolve().parent
_UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]
_NO_NAMESPACES = "echo 0 > /proc/sys/user/max_user_namespaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Folders and files of a test; `arguments` are what the programs of this folder are told."""

    model: Path
    scratch: Path
    outside: Path
    secret: Path
    process: int
    port: int

    @property
    def arguments(self) -> list[str]:
        return [str(self.model), str(self.secret), str(self.outside), str(self.process), str(self.port)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("TFAOT_TEST_SECRET", "s3cr3t")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("home/model", "scratch", "outside"):
        (tmp_path / name).mkdir(parents=True)
    secret = tmp_path / "home" / ".netrc"
    secret.write_text("machine example password s3cr3t")
    model = tmp_path / "home" / "model"
    (model / "file").write_text("weights")
    (model / "link").symlink_to(secret)
    outside = subprocess.Popen(["sleep", "600"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Place(
            model=model, scratch=tmp_path / "scratch", outside=tmp_path / "outside", secret=secret,
            process=outside.pid, port=server.getsockname()[1],
        )  # fmt: skip
    assert outside.poll() is None, "a sandboxed program killed it"
    outside.kill()
    outside.wait()
    assert secret.read_text() == "machine example password s3cr3t"
    assert (model / "file").read_text() == "weights"
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.fixture(params=["namespaces", "landlock"])
def wrapper(request: pytest.FixtureRequest, require_program: Callable[[str], str]) -> list[str]:
    """What is put before a command so that it reaches this level of confinement and no better one."""
    require_program("bwrap")
    if request.param == "namespaces":
        return []
    return without_namespaces()


def without_namespaces() -> list[str]:
    if subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine allows no user namespaces, which the test takes away")
    return [*_UNSHARE, "sh", "-euc", f'{_NO_NAMESPACES}; exec "$@"', "sh"]


@pytest.fixture
def confined(wrapper: list[str], place: Place) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`confined("python" | "native", PROGRAM, *ARGUMENTS, memory=BYTES)`: run it in a sandbox on the place's folders."""

    def run(kind: str, program: Path, *arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
        request = {
            "kind": kind, "program": str(program), "arguments": arguments, "readable": [str(place.model)],
            "writable": [str(place.scratch)], **more,
        }  # fmt: skip
        return subprocess.run(
            [*wrapper, sys.executable, str(_HERE / "start.py"), json.dumps(request)],
            env={**os.environ, "PYTHONPATH": str(_HERE.parents[1])},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def running_below(folder: Path) -> list[str]:
    """The commands of running processes that have `folder` in their arguments or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in command + environment:
            found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found
