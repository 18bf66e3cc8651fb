"""Keys: files with a passphrase, signers from elsewhere, adding and revoking, re-signing."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.signer import SIGNER_FOR_URI_SCHEME, CryptoSigner, Key, Signature, Signer, SSlibKey

from tests.registry.signing import clock_at, keys_in, make_signed, no_secrets, open_signed
from tests.wording import reported
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.registry.audit import audit
from tfaot_pkg.registry.commit import open_keys
from tfaot_pkg.registry.files.files import FolderFiles
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.signing import Plan, initialize, refresh
from tfaot_pkg.registry.signing_keys import NewKey, add_key, list_keys, revoke_key
from tfaot_pkg.registry.trust.client import Anchor
from tfaot_pkg.registry.trust.keys import KeyRing, secrets_from
from tfaot_pkg.registry.trust.roles import Lifetimes
from tfaot_pkg.registry.trust.state import SignedState

MakePackage = Callable[..., Any]


def none() -> None:
    return None


def publish(registry: FolderRegistry, package: Any) -> str:
    return registry.publish(package.entry, package.blobs).status


def check(folder: Path) -> None:
    """Readers old and new, and an auditor, find everything right."""
    for trust in ("trust", "old reader", "new reader"):
        assert open_signed(folder, trust=trust).names() == ("tfaot-model-digits",)
    shutil.rmtree(folder / "new reader")
    assert audit(open_signed(folder), Silent()).faults == []


@pytest.fixture
def folder(tmp_path: Path, make_package: MakePackage) -> Path:
    registry = make_signed(tmp_path)
    publish(registry, make_package())
    check(tmp_path)
    return tmp_path


def test_private_keys_are_encrypted_and_for_their_owner_only(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    initialize(tmp_path / "r", keys, Plan(bits=1), passphrase=lambda: "geheim", secrets=lambda _: "geheim")
    assert sorted(path.name for path in keys.glob("*.pem")) == [
        "release.pem",
        "root-1.pem",
        "snapshot.pem",
        "timestamp.pem",
    ]
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    for path in keys.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        if path.suffix == ".pem":
            assert path.read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert not list((tmp_path / "r").rglob("*.pem"))


def test_a_wrong_passphrase_signs_nothing(tmp_path: Path, make_package: MakePackage) -> None:
    keys = tmp_path / "keys"
    initialize(tmp_path / "r", keys, Plan(bits=1), passphrase=lambda: "geheim", secrets=lambda _: "geheim")
    before = sorted((tmp_path / "r").rglob("*"))
    opened = FolderRegistry.open(
        tmp_path / "r", anchor=Anchor(folder=tmp_path / "t"), keys=open_keys([keys], lambda _: "falsch")
    )
    with reported(TrustError):
        publish(opened, make_package())
    assert sorted((tmp_path / "r").rglob("*")) == before
    good = replace(opened, keys=open_keys([keys], lambda _: "geheim"))
    assert publish(good, make_package()) == "published"


def test_the_passphrase_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("from a file\nsecond line\n")
    monkeypatch.setenv("TFAOT_REGISTRY_PASSPHRASE", "from the environment")
    assert secrets_from(tmp_path / "file")("the key") == "from a file"
    assert secrets_from()("the key") == "from the environment"
    monkeypatch.delenv("TFAOT_REGISTRY_PASSPHRASE")
    with (tmp_path / "file").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        with reported(TrustError):
            secrets_from()("the key")
        monkeypatch.undo()
    (tmp_path / "file").write_text("")
    with reported(TrustError):
        secrets_from(tmp_path / "file", new=True)("the new keys")


def test_publishing_without_keys_is_refused_before_anything_is_written(folder: Path, make_package: MakePackage) -> None:
    stranger = FolderRegistry.open(folder / "registry", anchor=Anchor(folder=folder / "trust"))
    before = sorted((folder / "registry").rglob("*"))
    for use in (
        lambda: publish(stranger, make_package(version="2.0")),
        lambda: stranger.yank("digits", "1.0", "no"),
        stranger.require_keys,
        lambda: refresh(stranger),
    ):
        with reported(TrustError):
            use()
    assert sorted((folder / "registry").rglob("*")) == before
    assert publish(stranger, make_package()) == "already published"  # which needs none


def test_a_folder_without_keys_is_named(tmp_path: Path) -> None:
    with reported(TrustError):
        KeyRing.open(tmp_path, no_secrets)
    (tmp_path / "keys.json").write_text("{")
    with reported(TrustError):
        KeyRing.open(tmp_path, no_secrets)


@pytest.mark.parametrize("role", ["release", "snapshot", "timestamp"])
def test_before_a_key_is_dropped_all_that_it_signed_is_signed_by_another(folder: Path, role: str) -> None:
    (old,) = (key.keyid for key in list_keys(open_signed(folder)) if key.role == role)
    add_key(open_signed(folder), role, NewKey())
    revoke_key(open_signed(folder), role, old)
    check(folder)
    state = SignedState.load(FolderFiles(root=folder / "registry"), (folder / "trust/first.root.json").read_bytes())
    delegations = (state.role("targets"), state.role("packages"))
    current: list[Any] = [state.snapshot, state.timestamp, state.role("search"), state.role("bin-0"), *delegations]
    assert all(old not in metadata.signatures for metadata in current)
    assert all(one.signed.delegations is not None and old not in one.signed.delegations.keys for one in delegations)


def test_a_publisher_with_the_new_release_key_alone_can_publish(folder: Path, make_package: MakePackage) -> None:
    add_key(open_signed(folder), "release", NewKey())
    (folder / "keys/release.pem").unlink()
    assert publish(open_signed(folder), make_package(version="2.0")) == "published"
    check(folder)


@pytest.mark.parametrize("role", ["root", "release", "snapshot", "timestamp"])
def test_a_key_is_added_and_the_old_one_revoked_while_readers_read(
    folder: Path, role: str, make_package: MakePackage
) -> None:
    (old,) = (key.keyid for key in list_keys(open_signed(folder)) if key.role == role)
    new = add_key(open_signed(folder), role, NewKey()).keyid
    check(folder)
    assert publish(open_signed(folder), make_package(version="2.0")) == "published"
    assert revoke_key(open_signed(folder), role, old[:10]).keyid == old
    check(folder)
    assert [key.keyid for key in list_keys(open_signed(folder)) if key.role == role] == [new]
    assert publish(open_signed(folder), make_package(version="3.0")) == "published"
    check(folder)
    assert open_signed(folder).index.root_version == 3


def test_what_a_revoked_key_signs_is_refused(folder: Path, make_package: MakePackage) -> None:
    shutil.copytree(folder / "registry", folder / "stolen")
    thief = FolderRegistry.open(
        folder / "stolen", anchor=Anchor(folder=folder / "thief"), keys=keys_in(folder / "keys")
    )
    (old,) = (key.keyid for key in list_keys(open_signed(folder)) if key.role == "timestamp")
    add_key(open_signed(folder), "timestamp", NewKey())
    revoke_key(open_signed(folder), "timestamp", old)
    for version in ("6.6", "6.7", "6.8", "6.9"):
        publish(thief, make_package(version=version))
    shutil.copy(folder / "stolen/metadata/timestamp.json", folder / "registry/metadata/timestamp.json")
    with reported(TrustError):
        open_signed(folder, trust="old reader").names()


def test_the_last_key_of_a_role_cannot_be_revoked(folder: Path) -> None:
    (key,) = (key.keyid for key in list_keys(open_signed(folder)) if key.role == "release")
    with reported(RegistryError):
        revoke_key(open_signed(folder), "release", key)
    for unknown in ("", "zz"):
        with reported(RegistryError):
            revoke_key(open_signed(folder), "release", unknown)
    check(folder)


def test_root_keys_in_several_places_sign_together(tmp_path: Path, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path, root_keys=3, threshold=2)
    publish(registry, make_package())
    for number in (2, 3):  # two of the root keys go elsewhere
        (tmp_path / f"safe {number}").mkdir()
        shutil.copy(tmp_path / "keys/keys.json", tmp_path / f"safe {number}")
        shutil.move(tmp_path / f"keys/root-{number}.pem", tmp_path / f"safe {number}")
    one = open_signed(tmp_path)
    with reported(TrustError):
        add_key(one, "timestamp", NewKey())
    assert one.index.root_version == 1
    assert not (tmp_path / "keys/timestamp-1.pem").exists()
    assert publish(one, make_package(version="2.0")) == "published"  # which needs no root key
    two = replace(one, keys=open_keys([tmp_path / "keys", tmp_path / "safe 3"], no_secrets))
    add_key(two, "timestamp", NewKey())
    add_key(two, "root", NewKey(), threshold=3)
    assert {key.threshold for key in list_keys(two) if key.role == "root"} == {3}
    check(tmp_path)


class Device(Signer):
    """A key in a device: only its URI is known outside."""

    inside = CryptoSigner.generate_ecdsa()

    @classmethod
    def import_(cls) -> tuple[str, SSlibKey]:
        return "device:1", cls.inside.public_key

    @classmethod
    def from_priv_key_uri(cls, priv_key_uri: str, public_key: Key, secrets_handler: Any = None) -> Signer:
        assert priv_key_uri == "device:1" and public_key == cls.inside.public_key
        assert secrets_handler is not None and secrets_handler("PIN") == "1234"
        return cls()

    @property
    def public_key(self) -> Key:
        return self.inside.public_key

    def sign(self, payload: bytes) -> Signature:
        return self.inside.sign(payload)


@pytest.mark.parametrize("role", ["release", "root"])
def test_any_signer_that_securesystemslib_knows_can_sign(
    tmp_path: Path, role: str, monkeypatch: pytest.MonkeyPatch, make_package: MakePackage
) -> None:
    monkeypatch.setitem(SIGNER_FOR_URI_SCHEME, "device", Device)
    plan = Plan(bits=1, uris=((role, "device:"),))
    initialize(tmp_path / "registry", tmp_path / "keys", plan, passphrase=none, secrets=lambda _: "1234")
    assert not (tmp_path / f"keys/{role}.pem").exists()
    keys = open_keys([tmp_path / "keys"], lambda _: "1234")
    registry = FolderRegistry.open(tmp_path / "registry", anchor=Anchor(folder=tmp_path / "trust"), keys=keys)
    publish(registry, make_package())
    assert registry.names() == ("tfaot-model-digits",)
    assert [key.scheme for key in list_keys(registry) if key.role == role] == ["ecdsa-sha2-nistp256"]
    with reported(TrustError):
        add_key(registry, role, NewKey(uri="unknown:x"))


def test_refresh_signs_the_timestamp_and_whatever_grows_old(folder: Path) -> None:
    assert refresh(open_signed(folder)).signed == ("timestamp",)
    later = replace(open_signed(folder), clock=clock_at(25))
    assert refresh(later).signed == ("snapshot", "timestamp")
    much_later = replace(open_signed(folder), clock=clock_at(300))
    done = refresh(much_later, trust_clock=True)
    assert set(done.signed) == {*("root", "targets", "packages", "search", "bin-0", "bin-1", "snapshot", "timestamp")}
    for role, days in {"root": 664, "release": 664, "snapshot": 329, "timestamp": 306}.items():
        assert done.expires[role] > clock_at(days)()
    assert audit_faults_without_clock(folder) == []


def audit_faults_without_clock(folder: Path) -> list[str]:
    found = audit(open_signed(folder), Silent()).faults
    return [fault for fault in found if "this machine's clock" not in fault]


def test_refresh_says_what_it_cannot_sign(folder: Path) -> None:
    shutil.move(folder / "keys/root-1.pem", folder)
    shutil.move(folder / "keys/release.pem", folder)
    later = replace(open_signed(folder), clock=clock_at(300))
    done = refresh(later, trust_clock=True)
    assert done.signed == ("snapshot", "timestamp")
    assert "a release key is needed" in done.notes[0] and "run refresh with the root keys" in done.notes[1]
    too_late = replace(open_signed(folder), clock=clock_at(366))
    with reported(TrustError):
        refresh(too_late, trust_clock=True)


def test_lifetimes_are_read_and_kept_in_the_root(tmp_path: Path) -> None:
    lifetimes = Lifetimes.parse(["timestamp=2", "root=700"])
    registry = make_signed(tmp_path, lifetimes=lifetimes)
    root = json.loads((registry.root / "metadata/1.root.json").read_bytes())
    assert root["signed"]["x-tfaot-lifetimes"] == {"root": 700, "release": 365, "snapshot": 30, "timestamp": 2}
    for word in ("timestamp", "timestamp=0", "timestamp=-1", "bins=3", "timestamp=x"):
        with reported(RegistryError):
            Lifetimes.parse([word])


@pytest.mark.parametrize(
    "plan",
    [
        Plan(threshold=2),
        Plan(threshold=0),
        Plan(bits=0),
        Plan(bits=11),
    ],
)
def test_impossible_plans_are_refused(tmp_path: Path, plan: Plan) -> None:
    with reported(RegistryError):
        initialize(tmp_path / "r", tmp_path / "k", plan, passphrase=none, secrets=no_secrets)
    assert not list(tmp_path.iterdir())


def test_a_registry_is_made_in_an_empty_folder_only_and_keys_lie_outside(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/photo.jpg").write_bytes(b"")
    for root, keys in [
        ("full", "k"),
        ("registry", "k"),
        ("new", "new/k"),
    ]:
        with reported(RegistryError):
            initialize(tmp_path / root, tmp_path / keys, Plan(bits=1), passphrase=none, secrets=no_secrets)
    assert not (tmp_path / "k").exists() and not (tmp_path / "new").exists()


def test_making_a_registry_that_was_interrupted_is_completed_with_the_same_keys(tmp_path: Path) -> None:
    make_signed(tmp_path)
    (tmp_path / "registry/config.json").unlink()
    (tmp_path / "registry/metadata/timestamp.json").unlink()
    keys = (tmp_path / "keys/keys.json").read_bytes()
    shutil.rmtree(tmp_path / "trust", ignore_errors=True)
    assert make_signed(tmp_path).names() == ()
    assert (tmp_path / "keys/keys.json").read_bytes() == keys
