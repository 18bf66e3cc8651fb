"""Rotation of keys: the next versions of root, and the signatures that they still need.

Values in, values out. A succession can be written to a file, carried to those who hold root keys, signed there one
after the other, and brought back: no two root keys ever need to be on one machine.

Before a change takes trust away (a key dropped, a threshold raised), existing metadata is signed again; a change that
gives trust (a key added, a threshold lowered) comes before the signatures. A change that does both has two steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tfaot_pkg.documents import iso, read, write
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.keys import sha256_bytes
from tfaot_pkg.trust.keys import KEYS_HINT, ROLES, ROOT
from tfaot_pkg.trust.revision import NewFile, add_signatures, copy_of, to_bytes
from tfaot_pkg.trust.roles import LIMITS, Lifetimes, metadata_path, tuf_role
from tfaot_pkg.wording import counted

if TYPE_CHECKING:
    from securesystemslib.signer import Key, Signer
    from tuf.api.metadata import Metadata, Root

_WHOLE = "give the file that --pending FILE wrote, complete and unchanged"
# The present root, up to two new ones, and the document around them.
LIMIT = 4 * LIMITS[ROOT]
"""Bytes of a succession's file that are read at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """New keys or a new threshold for `role`; without either, root only gets a later expiry."""

    role: str
    add: Key | None = None
    drop: str = ""
    threshold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """The present root and the one or two versions that are to follow, with the signatures that they have so far."""

    base: Metadata[Root]
    steps: tuple[Metadata[Root], ...]

    @classmethod
    def of(cls, base: Metadata[Root], change: KeyChange, now: datetime) -> Succession:
        """The succession that makes `change`, not yet signed. Raises RegistryError for what cannot be."""
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
        """Whether the first step takes trust away: what it no longer trusts must be signed again before."""
        return any(self._takes(role, self.steps[0].signed) for role in ROLES if role != ROOT)

    def takes(self, role: str) -> bool:
        """Whether the change as a whole takes trust away for `role`."""
        return self._takes(role, self.final)

    def changes(self, role: str) -> bool:
        """Whether `role` has other keys or another threshold in the end."""
        old, new = self.base.signed.roles[tuf_role(role)], self.final.roles[tuf_role(role)]
        return set(old.keyids) != set(new.keyids) or old.threshold != new.threshold

    def _takes(self, role: str, root: Root) -> bool:
        old, new = self.base.signed.roles[tuf_role(role)], root.roles[tuf_role(role)]
        return not set(old.keyids) <= set(new.keyids) or new.threshold > old.threshold

    def signed_by(self, signers: Iterable[Signer]) -> Succession:
        """With the signatures of those of `signers` whose keys are root keys, before or after. Raises TrustError."""
        given = list(signers)
        # Signing changes a metadata object, and this succession must stay as it is.
        steps = tuple(copy_of(step) for step in self.steps)
        for previous, step in pairwise((self.base, *steps)):
            # TUF accepts a root that meets the thresholds of the old and of the new version.
            keys = {*previous.signed.roles[ROOT].keyids, *step.signed.roles[ROOT].keyids}
            add_signatures(step, [signer for signer in given if signer.public_key.keyid in keys])
        return replace(self, steps=steps)

    def lacking(self) -> str:
        """Which signatures are still needed; empty if all are there and right."""
        for previous, step in pairwise((self.base, *self.steps)):
            result = step.signed.get_root_verification_result(previous.signed, step.signed_bytes, step.signatures)
            for name, one in (("old", result.first), ("new", result.second)):
                if not one.verified:
                    return f"a new root needs {one.threshold} of the {name} root keys; found: {len(one.signed)}"
        return ""

    def require_signed(self) -> None:
        """Raise TrustError if signatures are missing or wrong."""
        if lacking := self.lacking():
            raise TrustError(
                lacking,
                hint=f"{KEYS_HINT}; --keys may be given several times. If the others are elsewhere, --pending FILE "
                "writes what they are to sign",
            )

    def upon(self, root: Metadata[Root]) -> Succession:
        """The same steps after `root`, the one that is trusted. Raises TrustError if they do not follow it."""
        # The root in the file is for display only. The one that the registry has now decides (decision 018).
        if self.steps[0].signed.version != root.signed.version + 1:
            raise TrustError(
                f"this change was made for root version {self.base.signed.version}, "
                f"but the registry has version {root.signed.version}",
                hint="repeat the change: another one was made first",
            )
        return replace(self, base=root)

    def files(self) -> list[NewFile]:
        return [(metadata_path(ROOT, step.signed.version), to_bytes(step)) for step in self.steps]

    @property
    def digest(self) -> str:
        """SHA-256 of all that is signed, without the signatures: two holders of keys compare it."""
        return sha256_bytes(b"".join(step.signed_bytes for step in self.steps))

    def description(self) -> tuple[str, ...]:
        """What changes, a line each."""
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
    def parse(cls, data: bytes, where: str) -> Succession:
        """Read what `to_bytes` gave. Signatures are not looked at. Raises TrustError."""
        document = read(_File, data, f"the change of keys {where}", error=TrustError, hint=_WHOLE)
        try:
            base, *steps = (_root(item) for item in (document.base, *document.steps))
            if not 1 <= len(steps) <= 2 or any(
                b.signed.version != a.signed.version + 1 for a, b in pairwise([base, *steps])
            ):
                raise ValueError("its versions do not follow each other")
        except Exception as error:  # python-tuf's parsers raise anything for what they were not made for
            raise TrustError(
                f"{where} is not a change of keys, or is damaged ({type(error).__name__}: {error})",
                hint=_WHOLE,
            ) from error
        return cls(base=base, steps=tuple(steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A succession as a document, which holds metadata in TUF's own form."""

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
    """The version after `previous`, changed by `edit` and without signatures."""
    metadata = copy_of(previous)
    # The signatures of the previous version do not fit the new content.
    metadata.signatures.clear()
    edit(metadata.signed)
    metadata.signed.version += 1
    metadata.signed.expires = Lifetimes.from_fields(metadata.signed.unrecognized_fields).expiry(ROOT, now)
    return metadata
