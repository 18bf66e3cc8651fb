"""`export`: the sources of a package, from a registry or from a prefix, all of them or none."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_command
from tests.registry.conftest import install
from tests.registry.tiny import tiny_files
from tests.wording import reported
from tfaot_pkg.errors import PrefixError, RegistryError, StorageError, TfaotError, TrustError
from tfaot_pkg.ground.storage import write_file
from tfaot_pkg.registry import source_export
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.source_export import export_installed, export_published

Publish = Callable[[str, Mapping[str, "bytes | str"]], None]
Snapshot = Callable[[Path], dict[str, "bytes | str"]]

SOURCE = "share/tfaot-model-digits/source"


def sources(version: str) -> dict[str, bytes]:
    return {"CMakeLists.txt": b"# " + version.encode(), "src/program.cc": b"// " + version.encode()}


def below(files: Mapping[str, bytes | str]) -> dict[str, bytes | str]:
    return {f"{SOURCE}/{path}": data for path, data in files.items()}


@pytest.fixture
def publish(registry: FolderRegistry, make_package: Callable[..., Any]) -> Publish:
    def make_and_publish(version: str, more: Mapping[str, bytes | str]) -> None:
        package = make_package("digits", version, {**tiny_files("digits", version), **more})
        registry.publish(package.entry, package.blobs)

    return make_and_publish


@pytest.fixture
def two_versions(publish: Publish) -> None:
    for version in ("1.0", "2.0"):
        publish(version, below(sources(version)))


@pytest.mark.usefixtures("two_versions")
def test_the_version_that_is_meant_is_written_without_anything_else(
    registry: FolderRegistry, tmp_path: Path, snapshot: Snapshot
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to("real")
    for wanted, version in [("digits", "2.0"), ("digits@1.0", "1.0"), ("tfaot-model-digits<2", "1.0")]:
        folder = tmp_path / "linked" / wanted
        done = export_published(registry, wanted, folder)
        assert (done.name, done.version, done.files) == ("tfaot-model-digits", version, 2)
        assert snapshot(folder) == sources(version)
    assert len(list((tmp_path / "real").iterdir())) == 3, "no temporary files are left"


@pytest.mark.usefixtures("two_versions")
def test_an_installed_package_is_exported_as_it_was_installed(
    registry: FolderRegistry, tmp_path: Path, snapshot: Snapshot
) -> None:
    prefix = tmp_path / "prefix"
    install(registry, "digits@1.0", prefix)
    assert export_installed(prefix, "digits", tmp_path / "one").version == "1.0"
    assert snapshot(tmp_path / "one") == sources("1.0")
    with reported(PrefixError):
        export_installed(prefix, "digits>=2", tmp_path / "two")
    with reported(PrefixError):
        export_installed(prefix, "wine", tmp_path / "two")
    (prefix / SOURCE / "src/program.cc").write_bytes(b"changed")
    with reported(PrefixError):
        export_installed(prefix, "digits", tmp_path / "two")
    assert not (tmp_path / "two").exists() and not list(tmp_path.glob(".two*"))


def test_a_package_without_sources_says_how_to_get_them(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("1.0", {})
    with reported(RegistryError):
        export_published(registry, "digits", tmp_path / "sources")
    install(registry, "digits", tmp_path / "prefix")
    with reported(PrefixError):
        export_installed(tmp_path / "prefix", "digits", tmp_path / "sources")
    assert not (tmp_path / "sources").exists()


@pytest.mark.usefixtures("two_versions")
@pytest.mark.parametrize("what", ["a folder", "a link to nothing", "below a file"])
def test_nothing_of_the_users_is_replaced(registry: FolderRegistry, tmp_path: Path, what: str) -> None:
    folder = tmp_path / "mine"
    if what == "a folder":
        folder.mkdir()
    elif what == "a link to nothing":
        folder.symlink_to("nowhere")
    else:
        folder.write_bytes(b"mine")
        folder /= "sources"
    with reported(StorageError):
        export_published(registry, "digits", folder)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "more",
    [{f"{SOURCE}/weights.bin": "CMakeLists.txt"}, {f"{SOURCE}/src/program.cc": b"\x7fELF" + bytes(60)}],
    ids=["a link", "a binary"],
)
def test_a_hostile_package_is_rejected_as_in_an_installation(
    registry: FolderRegistry, publish: Publish, tmp_path: Path, more: Mapping[str, bytes | str]
) -> None:
    publish("1.0", {f"{SOURCE}/CMakeLists.txt": b"", **more})
    with reported(TrustError):
        export_published(registry, "digits", tmp_path / "sources")
    assert not (tmp_path / "sources").exists()


@pytest.mark.usefixtures("two_versions")
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_ends_early_leaves_nothing(
    registry: FolderRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def write(path: Path, data: bytes) -> None:
        if path.name == "program.cc":
            raise error
        write_file(path, data)

    monkeypatch.setattr(source_export, "write_file", write)
    (tmp_path / "here").mkdir()
    with pytest.raises((TfaotError, KeyboardInterrupt)):
        export_published(registry, "digits", tmp_path / "here" / "sources")
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.usefixtures("two_versions")
def test_the_command_tells_what_it_wrote(registry: FolderRegistry, tmp_path: Path) -> None:
    words: list[str | Path] = ["export", "digits@1.0", "--registry", registry.root]
    done = run_command([*words, "--source", tmp_path / "a"], timeout=60)
    assert done.returncode == 0
    assert str(tmp_path / "a") in done.stdout and str(len(list((tmp_path / "a").iterdir()))) in done.stdout
    done = run_command([*words, "--source", tmp_path / "b", "--json"], timeout=60)
    assert json.loads(done.stdout) == {
        "name": "tfaot-model-digits",
        "version": "1.0",
        "folder": str(tmp_path / "b"),
        "files": 2,
    }
    done = run_command([*words, "--prefix", tmp_path, "--source", tmp_path / "c"], timeout=60)
    assert done.returncode == 2
