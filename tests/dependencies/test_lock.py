"""Lock files: the same bytes every time, exactly that content or none, and what is newer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dependencies.conftest import Publish, Tool
from tests.registry.conftest import package_of
from tests.registry.signing import make_signed
from tests.registry.tiny import tiny_files
from tests.wording import reported, worded
from tfaot_pkg.errors import RegistryError, StorageError, TrustError
from tfaot_pkg.package.prefix.manifest import verify_install
from tfaot_pkg.registry.dependencies.install import (
    check_trust,
    install_locked,
    install_requirements,
    lock_of,
    locked_registry,
)
from tfaot_pkg.registry.dependencies.lock import Lock, LockedRegistry, changes, outdated, update
from tfaot_pkg.registry.dependencies.resolution import Constraints, resolve
from tfaot_pkg.registry.files.layout import index_path
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import Requirement


def locked(registry: FolderRegistry, *texts: str, constraints: Constraints | None = None) -> Lock:
    wanted = [Requirement.parse(text) for text in texts]
    constraints = constraints or Constraints()
    where = locked_registry(registry, location=registry.location)
    return lock_of(resolve(registry, wanted, constraints), wanted, constraints, where)


def rewrite(registry: FolderRegistry, package: str, old: str, new: str) -> None:
    """Change an unsigned registry behind its own back."""
    path = registry.root / index_path(package)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_lock_file_is_the_same_for_the_same_registry_and_requirements(
    registry: FolderRegistry, publish: Publish
) -> None:
    publish("digits", "1")
    publish("wine", "1")
    constraints = Constraints.parse(("x86-64-v3", "x86-64-v2"), ">=2")
    first = locked(registry, "digits>=1", "wine", constraints=constraints)
    assert locked(registry, "tfaot-model-wine", "digits>=1", constraints=constraints).to_bytes() == first.to_bytes()
    assert Lock.parse(first.to_bytes(), "x") == first
    document = json.loads(first.to_bytes())
    assert document["schema"] == 1
    assert document["requirements"] == ["tfaot-model-digits>=1", "tfaot-model-wine"]
    assert (document["targets"], document["toolchain"]) == (["x86-64-v2", "x86-64-v3"], ">=2")
    assert [package["name"] for package in document["packages"]] == ["tfaot-model-digits", "tfaot-model-wine"]


def test_exactly_what_is_locked_is_installed_also_when_it_was_yanked(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("digits", "1", needs=("tfaot-model-wine",))
    publish("wine", "1")
    lock = locked(registry, "digits")
    publish("digits", "2")
    registry.yank("digits", "1", "old")
    done = install_locked(registry, lock, tmp_path / "prefix")
    assert [(one.entry.model, one.version, one.entry.yanked) for one in done] == [
        ("wine", "1", None),
        ("digits", "1", "old"),
    ]
    assert [one.status for one in install_locked(registry, lock, tmp_path / "prefix")] == ["unchanged", "unchanged"]
    assert verify_install(tmp_path / "prefix").ok


def test_names_choose_from_a_lock_file_with_what_they_depend_on(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("a", "1", needs=("tfaot-model-b",))
    publish("b", "1")
    publish("c", "1")
    lock = locked(registry, "a", "c")
    assert [one.entry.model for one in install_locked(registry, lock, tmp_path / "p", ["a"])] == ["b", "a"]
    with reported(RegistryError):
        install_locked(registry, lock, tmp_path / "p", ["d"])


def test_several_packages_share_a_prefix_and_nothing_is_installed_where_one_cannot_be_had(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("digits", "1")
    publish("wine", "1")
    wanted = [Requirement.parse("wine"), Requirement.parse("digits")]
    with pytest.raises(RegistryError):
        install_requirements(registry, [*wanted, Requirement.parse("nothing")], tmp_path / "prefix")
    assert not (tmp_path / "prefix").exists()
    install_requirements(registry, wanted, tmp_path / "prefix")
    assert [part.name for part in verify_install(tmp_path / "prefix").parts] == [
        "tfaot-model-digits",
        "tfaot-model-wine",
    ]


@pytest.mark.parametrize("what", ["tree", "blob", "size"])
def test_other_content_under_a_locked_version_is_refused_before_anything_is_installed(
    what: str, registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("digits", "1")
    entry = publish("wine", "1")
    lock = locked(registry, "digits", "wine")
    blob = entry.blobs["prefix"]
    old, new = {
        "tree": (entry.tree, "0" * 64),
        "blob": (blob.sha256, "0" * 64),
        "size": (f'"size":{blob.size}', f'"size":{blob.size + 1}'),
    }[what]
    rewrite(registry, "tfaot-model-wine", old, new)
    with reported(TrustError) as caught:
        install_locked(registry, lock, tmp_path / "prefix")
    assert caught.value.exit_code == 18
    assert not (tmp_path / "prefix").exists()


@pytest.mark.parametrize("how", ["locked", "resolved"])
def test_nothing_is_installed_where_the_content_of_one_package_is_not_what_was_published(
    how: str, registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("digits", "1")
    blob = registry.blob_file(publish("wine", "1").blobs["prefix"])
    lock = locked(registry, "digits", "wine")
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    wanted = lock.requirements
    act = {
        "locked": lambda p: install_locked(registry, lock, p),
        "resolved": lambda p: install_requirements(registry, wanted, p),
    }
    with reported(TrustError):
        act[how](tmp_path / "prefix")
    assert not (tmp_path / "prefix").exists()


@pytest.mark.slow
def test_nothing_is_installed_where_a_file_is_in_the_way_of_one_package(
    tool: Tool, registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("digits", "1")
    publish("wine", "1")
    mine = tmp_path / "project/p/include/tfaot-model-wine/model.h"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    tool("resolve", "digits", "wine", "--registry", registry.root)
    for words in (("--locked",), ("digits", "wine", "--registry", registry.root)):
        failed = tool("install", *words, "--prefix", "p", code=22)
        worded(failed.stderr)
        files = [path for path in (tmp_path / "project/p").rglob("*.*") if path.is_file() and path.name[0] != "."]
        assert files == [mine]
    mine.unlink()
    assert "tfaot-model-wine 1: installed" in tool("install", "--locked", "--prefix", "p").stdout


def test_a_locked_version_that_is_gone_is_an_error_of_the_registry(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("digits", "1")
    lock = locked(registry, "digits")
    shutil.rmtree(registry.root / "index")
    publish("digits", "3")
    with reported(RegistryError) as caught:
        install_locked(registry, lock, tmp_path / "prefix")
    assert caught.value.exit_code == 16


@pytest.mark.slow
def test_the_lock_of_a_signed_registry_holds_its_root_and_a_copy_that_lost_its_signatures_is_refused(
    tool: Tool, tmp_path: Path
) -> None:
    signed, package = make_signed(tmp_path), package_of(tmp_path, "digits", "1", tiny_files("digits", "1"))
    signed.publish(package.entry, package.blobs)
    assert signed.root_version == 1
    tool("resolve", "digits", "--registry", signed.root)
    lock = Lock.read(tmp_path / "project" / "tfaot.lock")
    assert lock.registry.root_version == 1 and lock.registry.is_signed
    tool("install", "--locked", "--prefix", "p")
    copy = FolderRegistry.create(tmp_path / "copy")
    copy.publish(package.entry, package.blobs)
    failed = tool("install", "--locked", "--prefix", "q", "--registry", copy.root, code=18)
    worded(failed.stderr)
    later = replace(lock, registry=replace(lock.registry, root_version=2))
    later.write(tmp_path / "project" / "tfaot.lock")
    assert (
        "has version 1 of its root, but the lock file has version 2"
        in tool("install", "--locked", "--prefix", "q", code=18).stderr
    )


class Rooted:
    """A registry with a version of its root."""

    location = "somewhere"

    def __init__(self, root_version: int | None) -> None:
        self.root_version = root_version


@pytest.mark.parametrize("seen", [None, 2])
def test_a_signed_registry_that_lost_its_signatures_or_went_back_is_refused(seen: int | None) -> None:
    with reported(TrustError):
        check_trust(Rooted(seen), LockedRegistry(location="x", root_version=3))  # type: ignore[arg-type]


def test_a_registry_with_the_locked_root_or_a_newer_one_is_taken() -> None:
    for seen in (3, 4):
        check_trust(Rooted(seen), LockedRegistry(location="x", root_version=3))  # type: ignore[arg-type]
    check_trust(Rooted(None), LockedRegistry(location="x"))  # type: ignore[arg-type]


# --- damaged files --------------------------------------------------------------------------------------------------

Damage = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    "damage",
    [
        lambda lock: lock.update(schema=2),
        lambda lock: lock.pop("schema"),
        lambda lock: lock.pop("packages"),
        lambda lock: lock.update(requirements=["a b"]),
        lambda lock: lock.update(toolchain="new"),
        lambda lock: lock["packages"][0].update(tree="00"),
        lambda lock: lock["packages"][0].update(name="../x"),
        lambda lock: lock["packages"][0].update(version="new"),
        lambda lock: lock["packages"][0]["blobs"]["prefix"].update(size=-1),
        lambda lock: lock["registry"].update(root_version="1"),
    ],
)
def test_a_damaged_lock_file_is_named_with_what_is_wrong(
    damage: Damage, registry: FolderRegistry, publish: Publish
) -> None:
    publish("digits", "1")
    document = json.loads(locked(registry, "digits").to_bytes())
    damage(document)
    with reported(RegistryError):
        Lock.parse(json.dumps(document).encode(), "tfaot.lock")


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"<html>", b"\xff", b"[" * 100_000, b"null"])
def test_what_is_no_lock_file_is_said(text: bytes) -> None:
    with reported(RegistryError):
        Lock.parse(text, "tfaot.lock")


def test_a_missing_lock_file_and_a_folder_are_said(tmp_path: Path) -> None:
    with reported(RegistryError):
        Lock.read(tmp_path / "tfaot.lock")
    with pytest.raises(StorageError):
        Lock.read(tmp_path)


def test_what_a_newer_tool_wrote_into_a_lock_file_is_ignored(registry: FolderRegistry, publish: Publish) -> None:
    publish("digits", "1")
    lock = locked(registry, "digits")
    document = {**json.loads(lock.to_bytes()), "more": 1}
    assert Lock.parse(json.dumps(document).encode(), "x") == lock


# --- newer versions -------------------------------------------------------------------------------------------------


def test_outdated_tells_what_update_would_lock_and_what_is_beyond(registry: FolderRegistry, publish: Publish) -> None:
    for name in ("digits", "wine", "fresh"):
        publish(name, "1.0")
    lock = locked(registry, "digits<2", "wine", "fresh")
    publish("digits", "1.5")
    publish("digits", "2.0")
    registry.yank("wine", "1.0", "wrong")
    found = {one.name.removeprefix("tfaot-model-"): one for one in outdated(registry, lock)}
    digits = found["digits"]
    assert (digits.locked, digits.allowed, digits.newest, digits.notes) == ("1.0", "1.5", "2.0", ())
    assert found["wine"].notes == ("1.0 was yanked (wrong)", "no version meets the requirements any more")
    assert [one.is_outdated for one in found.values()] == [True, False, True]


def test_update_takes_the_named_packages_and_leaves_the_others(registry: FolderRegistry, publish: Publish) -> None:
    for name in ("digits", "wine"):
        publish(name, "1")
    lock = locked(registry, "digits", "wine")
    for name in ("digits", "wine"):
        publish(name, "2")
    registry.yank("wine", "1", "wrong")

    def after(*names: str) -> list[str]:
        answer = update(registry, lock, names)
        made = replace(lock, packages=lock_of(answer, lock.requirements, lock.constraints, lock.registry).packages)
        return [str(change) for change in changes(lock, made)]

    assert after("digits") == ["tfaot-model-digits: 1 -> 2"]
    assert after() == ["tfaot-model-digits: 1 -> 2", "tfaot-model-wine: 1 -> 2"]
    with reported(RegistryError):
        after("x")


# --- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_commands_from_resolve_to_update(
    registry: FolderRegistry, publish: Publish, tool: Tool, tmp_path: Path
) -> None:
    publish("digits", "1.0")
    publish("wine", "1.0")
    project = tmp_path / "project"
    locked = ["tfaot-model-digits@1.0", "tfaot-model-wine@1.0"]
    done = tool("resolve", "digits>=1,<2", "wine", "--registry", registry.root)
    assert done.stdout.splitlines() == [*locked, "tfaot.lock: written"]
    before = (project / "tfaot.lock").read_bytes()
    done = tool("resolve", "wine", "digits>=1,<2", "--registry", registry.root)
    assert done.stdout.splitlines() == [*locked, "tfaot.lock: unchanged"]
    assert (project / "tfaot.lock").read_bytes() == before

    tool("install", "--locked", "--prefix", "external")
    assert "1.0" not in tool("outdated").stdout
    publish("digits", "1.1")
    publish("digits", "2.0")
    (newer,) = tool("outdated").stdout.splitlines()
    assert newer.startswith("tfaot-model-digits 1.0: ") and "1.1" in newer and "2.0" in newer
    tool("update", "--dry-run")
    assert (project / "tfaot.lock").read_bytes() == before
    assert "digits" not in tool("update", "wine").stdout
    changed = json.loads(tool("update", "--json").stdout)["changes"]
    assert changed == [{"name": "tfaot-model-digits", "before": "1.0", "after": "1.1"}]
    registry.yank("digits", "1.1", "wrong weights")
    told = tool("install", "--locked", "--lock", "tfaot.lock", "--prefix", "external").stdout
    assert "tfaot-model-digits 1.1: replaced" in told and "was 1.0" in told and "yanked: wrong weights" in told
    assert "tfaot-model-wine 1.0: unchanged" in told and "find_package(tfaot-model-digits REQUIRED)" in told
    tool("verify-install", "external")
    (project / "external/share/tfaot-model-digits/info.json").write_text("changed")
    assert "changed: share/tfaot-model-digits/info.json" in tool("verify-install", "external", code=22).stdout


def test_a_lock_file_and_a_registry_below_it_move_together(
    publish: Publish, registry: FolderRegistry, tool: Tool, tmp_path: Path
) -> None:
    publish("digits", "1")
    shutil.copytree(registry.root, tmp_path / "project" / "models")
    tool("resolve", "digits", "--registry", "models", "--lock", "deps.lock")
    assert json.loads((tmp_path / "project" / "deps.lock").read_text())["registry"]["location"] == "./models"
    (tmp_path / "project" / "moved").mkdir()
    for name in ("models", "deps.lock"):
        (tmp_path / "project" / name).rename(tmp_path / "project" / "moved" / name)
    tool("install", "--locked", "--lock", "moved/deps.lock", "digits", "--prefix", "external")


@pytest.mark.slow
def test_exit_codes_of_install_locked(publish: Publish, registry: FolderRegistry, tool: Tool, tmp_path: Path) -> None:
    tool("install", "--locked", "--prefix", "p", code=16)
    entry = publish("digits", "1")
    tool("resolve", "digits", "--registry", registry.root)
    rewrite(registry, "tfaot-model-digits", entry.tree, "0" * 64)
    assert "is not what was locked" in tool("install", "--locked", "--prefix", "p", code=18).stderr
    other = FolderRegistry.create(tmp_path / "mirror")
    package = package_of(tmp_path, "digits", "2", tiny_files("digits", "2"))
    other.publish(package.entry, package.blobs)
    words = ("install", "--locked", "--prefix", "p", "--registry", other.root)
    assert "is locked, but is no longer in" in tool(*words, code=16).stderr
    tool("install", "--prefix", "p", code=2)
    assert "--lock needs --locked" in tool("install", "digits", "--lock", "x", "--prefix", "p", code=2).stderr
    tool("install", "digits", "--prefix", "p", "--toolchain", "<1", "--registry", other.root, code=16)
    assert not (tmp_path / "project" / "p").exists()
