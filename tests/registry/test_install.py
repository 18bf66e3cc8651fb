from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.package.tree import PackageTree
from tfaot_pkg.prefix.install import install_built, uninstall
from tfaot_pkg.prefix.verify import verify_install
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.install import install, install_entries

MakePackage = Callable[..., Any]
Snapshot = Callable[[Path], dict[str, "bytes | str"]]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "my prefix with a space"


@pytest.fixture
def publish(registry: FolderRegistry, make_package: MakePackage) -> Callable[..., Any]:
    def make_and_publish(*args: Any, **kwargs: Any) -> Any:
        package = make_package(*args, **kwargs)
        registry.publish(package.entry, package.blobs)
        return package

    return make_and_publish


def content(prefix: Path, snapshot: Snapshot) -> dict[str, bytes | str]:
    """All files but the manifests."""
    return {path: data for path, data in snapshot(prefix).items() if not path.endswith("/manifest.json")}


def test_an_installed_package_is_its_tree_and_a_manifest(
    registry: FolderRegistry, publish: Any, prefix: Path, snapshot: Snapshot
) -> None:
    publish("digits", "1.0", {"lib/liba.so.1": b"\x7fELF", "lib/liba.so": "liba.so.1"})
    done = install(registry, "digits", prefix)
    assert (done.status, done.version, done.previous) == ("installed", "1.0", None)
    assert content(prefix, snapshot) == {"lib/liba.so.1": b"\x7fELF", "lib/liba.so": "liba.so.1"}
    manifest = json.loads((prefix / "share/tfaot-model-digits/manifest.json").read_bytes())
    assert list(manifest["files"]) == ["lib/liba.so.1"] and manifest["links"] == {"lib/liba.so": "liba.so.1"}
    assert verify_install(prefix).ok
    assert not list(prefix.glob(".tfaot-staging*")) and not list(prefix.rglob("pending.json"))
    assert json.dumps(done.as_dict()) and json.dumps(verify_install(prefix).as_dict())


def test_a_build_and_a_registry_install_the_same_package(
    registry: FolderRegistry, publish: Any, prefix: Path, tmp_path: Path
) -> None:
    package = publish(headers=10000)
    (root,) = tmp_path.glob("tree-?")
    built = PackageTree(root=root, key=package.entry.key, package_name="tfaot-model-digits", version="1.0")
    assert install_built(built, built.key, prefix).status == "installed"
    assert install(registry, "digits", prefix).status == "unchanged"
    assert uninstall("digits", prefix).kept == ()


# --- what must not be trusted ---------------------------------------------------------------------------------------


def test_a_tampered_blob_leaves_no_prefix(registry: FolderRegistry, publish: Any, prefix: Path) -> None:
    package = publish()
    path = registry.blobs.path(package.entry.blobs["prefix"])
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(TrustError, match=str(path)):
        install(registry, "digits", prefix)
    assert not prefix.exists()


def test_an_archive_with_another_tree_than_the_index_promises_is_refused(
    registry: FolderRegistry, make_package: MakePackage, prefix: Path, snapshot: Snapshot
) -> None:
    package = make_package(tree="0" * 64)
    registry.publish(package.entry, package.blobs)
    with pytest.raises(TrustError, match="not the tree that was promised"):
        install(registry, "digits", prefix)
    assert snapshot(prefix) == {} and not list(prefix.glob(".tfaot-staging*"))


def test_dependencies_are_not_silently_left_out(registry: FolderRegistry, publish: Any, prefix: Path) -> None:
    publish(dependencies=("tfaot-model-other>=1",))
    with pytest.raises(RegistryError, match="depends on tfaot-model-other>=1"):
        install(registry, "digits", prefix)


def test_a_yanked_version_installs_where_pinned_and_says_so(
    registry: FolderRegistry, publish: Any, prefix: Path
) -> None:
    publish(yanked="wrong weights")
    with pytest.raises(RegistryError, match="was yanked"):
        install(registry, "digits", prefix)
    assert install(registry, "digits@1.0", prefix).as_dict()["yanked"] == "wrong weights"


def test_exactly_the_entry_of_a_lock_can_be_installed(registry: FolderRegistry, publish: Any, prefix: Path) -> None:
    publish("digits", "1.0")
    publish("digits", "2.0")
    entry = registry.entries("digits")[0]
    (done,) = install_entries(registry, [replace(entry, yanked="later")], prefix)
    assert done.version == "1.0"
