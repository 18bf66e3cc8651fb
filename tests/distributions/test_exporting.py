"""`export --wheel` and `--conda`: only what was verified is written, and nothing of the user's is replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.distributions.conftest import Publish
from tests.registry.conftest import install
from tests.registry.signing import make_signed, open_signed
from tests.wording import reported
from tfaot_pkg.errors import PrefixError, RegistryError, StorageError, TrustError
from tfaot_pkg.pipeline.distributions.exporting import Kind, export_installed, export_published
from tfaot_pkg.registry.folder import FolderRegistry

KINDS: tuple[Kind, ...] = ("wheel", "conda")


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_installed_package_gives_the_same_bytes_as_the_published_one(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("1.0")
    install(registry, "digits", tmp_path / "prefix")
    for kind in KINDS:
        one = export_published(registry, "digits", kind, tmp_path / kind)
        export_installed(tmp_path / "prefix", "digits", kind, tmp_path / f"{kind} again")
        assert files(tmp_path / kind) == files(tmp_path / f"{kind} again")
        assert len(one.files) == len(files(tmp_path / kind))
        before = {path: path.stat().st_mtime_ns for path in one.files}
        assert export_published(registry, "digits", kind, tmp_path / kind).files == one.files
        assert {path: path.stat().st_mtime_ns for path in one.files} == before, "files of the same bytes stay"


def test_a_package_that_was_damaged_after_its_installation_is_not_exported(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("1.0")
    install(registry, "digits", tmp_path / "prefix")
    places = {
        "include/tfaot/abi.h": b"other",
        "lib/libtfaot-model-digits.a": b"other",
        "share/tfaot-model-digits": None,
    }
    for kind in KINDS:
        for name, damaged in places.items():
            place = tmp_path / "prefix" / name / ("info.json" if damaged is None else "")
            whole = place.read_bytes()
            place.unlink() if damaged is None else place.write_bytes(damaged)
            with reported(PrefixError):
                export_installed(tmp_path / "prefix", "digits", kind, tmp_path / "out")
            place.write_bytes(whole)
    assert files(tmp_path / "out") == {}
    export_installed(tmp_path / "prefix", "digits", "wheel", tmp_path / "out")


def test_an_existing_file_is_not_replaced(registry: FolderRegistry, publish: Publish, tmp_path: Path) -> None:
    publish("1.0")
    (wheel,) = export_published(registry, "digits", "wheel", tmp_path / "out").files
    wheel.unlink()
    ways: list[Callable[[], object]] = [
        lambda: wheel.write_bytes(b"mine"),
        wheel.mkdir,
        lambda: wheel.symlink_to(tmp_path / "nowhere"),
    ]
    for way in ways:
        way()
        with reported(StorageError):
            export_published(registry, "digits", "wheel", tmp_path / "out")
        assert [path.name for path in (tmp_path / "out").iterdir()] == [wheel.name]
        assert not (tmp_path / "nowhere").exists()
        wheel.rmdir() if wheel.is_dir() else wheel.unlink()


def test_only_what_a_signed_registry_promises_is_exported(publish: Publish, tmp_path: Path) -> None:
    signed = make_signed(tmp_path / "signed")
    publish("1.0", to=signed)
    export_published(open_signed(tmp_path / "signed"), "digits", "wheel", tmp_path / "good")
    (blob,) = (path for path in (tmp_path / "signed" / "registry" / "blobs").rglob("*") if path.is_file())
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes()[:-1] + b"\x01")
    with pytest.raises(TrustError):
        export_published(open_signed(tmp_path / "signed"), "digits", "wheel", tmp_path / "bad")
    assert files(tmp_path / "bad") == {}


def test_the_command_takes_one_form(registry: FolderRegistry, publish: Publish, tmp_path: Path) -> None:
    publish("1.0")
    words: list[str | Path] = ["export", "digits@1.0", "--registry", registry.root]
    done = run_command([*words, "--wheel", tmp_path / "out"], timeout=60)
    assert done.returncode == 0 and str(next((tmp_path / "out").iterdir())) in done.stdout
    done = run_command([*words, "--tree", tmp_path / "tree"], timeout=60)
    assert done.returncode == 0 and "current is 1.0\n" in done.stdout
    without = run_command([*words, "--recipe", "nix", tmp_path / "a"], timeout=60)
    assert without.returncode == RegistryError.exit_code and "has no sources" in without.stderr
    forms: list[list[str | Path]] = [
        [],
        ["--wheel", tmp_path / "a", "--conda", tmp_path / "a"],
        ["--source", tmp_path / "a", "--arch", "x86_64"],
        ["--wheel", tmp_path / "a", "--prefix", tmp_path],
        ["--recipe", "pacman", tmp_path / "a"],
        ["--recipe", "nix", tmp_path / "a", "--arch", "x86_64"],
    ]
    for wrong in forms:
        assert run_command([*words, *wrong], timeout=60).returncode == 2
    assert not (tmp_path / "a").exists()
