"""`config.json` is read before anything can be verified: a server that changes it gains nothing by that."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.registry.signing import make_signed, open_signed
from tests.remote.conftest import Cli, SignedFolder, cli, known, registry_template, server, signed
from tests.remote.faulty import FaultyServer, faulty_server, reply
from tests.wording import reported, worded
from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.registry.audit import audit, collect

__all__ = ["cli", "known", "registry_template", "server", "signed"]

MakePackage = Callable[..., Any]


def lie(known: FaultyServer, **changes: object) -> None:
    """The server gives a `config.json` with `changes` from now on."""
    config = {**json.loads((known.root / "config.json").read_bytes()), **changes}
    body = json.dumps(config).encode()
    known.faults[".*/config.json"] = lambda request: reply(request, 200, body)


@pytest.mark.parametrize(
    "changes",
    [
        {"download": "other/{prefix}/{rest}"},
        {"capabilities": ["signed"]},
        {"capabilities": ["search", "signed", "another"]},
        {"news": "a key that readers do not know"},
    ],
    ids=["download", "search", "capability", "unknown"],
)
def test_a_changed_config_is_refused_and_the_true_one_works_again(
    known: FaultyServer, cli: Cli, tmp_path: Path, changes: dict[str, object]
) -> None:
    lie(known, **changes)
    for command in (["search", "digits"], ["install", "digits", "--prefix", tmp_path / "prefix"]):
        done = cli(*command, "--registry", "r")
        assert done.code == 18
        worded(done.words)
    assert not (tmp_path / "prefix").exists()
    assert not any("/blobs/" in path or "/other/" in path for path in known.paths())
    known.faults.clear()
    assert cli("install", "digits", "--prefix", tmp_path / "prefix", "--registry", "r").code == 0


def test_a_changed_template_sends_nobody_to_another_server(
    known: FaultyServer, cli: Cli, signed: SignedFolder, tmp_path: Path
) -> None:
    with faulty_server(signed.root) as other:
        lie(known, download=f"{other.url}{{sha256}}")
        assert cli("install", "digits", "--prefix", tmp_path / "prefix", "--registry", "r").code == 18
        assert other.paths() == []


def test_a_registry_that_says_it_is_unsigned_is_refused_by_who_pinned_its_root(known: FaultyServer, cli: Cli) -> None:
    lie(known, capabilities=["search"])
    done = cli("search", "digits", "--registry", "r")
    assert done.code == 18
    worded(done.words)


def test_nothing_is_published_or_collected_by_a_changed_config(tmp_path: Path, make_package: MakePackage) -> None:
    """Collecting by another template would take all blobs for garbage."""
    registry = make_signed(tmp_path)
    package = make_package()
    registry.publish(package.entry, package.blobs)
    config = registry.root / "config.json"
    true = config.read_bytes()
    config.write_text(json.dumps({**json.loads(true), "download": "elsewhere/{sha256}"}))
    old = time.time() - 30 * 86400
    for path in registry.root.rglob("*"):
        os.utime(path, (old, old))
    before = sorted(registry.root.rglob("*"))
    tampered = open_signed(tmp_path)
    with reported(TrustError):
        collect(tampered, grace=timedelta(0))
    newer = make_package(version="2.0")
    with reported(TrustError):
        tampered.publish(newer.entry, newer.blobs)
    assert any("config.json is not what was signed" in fault for fault in audit(tampered, Silent()).faults)
    assert sorted(registry.root.rglob("*")) == before
    config.write_bytes(true)
    assert audit(open_signed(tmp_path), Silent()).ok


def test_a_deleted_cache_does_not_make_a_rollback_possible(
    known: FaultyServer, cli: Cli, signed: SignedFolder, tfaot_home: Path
) -> None:
    old = (signed.root / "metadata/timestamp.json").read_bytes()
    signed.publish("digits", "2.0")
    assert cli("search", "digits", "--registry", "r").code == 0
    shutil.rmtree(tfaot_home / "cache")
    (signed.root / "metadata/timestamp.json").write_bytes(old)
    done = cli("search", "digits", "--registry", "r")
    assert done.code == 18
    worded(done.words)
