"""Lock files of registries on servers: what was locked is what is installed, or nothing is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.dependencies.conftest import Tool
from tests.registry.conftest import package_of
from tests.registry.tiny import tiny_files
from tests.remote.faulty import FaultyServer, always, faulty_server, reset
from tests.wording import worded
from tfaot_pkg.registry.commit import open_keys
from tfaot_pkg.registry.dependencies.lock import Lock
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.signing import Plan, initialize
from tfaot_pkg.registry.signing_keys import NewKey, add_key
from tfaot_pkg.registry.trust.keys import secrets_from

pytestmark = pytest.mark.slow


@dataclass(slots=True, kw_only=True)
class Served:
    """A registry known as `r`, signed or not, behind a real server."""

    registry: FolderRegistry
    server: FaultyServer
    folder: Path

    def publish(self, model: str, version: str, *needs: str) -> RegistryEntry:
        files = tiny_files(model, version)
        package = package_of(self.folder, model, version, files, dependencies=needs)
        return self.registry.publish(package.entry, package.blobs).entry


@contextmanager
def served(kind: str, folder: Path, tool: Tool) -> Iterator[Served]:
    root, keys = folder / "registry", folder / "keys"
    trust: tuple[str, ...]
    if kind == "signed":
        made = initialize(root, keys, Plan(bits=1), passphrase=lambda: None, secrets=secrets_from())
        trust = ("--fingerprint", made.fingerprint)
        registry = FolderRegistry.open(root, keys=open_keys([keys], secrets_from()))
    else:
        registry, trust = FolderRegistry.create(root), ("--unsigned",)
    with faulty_server(root) as server:
        made_served = Served(registry=registry, server=server, folder=folder)
        made_served.publish("wine", "1.0")
        made_served.publish("digits", "1.0", "tfaot-model-wine>=1")
        tool("registry", "add", "r", server.url, *trust)
        yield made_served


@pytest.fixture(params=["signed", "unsigned"])
def any_kind(request: pytest.FixtureRequest, tmp_path: Path, tool: Tool) -> Iterator[Served]:
    with served(request.param, tmp_path, tool) as made:
        yield made


@pytest.fixture
def signed(tmp_path: Path, tool: Tool) -> Iterator[Served]:
    with served("signed", tmp_path, tool) as made:
        yield made


def installed(prefix: Path) -> dict[str, str]:
    """Version by package, as the manifests say."""
    manifests = [json.loads(path.read_bytes()) for path in prefix.glob("share/*/manifest.json")]
    return {manifest["name"]: manifest["version"] for manifest in manifests}


def test_exactly_what_was_locked_is_installed_though_there_is_newer_and_it_was_yanked(
    any_kind: Served, tool: Tool, tmp_path: Path
) -> None:
    tool("resolve", "digits", "--registry", "r", "--lock", "deps.lock")
    lock = Lock.read(tmp_path / "project" / "deps.lock")
    assert (lock.registry.name, lock.registry.location) == ("r", any_kind.server.url.rstrip("/"))
    assert lock.registry.is_signed == any_kind.registry.is_signed
    any_kind.publish("digits", "1.1")
    any_kind.publish("wine", "2.0")
    any_kind.registry.yank("digits", "1.0", "wrong data")
    done = tool("install", "--locked", "--lock", "deps.lock", "--prefix", "p")
    assert "note: this version was yanked: wrong data" in done.stdout
    assert installed(tmp_path / "project/p") == {"tfaot-model-digits": "1.0", "tfaot-model-wine": "1.0"}
    tool("verify-install", "p")
    tool("install", "wine", "--registry", "r", "--prefix", "q")
    assert installed(tmp_path / "project/q") == {"tfaot-model-wine": "2.0"}


def test_it_is_installed_from_the_cache_where_the_server_is_gone(any_kind: Served, tool: Tool) -> None:
    tool("resolve", "digits", "--registry", "r")
    tool("install", "--locked", "--prefix", "p")
    any_kind.server.faults[".*"] = reset
    done = tool("install", "--locked", "--prefix", "q", env={"TFAOT_HTTP_RETRIES": "0"})
    worded(done.stderr)
    tool("verify-install", "q")


@pytest.mark.parametrize("what", ["tree", "blob"])
def test_another_digest_than_was_locked_is_refused_before_anything_is_installed(
    what: str, any_kind: Served, tool: Tool, tmp_path: Path
) -> None:
    tool("resolve", "digits", "--registry", "r")
    file = tmp_path / "project" / "tfaot.lock"
    lock = Lock.read(file)
    wine, digits = lock.packages
    blob = digits.blobs["prefix"]
    changed = {
        "tree": replace(digits, tree="0" * 64),
        "blob": replace(digits, blobs={**digits.blobs, "prefix": replace(blob, sha256="0" * 64)}),
    }[what]
    replace(lock, packages=(wine, changed)).write(file)
    failed = tool("install", "--locked", "--prefix", "p", code=18)
    worded(failed.stderr)
    worded(failed.stderr)
    assert not (tmp_path / "project/p").exists()


def test_an_unsigned_server_that_changes_a_locked_version_is_refused(tmp_path: Path, tool: Tool) -> None:
    with served("unsigned", tmp_path, tool) as made:
        tool("resolve", "digits", "--registry", "r")
        (path,) = (made.registry.root / "index").rglob("tfaot-model-digits")
        entry = made.registry.entries("digits")[0]
        path.write_text(path.read_text().replace(entry.tree, "f" * 64))
        failed = tool("install", "--locked", "--prefix", "p", code=18)
    worded(failed.stderr)
    assert not (tmp_path / "project/p").exists()


def test_a_copy_of_the_registry_with_an_older_root_than_was_locked_is_refused(
    signed: Served, tool: Tool, tmp_path: Path
) -> None:
    old = shutil.copytree(signed.registry.root, tmp_path / "old")
    add_key(signed.registry, "timestamp", NewKey())
    tool("resolve", "digits", "--registry", "r")
    assert Lock.read(tmp_path / "project" / "tfaot.lock").registry.root_version == 2
    tool("install", "--locked", "--prefix", "p")
    with faulty_server(old) as mirror:
        tool("registry", "add", "old", mirror.url, "--root", old / "metadata" / "1.root.json")
        failed = tool("install", "--locked", "--registry", "old", "--prefix", "q", code=18)
    worded(failed.stderr)
    assert not (tmp_path / "project/q").exists()


def test_a_mirror_that_is_unsigned_does_not_do_for_what_was_locked_from_a_signed_registry(
    signed: Served, tool: Tool, tmp_path: Path
) -> None:
    tool("resolve", "digits", "--registry", "r")
    copy = FolderRegistry.create(tmp_path / "copy")
    package = package_of(tmp_path, "digits", "1.0", tiny_files("digits", "1.0"))
    copy.publish(package.entry, package.blobs)
    with faulty_server(copy.root) as mirror:
        tool("registry", "add", "u", mirror.url, "--unsigned")
        failed = tool("install", "--locked", "--registry", "u", "--prefix", "q", code=18)
    worded(failed.stderr)


def test_a_locked_registry_may_have_another_name_here_but_must_be_known(signed: Served, tool: Tool) -> None:
    tool("resolve", "digits", "--registry", "r")
    tool("registry", "remove", "r")
    failed = tool("install", "--locked", "--prefix", "p", code=16)
    worded(failed.stderr)
    root = signed.registry.root / "metadata" / "1.root.json"
    tool("registry", "add", "another", signed.server.url, "--root", root)
    tool("install", "--locked", "--prefix", "p")


def test_what_is_gone_from_the_server_is_named(any_kind: Served, tool: Tool, tmp_path: Path) -> None:
    tool("resolve", "digits", "--registry", "r")
    any_kind.server.faults["/index/.*|/blobs/.*"] = always(404)
    failed = tool("install", "--locked", "--prefix", "p", code=16)
    # A signed index file is known by its digest, and so still in the cache.
    said = "lacks the blob" if any_kind.registry.is_signed else "tfaot-model-wine@1.0 is locked, but is no longer in"
    assert said in failed.stderr
    assert not (tmp_path / "project/p").exists()
