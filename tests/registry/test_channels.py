"""Channels: what `install NAME` gets is what was promoted, whatever is published; the log says who did it and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_command
from tests.registry.conftest import install
from tests.registry.signing import make_signed, open_signed
from tests.wording import reported
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.documents import iso, read_json, utc, write
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.registry import promotion
from tfaot_pkg.registry.audit import audit, collect
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.dependencies.resolution import Constraints, resolve
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.history import history
from tfaot_pkg.registry.reader import Requirement
from tfaot_pkg.registry.signing import refresh
from tfaot_pkg.registry.signing_keys import NewKey, add_key, revoke_key

MakePackage = Callable[..., Any]
OLD, NEW = "1.0+tf2.17.1.b1", "1.0+tf2.21.0.b1"
BY_OLD, BY_NEW = {"toolchain": "tensorflow 2.17.1"}, {"toolchain": "tensorflow 2.21.0"}
DIGITS = "index/di/gi/tfaot-model-digits"


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = "2026-11-01T02:00:00Z"

    def __call__(self) -> str:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now = iso(utc(self.now) + timedelta(days=days))


@pytest.fixture(params=["unsigned", "signed"])
def registry(request: pytest.FixtureRequest, tmp_path: Path, make_package: MakePackage) -> FolderRegistry:
    made = make_signed(tmp_path) if request.param == "signed" else FolderRegistry.create(tmp_path / "registry")
    publish(made, make_package("digits", OLD, **BY_OLD))
    publish(made, make_package("taus", OLD, **BY_OLD))
    return made


def publish(registry: FolderRegistry, package: Any) -> None:
    registry.publish(package.entry, package.blobs)


def with_channels(registry: FolderRegistry, channels: Channels | None = None) -> FolderRegistry:
    promotion.set_channels(registry, channels or Channels())
    return again(registry)


def again(registry: FolderRegistry) -> FolderRegistry:
    """As the next command opens it."""
    if registry.is_signed:
        return open_signed(registry.root.parent)
    return FolderRegistry.open(registry.root)


def versions_of(registry: FolderRegistry, *channels: str) -> list[str]:
    return [registry.resolve("digits", channel).version for channel in channels]


def verdict(registry: FolderRegistry) -> list[str]:
    found = audit(again(registry), Silent())
    # The packages of these tests are no models.
    return [fault for fault in found.faults if "documents" not in fault and "made for" not in fault]


def test_a_new_toolchain_moves_nobody_who_follows_the_default_channel(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    publish(registry, make_package("digits", NEW, **BY_NEW))
    # Without channels the newest version is chosen, and that depends on what was published.
    assert registry.resolve("digits").version == NEW
    registry.yank("digits", NEW, "not ready")
    registry = with_channels(registry)
    registry.unyank("digits", NEW)
    for wanted in ("digits", "digits>=1,<2", "digits@1.0"):
        assert registry.resolve(wanted).version == OLD
        assert resolve(registry, [Requirement.parse(wanted)]).entry("tfaot-model-digits").version == OLD
    assert versions_of(registry, "nightly", "candidate", "stable") == [NEW, OLD, OLD]
    # Who names the build asked for it.
    assert registry.resolve(f"digits@{NEW}").version == NEW


def test_setting_up_channels_moves_nobody(registry: FolderRegistry, make_package: MakePackage) -> None:
    publish(registry, make_package("digits", "2.0"))
    before = {text: registry.resolve(text).version for text in ("digits", "digits<2", "taus")}
    registry = with_channels(registry)
    assert {text: registry.resolve(text).version for text in before} == before
    publish(registry, make_package("digits", "3.0"))
    assert {text: registry.resolve(text).version for text in before} == before


def test_rejected_builds_are_named_with_the_channel(registry: FolderRegistry, make_package: MakePackage) -> None:
    registry = with_channels(registry)
    publish(registry, make_package("digits", NEW, **BY_NEW))
    publish(registry, make_package("wine", "1.0"))
    found = resolve(registry, [Requirement.parse("digits")])
    assert [str(one) for one in found.rejected] == [f"tfaot-model-digits {NEW}: is not in the channel stable"]
    with reported(RegistryError):
        resolve(registry, [Requirement.parse("wine")])
    with reported(RegistryError):
        registry.resolve("wine")
    with reported(RegistryError):
        resolve(registry, [Requirement.parse("wine")], Constraints.parse(channel="weekly"))


def test_a_registry_without_channels_names_that(registry: FolderRegistry) -> None:
    with reported(RegistryError):
        registry.resolve("digits", "stable")
    with reported(RegistryError):
        promotion.promote(registry, ["digits"])


def test_builds_go_from_channel_to_channel_and_back(registry: FolderRegistry, make_package: MakePackage) -> None:
    registry = with_channels(registry)
    publish(registry, make_package("digits", NEW, **BY_NEW))
    assert promotion.promote(registry, ["digits"], "stable") == ()  # candidate has nothing newer
    promotion.promote(registry, ["digits"], "candidate", by="ann")
    assert versions_of(registry, "nightly", "candidate", "stable") == [NEW, NEW, OLD]
    promotion.promote(registry, ["digits"], by="ann")
    assert versions_of(registry, "stable") == [NEW]
    (one,) = {promotion.rollback(registry, "digits", reason="wrong answers", by="bob")}
    assert (one.before, one.after) == (NEW, OLD)
    assert versions_of(registry, "candidate", "stable") == [NEW, OLD]
    # What was taken out comes back only with a reason.
    with reported(RegistryError):
        promotion.promote(registry, ["digits"])
    promotion.promote(registry, ["digits"], reason="the answers were right")
    assert versions_of(registry, "stable") == [NEW]
    assert verdict(registry) == []


def test_named_builds_are_rolled_back_one_after_the_other_and_then_to_nothing(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    registry = with_channels(registry)
    for number in (2, 3):
        publish(registry, make_package("digits", f"1.0+tf2.17.1.b{number}", **BY_OLD))
        promotion.promote(registry, [f"digits@1.0+tf2.17.1.b{number}"], reason="tested")
    publish(registry, make_package("digits", "2.0"))
    promotion.promote(registry, ["digits@2.0"], reason="tested")
    named = ("2.0", "1.0+tf2.17.1.b3", "1.0+tf2.17.1.b2", OLD)
    taken = [promotion.rollback(registry, f"digits@{build}", reason="wrong") for build in named]
    assert [(one.before, one.after) for one in taken] == [
        ("2.0", ""),
        ("1.0+tf2.17.1.b3", "1.0+tf2.17.1.b2"),
        ("1.0+tf2.17.1.b2", OLD),
        (OLD, ""),
    ]
    with reported(RegistryError):
        promotion.rollback(registry, "digits", reason="wrong")


def test_two_people_who_see_one_mistake_take_out_one_build(registry: FolderRegistry, make_package: MakePackage) -> None:
    registry = with_channels(registry)
    for number in (2, 3):
        publish(registry, make_package("digits", f"1.0+tf2.17.1.b{number}", **BY_OLD))
        promotion.promote(registry, [f"digits@1.0+tf2.17.1.b{number}"], reason="tested")
    promotion.rollback(registry, "digits", reason="wrong", by="ann")
    # The version has an earlier build in the channel, which is no mistake of anybody.
    for text in ("digits", "digits@1.0"):
        with reported(RegistryError):
            promotion.rollback(registry, text, reason="wrong", by="bob")
    assert versions_of(registry, "stable") == ["1.0+tf2.17.1.b2"]
    # A yank takes it out as well.
    registry.yank("digits", "1.0+tf2.17.1.b2", "wrong, too", by="bob")
    with reported(RegistryError):
        promotion.rollback(registry, "digits", reason="wrong", by="ann")
    assert versions_of(registry, "stable") == [OLD]
    # What was promoted since is somebody's new mistake.
    publish(registry, make_package("digits", "2.0"))
    promotion.promote(registry, ["digits@2.0"], reason="tested")
    assert promotion.rollback(registry, "digits", reason="wrong").before == "2.0"
    assert versions_of(registry, "stable") == [OLD]


def test_a_channel_is_left_with_nothing_only_by_who_names_the_build(registry: FolderRegistry) -> None:
    registry = with_channels(registry)
    for text in ("digits", "digits@1.0"):
        with reported(RegistryError):
            promotion.rollback(registry, text, reason="wrong")
    assert versions_of(registry, "stable") == [OLD]
    assert promotion.rollback(registry, f"digits@{OLD}", reason="wrong").after == ""
    with reported(RegistryError):
        promotion.rollback(registry, "digits", reason="wrong")
    assert verdict(registry) == []


def test_promoting_all_leaves_to_people_what_is_held_or_was_taken_out(
    registry: FolderRegistry, make_package: MakePackage, tfaot_home: Path
) -> None:
    registry = with_channels(registry)
    publish(registry, make_package("wine", "1.0"))
    for name in ("digits", "taus"):
        publish(registry, make_package(name, "2.0"))
    promotion.promote(registry, ["digits", "taus", "wine"], "candidate")
    promotion.promote(registry, ["digits"])
    promotion.rollback(registry, "digits", reason="wrong\nanswers", by="ann")
    promotion.hold(registry, "taus", reason="conference", by="bob")
    done = run_command(["promote", "--all", "--json", "--reason", "all", *given(registry)])
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [one["package"] for one in document["promoted"]] == ["tfaot-model-wine"]
    waits = {one["package"]: one["wait"] for one in document["waiting"]}
    assert waits["tfaot-model-taus"] == "held by bob: conference"
    assert waits["tfaot-model-digits"].endswith("by ann: wrong answers")
    assert versions_of(again(registry), "stable") == [OLD]


def test_promoting_all_leaves_what_needs_a_package_that_is_left(
    registry: FolderRegistry, make_package: MakePackage, tfaot_home: Path
) -> None:
    """Directly or not; what needs one that is promoted beside it is promoted, too."""
    registry = with_channels(registry)
    publish(registry, make_package("wine", "1.0"))
    publish(registry, make_package("barrel", "1.0", dependencies=("tfaot-model-wine>=1",)))
    publish(registry, make_package("cellar", "1.0", dependencies=("tfaot-model-barrel>=1",)))
    publish(registry, make_package("grapes", "1.0"))
    publish(registry, make_package("decays", "1.0", dependencies=("tfaot-model-grapes>=1",)))
    promotion.hold(registry, "wine", "candidate", reason="wrong labels", by="bob")
    done = run_command(["promote", "--all", "--channel", "candidate", "--json", *given(registry)])
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {one["package"] for one in document["promoted"]} == {"tfaot-model-decays", "tfaot-model-grapes"}
    assert {one["package"].removeprefix("tfaot-model-"): one["wait"] for one in document["waiting"]} == {
        "wine": "held by bob: wrong labels",
        "barrel": "needs tfaot-model-wine>=1, which candidate does not have",
        "cellar": "needs tfaot-model-barrel>=1, which candidate does not have",
    }


def test_a_hold_with_another_reason_is_another_hold(registry: FolderRegistry) -> None:
    registry = with_channels(registry)
    for reason in ("being published", "being published", "wrong answers"):
        promotion.hold(registry, "digits", reason=reason)
    assert [one.reason for one in history(registry, "digits") if one.do == "hold"] == [
        "being published",
        "wrong answers",
    ]
    assert str(registry.channels_of("digits")[-1]).endswith("held: wrong answers")
    promotion.unhold(registry, "digits")
    promotion.unhold(registry, "digits")
    assert [one.do for one in history(registry, "digits")][-2:] == ["hold", "unhold"]


def test_commands_say_what_users_get_now(registry: FolderRegistry, make_package: MakePackage, tfaot_home: Path) -> None:
    registry = with_channels(registry)
    publish(registry, make_package("digits", "2.0"))

    def said(*words: str) -> list[str]:
        done = run_command([*words, *given(registry)])
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    # Forgotten: the channel between.
    (nothing,) = said("promote", "digits")
    assert f"stable (default): {OLD}" in nothing and "candidate has nothing newer" in nothing
    said("promote", "digits@2.0", "--reason", "tested")
    assert said("rollback", "digits", "--reason", "wrong")[-1] == f"stable (default): {OLD}"
    said("promote", "digits@2.0", "--reason", "right")
    *_, stable = said("yank", "digits@2.0", "--reason", "wrong", "--by", "ann")
    assert stable.strip() == f"stable (default): {OLD}"
    assert [one.by for one in history(again(registry), "digits") if one.do == "yank"] == ["ann"]
    *_, stable = said("unyank", "digits@2.0", "--by", "ann")
    assert stable.strip() == f"stable (default): {OLD}"


def given(registry: FolderRegistry) -> list[str]:
    """Options of commands that write."""
    keys = ["--keys", str(registry.root.parent / "keys")] if registry.is_signed else []
    return ["--registry", str(registry.root), *keys]


def test_a_yank_takes_the_build_out_of_its_channels(registry: FolderRegistry, make_package: MakePackage) -> None:
    registry = with_channels(registry)
    publish(registry, make_package("digits", NEW, **BY_NEW))
    promotion.promote(registry, ["digits"], "candidate")
    promotion.promote(registry, ["digits"])
    registry.yank("digits", NEW, "wrong answers", by="bob")
    assert versions_of(registry, "nightly", "candidate", "stable") == [OLD] * 3
    registry.unyank("digits", NEW)
    assert versions_of(registry, "nightly", "candidate", "stable") == [NEW, OLD, OLD]
    with reported(RegistryError):
        promotion.promote(registry, ["digits"], "candidate")
    assert [one.do for one in history(registry, "digits")] == [
        "publish", "begin", "publish", "promote", "promote", "yank", "unyank",
    ]  # fmt: skip


def test_a_held_channel_stays_as_it_is(registry: FolderRegistry, make_package: MakePackage) -> None:
    registry = with_channels(registry)
    publish(registry, make_package("digits", NEW, **BY_NEW))
    promotion.hold(registry, "digits", "candidate", reason="being published", by="ann")
    with reported(RegistryError):
        promotion.promote(registry, ["digits"], "candidate", reason="because")
    assert [str(one) for one in registry.channels_of("digits")] == [
        f"nightly: {NEW}",
        f"candidate: {OLD}, held: being published",
        f"stable (default): {OLD}",
    ]
    promotion.unhold(registry, "digits", "candidate")
    promotion.promote(registry, ["digits"], "candidate")
    for wrong in ("digits@1.0", "none"):
        with reported(RegistryError):
            promotion.hold(registry, wrong, reason="because")
    with reported(RegistryError):
        promotion.hold(registry, "digits", "nightly", reason="because")
    with reported(RegistryError):
        promotion.rollback(registry, "digits", "nightly", reason="because")
    with reported(RegistryError):
        promotion.promote(registry, ["digits"], "nightly")


def test_a_build_is_promoted_with_what_it_needs_or_not_at_all(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    registry = with_channels(registry)
    publish(registry, make_package("wine", "1.0"))
    publish(registry, make_package("digits", "2.0", dependencies=("tfaot-model-wine>=1",)))
    before = (registry.root / "metadata/timestamp.json").read_bytes() if registry.is_signed else b""
    with reported(RegistryError):
        promotion.promote(registry, ["digits"], "candidate")
    if registry.is_signed:
        assert (registry.root / "metadata/timestamp.json").read_bytes() == before
    assert len(promotion.promote(registry, ["digits", "wine"], "candidate")) == 2
    assert versions_of(registry, "candidate") == ["2.0"]


def test_rules_promote_after_nights_and_canaries(tmp_path: Path, make_package: MakePackage) -> None:
    clock = Clock()
    registry = replace(FolderRegistry.create(tmp_path / "registry"), clock=clock)
    for model in ("digits", "taus", "wine"):
        publish(registry, make_package(model, OLD, **BY_OLD))
    rules = Channels.of(nights={"candidate": 1, "stable": 2}, canaries={"candidate": ["taus"]})
    promotion.set_channels(registry, rules)
    registry = replace(FolderRegistry.open(registry.root), clock=clock)
    clock.pass_days(1)
    newer = "1.0+tf2.17.1.b2"
    publish(registry, make_package("digits", newer, **BY_OLD))
    publish(registry, make_package("digits", NEW, **BY_NEW))
    publish(registry, make_package("wine", "2.0", **BY_NEW))

    def due() -> tuple[list[str], list[str]]:
        done, waiting = promotion.promote_due(registry)
        return [f"{one.after} {one.channel}" for one in done], [f"{one.build} {one.wait}" for one in waiting]

    # A new toolchain is never due: somebody decides that.
    assert due() == ([], [f"{newer} 0 of 1 nights in nightly"])
    clock.pass_days(1)
    assert due() == ([f"{newer} candidate"], [])
    clock.pass_days(1)
    assert due() == ([], [f"{newer} 1 of 2 nights in candidate"])
    promotion.hold(registry, "digits", "stable", reason="conference", by="ann")
    clock.pass_days(1)
    assert due() == ([], [f"{newer} held by ann: conference"])
    promotion.unhold(registry, "digits", "stable")
    assert due() == ([f"{newer} stable"], [])
    # What was rolled back is never due again.
    promotion.rollback(registry, "digits", reason="wrong")
    clock.pass_days(9)
    assert due() == ([], [])
    # Canaries: others follow once the canary has a build of the same toolchain in the channel.
    promotion.promote(registry, ["wine@2.0"], "candidate", reason="new toolchain")
    publish(registry, make_package("wine", "2.1", **BY_NEW))
    clock.pass_days(1)
    _, waiting = due()
    assert "2.1 the canary tfaot-model-taus has no build of tensorflow 2.21.0 in candidate" in waiting
    publish(registry, make_package("taus", NEW, **BY_NEW))
    promotion.promote(registry, [f"taus@{NEW}"], "candidate", reason="new toolchain")
    assert "2.1 candidate" in due()[0]


def test_a_dry_run_changes_nothing_and_needs_no_keys(tmp_path: Path, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    publish(registry, make_package("digits", OLD, **BY_OLD))
    promotion.set_channels(registry, Channels.of(nights={"candidate": 1}))
    package = make_package("digits", "1.0+tf2.17.1.b2", **BY_OLD)
    publish(registry, replace(package, entry=replace(package.entry, published="2020-01-01T00:00:00Z")))
    before = (registry.root / "metadata/timestamp.json").read_bytes()
    reader = FolderRegistry.open(registry.root)
    done, _ = promotion.promote_due(reader, dry_run=True)
    assert [one.after for one in done] == ["1.0+tf2.17.1.b2"]
    assert (registry.root / "metadata/timestamp.json").read_bytes() == before
    with reported(TrustError):
        promotion.promote_due(reader)


def test_the_log_says_who_did_what_when_and_why(registry: FolderRegistry, make_package: MakePackage) -> None:
    registry = with_channels(registry)
    publish(registry, make_package("digits", NEW, **BY_NEW))
    promotion.promote(registry, ["digits"], "candidate", by="ann")
    promotion.rollback(registry, "digits", "candidate", reason="wrong answers", by="bob")
    told = history(again(registry), "digits")
    assert [(one.do, one.by, one.reason) for one in told][-2:] == [
        ("promote", "ann", ""),
        ("rollback", "bob", "wrong answers"),
    ]
    assert all(bool(one.keys) == registry.is_signed for one in told[-2:])
    with reported(RegistryError):
        history(registry, "none")


def test_the_log_survives_gc_and_rotated_keys(tmp_path: Path, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    publish(registry, make_package("digits", OLD, **BY_OLD))
    promotion.set_channels(registry, Channels())
    publish(registry, make_package("digits", NEW, **BY_NEW))
    promotion.promote(registry, ["digits"], "candidate", by="ann")
    (old,) = {key for one in history(registry, "digits") for key in one.keys}
    add_key(registry, "release", NewKey())
    registry = open_signed(tmp_path)
    revoke_key(registry, "release", old)
    registry = open_signed(tmp_path)
    promotion.rollback(registry, "digits", "candidate", reason="wrong", by="bob")
    collect(registry, grace=timedelta(0))
    told = history(open_signed(tmp_path), "digits")
    assert [one.do for one in told] == ["publish", "begin", "publish", "promote", "rollback"]
    assert told[-1].keys != told[-2].keys == (old,)
    assert versions_of(open_signed(tmp_path), "nightly", "candidate") == [NEW, OLD]
    assert verdict(open_signed(tmp_path)) == []


def test_a_log_that_was_changed_is_a_fault(tmp_path: Path, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    publish(registry, make_package("digits", OLD, **BY_OLD))
    promotion.set_channels(registry, Channels())
    publish(registry, make_package("digits", NEW, **BY_NEW))
    promotion.promote(registry, ["digits"], "candidate", by="ann")
    promotion.rollback(registry, "digits", "candidate", reason="wrong", by="bob")

    def rewrite(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        """As a holder of the release key may: all of TUF's signatures are right afterwards."""
        with registry.writing() as commit:
            data = commit.read(DIGITS)
            assert data is not None
            lines = change([read_json(line) for line in data.splitlines()])
            commit.apply({DIGITS: b"".join(write(line) for line in lines)})

    good = registry.index.read(DIGITS)
    assert good is not None
    for change in (
        lambda lines: [line for line in lines if line.get("do") != "promote"],  # an event is missing
        lambda lines: [{**line, "by": "eve"} if line.get("do") == "rollback" else line for line in lines],
        lambda lines: [{**line, "signatures": []} if line.get("do") == "rollback" else line for line in lines],
    ):
        rewrite(change)
        assert verdict(registry) != []
        with pytest.raises(TrustError):
            history(open_signed(tmp_path), "digits")
        rewrite(lambda _: [read_json(line) for line in good.splitlines()])
        assert verdict(registry) == []


