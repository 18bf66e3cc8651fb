from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.wording import reported
from tfaot_pkg.errors import RegistryError, StorageError, TrustError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.keys import key_of
from tfaot_pkg.ground.storage import locked
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.index import shard_path
from tfaot_pkg.registry.writable import Published

MakePackage = Callable[..., Any]
Snapshot = Callable[[Path], dict[str, bytes]]


def publish(registry: FolderRegistry, package: Any) -> Published:
    return registry.publish(package.entry, package.blobs)


def test_a_new_registry_is_a_configuration_and_nothing_else(registry: FolderRegistry, snapshot: Snapshot) -> None:
    assert {path: json.loads(data) for path, data in snapshot(registry.root).items()} == {
        "config.json": {"format": 1, "download": "blobs/sha256/{prefix}/{rest}", "capabilities": ["search"]}
    }
    assert registry.names() == () and registry.entries("digits") == ()


def test_creating_a_registry_twice_opens_it(registry: FolderRegistry, make_package: MakePackage) -> None:
    publish(registry, make_package())
    assert FolderRegistry.create(registry.root).names() == ("tfaot-model-digits",)


def test_publishing_writes_a_blob_and_an_index_file_and_nothing_else(
    registry: FolderRegistry, make_package: MakePackage, snapshot: Snapshot
) -> None:
    for number in range(5):
        publish(registry, make_package(f"other{number}"))
    before = snapshot(registry.root)
    package = make_package()
    done = publish(registry, package)
    after = snapshot(registry.root)
    digest = package.entry.blobs["prefix"].sha256
    assert sorted(after.keys() - before.keys()) == [
        f"blobs/sha256/{digest[:2]}/{digest[2:]}",
        "index/di/gi/tfaot-model-digits",
        shard_path("tfaot-model-digits"),
    ]
    assert all(after[path] == before[path] for path in before)
    assert isinstance(done, Published) and done.entry.published.endswith("Z")
    assert registry.entries("digits") == (done.entry,)
    assert json.loads(json.dumps(plain(done)))["status"] == "published"


def test_publishing_the_same_again_does_nothing_and_says_so(
    registry: FolderRegistry, make_package: MakePackage, snapshot: Snapshot
) -> None:
    package = make_package()
    first = publish(registry, package)
    before = snapshot(registry.root)
    again = publish(registry, replace(package, entry=replace(package.entry, published="2040-01-01T00:00:00Z")))
    assert again.status == "already published" and again.entry == first.entry
    assert snapshot(registry.root) == before


@pytest.mark.parametrize("version", ["1.0", "1.0.0"])
def test_a_published_version_never_changes(
    registry: FolderRegistry, make_package: MakePackage, snapshot: Snapshot, version: str
) -> None:
    publish(registry, make_package())
    before = snapshot(registry.root)
    other = make_package("digits", version, {"lib/other.a": b"other"}, batch_sizes=(1,), description="Better")
    with reported(RegistryError):
        publish(registry, other)
    assert snapshot(registry.root) == before


