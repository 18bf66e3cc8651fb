"""Reading a signed registry: `tuf.ngclient` over the `Files` port. Rejects what TUF rejects, and says why.

Verified metadata is kept in a folder of the reader, never in the registry or in a cache that people delete: an older
state is rejected as a rollback because a newer one was seen. One process at a time uses such a folder; others wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import locked, make_folder, storage_errors, write_file
from tfaot_pkg.registry.files.files import Files, MissingFile
from tfaot_pkg.registry.files.layout import CONFIG
from tfaot_pkg.registry.files.mirrored import lacking
from tfaot_pkg.registry.trust.keys import ROOT, SNAPSHOT, TIMESTAMP
from tfaot_pkg.registry.trust.roles import (
    CLOCK_TOLERANCE,
    LIMITS,
    METADATA,
    SEARCH,
    TARGETS_LIMIT,
    distrust,
    hashed_path,
    metadata_path,
    signing_time,
    wrong_clock,
)
from tfaot_pkg.registry.trust.state import Floor, SignedState, check_config

# python-tuf is imported in functions: `--help` and unsigned registries must not wait for it.
if TYPE_CHECKING:
    from tuf.api.metadata import TargetFile
    from tuf.ngclient import FetcherInterface, Updater

_FIRST = "first.root.json"
_LOCK_TIMEOUT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """What a reader trusts, and where it keeps what it has verified.

    Without a pinned `root` the first one that is seen is trusted from then on.
    """

    folder: Path
    root: bytes | None = None

    @property
    def was_signed(self) -> bool:
        """Whether signatures are expected: a root is pinned, or was seen there before."""
        return self.root is not None or (self.folder / _FIRST).exists()

    @classmethod
    def of(cls, location: str, folders: Folders, root: bytes | None = None) -> Anchor:
        """The anchor of the registry at `location` (folder or URL); each pinned root has a folder of its own."""
        # State verified under another root must not count as a later state, so each root has a folder of its own.
        name = sha256_bytes(location.encode() + b"\0" + (root or b""))[:24]
        return cls(folder=folders.trust / name, root=root)


class SignedIndex:
    """The targets of a signed registry (index files, search shards), each verified.

    All that is read after one `refresh` belongs to one state of the registry. Without an explicit one, the first read
    refreshes. Every method raises TrustError, StorageError and what `files` raises. `config` is the SHA-256 of the
    `config.json` that was read before anything could be verified: nothing is returned unless that was signed.
    """

    def __init__(self, files: Files, anchor: Anchor, config: str) -> None:
        self._files = files
        self._anchor = anchor
        self._config = config
        self._updater: Updater | None = None
        self._shards: dict[str, TargetFile] = {}

    def refresh(self) -> None:
        """Take the newest state that is trusted."""
        self.forget()
        with self._guarded():
            self._updater = self._refreshed()

    def forget(self) -> None:
        """The next read takes the newest state."""
        self._updater = None
        self._shards = {}

    def read(self, path: str) -> bytes | None:
        """The content of a target, None if there is none."""
        # Shards that `search_shards` has found need neither the updater nor its lock.
        known = self._shards.get(path)
        with self._guarded(alone=known is None):
            info = known or self._current().get_targetinfo(path)
            if info is None:
                return None
            try:
                return self._fetch(info)
            except MissingFile:
                # A long-running reader: `registry collect` may have removed the file that its state names.
                self.forget()
        with self._guarded():
            info = self._current().get_targetinfo(path)
            # The newest state names this file, so its absence is now a fault of the registry.
            return None if info is None else self._fetch_or_distrust(info)

    def search_shards(self) -> tuple[str, ...]:
        """The paths of all search shards, sorted."""
        from tuf.api.metadata import TargetFile

        with self._guarded():
            # Looking up any path below search/ makes the updater load and verify that role.
            self._current().get_targetinfo(f"{SEARCH}/")
            targets = self._verified(SEARCH)["targets"]
            self._shards = {path: TargetFile.from_dict(info, path) for path, info in targets.items()}
            return tuple(sorted(self._shards))

    @property
    def root_version(self) -> int:
        """The version of root that is trusted now."""
        with self._guarded():
            self._current()
            version = read_json((self._anchor.folder / "root.json").read_bytes())["signed"]["version"]
            return int(version)

    def bootstrap(self) -> bytes:
        """The root with which the chain of trust starts."""
        with self._guarded():
            return self._bootstrap()

    def state(self) -> SignedState:
        """The newest state for those who sign or audit: verified, expired or not, never older than was seen."""
        state = SignedState.load(self._files, self.bootstrap(), self.floor())
        state.require_config(self._config)
        return state

    def floor(self) -> Floor:
        """The newest versions that were ever verified here: signers never build on older ones."""
        with storage_errors(f"read {self._anchor.folder}"):
            try:
                seen = self._verified(TIMESTAMP)
                return Floor(timestamp=seen["version"], snapshot=seen["meta"]["snapshot.json"]["version"])
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                # Nothing was verified here yet, or the file is damaged: only signatures protect then.
                return Floor()

    def _current(self) -> Updater:
        if self._updater is None:
            self._updater = self._refreshed()
        return self._updater

    def _refreshed(self) -> Updater:
        from tuf.ngclient import Updater, UpdaterConfig

        config = UpdaterConfig(
            root_max_length=LIMITS[ROOT],
            timestamp_max_length=LIMITS[TIMESTAMP],
            snapshot_max_length=LIMITS[SNAPSHOT],
            targets_max_length=TARGETS_LIMIT,
        )
        updater = Updater(
            str(self._anchor.folder),
            METADATA,
            fetcher=_fetcher(self._files),
            config=config,
            bootstrap=self._bootstrap(),
        )
        updater.refresh()
        # The updater cannot detect a clock that is behind: for such a clock nothing has expired.
        self._check_clock()
        # `config.json` was read before anything could be verified. Compare it now.
        check_config(self._files.location, updater.get_targetinfo(CONFIG), self._config)
        return updater

    def _check_clock(self) -> None:
        signed, now = signing_time(self._verified(TIMESTAMP)), _now()
        if signed is not None and signed > now + CLOCK_TOLERANCE:
            raise wrong_clock(self._files.location, signed, now)

    def _bootstrap(self) -> bytes:
        if self._anchor.root is not None:
            return self._anchor.root
        # Trust on first use: version 1 of root never changes, so another one is another registry or an attack.
        remembered = self._anchor.folder / _FIRST
        first = self._files.get(metadata_path(ROOT, 1), LIMITS[ROOT])
        if not remembered.exists():
            write_file(remembered, first)
        elif remembered.read_bytes() != first:
            raise TrustError(
                f"the root of {self._files.location} is not the one that was seen there first",
                hint="if its maintainer confirms that the registry was created again, forget the old root: delete "
                f"{self._anchor.folder}",
            )
        return first

    def _verified(self, role: str) -> dict[str, Any]:
        """What the last verified metadata of `role` says: the updater has written it."""
        signed = read_json((self._anchor.folder / f"{role}.json").read_bytes())["signed"]
        assert isinstance(signed, dict)
        return signed

    def _fetch(self, info: TargetFile) -> bytes:
        data = self._files.get(hashed_path(info.path, info.hashes["sha256"]), info.length)
        info.verify_length_and_hashes(data)
        return data

    def _fetch_or_distrust(self, info: TargetFile) -> bytes:
        try:
            return self._fetch(info)
        except MissingFile as error:
            if partial := lacking(self._files, info.path):
                raise partial from error
            raise TrustError(
                f"{self._files.location} lacks a signed file: {error.message}",
                hint="restore it from a copy of the registry, or read from another mirror",
            ) from error

    @contextmanager
    def _guarded(self, *, alone: bool = True) -> Iterator[None]:
        """Turn errors of all libraries into ours; `alone`: hold the lock of the folder of verified metadata."""
        from tuf.api.exceptions import DownloadError, RepositoryError

        folder = self._anchor.folder
        with storage_errors(f"keep what was verified of {self._files.location} in {folder}"):
            make_folder(folder)
            lock = locked(folder / ".lock", what=f"the trusted metadata in {folder}", timeout=_LOCK_TIMEOUT)
            with lock if alone else nullcontext():
                try:
                    yield
                except (RepositoryError, DownloadError) as error:
                    raise distrust(self._files.location, error, _now()) from error


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _fetcher(files: Files) -> FetcherInterface:
    from tuf.api.exceptions import DownloadHTTPError
    from tuf.ngclient import FetcherInterface

    class OverFiles(FetcherInterface):
        """python-tuf's downloads through our port, which keeps the byte caps itself."""

        # Abstract in FetcherInterface; the updater calls `download_bytes` only.
        def _fetch(self, url: str) -> Iterator[bytes]:
            yield files.get(url, TARGETS_LIMIT)

        def download_bytes(self, url: str, max_length: int) -> bytes:
            try:
                return files.get(url, max_length)
            except MissingFile as error:
                # The updater reads 404 as "no newer root"; any other error would end the refresh.
                raise DownloadHTTPError(error.message, 404) from error

    return OverFiles()
