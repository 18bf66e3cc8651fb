"""The signed state of a registry as a signer or an auditor sees it: the whole chain, checked with `tuf.api`.

Unlike a reader (client.py) it accepts expired signatures, because re-signing must work with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tfaot_pkg.errors import TrustError
from tfaot_pkg.registry.files.files import Files, MissingFile
from tfaot_pkg.registry.files.layout import CHANNELS, CONFIG
from tfaot_pkg.registry.files.mirrored import lacking
from tfaot_pkg.registry.trust.keys import ROOT, SNAPSHOT, TIMESTAMP
from tfaot_pkg.registry.trust.roles import (
    PACKAGE_PATHS,
    PACKAGES,
    SEARCH,
    TARGETS,
    Lifetimes,
    hashed_path,
    limit_of,
    metadata_path,
    signing_moment,
    signing_time,
)

if TYPE_CHECKING:
    from securesystemslib.signer import Key
    from tuf.api.metadata import Metadata, Root, Signed, Snapshot, SuccinctRoles, TargetFile, Targets, Timestamp

# The limit of python-tuf's client (max_root_rotations): a server could otherwise send new roots forever.
_MAX_ROOTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The newest versions that were ever seen: nothing older is built upon."""

    timestamp: int = 0
    snapshot: int = 0


@dataclass(slots=True, kw_only=True)
class SignedState:
    """The state that `timestamp.json` names, verified. Delegated roles are read and verified on first use."""

    files: Files
    root: Metadata[Root]
    timestamp: Metadata[Timestamp]
    snapshot: Metadata[Snapshot]
    roles: dict[str, Metadata[Targets]] = field(default_factory=dict)

    @classmethod
    def load(cls, files: Files, bootstrap: bytes, floor: Floor = Floor()) -> SignedState:
        """Raises TrustError (`bootstrap` is the root that is trusted), StorageError, NetworkError."""
        return load_state(files, bootstrap, floor)

    @property
    def lifetimes(self) -> Lifetimes:
        return Lifetimes.from_fields(self.root.signed.unrecognized_fields)

    @property
    def signed_at(self) -> datetime | None:
        """When the timestamp was signed, by its signer's clock; None if another tool signed it."""
        return signing_time(self.timestamp.signed.unrecognized_fields)

    def moment(self, now: datetime, *, neglected: bool = False) -> datetime:
        """The time to sign the next state at, by a clock that says `now`; `neglected`: long ago may have been the last.

        Raises TrustError if the clock may be wrong (roles.signing_moment).
        """
        expires = self.timestamp.signed.expires
        # What another tool signed does not tell when, but its expiry must not go back either.
        signed = self.signed_at or expires - timedelta(days=self.lifetimes.days[TIMESTAMP])
        return signing_moment(self.files.location, now, signed, None if neglected else expires)

    @property
    def bins(self) -> SuccinctRoles:
        delegations = self.role(PACKAGES).signed.delegations
        if delegations is None or delegations.succinct_roles is None:
            raise TrustError(f"{self.files.location}: packages are not in hash bins ({PACKAGE_PATHS})")
        return delegations.succinct_roles

    def require_config(self, sha256: str) -> None:
        """Raise TrustError unless `config.json` with that SHA-256 was signed."""
        check_config(self.files.location, self.role(TARGETS).signed.targets.get(CONFIG), sha256)

    def former_release_keys(self) -> dict[str, Key]:
        """All keys that any version of root up to the trusted one named for releases, by id: logs outlive rotations.

        Raises TrustError, StorageError, NetworkError.
        """
        from tuf.api.metadata import Root

        root, keys = self.root, _release_keys_of(self.root)
        for version in range(self.root.signed.version - 1, 0, -1):
            path = metadata_path(ROOT, version)
            before = _parsed(self.files, path, _get(self.files, path, limit_of(ROOT)), Root, version)
            with _checking(self.files, path):
                # Backwards along the chain of trust: its own keys signed it and the next one, which is trusted.
                for one in (before, root):
                    before.signed.verify_delegate(ROOT, one.signed_bytes, one.signatures)
            root, keys = before, {**_release_keys_of(before), **keys}
        return keys

    def role_for(self, path: str) -> str:
        """The role that lists the target `path`."""
        if path == CHANNELS:
            return TARGETS
        return self.bins.get_role_for_target(path) if path.startswith("index/") else SEARCH

    def role(self, name: str) -> Metadata[Targets]:
        """A targets role of the current snapshot, verified. Raises TrustError."""
        if name not in self.roles:
            self.roles[name] = self._read_role(name)
        return self.roles[name]

    def _read_role(self, name: str) -> Metadata[Targets]:
        from tuf.api.metadata import Targets

        meta = self.snapshot.signed.meta.get(f"{name}.json")
        if meta is None:
            raise TrustError(f"{self.files.location}: the snapshot does not know {name}")
        path = metadata_path(name, meta.version)
        # Length and digest are optional in TUF; our limit holds if there is no length.
        data = _get(self.files, path, meta.length or limit_of(name))
        with _checking(self.files, path):
            meta.verify_length_and_hashes(data)
        metadata: Metadata[Targets] = _parsed(self.files, path, data, Targets, meta.version)
        # A role is signed by the keys that its parent names, and the parent is verified first.
        delegator = self.root.signed if name == TARGETS else self._delegator(name)
        with _checking(self.files, path):
            delegator.verify_delegate(name, metadata.signed_bytes, metadata.signatures)
        return metadata

    def _delegator(self, name: str) -> Targets:
        return self.role(TARGETS if name in (PACKAGES, SEARCH) else PACKAGES).signed

    def target(self, path: str) -> TargetFile | None:
        """Size and digest of a target, None if there is none."""
        return self.role(self.role_for(path)).signed.targets.get(path)

    def read(self, path: str) -> bytes | None:
        """A target's content, verified; None if there is none. Raises TrustError, StorageError, NetworkError."""
        info = self.target(path)
        return None if info is None else read_target(self.files, info)


