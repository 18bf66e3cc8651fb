"""Several keys for one role: how many of them must sign, and root keys that never meet on one machine."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.registry.signing import clock_at, make_signed, no_secrets, open_signed
from tests.wording import reported
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.registry.audit import audit
from tfaot_pkg.registry.commit import open_keys
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.signing import refresh
from tfaot_pkg.registry.signing_keys import (
    NewKey,
    add_key,
    apply_pending,
    list_keys,
    new_key,
    renew_root,
    revoke_key,
    set_threshold,
    sign_pending,
)
from tfaot_pkg.registry.storage import FolderStorage
from tfaot_pkg.registry.trust.keys import secrets_from

MakePackage = Callable[..., Any]
ONLINE = ["release", "snapshot", "timestamp"]


@dataclass(frozen=True, slots=True)
class People:
    """A registry whose keeper has `folder/keys`; others have keys of their own."""

    folder: Path

    def open(self, *keys: str, trust: str = "trust") -> FolderRegistry:
        opened = open_signed(self.folder, trust=trust)
        return replace(opened, keys=open_keys([self.folder / name for name in keys], no_secrets))

    def join(self, role: str, name: str, threshold: int | None = None) -> str:
        """NAME makes a key, whose public half the keeper adds. Where it must sign at once, NAME's folder is there."""
        _, public = new_key(role, self.folder / name, lambda: None, no_secrets)
        keeper = self.open("keys", name) if threshold else self.open("keys")
        return add_key(keeper, role, NewKey(public=public), threshold=threshold).keyid

    def check(self) -> None:
        """Readers old and new, and an auditor, find everything right."""
        for trust in ("trust", "old reader", "new reader"):
            assert "tfaot-model-digits" in self.open("keys", trust=trust).names()
        shutil.rmtree(self.folder / "new reader")
        assert audit(self.open("keys"), Silent()).faults == []


@pytest.fixture
def people(tmp_path: Path, make_package: MakePackage) -> People:
    people = People(tmp_path)
    publish(make_signed(tmp_path), make_package())
    people.check()
    return people


def publish(registry: FolderRegistry, package: Any) -> str:
    return registry.publish(package.entry, package.blobs).status


@pytest.mark.parametrize("role", ONLINE)
def test_two_of_three_must_sign(people: People, role: str, make_package: MakePackage) -> None:
    people.join(role, "ada")
    people.join(role, "bob", 2)
    people.check()
    assert {key.threshold for key in list_keys(people.open("keys")) if key.role == role} == {2}
    before = sorted((people.folder / "registry").rglob("*"))
    with reported(TrustError):
        publish(people.open("keys"), make_package(version="2.0"))
    assert sorted((people.folder / "registry").rglob("*")) == before
    assert publish(people.open("keys", "ada"), make_package(version="2.0")) == "published"
    people.check()
    assert publish(people.open("keys", "bob"), make_package(version="3.0")) == "published"
    people.check()


@pytest.mark.slow
@pytest.mark.parametrize("role", ONLINE)
def test_one_signature_where_two_are_needed_is_refused_by_readers(
    people: People, role: str, make_package: MakePackage
) -> None:
    """The key that leaked signs all that it can; the real writer makes it, believing an older root."""
    root = people.folder / "registry"
    shutil.copytree(root, people.folder / "stolen")
    thief = replace(open_signed(people.folder, registry="stolen", trust="thief"))
    people.join(role, "ada", 2)
    people.check()
    for number in range(6):
        publish(thief, make_package(version=f"6.{number}"))
    stolen = people.folder / "stolen"
    for path in [*stolen.glob("metadata/*"), *stolen.glob("index/*/*/*"), *stolen.glob("search/*")]:
        if not path.name.endswith(".root.json"):
            shutil.copy(path, root / path.relative_to(stolen))
    with reported(TrustError):
        people.open("keys", trust="another reader").names()
    with reported(TrustError):
        people.open("keys", trust="old reader").names()


def test_every_role_that_release_keys_sign_needs_all_signatures(people: People) -> None:
    people.join("release", "ada", 2)
    metadata = people.folder / "registry/metadata"
    for name in ("targets", "packages", "search", "bin-0", "bin-1"):
        newest = max(metadata.glob(f"*.{name}.json"), key=lambda path: int(path.name.partition(".")[0]))
        document = json.loads(newest.read_bytes())
        assert len(document["signatures"]) == 2
        whole = newest.read_bytes()
        document["signatures"].pop()
        newest.write_text(json.dumps(document))
        reader = people.open("keys", trust=f"reader of {name}")
        with reported(TrustError):
            reader.entries("digits"), reader.entries("taus"), reader.names()
        newest.write_bytes(whole)


