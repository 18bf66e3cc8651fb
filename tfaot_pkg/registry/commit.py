"""How changed index files and search shards become what readers see: the port `Commit` and its two forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.documents import iso, utc
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.registry.static import PlainIndex
from tfaot_pkg.registry.storage import Occupied, Storage
from tfaot_pkg.registry.trust.client import SignedIndex
from tfaot_pkg.registry.trust.keys import RELEASE, ROOT, SNAPSHOT, TIMESTAMP, KeyRing, Secrets
from tfaot_pkg.registry.trust.revision import NewFile, Revision, Signers, signed_by
from tfaot_pkg.registry.trust.roles import expired
from tfaot_pkg.registry.trust.state import SignedState

if TYPE_CHECKING:
    from securesystemslib.signer import Signer


class Commit(Protocol):
    """One change of a registry (`Storage.changing`). Raises OSError, StorageError, NetworkError, TrustError."""

    def read(self, path: str) -> bytes | None:
        """An index file or search shard as it is before the change; None if there is none."""

    def require(self) -> None:
        """Raise TrustError if `apply` could not sign: called before anything is written."""

    def moment(self) -> str:
        """The time of the change; in a signed registry never before the last signature."""

    def signatures(self, payload: bytes) -> tuple[Mapping[str, Any], ...]:
        """Signatures of the release keys, in the form of TUF's metadata; none if the registry is unsigned."""

    def apply(self, changes: Mapping[str, bytes]) -> None:
        """Make the changes hold, all durable when this returns. The last file written is the one that commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCommit:
    """Unsigned: each file is replaced, in the order given (the index file first: that is the commit)."""

    files: Storage
    clock: Callable[[], str]

    def read(self, path: str) -> bytes | None:
        return PlainIndex(files=self.files).read(path)

    def require(self) -> None: ...

    def moment(self) -> str:
        return self.clock()

    def signatures(self, payload: bytes) -> tuple[Mapping[str, Any], ...]:
        return ()

    def apply(self, changes: Mapping[str, bytes]) -> None:
        for path, data in changes.items():
            self.files.put(path, data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What can be signed with: the key folders."""

    rings: Sequence[KeyRing] = ()

    def signers(self, state: SignedState, roles: Iterable[str]) -> Signers:
        """Raises TrustError if the keys that the root of `state` trusts are not here."""
        return Signers.of(state.root.signed, self.rings, roles, location=state.files.location)

    def root_signers(self) -> list[Signer]:
        """All that is here for root keys, old and new ones. Raises TrustError."""
        return [s for ring in self.rings for s in ring.signers(record.keyid for record in ring.of_role(ROOT))]


def open_keys(folders: Sequence[Path], *secrets: Secrets) -> Keys:
    """The keys in `folders`; `secrets` for each of them, or one for all. Raises TrustError."""
    if len(secrets) not in (1, len(folders)) and folders:
        raise TrustError(
            f"there are {counted(len(secrets), 'passphrase file')} for {counted(len(folders), 'key folder')}",
            hint="give one --passphrase-file for each --keys, in the same order, or one for all",
        )
    each = secrets if len(secrets) == len(folders) else secrets[:1] * len(folders)
    return Keys(rings=tuple(KeyRing.open(folder, secret) for folder, secret in zip(folders, each, strict=True)))


class SignedCommit:
    """Signed: files under hashed names, then metadata, then `timestamp.json`, whose replacement is the commit.

    Built upon what the trusted root signed, and never upon an older state than was seen before.
    """

    def __init__(self, files: Storage, index: SignedIndex, keys: Keys, clock: Callable[[], str]) -> None:
        self._files = files
        self._keys = keys
        self._clock = clock
        # Read within the change: nobody replaces the state that it is built upon, or the change fails.
        self._state = index.state()
        self._signers: Signers | None = None

    @property
    def state(self) -> SignedState:
        return self._state

    def now(self, *, neglected: bool = False, trust_clock: bool = False) -> datetime:
        """The time to sign at. Raises TrustError if the clock may be wrong, unless it is to be trusted.

        `neglected`: it may be long since the last signature, as if its key was lost.
        """
        now = utc(self._clock())
        return now if trust_clock else self._state.moment(now, neglected=neglected)

    def read(self, path: str) -> bytes | None:
        return self._state.read(path)

    def require(self) -> None:
        self._given_signers()

    def moment(self) -> str:
        return iso(self.now())

    def signatures(self, payload: bytes) -> tuple[Mapping[str, Any], ...]:
        return signed_by(payload, self._given_signers().by_role[RELEASE])

    def apply(self, changes: Mapping[str, bytes]) -> None:
        revision = Revision(self._state)
        for path, data in changes.items():
            revision.set_target(path, data)
        write_new(self._files, lambda beyond: revision.files(self._given_signers(), self.now(), beyond=beyond))

    def _given_signers(self) -> Signers:
        if self._state.root.signed.expires <= (now := self.now()):
            raise expired(self._files.location, "root.json is expired", now)
        if self._signers is None:
            self._signers = self._keys.signers(self._state, (RELEASE, SNAPSHOT, TIMESTAMP))
        return self._signers


_BEYOND = 50
"""How many numbers of metadata may be taken before a commit is given up."""


def write_new(files: Storage, made: Callable[[int], Iterable[NewFile]]) -> None:
    """`write` what `made` gives for versions that are so many further on. Raises as `write`."""
    # A number may be taken in a bucket, by somebody who is writing now or was killed: metadata may skip it.
    for beyond in range(_BEYOND):
        with suppress(Occupied):
            write(files, made(beyond))
            return
    write(files, made(_BEYOND))


def write(files: Storage, new: Iterable[NewFile]) -> None:
    """Write `new` in its order, each durable before the next. Raises Conflict, OSError, NetworkError."""
    # One by one: after a power failure nothing may refer to a file that is not there.
    for path, data in new:
        files.put(path, data)