def test_a_build_that_is_not_reproducible_is_refused_and_called_so(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    key = key_of("test", 1, {})
    publish(registry, make_package(key=key))
    with reported(RegistryError):
        publish(registry, make_package("digits", "1.0", {"lib/other.a": b"other"}, key=key))


def test_the_same_tree_packed_by_another_deflate_library_is_the_same_package(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    package = make_package()
    publish(registry, package)
    blob = replace(package.entry.blobs["prefix"], sha256="0" * 64)
    again = registry.publish(replace(package.entry, blobs={"prefix": blob}), package.blobs)
    assert again.status == "already published"


def test_older_lines_stay_byte_for_byte_also_those_of_newer_tools(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    publish(registry, make_package())
    file = registry.root / "index/di/gi/tfaot-model-digits"
    foreign = b'{ "version":"2.0",  "v":7, "name":"tfaot-model-digits", "new": [1.50] }\n'
    file.write_bytes(before := file.read_bytes() + foreign)
    publish(registry, make_package(version="3.0"))
    assert file.read_bytes().startswith(before)
    assert [entry.version for entry in registry.entries("digits")] == ["1.0", "3.0"]
    with reported(RegistryError):
        publish(registry, make_package(version="2.0"))


def test_versions_come_in_the_order_of_packaging(registry: FolderRegistry, make_package: MakePackage) -> None:
    for version in ["1.10", "1.9", "2.0rc1", "2.0", "1.9.post1"]:
        publish(registry, make_package(version=version))
    assert [entry.version for entry in registry.entries("digits")] == ["1.9", "1.9.post1", "1.10", "2.0rc1", "2.0"]


def test_a_tampered_blob_is_not_given(registry: FolderRegistry, make_package: MakePackage) -> None:
    package = make_package()
    publish(registry, package)
    path = registry.blob_file(package.entry.blobs["prefix"])
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with reported(TrustError), registry.open_blob(package.entry.blobs["prefix"]):
        pytest.fail("given")


def test_publishing_again_puts_a_lost_blob_back(registry: FolderRegistry, make_package: MakePackage) -> None:
    package = make_package()
    publish(registry, package)
    assert registry.has_blobs(package.entry)
    registry.blob_file(package.entry.blobs["prefix"]).unlink()
    assert not registry.has_blobs(package.entry)
    assert publish(registry, package).status == "already published"
    with registry.open_blob(package.entry.blobs["prefix"]) as file:
        assert file.read()


def test_a_blob_that_changed_since_it_was_described_publishes_nothing(
    registry: FolderRegistry, make_package: MakePackage, snapshot: Snapshot
) -> None:
    package = make_package()
    package.blobs["prefix"].write_bytes(b"other")
    before = snapshot(registry.root)
    with reported(TrustError):
        publish(registry, package)
    assert snapshot(registry.root) == before and registry.names() == ()


def test_a_damaged_index_file_hurts_its_own_package_only(registry: FolderRegistry, make_package: MakePackage) -> None:
    publish(registry, make_package())
    publish(registry, make_package("jets"))
    file = registry.root / "index/di/gi/tfaot-model-digits"
    file.write_bytes(file.read_bytes()[:-40])
    for use in (lambda: registry.entries("digits"), lambda: publish(registry, make_package(version="2.0"))):
        with reported(RegistryError):
            use()
    assert registry.resolve("jets").version == "1.0"
    assert [one.model for one in registry.search("").found] == ["digits", "jets"]  # the shards are whole


def test_a_registry_without_search_shards_is_searched_index_file_by_index_file(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    (registry.root / "config.json").write_text('{"format":1}')
    old = FolderRegistry.open(registry.root)
    for model in ("digits", "jets"):
        publish(old, make_package(model))
    file = registry.root / "index/di/gi/tfaot-model-digits"
    file.write_bytes(file.read_bytes()[:-40])
    result = old.search("")
    assert [one.model for one in result.found] == ["jets"] and f"{file}:1" in result.damaged[0]
    assert old.names() == ("tfaot-model-digits", "tfaot-model-jets") and not (registry.root / "search").exists()


def test_more_blobs_by_role_are_published_before_the_line(registry: FolderRegistry, make_package: MakePackage) -> None:
    from tfaot_pkg.registry.entry import BlobRef

    package = make_package()
    entry = replace(package.entry, blobs={**package.entry.blobs, "sbom": BlobRef.of(b"{}")})
    with reported(RegistryError):
        registry.publish(entry, package.blobs)
    registry.publish(entry, {**package.blobs, "sbom": b"{}"})
    with registry.open_blob(registry.resolve("digits").blobs["sbom"]) as file:
        assert file.read() == b"{}"


# --- not a registry -----------------------------------------------------------------------------------------------


def test_a_folder_that_is_no_registry_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "holiday").mkdir()
    (tmp_path / "holiday/photo.jpg").write_bytes(b"")
    with reported(RegistryError):
        FolderRegistry.create(tmp_path / "holiday")
    with reported(RegistryError):
        FolderRegistry.open(tmp_path / "holiday")
    assert os.listdir(tmp_path / "holiday") == ["photo.jpg"]


def test_a_missing_folder_and_a_file_are_no_registries(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with reported(RegistryError):
        FolderRegistry.open(tmp_path / "none")
    with reported(RegistryError):
        FolderRegistry.open(tmp_path / "file")
    with reported(StorageError):
        FolderRegistry.create(tmp_path / "file")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "config",
    [
        b'{"format":2}',
        b'{"format":"1"}',
        b"<html>",
        b"",
        b"[]",
        b'{"format":1,"download":"blobs/{name}"}',
        b'{"format":1,"download":"https://host/{sha256}"}',
        b'{"format":1,"download":"../{sha256}"}',
        b'{"format":1,"capabilities":"search"}',
    ],
)
def test_an_unknown_or_damaged_configuration_is_refused(registry: FolderRegistry, config: bytes) -> None:
    (registry.root / "config.json").write_bytes(config)
    for use in (FolderRegistry.open, FolderRegistry.create):
        with reported(RegistryError):
            use(registry.root)


def test_unknown_capabilities_and_names_are_ignored(registry: FolderRegistry) -> None:
    (registry.root / "config.json").write_text('{"format":1,"capabilities":["tuf"],"name":"ours"}')
    assert FolderRegistry.open(registry.root).config.capabilities == ("tuf",)


def test_a_lock_that_is_held_names_its_holder(registry: FolderRegistry, make_package: MakePackage) -> None:
    impatient = replace(registry, lock_timeout=0.05)
    with locked(registry.root / ".publish.lock", what="the test"):
        with reported(StorageError):
            publish(impatient, make_package())