@pytest.mark.slow
@pytest.mark.parametrize("role", ONLINE)
def test_a_threshold_goes_up_and_down_and_a_leaked_key_goes(
    people: People, role: str, make_package: MakePackage
) -> None:
    (first,) = (key.keyid for key in list_keys(people.open("keys")) if key.role == role)
    people.join(role, "ada")
    with reported(TrustError):
        set_threshold(people.open("keys"), role, 2)
    people.check()
    set_threshold(people.open("keys", "ada"), role, 2)
    people.check()
    for threshold in (0, 3):
        with reported(RegistryError):
            set_threshold(people.open("keys", "ada"), role, threshold)
    with reported(RegistryError):
        revoke_key(people.open("keys", "ada"), role, first)
    revoke_key(people.open("keys", "ada"), role, first, threshold=1)
    people.check()
    (people.folder / f"keys/{role}.pem").unlink()
    assert publish(people.open("keys", "ada"), make_package(version="2.0")) == "published"
    people.check()


class Watched(FolderStorage):
    """After each file that is written, someone new and someone who has read before read all."""

    def put(self, path: str, data: bytes) -> None:
        super().put(path, data)
        for trust in ("old reader", f"reader after {path.replace('/', ' ')}"):
            reader = open_signed(self.root.parent, trust=trust)
            assert reader.names() and reader.entries("digits")


@pytest.mark.slow
@pytest.mark.parametrize("role", ["release", "timestamp"])
def test_a_reader_between_any_two_files_of_a_change_finds_all_in_order(people: People, role: str) -> None:
    (first,) = (key.keyid for key in list_keys(people.open("keys")) if key.role == role)
    people.join(role, "ada")

    def watched() -> FolderRegistry:
        return replace(people.open("keys", "ada"), files=Watched(root=people.folder / "registry"))

    added = add_key(watched(), role, NewKey(), threshold=3)
    assert len(added.rotation.steps) == 2
    revoke_key(watched(), role, first, threshold=1)
    people.check()


@pytest.mark.parametrize("role", ONLINE)
def test_root_keys_alone_replace_a_key_that_was_lost(people: People, role: str, make_package: MakePackage) -> None:
    (lost,) = (key.keyid for key in list_keys(people.open("keys")) if key.role == role)
    (people.folder / f"keys/{role}.pem").unlink()
    add_key(people.open("keys"), role, NewKey())
    revoke_key(people.open("keys"), role, lost)
    assert publish(people.open("keys"), make_package(version="2.0")) == "published"
    people.check()


def test_refresh_completes_a_threshold_whose_change_was_killed(people: People, make_package: MakePackage) -> None:
    """Killed after all was signed by two, and before the root that asks for two."""
    people.join("release", "ada")
    set_threshold(people.open("keys", "ada"), "release", 2)
    (people.folder / "registry/metadata/3.root.json").unlink()
    shutil.rmtree(people.folder / "trust")
    shutil.rmtree(people.folder / "old reader")
    people.check()
    refresh(people.open("keys"))
    people.check()
    assert publish(people.open("keys"), make_package(version="2.0")) == "published"
    set_threshold(people.open("keys", "ada"), "release", 2)
    people.check()


def test_each_key_folder_has_a_passphrase_of_its_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"pass-{name}").write_text(f"secret of {name}\n")
        new_key("release", tmp_path / name, lambda name=name: f"secret of {name}", no_secrets)  # type: ignore[misc]
    secrets = [secrets_from(tmp_path / f"pass-{name}") for name in ("a", "b")]
    keys = open_keys([tmp_path / "a", tmp_path / "b"], *secrets)
    assert all(len(ring.signers(record.keyid for record in ring.records)) == 1 for ring in keys.rings)
    _, wrong = open_keys([tmp_path / "a", tmp_path / "b"], secrets[0]).rings
    with reported(TrustError):
        wrong.signers([wrong.records[0].keyid])
    with reported(TrustError):
        open_keys([tmp_path / "a"] * 3, *secrets)


# --- root keys on several machines ----------------------------------------------------------------------------------


@pytest.fixture
def apart(tmp_path: Path, make_package: MakePackage) -> People:
    """Two of three root keys must sign; each is in a folder of its own, and none with the keeper."""
    people = People(tmp_path)
    publish(make_signed(tmp_path, root_keys=3, threshold=2), make_package())
    for number in (1, 2, 3):
        (tmp_path / f"safe{number}").mkdir()
        shutil.copy(tmp_path / "keys/keys.json", tmp_path / f"safe{number}")
        shutil.move(tmp_path / f"keys/root-{number}.pem", tmp_path / f"safe{number}")
    people.check()
    return people


