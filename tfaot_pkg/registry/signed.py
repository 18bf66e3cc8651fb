"""Keeping a signed registry: making one, re-signing what grows old, adding and revoking keys.

Everything is written so that a reader at any moment finds a state that verifies: a key signs only after the root that
names it is there, and is dropped from the root only after everything that it signed was signed by another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.keys import sha256_bytes
from tfaot_pkg.registry.commit import Keys, SignedCommit, write
from tfaot_pkg.registry.config import SEARCH, SIGNED, RegistryConfig
from tfaot_pkg.registry.files import FolderFiles
from tfaot_pkg.registry.folder import FolderRegistry, require_empty, utc_now
from tfaot_pkg.registry.layout import CONFIG, LOCK
from tfaot_pkg.storage import locked, make_folder, storage_errors
from tfaot_pkg.trust.client import SignedIndex
from tfaot_pkg.trust.keys import KEYS as KEYS_FILE
from tfaot_pkg.trust.keys import (
    KEYS_HINT,
    RELEASE,
    ROLES,
    ROOT,
    SNAPSHOT,
    TIMESTAMP,
    KeyRecord,
    KeyRing,
    Secrets,
    import_key,
    make_key,
)
from tfaot_pkg.trust.revision import Revision, Signers, first_root, first_state, new_root, release_keys, sign
from tfaot_pkg.trust.roles import BITS, METADATA, PACKAGES, TARGETS, Lifetimes, iso, metadata_path, utc
from tfaot_pkg.trust.roles import SEARCH as SEARCH_ROLE
from tfaot_pkg.trust.state import SignedState

if TYPE_CHECKING:
    from securesystemslib.signer import Signer
    from tuf.api.metadata import Root


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
                f"{self.threshold} of {self.root_keys} root keys cannot be",
                hint="1 <= --threshold <= --root-keys <= 20",
            )
        if self.bits not in BITS:
            raise RegistryError(f"{self.bits} bits of bins", hint=f"--bins from {BITS[0]} to {BITS[-1]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized:
    """A registry that was made. `fingerprint` is the SHA-256 of its first root: what clients pin."""

    registry: Path
    keys: Path
    fingerprint: str
    expires: dict[str, str]

    def as_dict(self) -> dict[str, object]:
        return {
            "registry": str(self.registry),
            "keys": str(self.keys),
            "root": str(self.registry / metadata_path(ROOT, 1)),
            "fingerprint": self.fingerprint,
            "expires": self.expires,
        }


def initialize(
    root: Path,
    key_folder: Path,
    plan: Plan,
    *,
    passphrase: Callable[[], str | None],
    secrets: Secrets,
    clock: Callable[[], str] = utc_now,
) -> Initialized:
    """Make a signed, empty registry in `root` (missing or empty), with keys in `key_folder` (outside of it).

    Keys that are in `key_folder` already, from a run that was killed, are used. `config.json` is written last: without
    it nothing is a registry. Raises RegistryError, TrustError, StorageError.
    """
    plan.check()
    root, key_folder = root.absolute(), key_folder.absolute()
    if key_folder == root or root in key_folder.parents:
        raise RegistryError(
            f"the keys must not lie in the registry that they sign ({key_folder})",
            hint="name a folder elsewhere with --keys: what is in the registry may be read by everyone",
        )
    with storage_errors(f"make a registry in {root}"):
        _require_new(root)
        make_folder(root)
        with locked(root / LOCK, what=f"the registry {root}", timeout=60):
            ring = _ring(key_folder, plan, passphrase)
            return _write_first(root, ring, plan, secrets, utc(clock()))


def _require_new(root: Path) -> None:
    if (root / CONFIG).exists():
        raise RegistryError(f"{root} is a registry already", hint="name a new folder, or one that is empty")
    if root.exists() and {path.name for path in root.iterdir() if not path.name.startswith(".")} != {METADATA}:
        require_empty(root)


def _ring(folder: Path, plan: Plan, passphrase: Callable[[], str | None]) -> KeyRing:
    if (folder / KEYS_FILE).exists():
        ring = KeyRing.open(folder)
        if len(ring.of_role(ROOT)) == plan.root_keys and all(ring.of_role(role) for role in ROLES):
            return ring
        raise TrustError(f"the keys in {folder} are not what is asked for", hint="name a new folder with --keys")
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
    ring = KeyRing(folder=folder, records=tuple(records))
    ring.save()
    return ring


def _write_first(root: Path, ring: KeyRing, plan: Plan, secrets: Secrets, now: datetime) -> Initialized:
    keys = {role: [record.key for record in ring.of_role(role)] for role in ROLES}
    metadata = first_root(keys, plan.threshold, plan.lifetimes, now)
    signers = Signers.of(metadata.signed, [ring], secrets, ROLES, location=str(root))
    sign(metadata, signers.by_role[ROOT])
    files = first_state(metadata, signers, plan.bits, now)
    folder = FolderFiles(root=root)
    write(folder, files)
    folder.put(CONFIG, RegistryConfig(capabilities=(SEARCH, SIGNED)).to_bytes())
    return Initialized(
        registry=root,
        keys=ring.folder,
        fingerprint=sha256_bytes(files[0][1]),
        expires={role: iso(plan.lifetimes.expiry(role, now)) for role in ROLES},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """What was signed anew, when each role's signatures end, and what needs someone's attention."""

    signed: tuple[str, ...]
    expires: dict[str, str]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return {"signed": list(self.signed), "expires": self.expires, "notes": list(self.notes)}


def refresh(registry: FolderRegistry) -> Refreshed:
    """Sign the timestamp anew, and whatever else has less than a third of its lifetime left. For cron.

    What the keys at hand cannot sign, and is not urgent, is noted; where it has expired that is a TrustError.
    """
    with registry.writing() as commit:
        state, now = _signed(registry, commit).state, utc(registry.clock())
        undelegated = set(state.bins.keyids) != set(release_keys(state.root.signed))
        old = _all_roles(state) if undelegated else _old_roles(state, now)
        stale_snapshot = bool(old) or state.lifetimes.is_old(SNAPSHOT, state.snapshot.signed.expires, now)
        notes: list[str] = []
        roles = [TIMESTAMP]
        if stale_snapshot:
            roles.append(SNAPSHOT)
        signers, release_note = _signers_for(registry.keys, state, roles, old, now)
        notes += release_note
        if release_note:
            old = []
        revision = Revision(state)
        if undelegated and old:
            revision.set_release_keys(state.root.signed)  # `add_key` was killed before it did
        for name in old:
            revision.change(name)
        write(registry.files, revision.files(signers, now, snapshot=stale_snapshot))
        new_root_signed, root_notes = _refresh_root(registry, state, now)
        signed = [*old, *([SNAPSHOT] if stale_snapshot else []), TIMESTAMP, *new_root_signed]
        return Refreshed(signed=tuple(signed), expires=_expiries(registry), notes=(*notes, *root_notes))


def _all_roles(state: SignedState) -> list[str]:
    return [TARGETS, PACKAGES, SEARCH_ROLE, *state.bins.get_roles()]


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
        if soonest <= now:
            raise
        return keys.signers(state, roles), [f"{len(old)} files expire from {iso(soonest)} on and need a release key"]


def _refresh_root(registry: FolderRegistry, state: SignedState, now: datetime) -> tuple[list[str], list[str]]:
    expires = state.root.signed.expires
    if not state.lifetimes.is_old(ROOT, expires, now):
        return [], []
    try:
        signers = registry.keys.signers(state, [ROOT]).by_role[ROOT]
    except TrustError as error:
        if expires <= now:
            raise
        return [], [f"root expires at {iso(expires)}: run refresh with the root keys ({error.message})"]
    _, file = new_root(state.root, _as_it_is, now, signers)
    write(registry.files, [file])
    return [ROOT], []


def _as_it_is(root: Root) -> None: ...


def _expiries(registry: FolderRegistry) -> dict[str, str]:
    state = _load(registry)
    release = min(state.role(name).signed.expires for name in _all_roles(state))
    return {
        ROOT: iso(state.root.signed.expires),
        RELEASE: iso(release),
        SNAPSHOT: iso(state.snapshot.signed.expires),
        TIMESTAMP: iso(state.timestamp.signed.expires),
    }


def _load(registry: FolderRegistry) -> SignedState:
    index = _signed_index(registry)
    return SignedState.load(registry.files, index.bootstrap(), index.floor())


def _signed_index(registry: FolderRegistry) -> SignedIndex:
    if not isinstance(registry.index, SignedIndex):
        raise RegistryError(
            f"{registry.location} is not signed",
            hint="tfaot-pkg registry init DIR --keys FOLDER makes a signed registry",
        )
    return registry.index


def _signed(registry: FolderRegistry, commit: object) -> SignedCommit:
    _signed_index(registry)
    assert isinstance(commit, SignedCommit)
    return commit


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKey:
    """A key that root trusts for a role; `at_hand` says whether its private half can be used here."""

    role: str
    keyid: str
    scheme: str
    threshold: int
    at_hand: bool

    def as_dict(self) -> dict[str, object]:
        return {
            "role": self.role,
            "keyid": self.keyid,
            "scheme": self.scheme,
            "threshold": self.threshold,
            "at_hand": self.at_hand,
        }


def list_keys(registry: FolderRegistry) -> tuple[TrustedKey, ...]:
    """The keys that the registry trusts, by role. Raises TrustError."""
    root = _load(registry).root.signed
    here = {
        record.keyid
        for ring in registry.keys.rings
        for record in ring.records
        if not record.uri.startswith("file:") or (ring.folder / record.uri.removeprefix("file:")).exists()
    }
    return tuple(
        TrustedKey(
            role=role, keyid=keyid, scheme=root.keys[keyid].scheme, threshold=one.threshold, at_hand=keyid in here
        )
        for role in ROLES
        for one in [root.roles[_tuf(role)]]
        for keyid in one.keyids
    )


def _tuf(role: str) -> str:
    return TARGETS if role == RELEASE else role


def add_key(
    registry: FolderRegistry, role: str, *, uri: str | None, passphrase: Callable[[], str | None], threshold: int | None
) -> KeyRecord:
    """Trust one more key for `role`: a new one in the first key folder, or that of `uri`. Needs the root keys.

    `threshold` (root only) is how many root keys sign a root from now on. Raises TrustError, RegistryError.
    """
    if not registry.keys.rings:
        raise TrustError("no key folder was given", hint=KEYS_HINT)
    ring = registry.keys.rings[0]
    with registry.writing() as commit:
        state, now = _signed(registry, commit).state, utc(registry.clock())
        record = import_key(role, uri) if uri else make_key(role, ring.folder, _free_name(ring, role), passphrase())
        if record.keyid in state.root.signed.roles[_tuf(role)].keyids:
            raise RegistryError(
                f"{record.keyid[:12]} is a {role} key already", hint="registry keys list shows them all"
            )
        ring = ring.with_records([record])
        keys = replace(registry.keys, rings=(ring, *registry.keys.rings[1:]))

        def change(root: Root) -> None:
            root.add_key(record.key, _tuf(role))
            _set_threshold(root, role, threshold)

        try:
            _, root_file = new_root(state.root, change, now, _root_signers(keys))
        except TrustError:
            if uri is None:
                (ring.folder / record.uri.partition(":")[2]).unlink(missing_ok=True)
            raise
        ring.save()
        write(registry.files, [root_file])
        if role == RELEASE:
            _delegate(registry, keys, now)
    return record


def revoke_key(registry: FolderRegistry, role: str, keyid: str, *, threshold: int | None = None) -> str:
    """Trust the key of `role` whose id begins with `keyid` no more; gives its whole id. Needs the root keys.

    First everything that it may have signed is signed by the others, then root drops it. Raises TrustError,
    RegistryError (unknown, or the last one that the threshold needs).
    """
    with registry.writing() as commit:
        state, now = _signed(registry, commit).state, utc(registry.clock())
        whole = _find(state.root.signed, role, keyid)
        _require_enough(state.root.signed, role, threshold)

        def change(root: Root) -> None:
            root.revoke_key(whole, _tuf(role))
            _set_threshold(root, role, threshold)

        # Signed but not yet written: nothing changes where the root keys are too few.
        _, root_file = new_root(state.root, change, now, _root_signers(registry.keys))
        if role != ROOT:
            _resign_without(registry, state, role, whole, now)
        write(registry.files, [root_file])
    return whole


def _find(root: Root, role: str, keyid: str) -> str:
    found = [one for one in root.roles[_tuf(role)].keyids if one.startswith(keyid)]
    if len(found) != 1 or not keyid:
        raise RegistryError(
            f"{keyid!r} is {'no key' if not found else 'more than one key'} of {role}",
            hint="registry keys list shows the keys",
        )
    return found[0]


def _require_enough(root: Root, role: str, threshold: int | None) -> None:
    trusted = root.roles[_tuf(role)]
    if len(trusted.keyids) - 1 < (threshold or trusted.threshold):
        raise RegistryError(
            f"{role} has {len(trusted.keyids)} keys and needs {threshold or trusted.threshold}",
            hint=f"add another key first: tfaot-pkg registry keys add {role}",
        )


def _set_threshold(root: Root, role: str, threshold: int | None) -> None:
    if threshold is None:
        return
    if role != ROOT or not 1 <= threshold <= len(root.roles[ROOT].keyids):
        raise RegistryError(f"a threshold of {threshold} for {role} cannot be", hint="root alone has one above 1")
    root.roles[ROOT].threshold = threshold


def _root_signers(keys: Keys) -> list[Signer]:
    """All signers for root keys in the key folders, old and new ones."""
    records = [record for ring in keys.rings for record in ring.of_role(ROOT)]
    return [s for ring in keys.rings for s in ring.signers([record.keyid for record in records], keys.secrets)]


def _delegate(registry: FolderRegistry, keys: Keys, now: datetime) -> None:
    """Let bins and search trust the release keys of the newest root. A release key of before signs that."""
    state = _load(registry)
    signers = keys.signers(state, (RELEASE, SNAPSHOT, TIMESTAMP))
    revision = Revision(state)
    revision.set_release_keys(state.root.signed)
    write(registry.files, revision.files(signers, now))


def _resign_without(registry: FolderRegistry, state: SignedState, role: str, keyid: str, now: datetime) -> None:
    """Sign all that the key may have signed by the others, which the present root trusts as well."""
    roles = {RELEASE: (RELEASE, SNAPSHOT, TIMESTAMP), SNAPSHOT: (SNAPSHOT, TIMESTAMP), TIMESTAMP: (TIMESTAMP,)}[role]
    signers = registry.keys.signers(state, roles).without(keyid)
    if not signers.by_role[role]:
        raise TrustError(f"none of the other {role} keys is at hand to sign in place of {keyid[:12]}", hint=KEYS_HINT)
    revision = Revision(state)
    if role == RELEASE:
        revision.set_release_keys(state.root.signed, without=keyid)
    write(registry.files, revision.files(signers, now, snapshot=role != TIMESTAMP))


def _free_name(ring: KeyRing, role: str) -> str:
    """A name for a new key's file; those of keys that were moved elsewhere stay taken."""
    taken = {record.uri for record in ring.records} | {f"file:{path.name}" for path in ring.folder.glob("*.pem")}
    return next(name for number in range(1, 1000) if f"file:{(name := f'{role}-{number}')}.pem" not in taken)


def open_keys(folders: Sequence[Path], secrets: Secrets) -> Keys:
    """The keys in `folders`. Raises TrustError."""
    return Keys(rings=tuple(KeyRing.open(folder) for folder in folders), secrets=secrets)
