"""A new signed state from the one before: which files to write, in which order. Values in, values out, no I/O.

The cost is O(1): a changed target rewrites itself, its bin (or `search`), the snapshot and the timestamp.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.documents import iso
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.registry.files.layout import CONFIG
from tfaot_pkg.registry.trust.keys import KEYS_HINT, RELEASE, ROOT, SNAPSHOT, TIMESTAMP, KeyRing
from tfaot_pkg.registry.trust.roles import (
    PACKAGES,
    SEARCH,
    SIGNED_AT,
    TARGETS,
    Lifetimes,
    bin_delegations,
    hashed_path,
    metadata_path,
    top_delegations,
    tuf_role,
)
from tfaot_pkg.registry.trust.state import SignedState

if TYPE_CHECKING:
    from securesystemslib.signer import Key, Signer
    from tuf.api.metadata import Metadata, Root, Targets

NewFile = tuple[str, bytes]
"""Path in the registry and content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signers:
    """Signers by the role whose keys they are (keys.ROLES)."""

    by_role: Mapping[str, Sequence[Signer]]

    @classmethod
    def of(cls, root: Root, rings: Sequence[KeyRing], roles: Iterable[str], *, location: str) -> Signers:
        """The signers that `root` trusts for `roles` and that `rings` hold. Raises TrustError if they are too few."""
        found: dict[str, list[Signer]] = {}
        for role in roles:
            trusted = root.roles[tuf_role(role)]
            # By key id: a key that is in two folders counts once towards the threshold.
            signers = {s.public_key.keyid: s for ring in rings for s in ring.signers(trusted.keyids)}
            if len(signers) < trusted.threshold:
                where = ", ".join(str(ring.folder) for ring in rings) or "no key folder was given"
                raise TrustError(
                    f"{location} is signed, and {trusted.threshold} of its {role} keys "
                    f"{'is' if trusted.threshold == 1 else 'are'} needed; found: {len(signers)} ({where})",
                    hint=KEYS_HINT + ("; --keys may be given several times" if trusted.threshold > 1 else ""),
                )
            found[role] = list(signers.values())
        return cls(by_role=found)


def to_bytes(metadata: Metadata[Any]) -> bytes:
    from tuf.api.serialization.json import JSONSerializer

    return metadata.to_bytes(JSONSerializer(compact=True)) + b"\n"


def copy_of(metadata: Metadata[Any]) -> Metadata[Any]:
    from tuf.api.metadata import Metadata

    # A deep copy, because `from_dict` destroys the dict that it is given.
    return Metadata[Any].from_dict(json.loads(json.dumps(metadata.to_dict())))


def sign(metadata: Metadata[Any], signers: Iterable[Signer]) -> bytes:
    """The file of `metadata` with the signatures of all of `signers`, and no others. Raises TrustError."""
    # Signatures of the previous content, or by revoked keys, must not stay.
    metadata.signatures.clear()
    add_signatures(metadata, signers)
    return to_bytes(metadata)


def add_signatures(metadata: Metadata[Any], signers: Iterable[Signer]) -> None:
    """Sign `metadata` with each of `signers`, beside the signatures that it has. Raises TrustError."""
    for signer in signers:
        try:
            metadata.sign(signer, append=True)
        except Exception as error:  # devices and services have errors of their own
            raise _cannot_sign(signer, error) from error


def signed_by(payload: bytes, signers: Iterable[Signer]) -> tuple[Mapping[str, Any], ...]:
    """A signature of `payload` by each of `signers`, in the form of TUF's metadata. Raises TrustError."""
    made = []
    for signer in signers:
        try:
            made.append(signer.sign(payload).to_dict())
        except Exception as error:  # devices and services have errors of their own
            raise _cannot_sign(signer, error) from error
    return tuple(made)


def _cannot_sign(signer: Signer, error: Exception) -> TrustError:
    return TrustError(
        f"the key {signer.public_key.keyid[:12]} cannot sign: {error.__cause__ or error}",
        hint="check that the device or service is available",
    )


def first_root(
    keys: Mapping[str, Sequence[Key]], threshold: int, lifetimes: Lifetimes, now: datetime
) -> Metadata[Root]:
    """Version 1 of root, not yet signed; `keys` by role."""
    from tuf.api.metadata import Metadata, Root

    root = Root(
        expires=lifetimes.expiry(ROOT, now), consistent_snapshot=True, unrecognized_fields=lifetimes.as_fields()
    )
    for role, some in keys.items():
        for key in some:
            root.add_key(key, tuf_role(role))
    root.roles[ROOT].threshold = threshold
    return Metadata(root)


def first_state(root: Metadata[Root], signers: Signers, config: bytes, bits: int, now: datetime) -> list[NewFile]:
    """All files of an empty registry that is signed, in the order of writing; `root` is signed already.

    `config` is the content of `config.json`, which is not among them.
    """
    from tuf.api.metadata import Metadata, MetaFile, Snapshot, TargetFile, Targets, Timestamp

    lifetimes = Lifetimes.from_fields(root.signed.unrecognized_fields)
    expires = lifetimes.expiry(RELEASE, now)
    bins = bin_delegations(root.signed, bits)
    assert bins.succinct_roles is not None
    contents = {
        TARGETS: Targets(
            expires=expires,
            targets={CONFIG: TargetFile.from_data(CONFIG, config, ["sha256"])},
            delegations=top_delegations(root.signed),
        ),
        PACKAGES: Targets(expires=expires, delegations=bins),
        SEARCH: Targets(expires=expires),
        **{name: Targets(expires=expires) for name in bins.succinct_roles.get_roles()},
    }
    # Each file is written before the one that names it; the timestamp comes last.
    files = [(metadata_path(ROOT, 1), to_bytes(root))]
    for name, content in contents.items():
        files.append((metadata_path(name, 1), sign(Metadata(content), signers.by_role[RELEASE])))
    meta = {f"{name}.json": MetaFile(1) for name in contents}
    snapshot = Metadata(Snapshot(expires=lifetimes.expiry(SNAPSHOT, now), meta=meta))
    return [*files, *_seal(snapshot, Metadata(Timestamp()), lifetimes, signers, now)]


