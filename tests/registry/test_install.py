from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.registry.conftest import install
from tests.registry.tiny import tiny_files, tiny_libraries
from tests.wording import reported
from tfaot_pkg.errors import PrefixError, RegistryError, TrustError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.package.prefix.install import install_built, uninstall
from tfaot_pkg.package.prefix.manifest import verify_install
from tfaot_pkg.package.tree import PackageTree
from tfaot_pkg.registry.archive import unpack_sound
from tfaot_pkg.registry.dependencies.install import install_entries
from tfaot_pkg.registry.folder import FolderRegistry

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
    files = tiny_files("digits", "1.0")
    publish("digits", "1.0", files)
    done = install(registry, "digits", prefix)
    assert (done.status, done.version, done.previous) == ("installed", "1.0", None)
    assert content(prefix, snapshot) == files
    manifest = json.loads((prefix / "share/tfaot-model-digits/manifest.json").read_bytes())
    links = {path: target for path, target in files.items() if isinstance(target, str)}
    assert manifest["links"] == links and set(manifest["files"]) == set(files) - set(links)
    assert verify_install(prefix).ok
    assert not list(prefix.glob(".tfaot-staging*")) and not list(prefix.rglob("pending.json"))
    assert json.dumps(plain(done)) and json.dumps(plain(verify_install(prefix)))


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
    path = registry.blob_file(package.entry.blobs["prefix"])
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with reported(TrustError):
        install(registry, "digits", prefix)
    assert not prefix.exists()


def test_an_archive_with_another_tree_than_the_index_promises_is_refused(
    registry: FolderRegistry, make_package: MakePackage, prefix: Path, snapshot: Snapshot
) -> None:
    package = make_package(tree="0" * 64)
    registry.publish(package.entry, package.blobs)
    with reported(TrustError):
        install(registry, "digits", prefix)
    assert snapshot(prefix) == {} and not list(prefix.glob(".tfaot-staging*"))


def test_a_dependency_that_the_registry_lacks_is_reported(registry: FolderRegistry, publish: Any, prefix: Path) -> None:
    publish(dependencies=("tfaot-model-other>=1",))
    with reported(RegistryError):
        install(registry, "digits", prefix)


def test_a_yanked_version_installs_where_pinned_and_says_so(
    registry: FolderRegistry, publish: Any, prefix: Path
) -> None:
    publish(yanked="wrong weights")
    with reported(RegistryError):
        install(registry, "digits", prefix)
    assert plain(install(registry, "digits@1.0", prefix))["yanked"] == "wrong weights"


def test_exactly_the_entry_of_a_lock_can_be_installed(registry: FolderRegistry, publish: Any, prefix: Path) -> None:
    publish("digits", "1.0")
    publish("digits", "2.0")
    entry = registry.entries("digits")[0]
    (done,) = install_entries(registry, [replace(entry, yanked="later")], prefix)
    assert done.version == "1.0"


SYSTEM = "extern int system(const char *);\nstatic __attribute__((used)) int f(void) { return system(0); }\n"


def test_a_package_whose_library_calls_system_is_not_installed(
    registry: FolderRegistry, publish: Any, prefix: Path
) -> None:
    static, _ = tiny_libraries("digits", "1.0", SYSTEM)
    publish("digits", "1.0", {**tiny_files("digits", "1.0"), "lib/libtfaot-model-digits.a": static})
    with reported(TrustError):
        install(registry, "digits", prefix)
    assert not [path for path in prefix.rglob("*") if path.is_file() and not path.name.startswith(".")]


@pytest.mark.parametrize("path", ["bin/cmake", "include/stdio.h", "lib/libtfaot-model-other.so", "etc/profile.d/x.sh"])
def test_a_package_with_files_of_others_is_not_unpacked(
    path: str, registry: FolderRegistry, publish: Any, prefix: Path, tmp_path: Path
) -> None:
    package = publish("digits", "1.0", {**tiny_files("digits", "1.0"), path: b"x"})
    with reported(TrustError):
        install(registry, "digits", prefix)
    with package.blobs["prefix"].open("rb") as archive, pytest.raises(TrustError):
        unpack_sound(archive, tmp_path / "into", package.entry)
    assert not (tmp_path / "into" / path).exists()


def test_a_package_under_another_name_is_not_installed(registry: FolderRegistry, publish: Any, prefix: Path) -> None:
    publish("digits", "2.0", tiny_files("digits", "1.0"))
    with reported(TrustError):
        install(registry, "digits", prefix)


def test_shared_headers_are_the_tools_own_whatever_a_package_brings(
    registry: FolderRegistry, publish: Any, prefix: Path
) -> None:
    own = (resources.headers() / "tfaot" / "version.h").read_bytes()
    publish("digits", "1.0", headers=10000, header_text='#error "hostile"\n')
    assert install(registry, "digits", prefix).status == "installed"
    assert (prefix / "include/tfaot/version.h").read_bytes() == own
    assert (prefix / "include/tfaot/model.h").read_bytes() == (resources.headers() / "tfaot/model.h").read_bytes()
    assert verify_install(prefix).ok
    assert install(registry, "digits", prefix).status == "unchanged"


@pytest.mark.parametrize("version", [19999, 30000, 900])
def test_a_package_for_other_headers_is_not_installed(
    version: int, registry: FolderRegistry, publish: Any, prefix: Path
) -> None:
    publish("digits", "1.0", headers=version)
    with reported(PrefixError):
        install(registry, "digits", prefix)
