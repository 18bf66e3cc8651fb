"""Who may sign a registry: keys and thresholds, changed at once, or in a file that others sign first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.registry.commit import Keys, SignedCommit, write
from tfaot_pkg.registry.signing import load_state, require_signed
from tfaot_pkg.registry.trust.keys import (
    KEYS,
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
    public_key,
)
from tfaot_pkg.registry.trust.revision import NewFile, Revision, Signers
from tfaot_pkg.registry.trust.roles import tuf_role
from tfaot_pkg.registry.trust.rotation import LIMIT, KeyChange, Rotation
from tfaot_pkg.registry.trust.state import SignedState
from tfaot_pkg.registry.writable import WritableRegistry

if TYPE_CHECKING:
    from securesystemslib.signer import Key
    from tuf.api.metadata import Root


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKey:
    """A key that root trusts for a role; `at_hand` says whether its private half can be used here."""

    role: str
    keyid: str
    scheme: str
    threshold: int
    at_hand: bool


def list_keys(registry: WritableRegistry) -> tuple[TrustedKey, ...]:
    """The keys that the registry trusts, by role. Raises TrustError."""
    root = load_state(registry).root.signed
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
        for one in [root.roles[tuf_role(role)]]
        for keyid in one.keyids
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysChanged:
    """The result of a key rotation: `keyid` is the key added or dropped, `pending` the file to be signed."""

    rotation: Rotation
    keyid: str = ""
    pending: Path | None = None

    @property
    def lacking(self) -> str:
        """Which signatures are still needed, empty if none is."""
        return self.rotation.lacking()

    def as_dict(self) -> dict[str, object]:
        return {
            "changes": list(self.rotation.description()),
            "digest": self.rotation.digest,
            "keyid": self.keyid,
            "pending": str(self.pending) if self.pending else None,
            "lacking": self.lacking,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """Which key to add: that of `uri` (securesystemslib's), the `public` half of someone else's, or a new one."""

    uri: str | None = None
    public: Path | None = None
    passphrase: Callable[[], str | None] = lambda: None


def add_key(
    registry: WritableRegistry, role: str, new: NewKey, *, threshold: int | None = None, pending: Path | None = None
) -> KeysChanged:
    """Trust one more key for `role`; a new one goes to the first key folder. Needs the root keys.

    `threshold` is how many keys of the role must sign from now on. With `pending` nothing takes effect yet: the
    rotation is written there, for `sign_pending` and `apply_pending`. Raises TrustError, RegistryError, StorageError.
    """
    with registry.writing() as commit:
        signed = require_signed(registry, commit)
        state, now = signed.state, signed.now(neglected=True)
        key, ring, made = _key_to_add(registry.keys, role, new)
        if key.keyid in state.root.signed.roles[tuf_role(role)].keyids:
            raise RegistryError(f"{key.keyid[:12]} is a {role} key already", hint="registry keys list shows them all")
        keys = replace(registry.keys, rings=(ring, *registry.keys.rings[1:])) if ring else registry.keys
        try:
            change = KeyChange(role=role, add=key, threshold=threshold)
            files, done = _prepared(state, change, keys, now, pending)
        except BaseException:
            # No root trusts the new key, and its file would keep the name taken.
            for path in made:
                path.unlink(missing_ok=True)
            raise
        # Before root names the key: a registry must never depend on a key that nobody has recorded.
        if ring:
            ring.save()
        write(registry.files, files)
    return done


def _key_to_add(keys: Keys, role: str, new: NewKey) -> tuple[Key, KeyRing | None, list[Path]]:
    """The key, the first key folder's ring with it if it will hold the key, and the files that were made for it."""
    if new.public:
        return public_key(new.public), None, []
    if not keys.rings:
        raise TrustError("no key folder was given", hint=KEYS_HINT)
    ring = keys.rings[0]
    if new.uri:
        record = import_key(role, new.uri)
        return record.key, ring.with_record(record), []
    record = make_key(role, ring.folder, ring.free_name(role), new.passphrase())
    private = ring.folder / record.uri.partition(":")[2]
    return record.key, ring.with_record(record), [private, private.with_suffix(".pub")]


def revoke_key(
    registry: WritableRegistry, role: str, keyid: str, *, threshold: int | None = None, pending: Path | None = None
) -> KeysChanged:
    """Stop trusting the key of `role` whose id begins with `keyid`. Needs the root keys.

    First everything that it may have signed is signed by the others, then root drops it. As `add_key`; raises
    RegistryError for a key that is unknown, or that the threshold needs.
    """
    with registry.writing() as commit:
        signed = require_signed(registry, commit)
        whole = _find(signed.state.root.signed, role, keyid)
        return _change(registry, signed, KeyChange(role=role, drop=whole, threshold=threshold), pending)


def set_threshold(registry: WritableRegistry, role: str, threshold: int, *, pending: Path | None = None) -> KeysChanged:
    """`threshold` keys of `role` must sign from now on. Needs the root keys. As `add_key`."""
    with registry.writing() as commit:
        signed = require_signed(registry, commit)
        return _change(registry, signed, KeyChange(role=role, threshold=threshold), pending)


def renew_root(registry: WritableRegistry, *, pending: Path | None = None) -> KeysChanged:
    """Sign root again as it is, with a later expiry. Needs the root keys. As `add_key`."""
    return set_threshold(registry, ROOT, load_state(registry).root.signed.roles[ROOT].threshold, pending=pending)


def _change(registry: WritableRegistry, commit: SignedCommit, change: KeyChange, pending: Path | None) -> KeysChanged:
    files, done = _prepared(commit.state, change, registry.keys, commit.now(neglected=True), pending)
    write(registry.files, files)
    return done


def _prepared(
    state: SignedState, change: KeyChange, keys: Keys, now: datetime, pending: Path | None
) -> tuple[list[NewFile], KeysChanged]:
    """Sign everything, and write only the pending file: if a key is missing, nothing changes."""
    rotation = Rotation.of(state.root, change, now).signed_by(keys.root_signers())
    done = KeysChanged(rotation=rotation, keyid=change.add.keyid if change.add else change.drop, pending=pending)
    if pending is not None:
        with storage_errors(f"write {pending}"):
            write_file(pending, rotation.to_bytes())
        return [], done
    rotation.require_signed()
    return _files(state, rotation, keys, now), done


def _files(state: SignedState, rotation: Rotation, keys: Keys, now: datetime) -> list[NewFile]:
    """The new roots, and before, between or after them what other roles sign again, in the order of writing."""
    roots = rotation.files()
    roles: tuple[str, ...] = (RELEASE, SNAPSHOT, TIMESTAMP)
    changed = [role for role in roles if rotation.takes(role) or (role == RELEASE and rotation.changes(role))]
    if not changed:
        return roots
    # A snapshot names the versions of roles, and the timestamp that of the snapshot: all that follow change too.
    roles = roles[roles.index(changed[0]) :]
    revision = Revision(state)
    if RELEASE in changed:
        revision.set_release_keys(rotation.final)
    signers = Signers.of(rotation.final, keys.rings, roles, location=state.files.location)
    signed = revision.files(signers, now, snapshot=roles[0] != TIMESTAMP)
    # Every state in between must verify: trust is given before it is used, and taken away when nothing needs it.
    return [*signed, *roots] if rotation.takes_first else [*roots[:1], *signed, *roots[1:]]


def _find(root: Root, role: str, keyid: str) -> str:
    found = [one for one in root.roles[tuf_role(role)].keyids if one.startswith(keyid)]
    if len(found) != 1 or not keyid:
        raise RegistryError(
            f"{keyid!r} matches {'no key' if not found else 'more than one key'} of {role}",
            hint="registry keys list shows the keys",
        )
    return found[0]


def sign_pending(file: Path, keys: Keys) -> KeysChanged:
    """Add the signatures of the root keys in `keys` to a pending rotation. Needs no registry. Raises TrustError."""
    before = read_pending(file)
    signed = before.signed_by(keys.root_signers())
    if signed.to_bytes() == before.to_bytes():
        raise TrustError(
            f"none of the keys given is a root key, before or after the rotation in {file}, that has not signed yet",
            hint=KEYS_HINT,
        )
    with storage_errors(f"write {file}"):
        write_file(file, signed.to_bytes())
    return KeysChanged(rotation=signed, pending=file)


def read_pending(file: Path) -> Rotation:
    """The pending rotation in `file`. Raises TrustError, StorageError."""
    with storage_errors(f"read {file}"), file.open("rb") as opened:
        # A longer file is cut off, and then rejected as damaged.
        return Rotation.parse(opened.read(LIMIT), str(file))


def apply_pending(registry: WritableRegistry, file: Path) -> KeysChanged:
    """Apply a pending rotation that enough root keys have signed; the registry's other keys sign the other metadata.

    Signatures are checked against the root that the registry has now. Raises TrustError, StorageError.
    """
    given = read_pending(file)
    with registry.writing() as commit:
        signed = require_signed(registry, commit)
        state, now = signed.state, signed.now(neglected=True)
        # Nothing in the file is trusted: signatures are checked against the root that the registry has now.
        rotation = given.upon(state.root)
        rotation.require_signed()
        rotation.require_current(now)
        write(registry.files, _files(state, rotation, registry.keys, now))
    return KeysChanged(rotation=rotation)


def new_key(role: str, folder: Path, passphrase: Callable[[], str | None], secrets: Secrets) -> tuple[KeyRecord, Path]:
    """A new key for `role` in `folder`, which is made if need be, and the file of its public half. No registry knows it
    yet. Raises TrustError, StorageError.
    """
    folder = folder.absolute()
    known = (folder / KEYS).exists()
    ring = KeyRing.open(folder, secrets) if known else KeyRing(folder=folder, records=(), secrets=secrets)
    record = make_key(role, folder, ring.free_name(role), passphrase())
    ring.with_record(record).save()
    return record, (folder / record.uri.partition(":")[2]).with_suffix(".pub")
