"""Rotation of keys: the next versions of root, and the signatures that they still need.

Pure: no I/O. A rotation can be written to a file, carried to the holders of root keys, signed by one after the other,
and brought back, so two root keys never need to be on one machine.

Before a rotation removes trust (drops a key, raises a threshold), existing metadata is signed again. A rotation that
grants trust (adds a key, lowers a threshold) is published before the new signatures. One that does both has two steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.documents import iso, read, write
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.registry.trust.keys import KEYS_HINT, ROLES, ROOT
from tfaot_pkg.registry.trust.revision import NewFile, add_signatures, copy_of, to_bytes
from tfaot_pkg.registry.trust.roles import LIMITS, Lifetimes, metadata_path, tuf_role

if TYPE_CHECKING:
    from securesystemslib.signer import Key, Signer
    from tuf.api.metadata import Metadata, Root

_WHOLE = "give the file that --pending FILE wrote, complete and unchanged"
# The current root, up to two new ones, and the document around them.
LIMIT = 4 * LIMITS[ROOT]
"""How many bytes of a rotation's file are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """New keys or a new threshold for `role`; without either, root only gets a later expiry."""

    role: str
    add: Key | None = None
    drop: str = ""
    threshold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The current root and the one or two versions that follow it, with their signatures so far."""

    base: Metadata[Root]
    steps: tuple[Metadata[Root], ...]

    @classmethod
    def of(cls, base: Metadata[Root], change: KeyChange, now: datetime) -> Rotation:
        """The unsigned rotation that makes `change`. Raises RegistryError if too few keys would remain."""
        role = tuf_role(change.role)
        old = base.signed.roles[role]
        threshold = old.threshold if change.threshold is None else change.threshold
        keys = {*old.keyids, *([change.add.keyid] if change.add else [])} - {change.drop}
        if not 1 <= threshold <= len(keys):
            raise RegistryError(
                f"{change.role} would have {counted(len(keys), 'key')} and need {threshold}",
                hint=f"add another key first: tfaot-pkg registry keys add {change.role}",
            )

        def give(root: Root) -> None:
            if change.add:
                root.add_key(change.add, role)
            root.roles[role].threshold = min(threshold, old.threshold)

        def take(root: Root) -> None:
            if change.drop:
                root.revoke_key(change.drop, role)
            root.roles[role].threshold = threshold

        def both(root: Root) -> None:
            give(root)
            take(root)

        gives, takes = bool(change.add) or threshold < old.threshold, bool(change.drop) or threshold > old.threshold
        # Root changes in one step: TUF has each root signed by the keys of the old and of the new one.
        edits = (give, take) if gives and takes and change.role != ROOT else (both,)
        steps: list[Metadata[Root]] = []
        for edit in edits:
            steps.append(_next(steps[-1] if steps else base, edit, now))
        return cls(base=base, steps=tuple(steps))

    @property
    def final(self) -> Root:
        return self.steps[-1].signed

    @property
    def takes_first(self) -> bool:
        """Whether the first step removes trust: metadata signed by a removed key must be signed again before it."""
        return any(self._takes(role, self.steps[0].signed) for role in ROLES if role != ROOT)

    def takes(self, role: str) -> bool:
        """Whether the whole rotation removes trust from keys of `role`."""
        return self._takes(role, self.final)

    def changes(self, role: str) -> bool:
        """Whether `role` ends with other keys or another threshold."""
        old, new = self.base.signed.roles[tuf_role(role)], self.final.roles[tuf_role(role)]
        return set(old.keyids) != set(new.keyids) or old.threshold != new.threshold

    def _takes(self, role: str, root: Root) -> bool:
        old, new = self.base.signed.roles[tuf_role(role)], root.roles[tuf_role(role)]
        return not set(old.keyids) <= set(new.keyids) or new.threshold > old.threshold

    def signed_by(self, signers: Iterable[Signer]) -> Rotation:
        """A copy with signatures by the `signers` that hold an old or new root key. Raises TrustError."""
        given = list(signers)
        # Signing changes a metadata object, and this rotation is frozen.
        steps = tuple(copy_of(step) for step in self.steps)
        for previous, step in pairwise((self.base, *steps)):
            # TUF accepts a root that meets the thresholds of the old and of the new version.
            keys = {*previous.signed.roles[ROOT].keyids, *step.signed.roles[ROOT].keyids}
            add_signatures(step, [signer for signer in given if signer.public_key.keyid in keys])
        return replace(self, steps=steps)

    def lacking(self) -> str:
        """Which signatures are missing or invalid; empty if none."""
        for previous, step in pairwise((self.base, *self.steps)):
            result = step.signed.get_root_verification_result(previous.signed, step.signed_bytes, step.signatures)
            for name, one in (("old", result.first), ("new", result.second)):
                if not one.verified:
                    return f"a new root needs {one.threshold} of the {name} root keys; found: {len(one.signed)}"
        return ""

    def require_signed(self) -> None:
        """Raise TrustError if signatures are missing or invalid."""
        if lacking := self.lacking():
            raise TrustError(
                lacking,
                hint=f"{KEYS_HINT}; --keys may be given several times. If the others are elsewhere, --pending FILE "
                "writes what they are to sign",
            )

    def require_current(self, now: datetime) -> None:
        """Raise TrustError if its root has expired, or would expire before the one that it replaces.

        Every reader follows root, so such a root would end the registry for all of them.
        """
        for step in self.steps:
            expires, before = step.signed.expires, self.base.signed.expires
            if expires <= now:
                fault = f"has expired at {iso(expires)}; this machine's clock says {iso(now)}"
            elif expires < before:
                fault = f"expires at {iso(expires)}, before the present one ({iso(before)})"
            else:
                continue
            raise TrustError(
                f"the new root {fault}", hint="make the key rotation again, on a machine whose clock is right"
            )

    def upon(self, root: Metadata[Root]) -> Rotation:
        """The same steps after the trusted `root`. Raises TrustError if their versions do not follow it."""
        # The root in the file is for display only. The one that the registry has now decides (decision 018).
        if self.steps[0].signed.version != root.signed.version + 1:
            raise TrustError(
                f"this rotation was made for root version {self.base.signed.version}, "
                f"but the registry has version {root.signed.version}",
                hint="repeat the rotation: another one was made first",
            )
        return replace(self, base=root)

    def files(self) -> list[NewFile]:
        return [(metadata_path(ROOT, step.signed.version), to_bytes(step)) for step in self.steps]

    @property
    def digest(self) -> str:
        """SHA-256 of the signed content, without signatures: holders of keys compare it before they sign."""
        return sha256_bytes(b"".join(step.signed_bytes for step in self.steps))

    def description(self) -> tuple[str, ...]:
        """One line for each change."""
        lines: list[str] = []
        for role in ROLES:
            old, new = self.base.signed.roles[tuf_role(role)], self.final.roles[tuf_role(role)]
            lines += [f"{role}: trust {keyid}" for keyid in new.keyids if keyid not in old.keyids]
            lines += [f"{role}: no longer trust {keyid}" for keyid in old.keyids if keyid not in new.keyids]
            if old.threshold != new.threshold:
                lines.append(f"{role}: {counted(new.threshold, 'signature')} instead of {old.threshold}")
        # The file may come from someone else: its signer must see every change, not only those of keys.
        old_fields, new_fields = self.base.signed.unrecognized_fields, self.final.unrecognized_fields
        if old_fields != new_fields:
            lines.append(f"other settings: {json.dumps(new_fields)} instead of {json.dumps(old_fields)}")
        return (*lines, f"root: version {self.final.version}, until {iso(self.final.expires)}")

    def to_bytes(self) -> bytes:
        return write(_File(base=self.base.to_dict(), steps=tuple(step.to_dict() for step in self.steps)))

    @classmethod
    def parse(cls, data: bytes, where: str) -> Rotation:
        """Read what `to_bytes` wrote, without checking signatures. Raises TrustError."""
        document = read(_File, data, f"the key rotation {where}", error=TrustError, hint=_WHOLE)
        try:
            base, *steps = (_root(item) for item in (document.base, *document.steps))
            if not 1 <= len(steps) <= 2 or any(
                b.signed.version != a.signed.version + 1 for a, b in pairwise([base, *steps])
            ):
                raise ValueError("its versions do not follow each other")
        except Exception as error:  # python-tuf's parsers raise many types for malformed input
            raise TrustError(
                f"{where} is not a key rotation, or is damaged ({type(error).__name__}: {error})",
                hint=_WHOLE,
            ) from error
        return cls(base=base, steps=tuple(steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A rotation as a document, which holds metadata in TUF's own form."""

    base: dict[str, Any]
    steps: tuple[dict[str, Any], ...]
    format: int = 1


def _root(item: dict[str, Any]) -> Metadata[Root]:
    from tuf.api.metadata import Metadata, Root

    metadata = Metadata[Any].from_dict(item)
    if not isinstance(metadata.signed, Root):
        raise TypeError(f"{metadata.signed.type} metadata")
    return metadata


def _next(previous: Metadata[Root], edit: Callable[[Root], None], now: datetime) -> Metadata[Root]:
    """The version after `previous`, changed by `edit`, without signatures."""
    metadata = copy_of(previous)
    # The signatures of the previous version do not fit the new content.
    metadata.signatures.clear()
    edit(metadata.signed)
    metadata.signed.version += 1
    expires = Lifetimes.from_fields(metadata.signed.unrecognized_fields).expiry(ROOT, now)
    # Another tool may have signed for longer: a rotation never shortens that.
    metadata.signed.expires = max(expires, previous.signed.expires)
    return metadata