class Revision:
    """Changes to a signed state, collected, then signed once."""

    def __init__(self, state: SignedState) -> None:
        self._state = state
        self._targets: dict[str, bytes] = {}
        self._changed: dict[str, Metadata[Targets]] = {}

    def set_target(self, path: str, data: bytes) -> None:
        """The target `path` becomes `data`. Raises TrustError if its role does not verify."""
        from tuf.api.metadata import TargetFile

        role = self.change(self._state.role_for(path))
        role.signed.targets[path] = TargetFile.from_data(path, data, ["sha256"])
        # Under a hashed name, so that readers of the state before still find the old content.
        self._targets[hashed_path(path, sha256_bytes(data))] = data

    def change(self, name: str) -> Metadata[Targets]:
        """A copy of a role to be changed; it is signed again even if nothing is changed."""
        if name not in self._changed:
            self._changed[name] = copy_of(self._state.role(name))
        return self._changed[name]

    def set_release_keys(self, root: Root) -> None:
        """Delegate to the release keys, and their threshold, that `root` names; sign everything that they sign."""
        bits = self._state.bins.bit_length
        self.change(TARGETS).signed.delegations = top_delegations(root)
        self.change(PACKAGES).signed.delegations = bin_delegations(root, bits)
        # Readers verify these by the new delegation from now on, so they need new signatures.
        for name in (SEARCH, *self._state.bins.get_roles()):
            self.change(name)

    def files(self, signers: Signers, now: datetime, *, snapshot: bool = True, beyond: int = 0) -> list[NewFile]:
        """All files to be written, in that order; the last is `timestamp.json`, the moment at which they hold.

        With `snapshot` False (and no changed role) the timestamp alone is signed. Versions grow by one, and `beyond`.
        """
        lifetimes = self._state.lifetimes
        # Content, then the roles that name it, snapshot and timestamp: a writer that is killed leaves the old state.
        files = list(self._targets.items())
        new_snapshot = copy_of(self._state.snapshot)
        for name, metadata in self._changed.items():
            metadata.signed.version = self._state.role(name).signed.version + 1 + beyond
            metadata.signed.expires = lifetimes.expiry(RELEASE, now)
            data = sign(metadata, self._trusted_for(name, signers))
            files.append((metadata_path(name, metadata.signed.version), data))
            new_snapshot.signed.meta[f"{name}.json"].version = metadata.signed.version
        timestamp = copy_of(self._state.timestamp)
        timestamp.signed.version += 1
        # The usual case of `registry refresh` by cron: it needs the timestamp key only.
        if not snapshot and not self._changed:
            return [*files, _signed_timestamp(timestamp, lifetimes, signers, now)]
        new_snapshot.signed.version += 1 + beyond
        new_snapshot.signed.expires = lifetimes.expiry(SNAPSHOT, now)
        return [*files, *_seal(new_snapshot, timestamp, lifetimes, signers, now)]

    def _trusted_for(self, name: str, signers: Signers) -> list[Signer]:
        """The release signers whom readers accept for the role `name`. Raises TrustError if they are too few."""
        if name == TARGETS:
            return list(signers.by_role[RELEASE])
        parent = TARGETS if name in (PACKAGES, SEARCH) else PACKAGES
        # Readers verify with the new delegation, if the parent changes in this revision.
        delegator = self._changed.get(parent) or self._state.role(parent)
        trusted = delegator.signed.get_delegated_role(name)
        found = [signer for signer in signers.by_role[RELEASE] if signer.public_key.keyid in trusted.keyids]
        if len(found) < trusted.threshold:
            raise TrustError(
                f"{name} needs the signatures of {counted(trusted.threshold, 'release key')} that it trusts, and "
                f"{len(found)} of these were given: a key rotation has not reached it yet",
                hint="`tfaot-pkg registry refresh` with the release keys completes an interrupted key rotation",
            )
        return found


def _seal(
    snapshot: Metadata[Any], timestamp: Metadata[Any], lifetimes: Lifetimes, signers: Signers, now: datetime
) -> list[NewFile]:
    from tuf.api.metadata import MetaFile

    data = sign(snapshot, signers.by_role[SNAPSHOT])
    timestamp.signed.snapshot_meta = MetaFile.from_data(snapshot.signed.version, data, ["sha256"])
    return [
        (metadata_path(SNAPSHOT, snapshot.signed.version), data),
        _signed_timestamp(timestamp, lifetimes, signers, now),
    ]


def _signed_timestamp(timestamp: Metadata[Any], lifetimes: Lifetimes, signers: Signers, now: datetime) -> NewFile:
    timestamp.signed.expires = lifetimes.expiry(TIMESTAMP, now)
    timestamp.signed.unrecognized_fields[SIGNED_AT] = iso(now)
    return metadata_path(TIMESTAMP, 0), sign(timestamp, signers.by_role[TIMESTAMP])
