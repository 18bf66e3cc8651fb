"""Old builds of nights leave a registry, but none that a channel, a lock file or a person stands on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.registry.conftest import package_of
from tests.registry.signing import make_signed, open_signed
from tests.registry.tiny import tiny_files
from tests.wording import reported
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.registry import promotion
from tfaot_pkg.registry.audit import audit, collect
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.dependencies.lock import Lock, LockedPackage, LockedRegistry
from tfaot_pkg.registry.dependencies.resolution import Constraints
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.history import history
from tfaot_pkg.registry.retention import Retention, locked_trees, retire

OLD, NEW = "1.0+tf2.17.1.b", "1.0+tf2.21.0.b"
DIGITS = "tfaot-model-digits"


@pytest.fixture(params=["unsigned", "signed"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> FolderRegistry:
    """Eleven builds by an old toolchain, two by a new one, and a version by hand."""
    made = make_signed(tmp_path) if request.param == "signed" else FolderRegistry.create(tmp_path / "registry")
    versions = [*(f"{OLD}{number}" for number in range(1, 12)), f"{NEW}1", f"{NEW}2", "0.9"]
    for version in versions:
        package = package_of(tmp_path, "digits", version, tiny_files("digits", version))
        made.publish(package.entry, package.blobs)
    return again(made)


def again(registry: FolderRegistry) -> FolderRegistry:
    """As the next command opens it."""
    return open_signed(registry.root.parent) if registry.is_signed else FolderRegistry.open(registry.root)


def retired(registry: FolderRegistry, **rules: Any) -> list[str]:
    done = retire(registry, Retention(**rules)).get(DIGITS, ())
    found = [entry.version for entry in again(registry).entries("digits") if entry.retired]
    assert set(done) <= set(found)
    return [version.removeprefix("1.0+tf") for version in found]


def names(toolchain: str, numbers: Sequence[int]) -> list[str]:
    return [f"{toolchain}.b{number}" for number in numbers]


def test_the_newest_builds_of_each_toolchain_stay(registry: FolderRegistry) -> None:
    """By number: b10 and b11 are newer than b9."""
    assert retired(registry, builds=3) == names("2.17.1", range(1, 9))
    assert retired(registry, builds=3) == names("2.17.1", range(1, 9)), "the same again changes nothing"
    assert retired(registry, builds=1) == [*names("2.17.1", range(1, 11)), "2.21.0.b1"]
    assert registry.resolve("digits").version == f"{NEW}2"


def test_the_newest_toolchains_stay_and_those_of_the_definition(registry: FolderRegistry) -> None:
    assert retired(registry, toolchains=1, current={DIGITS: ["tf2.17.1"]}) == []
    assert retired(registry, toolchains=1) == names("2.17.1", range(1, 12))


def test_what_a_channel_has_or_had_before_stays(registry: FolderRegistry) -> None:
    promotion.set_channels(registry, Channels())
    for number in (2, 5, 7):
        promotion.promote(again(registry), [f"digits@{OLD}{number}"], "stable", reason="tested")
    gone = retired(again(registry), builds=1)
    assert gone == [*names("2.17.1", [1, 2, 3, 4, 6, 8, 9, 10]), "2.21.0.b1"]
    opened = again(registry)
    assert opened.resolve("digits", "stable").version == f"{OLD}7"
    assert promotion.rollback(opened, "digits", "stable", reason="wrong").after == f"{OLD}5"
    told = history(again(registry), "digits")
    assert [one.do for one in told if one.do in ("retire", "rollback")] == ["retire", "rollback"]


def test_what_a_rule_may_promote_still_stays(registry: FolderRegistry) -> None:
    promotion.set_channels(registry, Channels.of(nights={"candidate": 2, "stable": 7}))
    assert retired(again(registry), builds=1) == []


def test_locked_and_yanked_builds_stay(registry: FolderRegistry) -> None:
    entries = {entry.version: entry for entry in registry.entries("digits")}
    lock = Lock(
        requirements=(), constraints=Constraints(), registry=LockedRegistry(location="./registry"),
        packages=(LockedPackage.of(entries[f"{OLD}3"]),),
    )  # fmt: skip
    registry.yank("digits", f"{OLD}4", "wrong answers")
    assert retired(again(registry), builds=2, trees=locked_trees(lock)) == names("2.17.1", [1, 2, 5, 6, 7, 8, 9])
    found = {entry.version: entry.yanked for entry in again(registry).entries("digits")}
    assert (found[f"{OLD}3"], found[f"{OLD}4"]) == (None, "wrong answers")


def test_files_go_after_the_grace_period_and_the_log_and_the_rest_stay(registry: FolderRegistry) -> None:
    promotion.set_channels(registry, Channels())
    before = {entry.version: entry for entry in registry.entries("digits")}
    retire(again(registry), Retention(builds=1))
    opened = again(registry)
    assert collect(opened, grace=timedelta(days=7)).size == 0, "readers of an older state may want them"
    collect(opened, grace=timedelta())
    there = {version for version, entry in before.items() if opened.has_blobs(entry)}
    assert there == {f"{OLD}11", f"{NEW}2", "0.9"}
    assert audit(again(registry), Silent()).faults == []
    assert "retire" in [one.do for one in history(again(registry), "digits")]
    with reported(RegistryError) as caught:
        again(registry).resolve(f"digits@{OLD}1")
    assert "was retired: kept are the newest build" in caught.value.message
    with reported(RegistryError):
        again(registry).unyank("digits", f"{OLD}1")


def test_nothing_is_written_that_would_be_shown_only(registry: FolderRegistry) -> None:
    done = retire(registry, Retention(builds=10), dry_run=True)
    assert done == {DIGITS: (f"{OLD}1",)}
    assert not any(entry.retired for entry in again(registry).entries("digits"))


@pytest.mark.parametrize("rules", [{"builds": 0}, {"toolchains": 0}])
def test_at_least_one_stays(rules: dict[str, Any]) -> None:
    with reported(RegistryError):
        Retention(**rules)
