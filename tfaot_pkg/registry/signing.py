"""Making a signed registry, and signing again what expires.

A reader must find a state that verifies at any moment. So a key signs only after the root that names it is there, and
leaves the root only after everything that it signed was signed by another.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.documents import iso, utc, utc_now
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.storage import locked, make_folder, storage_errors
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.registry.bucket import BucketStorage
from tfaot_pkg.registry.commit import Keys, SignedCommit, write, write_new
from tfaot_pkg.registry.files.layout import CONFIG, LOCK
from tfaot_pkg.registry.folder import require_empty
from tfaot_pkg.registry.places import Place, require_nothing
from tfaot_pkg.registry.static import SEARCHABLE, SIGNED, RegistryConfig
from tfaot_pkg.registry.storage import FolderStorage, Storage
from tfaot_pkg.registry.trust.client import SignedIndex
from tfaot_pkg.registry.trust.keys import KEYS as KEYS_FILE
from tfaot_pkg.registry.trust.keys import (
    RELEASE,
    ROLES,
    ROOT,
    SNAPSHOT,
    TIMESTAMP,
    KeyRing,
    Secrets,
    import_key,
    make_key,
)
from tfaot_pkg.registry.trust.revision import Revision, Signers, first_root, first_state, sign
from tfaot_pkg.registry.trust.roles import BITS, METADATA, PACKAGES, SEARCH, TARGETS, Lifetimes, metadata_path
from tfaot_pkg.registry.trust.rotation import KeyChange, Rotation
from tfaot_pkg.registry.trust.state import SignedState
from tfaot_pkg.registry.writable import WritableRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a new registry is to be signed. `uris` names keys that exist already, by role (securesystemslib's URIs)."""

    root_keys: int = 1
    threshold: int = 1
    bits: int = 8
    lifetimes: Lifetimes = Lifetimes()  # noqa: RUF009 (immutable)
    uris: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        """Raises RegistryError."""
        if not 1 <= self.threshold <= self.root_keys <= 20:
            raise RegistryError(
                f"a threshold of {self.threshold} with {counted(self.root_keys, 'root key')} is not possible",
                hint="1 <= --threshold <= --root-keys <= 20",
            )
        if self.bits not in BITS:
            raise RegistryError(
                f"{self.bits} bits of bins are not possible", hint=f"--bins from {BITS[0]} to {BITS[-1]}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized:
    """A registry that was made. `fingerprint` is the SHA-256 of its first root: what clients pin."""

    registry: str
    keys: Path
    fingerprint: str
    expires: dict[str, str]

    def as_dict(self) -> dict[str, object]:
        return {
            "registry": self.registry,
            "keys": str(self.keys),
            "root": f"{self.registry}/{metadata_path(ROOT, 1)}",
            "fingerprint": self.fingerprint,
            "expires": self.expires,
        }


def initialize(
    place: Place,
    key_folder: Path,
    plan: Plan,
    *,
    passphrase: Callable[[], str | None],
    secrets: Secrets,
    clock: Callable[[], str] = utc_now,
) -> Initialized:
    """Make a signed, empty registry at `place` (missing or empty), with keys in `key_folder` (outside of it).

    Keys that are in `key_folder` already, from a run that was killed, are used. `config.json` is written last: without
    it nothing is a registry. Raises RegistryError, TrustError, StorageError.
    """
    plan.check()
    key_folder = key_folder.absolute()
    if not isinstance(place, Path):
        files = BucketStorage.at(place)
        with files.changing(_LOCK_TIMEOUT):
            _require_new_prefix(files)
            return _write_first(files, _ring(key_folder, plan, passphrase, secrets), plan, utc(clock()))
    root = place.absolute()
    if key_folder == root or root in key_folder.parents:
        raise RegistryError(
            f"the keys must not be in the registry that they sign ({key_folder})",
            hint="name a folder elsewhere with --keys: what is in the registry may be read by everyone",
        )
    with storage_errors(f"make a registry in {root}"):
        _require_new(root)
        with _nothing_left_behind(root), locked(root / LOCK, what=f"the registry {root}", timeout=_LOCK_TIMEOUT):
            ring = _ring(key_folder, plan, passphrase, secrets)
            return _write_first(FolderStorage(root=root), ring, plan, utc(clock()))


_LOCK_TIMEOUT = 60


@contextmanager
def _nothing_left_behind(root: Path) -> Iterator[None]:
    """Make `root`; if the block fails, all that it made there is removed again. What was there before stays."""
    made = [folder for folder in (root, *root.parents) if not folder.exists()]
    before = set(root.iterdir()) if root.exists() else set()
    make_folder(root)
    try:
        yield
    # Also after Ctrl-C: half a registry must not stay.
    except BaseException:
        for path in set(root.iterdir()) - before:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        with suppress(OSError):  # someone else put something there
            for folder in made:
                folder.rmdir()
        raise


def _require_new(root: Path) -> None:
    if (root / CONFIG).exists():
        raise RegistryError(f"{root} is a registry already", hint="name a new folder, or one that is empty")
    # `metadata` alone is what a killed run leaves: `config.json` is written last.
    if root.exists() and {path.name for path in root.iterdir() if not path.name.startswith(".")} != {METADATA}:
        require_empty(root)


def _require_new_prefix(files: BucketStorage) -> None:
    if files.has(CONFIG):
        raise RegistryError(f"{files.location} is a registry already", hint="name a new prefix, or one that is empty")
    require_nothing(files, but=METADATA)
    # What a killed run left is looked at, so that it may be replaced.
    for _ in files.items(METADATA):
        pass


def _ring(folder: Path, plan: Plan, passphrase: Callable[[], str | None], secrets: Secrets) -> KeyRing:
    if (folder / KEYS_FILE).exists():
        ring = KeyRing.open(folder, secrets)
        if len(ring.of_role(ROOT)) == plan.root_keys and all(ring.of_role(role) for role in ROLES):
            return ring
        raise TrustError(f"the keys in {folder} do not match the requested ones", hint="name a new folder with --keys")
    given = dict(plan.uris)
    secret = passphrase()
    records = [import_key(role, uri) for role, uri in given.items()]
    for role in ROLES:
        for number in range(plan.root_keys if role == ROOT else 1):
            if role in given and number == 0:
                continue
            name = f"{role}-{number + 1}" if role == ROOT else role
            (folder / f"{name}.pem").unlink(missing_ok=True)  # a killed run's: nothing says that it exists
            records.append(make_key(role, folder, name, secret))
    ring = KeyRing(folder=folder, records=tuple(records), secrets=secrets)
    # Last: a run that is killed before leaves no keys.json, and the next one makes all keys again.
    ring.save()
    return ring


def _write_first(files: Storage, ring: KeyRing, plan: Plan, now: datetime) -> Initialized:
    keys = {role: [record.key for record in ring.of_role(role)] for role in ROLES}
    metadata = first_root(keys, plan.threshold, plan.lifetimes, now)
    signers = Signers.of(metadata.signed, [ring], ROLES, location=files.location)
    sign(metadata, signers.by_role[ROOT])
    config = RegistryConfig(capabilities=(SEARCHABLE, SIGNED)).to_bytes()
    first = first_state(metadata, signers, config, plan.bits, now)
    write(files, first)
    # Last: without it nobody takes the place for a registry.
    files.put(CONFIG, config)
    return Initialized(
        registry=files.location,
        keys=ring.folder,
        fingerprint=sha256_bytes(first[0][1]),
        expires={role: iso(plan.lifetimes.expiry(role, now)) for role in ROLES},
    )


def load_state(registry: WritableRegistry) -> SignedState:
    """The signed state of the registry now. Raises RegistryError if it is not signed, TrustError, StorageError."""
    return _signed_index(registry).state()


def require_signed(registry: WritableRegistry, commit: object) -> SignedCommit:
    """The `commit` of a signed registry. Raises RegistryError if it is not signed."""
    _signed_index(registry)
    assert isinstance(commit, SignedCommit)
    return commit


def _signed_index(registry: WritableRegistry) -> SignedIndex:
    if not isinstance(registry.index, SignedIndex):
        raise RegistryError(
            f"{registry.location} is not signed",
            hint="tfaot-pkg registry init DIR --keys FOLDER makes a signed registry",
        )
    return registry.index


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """What was signed again, when each role's signatures end, and what needs someone's attention."""

    signed: tuple[str, ...]
    expires: dict[str, str]
    notes: tuple[str, ...]


def refresh(registry: WritableRegistry, *, trust_clock: bool = False) -> Refreshed:
    """Sign the timestamp again, and whatever else has less than a third of its lifetime left. For cron.

    What the given keys cannot sign is noted. `trust_clock`: this clock is right, whatever the last signatures say; they
    are replaced. Raises TrustError if the clock may be wrong, or what the keys cannot sign has expired already.
    """
    with registry.writing() as commit:
        change = require_signed(registry, commit)
        state, now = change.state, change.now(trust_clock=trust_clock)
        undelegated = _is_undelegated(state)
        old = _all_roles(state) if undelegated else _old_roles(state, now)
        # A snapshot names the versions of all roles, so new ones need a new snapshot.
        stale_snapshot = bool(old) or state.lifetimes.is_old(SNAPSHOT, state.snapshot.signed.expires, now)
        notes: list[str] = []
        roles = [TIMESTAMP]
        if stale_snapshot:
            roles.append(SNAPSHOT)
        signers, release_note = _signers_for(registry.keys, state, roles, old, now)
        notes += release_note
        # The timestamp expires first, so it is signed even if the release keys are elsewhere.
        if release_note:
            old = []
        revision = Revision(state)
        if undelegated and old:
            revision.set_release_keys(state.root.signed)  # a key rotation was killed before it did
        for name in old:
            revision.change(name)
        write_new(registry.files, lambda beyond: revision.files(signers, now, snapshot=stale_snapshot, beyond=beyond))
        # After all else: the keys of root are rarely on this machine.
        new_root_signed, root_notes = _refresh_root(registry, state, now)
        signed = [*old, *([SNAPSHOT] if stale_snapshot else []), TIMESTAMP, *new_root_signed]
        return Refreshed(signed=tuple(signed), expires=_expiries(registry), notes=(*notes, *root_notes))


def _is_undelegated(state: SignedState) -> bool:
    """Whether the bins name other release keys, or another threshold, than the root does."""
    release, bins = state.root.signed.roles[TARGETS], state.bins
    return set(bins.keyids) != set(release.keyids) or bins.threshold != release.threshold


def _all_roles(state: SignedState) -> list[str]:
    return [TARGETS, PACKAGES, SEARCH, *state.bins.get_roles()]


def _old_roles(state: SignedState, now: datetime) -> list[str]:
    return [name for name in _all_roles(state) if state.lifetimes.is_old(RELEASE, state.role(name).signed.expires, now)]


def _signers_for(
    keys: Keys, state: SignedState, roles: Sequence[str], old: Sequence[str], now: datetime
) -> tuple[Signers, list[str]]:
    if not old:
        return keys.signers(state, roles), []
    try:
        return keys.signers(state, [*roles, RELEASE]), []
    except TrustError:
        soonest = min(state.role(name).signed.expires for name in old)
        # Readers reject the registry already, so a note would not do.
        if soonest <= now:
            raise
        expiring = counted(len(old), "file")
        return keys.signers(state, roles), [f"a release key is needed: from {iso(soonest)} on, {expiring} will expire"]


def _refresh_root(registry: WritableRegistry, state: SignedState, now: datetime) -> tuple[list[str], list[str]]:
    expires = state.root.signed.expires
    if not state.lifetimes.is_old(ROOT, expires, now):
        return [], []
    try:
        signers = registry.keys.signers(state, [ROOT]).by_role[ROOT]
    except TrustError as error:
        if expires <= now:
            raise
        when = f"root expires at {iso(expires)}"
        return [], [f"{when}: run refresh with the root keys, or `registry keys renew` ({error.message})"]
    next_root = Rotation.of(state.root, KeyChange(role=ROOT), now).signed_by(signers)
    next_root.require_signed()
    write(registry.files, next_root.files())
    return [ROOT], []


def _expiries(registry: WritableRegistry) -> dict[str, str]:
    state = load_state(registry)
    release = min(state.role(name).signed.expires for name in _all_roles(state))
    return {
        ROOT: iso(state.root.signed.expires),
        RELEASE: iso(release),
        SNAPSHOT: iso(state.snapshot.signed.expires),
        TIMESTAMP: iso(state.timestamp.signed.expires),
    }