def _release_keys_of(root: Metadata[Root]) -> dict[str, Key]:
    return {keyid: root.signed.keys[keyid] for keyid in root.signed.roles[TARGETS].keyids}


def check_config(location: str, signed: TargetFile | None, sha256: str) -> None:
    """Raise TrustError if `config.json` (read under its plain name, before anything) is not what was signed."""
    if signed is None or signed.hashes.get("sha256") != sha256:
        raise TrustError(f"{location}: {CONFIG} is not what was signed", hint=_RESTORE)


def read_target(files: Files, info: TargetFile) -> bytes:
    """The content that `info` (signed) names. Raises TrustError, StorageError, NetworkError."""
    path = hashed_path(info.path, info.hashes["sha256"])
    data = _get(files, path, info.length)
    with _checking(files, path):
        info.verify_length_and_hashes(data)
    return data


def load_state(files: Files, bootstrap: bytes, floor: Floor) -> SignedState:
    """See `SignedState.load`."""
    from tuf.api.metadata import Snapshot, Timestamp

    root = load_root(files, bootstrap)
    path = metadata_path(TIMESTAMP, 0)
    timestamp = _parsed(files, path, _get(files, path, limit_of(TIMESTAMP)), Timestamp, None)
    with _checking(files, path):
        root.signed.verify_delegate(TIMESTAMP, timestamp.signed_bytes, timestamp.signatures)
    meta = timestamp.signed.snapshot_meta
    # Old metadata is signed correctly. Only what was seen before shows that it was rolled back.
    if timestamp.signed.version < floor.timestamp or meta.version < floor.snapshot:
        raise TrustError(
            f"{files.location} was rolled back: timestamp {timestamp.signed.version}, snapshot {meta.version}; "
            f"versions {floor.timestamp} and {floor.snapshot} were seen before",
            hint="restore the newest copy of the registry, or tell its maintainer",
        )
    path = metadata_path(SNAPSHOT, meta.version)
    data = _get(files, path, meta.length or limit_of(SNAPSHOT))
    with _checking(files, path):
        meta.verify_length_and_hashes(data)
    snapshot = _parsed(files, path, data, Snapshot, meta.version)
    with _checking(files, path):
        root.signed.verify_delegate(SNAPSHOT, snapshot.signed_bytes, snapshot.signatures)
    return SignedState(files=files, root=root, timestamp=timestamp, snapshot=snapshot)


def load_root(files: Files, bootstrap: bytes) -> Metadata[Root]:
    """The newest root that follows from `bootstrap`, version by version. Raises TrustError."""
    from tuf.api.metadata import Root

    root: Metadata[Root] = _parsed(files, "the trusted root", bootstrap, Root, None)
    with _checking(files, "the trusted root"):
        root.signed.verify_delegate(ROOT, root.signed_bytes, root.signatures)
    for _ in range(_MAX_ROOTS):
        path = metadata_path(ROOT, root.signed.version + 1)
        try:
            data = files.get(path, limit_of(ROOT))
        except MissingFile:
            break
        # The version must be that of the file name, else an old root could be presented as the next one.
        new = _parsed(files, path, data, Root, root.signed.version + 1)
        with _checking(files, path):
            # TUF: a new root must meet the thresholds of the old version and of its own.
            for judge in (root, new):
                judge.signed.verify_delegate(ROOT, new.signed_bytes, new.signatures)
        root = new
    return root


def _get(files: Files, path: str, limit: int) -> bytes:
    try:
        return files.get(path, limit)
    except MissingFile as error:
        if partial := lacking(files, path):
            raise partial from error
        raise TrustError(
            f"{files.location} lacks the signed file {path}",
            hint="restore it from a mirror of the registry",
        ) from error


def _parsed(files: Files, path: str, data: bytes, kind: type[Any], version: int | None) -> Any:
    from tuf.api.metadata import Metadata

    with _checking(files, path):
        metadata = Metadata[Any].from_bytes(data)
    signed: Signed = metadata.signed
    if not isinstance(signed, kind):
        raise TrustError(f"{files.location}: {path} is {signed.type} metadata, not {kind.type}")
    if version is not None and signed.version != version:
        raise TrustError(f"{files.location}: {path} holds version {signed.version}")
    return metadata


class _checking:  # noqa: N801 (reads as a statement)
    """Turn python-tuf's errors into TrustErrors that name the file."""

    def __init__(self, files: Files, path: str) -> None:
        self._where = f"{files.location}: {path}"

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from tuf.api.exceptions import RepositoryError
        from tuf.api.serialization import DeserializationError

        if isinstance(error, DeserializationError):
            raise TrustError(f"{self._where} is damaged ({error.__cause__ or error})", hint=_RESTORE) from error
        if isinstance(error, RepositoryError):
            raise TrustError(f"{self._where} is not what was signed: {error}", hint=_RESTORE) from error


_RESTORE = "restore it from a copy of the registry that passes `tfaot-pkg registry verify`"
