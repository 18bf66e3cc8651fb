"""Signed registries behind a server that may misbehave, and the command line that reads them."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.registry.conftest import package_of, snapshot
from tests.registry.tiny import tiny_files
from tests.remote.faulty import Clocks, FaultyServer, faulty_server
from tests.source.conftest import certificate
from tfaot_pkg.cli import app
from tfaot_pkg.ground.documents import iso
from tfaot_pkg.registry.commit import open_keys
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.signing import Initialized, Plan, initialize
from tfaot_pkg.registry.trust.keys import secrets_from
from tfaot_pkg.spec.rules import package_name

__all__ = ["certificate", "snapshot"]

BIG = 600_000
"""Bytes that do not compress: the blob of `digits` is larger than what a socket buffers."""


def ago(**span: float) -> Callable[[], str]:
    """A clock that stands still, that long ago."""
    when = iso(datetime.now(timezone.utc) - timedelta(**span))
    return lambda: when


NOW = ago(seconds=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedFolder:
    """A signed registry with its keys."""

    root: Path
    keys: Path
    made: Initialized

    def publish(self, model: str, version: str, clock: Callable[[], str] = NOW) -> None:
        import random

        noise = random.Random(version).randbytes(BIG)
        files = {**tiny_files(model, version), f"share/{package_name(model)}/reference.bin": noise}
        folder = self.root.parent / f"{self.root.name}-{model}-{version}"
        folder.mkdir()
        package = package_of(folder, model, version, files)
        keys = open_keys([self.keys], secrets_from())
        opened = FolderRegistry.open(self.root, keys=keys)
        FolderRegistry(files=opened.files, config=opened.config, index=opened.index, keys=keys, clock=clock).publish(
            package.entry, package.blobs
        )


def signed_folder(root: Path, clock: Callable[[], str] = NOW) -> SignedFolder:
    """With `digits` 1.0 in it."""
    keys = root.with_name(root.name + "-keys")
    made = initialize(root, keys, Plan(bits=2), passphrase=lambda: None, secrets=secrets_from(), clock=clock)
    folder = SignedFolder(root=root, keys=keys, made=made)
    folder.publish("digits", "1.0", clock)
    return folder


@pytest.fixture(scope="session")
def registry_template(tmp_path_factory: pytest.TempPathFactory) -> SignedFolder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFAOT_HOME", str(tmp_path_factory.mktemp("publisher")))
        return signed_folder(tmp_path_factory.mktemp("template") / "registry")


@pytest.fixture
def signed(registry_template: SignedFolder, tmp_path: Path) -> SignedFolder:
    """A signed registry of the test's own."""
    root, keys = tmp_path / "registry", tmp_path / "registry-keys"
    shutil.copytree(registry_template.root, root)
    shutil.copytree(registry_template.keys, keys)
    return SignedFolder(root=root, keys=keys, made=registry_template.made)


@pytest.fixture
def server(signed: SignedFolder) -> Iterator[FaultyServer]:
    with faulty_server(signed.root) as running:
        yield running


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The message of the error, in one line."""
        start = self.err.rindex("error: ")
        return " ".join(self.err[start:].partition("\nhint: ")[0].split())

    @property
    def hint(self) -> str:
        return self.err.rpartition("\nhint: ")[2].strip()

    @property
    def words(self) -> str:
        """The error and its hint, for tests/wording.py: without notes and progress."""
        return f"{self.error}\nhint: {self.hint}"


Cli = Callable[..., Done]


@pytest.fixture
def cli(tfaot_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """`cli("install", "digits", ...)`: the real command line, in this process, with one more try and clocks of tests."""
    monkeypatch.setenv("TFAOT_HTTP_RETRIES", "1")
    clocks = Clocks(monkeypatch)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments: str | Path) -> Done:
        capsys.readouterr()
        clocks.renew()
        code = app.run([str(argument) for argument in arguments])
        sys.stdout.flush()
        printed = capsys.readouterr()
        return Done(code=code, out=printed.out, err=printed.err)

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def known(cli: Cli, server: FaultyServer, signed: SignedFolder) -> FaultyServer:
    """The server, known to the command line as `r` with its root pinned."""
    done = cli("registry", "add", "r", server.url, "--fingerprint", signed.made.fingerprint)
    assert done.code == 0, done.err
    server.seen.clear()
    return server


@pytest.fixture
def make_unsigned(tmp_path: Path) -> Callable[[], Path]:
    """An unsigned registry with `digits` 1.0."""

    def make() -> Path:
        folder = tmp_path / "unsigned-package"
        folder.mkdir()
        package = package_of(folder, "digits", "1.0", tiny_files("digits", "1.0"))
        registry = FolderRegistry.create(tmp_path / "unsigned")
        registry.publish(package.entry, package.blobs)
        return registry.root

    return make
