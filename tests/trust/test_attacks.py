"""What a reader must refuse, over files that were put there by someone else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.registry.signing import clock_at, make_signed, open_signed
from tests.wording import reported
from tfaot_pkg.errors import RegistryError, StorageError, TrustError
from tfaot_pkg.ground.documents import utc
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.entry import Deprecation
from tfaot_pkg.registry.files.files import FolderFiles, MissingFile, too_long
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.promotion import hold, promote, promote_due, rollback, set_channels
from tfaot_pkg.registry.signing import load_state, refresh
from tfaot_pkg.registry.signing_keys import (
    NewKey,
    add_key,
    apply_pending,
    list_keys,
    renew_root,
    revoke_key,
    set_threshold,
)
from tfaot_pkg.registry.trust.client import Anchor, SignedIndex
from tfaot_pkg.registry.trust.roles import Lifetimes
from tfaot_pkg.registry.trust.rotation import KeyChange, Rotation

MakePackage = Callable[..., Any]
DIGITS = "index/di/gi/tfaot-model-digits"


@dataclass
class HostileFiles:
    """The files of `real`, but for those in `lies`: other bytes, or None for a file that is kept back."""

    real: FolderFiles
    lies: dict[str, bytes | None] = field(default_factory=dict)
    location: str = "the hostile mirror"

    def get(self, path: str, limit: int) -> bytes:
        if path not in self.lies:
            return self.real.get(path, limit)
        data = self.lies[path]
        if data is None:
            raise MissingFile(f"no {path}")
        if len(data) > limit:
            raise too_long(path, limit)
        return data

    @contextmanager
    def open(self, path: str, limit: int) -> Iterator[BinaryIO]:
        with self.real.open(path, limit) as file:
            yield file

    def has(self, path: str) -> bool:
        return self.lies.get(path, b"") is not None and self.real.has(path)


@pytest.fixture
def registry(tmp_path: Path, make_package: MakePackage) -> FolderRegistry:
    registry = make_signed(tmp_path)
    publish(registry, make_package("digits", "1.0"))
    publish(registry, make_package("taus", "1.0"))
    return registry


def publish(registry: FolderRegistry, package: Any) -> None:
    registry.publish(package.entry, package.blobs)


@pytest.fixture
def hostile(registry: FolderRegistry) -> HostileFiles:
    return HostileFiles(real=registry.files)


@pytest.fixture
def reader(tmp_path: Path, registry: FolderRegistry, hostile: HostileFiles) -> SignedIndex:
    """A reader that has pinned the root."""
    root = (registry.root / "metadata/1.root.json").read_bytes()
    return SignedIndex(hostile, Anchor(folder=tmp_path / "reader", root=root), registry.config.sha256)


def snapshot_of(root: Path) -> dict[str, bytes]:
    paths = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".part")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def metadata(registry: FolderRegistry, role: str) -> str:
    """The path of the current metadata of a role."""
    timestamp = json.loads((registry.root / "metadata/timestamp.json").read_bytes())
    version = timestamp["signed"]["meta"]["snapshot.json"]["version"]
    if role != "snapshot":
        snapshot = json.loads((registry.root / f"metadata/{version}.snapshot.json").read_bytes())
        version = snapshot["signed"]["meta"][f"{role}.json"]["version"]
    return f"metadata/{version}.{role}.json"


def hashed(registry: FolderRegistry, path: str) -> str:
    """The path of the current content of a target."""
    index = registry.index
    assert isinstance(index, SignedIndex)
    from tfaot_pkg.registry.trust.state import SignedState

    info = SignedState.load(registry.files, index.bootstrap()).target(path)
    assert info is not None
    folder, _, name = path.rpartition("/")
    return f"{folder}/{info.hashes['sha256']}.{name}"


def test_an_honest_registry_is_read(reader: SignedIndex) -> None:
    data = reader.read(DIGITS)
    assert data is not None and json.loads(data)["version"] == "1.0"
    assert reader.read("index/no/ne/tfaot-model-none") is None


def test_a_rollback_is_refused(
    registry: FolderRegistry, hostile: HostileFiles, reader: SignedIndex, make_package: MakePackage
) -> None:
    old = (registry.root / "metadata/timestamp.json").read_bytes()
    publish(registry, make_package("digits", "2.0"))
    reader.refresh()
    hostile.lies["metadata/timestamp.json"] = old
    with reported(TrustError) as refused:
        reader.refresh()
    assert refused.value.exit_code == 18
    del hostile.lies["metadata/timestamp.json"]
    reader.refresh()


def test_a_publisher_does_not_build_upon_a_rolled_back_registry(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    old = (registry.root / "metadata/timestamp.json").read_bytes()
    publish(registry, make_package("digits", "2.0"))
    assert len(registry.entries("digits")) == 2
    (registry.root / "metadata/timestamp.json").write_bytes(old)
    with reported(TrustError):
        publish(registry, make_package("digits", "3.0"))


def test_a_state_that_has_expired_is_refused_and_the_clock_is_named(tmp_path: Path, make_package: MakePackage) -> None:
    frozen = make_signed(tmp_path, clock=clock_at(-8))  # timestamps last 7 days
    for use in (lambda: frozen.entries("digits"), lambda: frozen.search(""), frozen.names):
        with reported(TrustError):
            use()
    refresh(frozen)
    assert frozen.entries("digits") == ()


@pytest.mark.parametrize(
    ("role", "days"), [("root", -366), ("release", -366), ("snapshot", -31)], ids=["root", "release", "snapshot"]
)
def test_no_role_s_expiry_is_ignored(tmp_path: Path, role: str, days: float) -> None:
    lifetimes = {"root": 5000, "release": 5000, "snapshot": 5000, "timestamp": 5000}
    lifetimes[role] = -int(days) - 1
    old = make_signed(tmp_path, clock=clock_at(days), lifetimes=Lifetimes(days=lifetimes))
    with reported(TrustError):
        old.entries("digits")
    refresh(old)
    assert old.entries("digits") == () and old.names() == ()


def test_a_clock_that_is_far_behind_is_named(tmp_path: Path) -> None:
    ahead = make_signed(tmp_path, clock=clock_at(30))
    with reported(TrustError):
        ahead.entries("digits")


@pytest.mark.parametrize(
    "days",
    [-30, 400],
    ids=["behind", "ahead"],
)
def test_nobody_publishes_by_a_clock_that_readers_would_not_believe(
    tmp_path: Path, make_package: MakePackage, days: float
) -> None:
    registry = make_signed(tmp_path)
    before = snapshot_of(registry.root)
    with reported(TrustError):
        publish(replace(registry, clock=clock_at(days)), make_package("digits", "1.0"))
    assert not registry.entries("digits")
    assert {path: data for path, data in snapshot_of(registry.root).items() if path in before} == before


def test_a_state_that_was_signed_by_a_clock_ahead_is_mended_by_refresh_if_it_is_told_so(tmp_path: Path) -> None:
    ahead = replace(make_signed(tmp_path), clock=clock_at(30))
    refresh(ahead)
    mended = replace(ahead, clock=clock_at(0))
    with reported(TrustError):
        refresh(mended)
    refresh(mended, trust_clock=True)
    assert mended.entries("digits") == ()


SIGNINGS: dict[str, Callable[[FolderRegistry], object]] = {
    "refresh": refresh,
    "renew root": renew_root,
    "renew root, pending": lambda registry: renew_root(registry, pending=registry.root.parent / "pending"),
    "add a key": lambda registry: add_key(registry, "timestamp", NewKey()),
    "revoke a key": lambda registry: revoke_key(registry, "root", root_key(registry)),
    "threshold": lambda registry: set_threshold(registry, "root", 2),
    "deprecate": lambda registry: registry.deprecate("digits", Deprecation(reason="old")),
    "yank": lambda registry: registry.yank("digits", "1.0", ""),
    "channels": lambda registry: set_channels(registry, Channels()),
}


def root_key(registry: FolderRegistry) -> str:
    return next(key.keyid for key in list_keys(registry) if key.role == "root")


@pytest.mark.parametrize("name", SIGNINGS)
@pytest.mark.parametrize("days", [-400, -2])
def test_nothing_is_signed_by_a_clock_behind_the_last_signature(
    tmp_path: Path, make_package: MakePackage, name: str, days: float
) -> None:
    registry = make_signed(tmp_path, root_keys=2)
    publish(registry, make_package("digits", "1.0"))
    before = {path: data for path, data in snapshot_of(tmp_path).items() if not path.startswith("keys/")}
    with reported(TrustError):
        SIGNINGS[name](replace(registry, clock=clock_at(days)))
    after = {path: data for path, data in snapshot_of(tmp_path).items() if not path.startswith("keys/")}
    assert after == before
    assert [one.version for one in registry.entries("digits")] == ["1.0"]


def test_nothing_is_promoted_or_rolled_back_by_a_clock_behind(tmp_path: Path, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    publish(registry, make_package("digits", "1.0"))
    set_channels(registry, Channels.of(nights={"candidate": 1}))
    publish(registry, make_package("digits", "2.0"))
    behind = replace(registry, clock=clock_at(-2))
    before = snapshot_of(registry.root)
    for change in (
        lambda: promote(behind, ["digits"], "candidate"),
        lambda: promote_due(behind),
        lambda: rollback(behind, "digits", reason="wrong"),
        lambda: hold(behind, "digits", reason="wrong"),
    ):
        with reported(TrustError):
            change()
    assert snapshot_of(registry.root) == before


def test_no_publication_is_older_than_what_was_signed_before_it(tmp_path: Path, make_package: MakePackage) -> None:
    """Nights in a channel are counted from there."""
    registry = make_signed(tmp_path)
    signed = load_state(registry).signed_at
    package = make_package("digits", "1.0")
    done = replace(registry, clock=clock_at(-0.9)).publish(package.entry, package.blobs)
    assert signed is not None and utc(done.entry.published) >= signed


@pytest.mark.parametrize("name", ["refresh", "deprecate", "yank"])
def test_nothing_is_signed_by_a_clock_far_ahead_of_the_last_signature(
    tmp_path: Path, make_package: MakePackage, name: str
) -> None:
    registry = make_signed(tmp_path)
    publish(registry, make_package("digits", "1.0"))
    with reported(TrustError):
        SIGNINGS[name](replace(registry, clock=clock_at(60)))
    assert registry.entries("digits")[0].yanked is None
    refresh(replace(registry, clock=clock_at(60)), trust_clock=True)


def expiries(registry: FolderRegistry) -> dict[str, str]:
    state = load_state(registry)
    signed = {"root": state.root.signed, "timestamp": state.timestamp.signed, "snapshot": state.snapshot.signed}
    return {name: one.expires.isoformat() for name, one in signed.items()}


@pytest.mark.parametrize("name", ["refresh", "renew root", "add a key"])
def test_a_clock_that_is_a_little_behind_makes_nothing_expire_earlier(tmp_path: Path, name: str) -> None:
    registry = make_signed(tmp_path, lifetimes=Lifetimes.parse(["timestamp=1", "snapshot=1"]))
    before = expiries(registry)
    SIGNINGS[name](replace(registry, clock=clock_at(-0.9)))
    after = expiries(registry)
    assert all(after[role] >= before[role] for role in before)
    assert registry.names() == ()


def test_a_rotation_that_was_made_by_a_clock_behind_is_not_applied(tmp_path: Path) -> None:
    registry, file = make_signed(tmp_path), tmp_path / "pending"
    state = load_state(registry)
    change = KeyChange(role="timestamp", threshold=1)
    for days in (400, 100):
        rotation = Rotation.of(state.root, change, datetime.now(timezone.utc) - timedelta(days=days))
        (step,) = rotation.steps
        step.signed.expires = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=365 - days)
        file.write_bytes(rotation.signed_by(registry.keys.root_signers()).to_bytes())
        with reported(TrustError):
            apply_pending(registry, file)
    assert registry.root_version == 1


def test_an_old_snapshot_under_a_new_timestamp_is_refused(
    registry: FolderRegistry, hostile: HostileFiles, reader: SignedIndex, make_package: MakePackage
) -> None:
    old = registry.files.get(metadata(registry, "snapshot"), 10**6)
    publish(registry, make_package("digits", "2.0"))
    hostile.lies[metadata(registry, "snapshot")] = old
    with reported(TrustError):
        reader.refresh()


@pytest.mark.parametrize("role", ["bin-0", "bin-1", "search", "packages", "targets"])
def test_metadata_of_another_time_is_refused(
    registry: FolderRegistry, hostile: HostileFiles, reader: SignedIndex, role: str
) -> None:
    """Mix and match: everything is signed, but not together."""
    old = registry.files.get(metadata(registry, role), 10**6)
    add_key(registry, "release", NewKey())  # makes all of them anew
    assert registry.files.get(metadata(registry, role), 10**6) != old
    hostile.lies[metadata(registry, role)] = old
    with reported(TrustError):
        reader.read(DIGITS), reader.read("index/ta/us/tfaot-model-taus"), reader.search_shards()


@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets", "packages", "search", "bin-0", "bin-1"])
def test_another_signer_is_refused(
    *, tmp_path: Path, registry: FolderRegistry, hostile: HostileFiles, reader: SignedIndex, role: str
) -> None:
    stranger = make_signed(tmp_path / "stranger")
    path = "metadata/timestamp.json" if role == "timestamp" else metadata(registry, role)
    theirs = path if role == "timestamp" else metadata(stranger, role)
    hostile.lies[path] = stranger.files.get(theirs, 10**6)
    with reported(TrustError):
        reader.read(DIGITS), reader.read("index/ta/us/tfaot-model-taus"), reader.search_shards()


def test_a_registry_made_anew_is_refused_by_those_who_pinned_the_old_root(
    tmp_path: Path, registry: FolderRegistry, make_package: MakePackage
) -> None:
    root = registry.files.get("metadata/1.root.json", 10**6)
    shutil.rmtree(registry.root)
    shutil.rmtree(tmp_path / "keys")
    shutil.rmtree(tmp_path / "trust")
    publish(make_signed(tmp_path), make_package("digits", "6.6.6"))
    pinned = FolderRegistry.open(registry.root, anchor=Anchor(folder=tmp_path / "reader", root=root))
    with reported(TrustError):
        pinned.entries("digits")


def test_a_root_that_was_seen_first_is_remembered(tmp_path: Path, registry: FolderRegistry) -> None:
    assert registry.names()
    shutil.rmtree(registry.root)
    shutil.rmtree(tmp_path / "keys")
    make_signed(tmp_path)
    with reported(TrustError):
        open_signed(tmp_path).names()


def test_a_root_that_the_old_one_did_not_sign_is_refused(
    tmp_path: Path, registry: FolderRegistry, hostile: HostileFiles, reader: SignedIndex
) -> None:
    stranger = make_signed(tmp_path / "stranger")
    add_key(stranger, "timestamp", NewKey())
    hostile.lies["metadata/2.root.json"] = stranger.files.get("metadata/2.root.json", 10**6)
    with reported(TrustError):
        reader.refresh()


@pytest.mark.parametrize("role", ["root", "timestamp", "snapshot", "bin", "index"])
def test_endless_data_is_cut_off(
    registry: FolderRegistry, hostile: HostileFiles, reader: SignedIndex, role: str
) -> None:
    path = {
        "root": "metadata/2.root.json",
        "timestamp": "metadata/timestamp.json",
        "snapshot": metadata(registry, "snapshot"),
        "bin": metadata(registry, "bin-0"),
        "index": hashed(registry, DIGITS),
    }[role]
    real = HostileFiles(real=registry.files)
    hostile.lies[path] = b"\0" * (20 << 20)
    with reported(TrustError):
        reader.read(DIGITS), reader.read("index/ta/us/tfaot-model-taus")
    assert real.lies == {}


def read_blob(folder: Path) -> bytes:
    reader = open_signed(folder, trust="other")
    with reader.open_blob(reader.resolve("digits").blobs["prefix"]) as file:
        return file.read()


@pytest.mark.parametrize("path", ["metadata/timestamp.json", "config.json", DIGITS, "blob"])
def test_a_file_of_a_gigabyte_is_not_read(tmp_path: Path, registry: FolderRegistry, path: str) -> None:
    blob = registry.resolve("digits").blobs["prefix"]
    path = {DIGITS: hashed(registry, DIGITS), "blob": f"blobs/sha256/{blob.sha256[:2]}/{blob.sha256[2:]}"}.get(
        path, path
    )
    os.chmod(registry.root / path, 0o644)
    with (registry.root / path).open("wb") as file:
        file.truncate(1 << 30)  # of zeros
    with reported(TrustError):
        read_blob(tmp_path)


def test_a_device_that_never_ends_is_cut_off(registry: FolderRegistry) -> None:
    (registry.root / "metadata/timestamp.json").unlink()
    (registry.root / "metadata/timestamp.json").symlink_to("/dev/zero")
    with reported(TrustError):
        registry.names()


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-7], lambda _: b"", lambda data: data.replace(b"1", b"2"), lambda _: None]
)
@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets", "packages", "bin", "index"])
def test_a_changed_or_missing_file_is_refused(
    *, registry: FolderRegistry, hostile: HostileFiles, reader: SignedIndex, role: str, damage: Any
) -> None:
    from tfaot_pkg.registry.trust.state import SignedState

    index = registry.index
    assert isinstance(index, SignedIndex)
    bin_ = SignedState.load(registry.files, index.bootstrap()).role_for(DIGITS)
    path = {
        "timestamp": "metadata/timestamp.json",
        "bin": metadata(registry, bin_),
        "index": hashed(registry, DIGITS),
    }.get(role) or metadata(registry, role)
    real = registry.files.get(path, 10**6)
    hostile.lies[path] = damage(real)
    assert hostile.lies[path] != real
    with reported(TrustError):
        reader.read(DIGITS)
    hostile.lies.clear()
    assert reader.read(DIGITS)


def test_a_tampered_blob_and_a_missing_one_are_not_given(registry: FolderRegistry) -> None:
    blob = registry.resolve("digits").blobs["prefix"]
    path = registry.blob_file(blob)
    path.chmod(0o644)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with reported(TrustError), registry.open_blob(blob):
        pytest.fail("given")
    path.unlink()
    with reported(RegistryError), registry.open_blob(blob):
        pytest.fail("given")


def test_a_registry_that_says_that_it_is_unsigned_all_at_once_is_refused(
    tmp_path: Path, registry: FolderRegistry
) -> None:
    (registry.root / "config.json").write_text('{"format":1}')
    with reported(TrustError):
        open_signed(tmp_path)
    shutil.rmtree(registry.root / "metadata")
    with reported(TrustError):
        open_signed(tmp_path)  # because its root was seen before
    with reported(TrustError):
        FolderRegistry.open(registry.root, anchor=Anchor(folder=tmp_path / "new", root=b"pinned"))


def test_what_a_killed_reader_left_does_not_matter(tmp_path: Path, registry: FolderRegistry) -> None:
    assert registry.names()
    trust = tmp_path / "trust"
    (trust / "root.json").unlink()
    (trust / "timestamp.json").write_bytes(b'{"signed": {"_type": "time')
    (trust / "snapshot.json").write_bytes(b"")
    (trust / "tmpxyz").write_bytes(b"half")
    assert open_signed(tmp_path).names() == ("tfaot-model-digits", "tfaot-model-taus")


def test_a_cache_that_cannot_be_written_is_a_clear_error(tmp_path: Path, registry: FolderRegistry) -> None:
    (tmp_path / "file").write_bytes(b"")
    with reported(StorageError):
        open_signed(tmp_path, trust="file/trust").names()


def test_a_reader_reads_one_state_until_it_asks_for_the_newest(
    tmp_path: Path, registry: FolderRegistry, make_package: MakePackage
) -> None:
    reader = open_signed(tmp_path, trust="reader")
    assert len(reader.entries("digits")) == 1
    publish(registry, make_package("digits", "2.0"))
    assert len(reader.entries("digits")) == 1
    reader.index.forget()
    assert len(reader.entries("digits")) == 2