def sign(people: People, file: Path, safe: str) -> str:
    return sign_pending(file, open_keys([people.folder / safe], no_secrets)).lacking


@pytest.mark.parametrize("role", ["root", *ONLINE])
def test_a_change_is_signed_by_one_after_the_other_and_then_holds(
    apart: People, role: str, make_package: MakePackage
) -> None:
    file = apart.folder / "change.json"
    old = next(key.keyid for key in list_keys(apart.open("keys")) if key.role == role)
    added = add_key(apart.open("keys"), role, NewKey(), pending=file)
    apart.check()
    assert added.keyid not in {key.keyid for key in list_keys(apart.open("keys"))}
    assert "needs 2 of the old root keys; found: 0" in added.lacking
    assert f"{role}: trust {added.keyid}" in added.rotation.description()
    with reported(TrustError):
        apply_pending(apart.open("keys"), file)
    assert "found: 1" in sign(apart, file, "safe1")
    with reported(TrustError):
        sign(apart, file, "safe1")
    with reported(TrustError):
        apply_pending(apart.open("keys"), file)
    assert sign(apart, file, "safe3") == ""
    apply_pending(apart.open("keys"), file)
    apart.check()
    with reported(TrustError):
        apply_pending(apart.open("keys"), file)
    revoke_key(apart.open("keys"), role, old, pending=file)
    for safe in ("safe2", "safe3"):
        sign(apart, file, safe)
    apply_pending(apart.open("keys"), file)
    apart.check()
    trusted = {key.keyid for key in list_keys(apart.open("keys")) if key.role == role}
    assert added.keyid in trusted and old not in trusted
    assert publish(apart.open("keys"), make_package(version="2.0")) == "published"


def test_a_key_is_replaced_and_a_threshold_raised_in_one_pending_change_of_two_steps(apart: People) -> None:
    file = apart.folder / "change.json"
    _, public = new_key("release", apart.folder / "ada", lambda: None, no_secrets)
    done = add_key(apart.open("keys"), "release", NewKey(public=public), threshold=2, pending=file)
    assert len(done.rotation.steps) == 2
    digest = done.rotation.digest
    for safe in ("safe1", "safe2"):
        assert sign_pending(file, open_keys([apart.folder / safe], no_secrets)).rotation.digest == digest
    with reported(TrustError):
        apply_pending(apart.open("keys"), file)
    apart.check()
    apply_pending(apart.open("keys", "ada"), file)
    apart.check()
    assert {key.threshold for key in list_keys(apart.open("keys")) if key.role == "release"} == {2}


def test_a_root_that_nears_its_end_is_renewed_without_its_keys_meeting(apart: People) -> None:
    file = apart.folder / "root.json"
    late = replace(apart.open("keys"), clock=clock_at(300))
    assert "registry keys renew" in refresh(late, trust_clock=True).notes[-1]
    renew_root(late, pending=file)
    for safe in ("safe1", "safe2"):
        sign(apart, file, safe)
    apply_pending(late, file)
    assert refresh(late).expires["root"] > clock_at(600)()


def test_what_was_changed_after_it_was_signed_is_refused(apart: People) -> None:
    file = apart.folder / "change.json"
    add_key(apart.open("keys"), "timestamp", NewKey(), pending=file)
    for safe in ("safe1", "safe2"):
        sign(apart, file, safe)
    document = json.loads(file.read_bytes())
    document["steps"][0]["signed"]["roles"]["root"]["threshold"] = 1
    file.write_text(json.dumps(document))
    with reported(TrustError):
        apply_pending(apart.open("keys"), file)
    apart.check()


def test_a_base_of_the_thief_s_own_does_not_help(apart: People, tmp_path: Path) -> None:
    """A file whose own base trusts its signer: what counts is the root that the registry has."""
    make_signed(tmp_path / "thief")
    thief, file = People(tmp_path / "thief"), tmp_path / "change.json"
    add_key(thief.open("keys"), "timestamp", NewKey(), pending=file)
    with reported(TrustError):
        apply_pending(apart.open("keys"), file)
    apart.check()


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"format":1,"base":{},"steps":[]}', b"\0" * 3_000_000])
def test_what_is_no_pending_change_is_said(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    with reported(TrustError):
        sign_pending(tmp_path / "file", open_keys([], no_secrets))


def test_a_refused_change_leaves_no_key_behind(apart: People) -> None:
    before = sorted(os.listdir(apart.folder / "keys"))
    with reported(TrustError):
        add_key(apart.open("keys"), "release", NewKey())
    assert sorted(os.listdir(apart.folder / "keys")) == before