def test_a_mirror_with_an_old_pointer_is_refused(tmp_path: Path, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    publish(registry, make_package("digits", OLD, **BY_OLD))
    promotion.set_channels(registry, Channels())
    publish(registry, make_package("digits", NEW, **BY_NEW))
    promotion.promote(registry, ["digits"], "candidate")
    promotion.promote(registry, ["digits"])
    old = (registry.root / "metadata/timestamp.json").read_bytes()
    promotion.rollback(registry, "digits", reason="wrong answers")
    reader = open_signed(tmp_path, trust="reader")
    assert [reader.resolve("digits").version, registry.resolve("digits").version] == [OLD, OLD]
    (registry.root / "metadata/timestamp.json").write_bytes(old)
    reader.index.forget()
    with reported(TrustError):
        reader.resolve("digits")
    # Nor is anything promoted upon it.
    with reported(TrustError):
        promotion.promote(open_signed(tmp_path), ["digits"], reason="again")


def test_a_mirror_cannot_change_or_withhold_channels(tmp_path: Path, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    publish(registry, make_package("digits", OLD, **BY_OLD))
    promotion.set_channels(registry, Channels())
    (file,) = registry.root.glob("*.channels.json")
    good = file.read_bytes()
    file.write_bytes(good.replace(b'"default":"stable"', b'"default":"nightl"'))
    with reported(TrustError):
        open_signed(tmp_path, trust="one").resolve("digits")
    file.unlink()
    with reported(TrustError):
        open_signed(tmp_path, trust="two").resolve("digits")
    # A plain copy, beside it, is nothing.
    file.write_bytes(good)
    (registry.root / "channels.json").write_bytes(good.replace(b'"default":"stable"', b'"default":"nightly"'))
    channels = open_signed(tmp_path, trust="three").channels
    assert channels is not None and channels.default == "stable"


def test_replaced_settings_are_garbage_and_current_ones_are_not(tmp_path: Path, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    publish(registry, make_package("digits", OLD, **BY_OLD))
    promotion.set_channels(registry, Channels())
    promotion.set_channels(registry, Channels(default="candidate"))
    assert len(list(registry.root.glob("*.channels.json"))) == 2
    collect(registry, grace=timedelta(0))
    assert len(list(registry.root.glob("*.channels.json"))) == 1
    channels = open_signed(tmp_path).channels
    assert channels is not None and channels.default == "candidate"


def test_channels_are_added_and_never_dropped_or_reordered(registry: FolderRegistry) -> None:
    registry = with_channels(registry)
    for names in (("nightly", "stable"), ("nightly", "stable", "candidate"), ("dev", "nightly", "candidate", "stable")):
        with reported(RegistryError):
            promotion.set_channels(registry, Channels(names=names))
    promotion.set_channels(registry, Channels(names=("nightly", "candidate", "stable", "frozen"), default="frozen"))
    registry = again(registry)
    assert versions_of(registry, "", "frozen") == [OLD, OLD]
    with reported(RegistryError):
        promotion.set_channels(registry, Channels.of(nights={"stable": 1}, canaries={"stable": ["none"]}))


@pytest.mark.parametrize(
    ("names", "default", "nights", "canaries"),
    [
        (("stable",), "", {}, {}),
        (("a", "a"), "", {}, {}),
        (("a", "B"), "", {}, {}),
        (("a", "b"), "c", {}, {}),
        (("a", "b"), "", {"a": 1}, {}),
        (("a", "b"), "", {"b": 0}, {}),
        (("a", "b"), "", {}, {"b": ["digits"]}),
    ],
)
def test_settings_that_make_no_sense_are_refused(names: Any, default: str, nights: Any, canaries: Any) -> None:
    with reported(RegistryError):
        Channels.of(names, default, nights, canaries)


def test_older_tools_see_versions_and_no_events(registry: FolderRegistry, make_package: MakePackage) -> None:
    registry = with_channels(registry)
    publish(registry, make_package("digits", NEW, **BY_NEW))
    data = registry.index.read(DIGITS)
    assert data is not None
    kinds = [json.loads(line).get("kind", "version") for line in data.splitlines()]
    assert kinds == ["version", "event", "version"]
    # What an older tool does with lines of a kind that it does not know: nothing.
    from tfaot_pkg.registry.entry import parse_index

    assert [line.version for line in parse_index(data, "file", "tfaot-model-digits")] == [OLD, NEW]


def test_an_event_for_what_is_not_there_is_a_fault(registry: FolderRegistry) -> None:
    registry = with_channels(registry)
    with registry.writing() as commit:
        data = commit.read(DIGITS)
        assert data is not None
        _, *rest = data.splitlines()
        commit.apply({DIGITS: b"".join(line + b"\n" for line in rest)})
    assert any("which is not there" in fault for fault in verdict(registry))


def test_what_is_promoted_is_installed(registry: FolderRegistry, make_package: MakePackage, tmp_path: Path) -> None:
    registry = with_channels(registry)
    publish(registry, make_package("digits", NEW, **BY_NEW))
    assert install(registry, "digits", tmp_path / "prefix").version == OLD
    promotion.promote(registry, ["digits"], "candidate")
    promotion.promote(registry, ["digits"])
    assert install(registry, "digits", tmp_path / "prefix").version == NEW
    promotion.rollback(registry, "digits", reason="wrong")
    assert install(registry, "digits", tmp_path / "prefix").version == OLD


def test_refreshing_keeps_channels(tmp_path: Path, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    publish(registry, make_package("digits", OLD, **BY_OLD))
    promotion.set_channels(registry, Channels())
    refresh(registry)
    assert open_signed(tmp_path).channels == Channels()


def test_a_reason_cannot_look_like_another_event(
    registry: FolderRegistry, make_package: MakePackage, tfaot_home: Path
) -> None:
    registry = with_channels(registry)
    publish(registry, make_package("digits", NEW, **BY_NEW))
    forged = "fine\n2026-01-01T00:00:00Z rollback 1.0 [stable] by ann - wrong\x1b[2J"
    promotion.promote(registry, ["digits"], "candidate", reason=forged, by="eve\r\nann")
    done = run_command(["log", "digits", "--registry", registry.root])
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    assert "promote" in last and "by eve ann" in last and last.endswith("wrong\\x1b[2J")
