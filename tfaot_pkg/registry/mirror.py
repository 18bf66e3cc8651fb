"""A copy of a registry, byte for byte, whole or in part: readers verify it as they verify its origin.

All is verified before it is kept, and nothing is trusted that a client of the origin would not trust. Blobs are
written first, then what names them, `timestamp.json` of a signed registry last: so at every moment the mirror is what
the origin was at one. A run that fails or is killed leaves the state before; the next one keeps what is there.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from tfaot_pkg.errors import NetworkError, RegistryError, TfaotError, TrustError
from tfaot_pkg.ground.documents import iso
from tfaot_pkg.ground.http.site import Patience
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.objects import BucketAddress
from tfaot_pkg.ground.progress import Progress, Silent, Step
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.package.name import is_package_name, package_meant_by, spellings
from tfaot_pkg.registry.audit import Collected, collect, is_here, signed_index
from tfaot_pkg.registry.blobs import changed, place
from tfaot_pkg.registry.destination import Contents, Destination, FolderDestination, Stopped, at_once
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.files import Files, FolderFiles
from tfaot_pkg.registry.files.layout import CHANNELS, CONFIG, blob_path, index_path, is_file_path, is_inside, is_sha256
from tfaot_pkg.registry.files.mirrored import MIRROR, Mirrored
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.index import LIMIT as INDEX_LIMIT
from tfaot_pkg.registry.index import IndexFile, shard_path, summaries_in
from tfaot_pkg.registry.named import open_registry, remote_meant
from tfaot_pkg.registry.oci.destination import OciDestination
from tfaot_pkg.registry.oci.files import OciFiles
from tfaot_pkg.registry.oci.reference import Reference
from tfaot_pkg.registry.places import require_folder
from tfaot_pkg.registry.reader import Requirement, unknown_package
from tfaot_pkg.registry.remote.cache import RemoteCache
from tfaot_pkg.registry.remote.files import HttpFiles, digest_in
from tfaot_pkg.registry.remote.registry import open_remote
from tfaot_pkg.registry.static import CONFIG_LIMIT, StaticRegistry
from tfaot_pkg.registry.trust.client import Anchor, SignedIndex
from tfaot_pkg.registry.trust.keys import ROOT, SNAPSHOT
from tfaot_pkg.registry.trust.roles import (
    PACKAGES,
    SEARCH,
    TARGETS,
    TIMESTAMP_FILE,
    hashed_path,
    limit_of,
    metadata_path,
)
from tfaot_pkg.registry.trust.state import Floor, SignedState, load_root

if TYPE_CHECKING:
    from tuf.api.metadata import TargetFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What to mirror: these packages (empty: all) with what they depend on, of a channel, for an architecture."""

    packages: tuple[str, ...] = ()
    channel: str = ""
    architecture: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirroring:
    """What a run did: it brought `fetched` files of `size` bytes in all, and found `kept` that were there already.

    `part` is what it has of its origin, for people (empty: all); `expires` is when the first of the signatures ends
    that every reader needs (empty: unsigned).
    """

    folder: str
    origin: str
    signed: bool
    root: str
    part: str
    packages: int
    fetched: int
    size: int
    kept: int
    expires: str
    collected: Collected | None = None


def mirror(
    text: str,
    to: Path | Reference,
    part: Part,
    folders: Folders,
    *,
    progress: Progress,
    grace: timedelta | None = None,
    lock_timeout: float = 600,
) -> Mirroring:
    """Make `to` a mirror of the registry that `text` means (named.open_registry), or bring it up to date.

    With `grace` what the origin does not name any more is removed, if it was replaced longer than that ago. Raises
    RegistryError (another folder, unknown package, a missing blob), TrustError, NetworkError, StorageError.
    """
    destination = _destination(to, folders)
    if grace is not None and not isinstance(destination, FolderDestination):
        raise RegistryError(
            f"{destination.location} is in an OCI registry, which removes what no tag needs by itself",
            hint="leave out --prune; its administrator decides when that happens",
        )
    stop = threading.Event()
    origin = _open(text, destination.scratch, folders, progress, stop)
    registry = origin.registry
    _require_plain(registry)
    with destination.opened(lock_timeout):
        signed = signed_index(registry)
        found = _signed(origin, signed, destination, part, stop) if signed else _unsigned(origin, part)
        _require_same(destination, found.mirrored)
        copying = _Copying(origin=origin, destination=destination, progress=progress, stop=stop)
        copying.check(found)
        destination.begin(found.mirrored, found.contents)
        # Nothing may refer to what is not there yet.
        copying.bring("mirror packages", found.blobs)
        copying.bring("mirror the index", found.index)
        copying.close(found.closing)
    collected = None
    if grace is not None and isinstance(destination, FolderDestination):
        anchor = Anchor.of(destination.location, folders, found.bootstrap)
        collected = collect(FolderRegistry.open(destination.root, anchor=anchor), grace=grace)
    return Mirroring(
        folder=destination.location,
        origin=found.mirrored.origin,
        signed=registry.is_signed,
        root=found.mirrored.root,
        part=found.mirrored.part,
        packages=found.packages,
        fetched=copying.fetched,
        size=copying.size,
        kept=copying.kept,
        expires=found.expires,
        collected=collected,
    )


def _destination(to: Path | Reference, folders: Folders) -> Destination:
    if isinstance(to, Reference):
        return OciDestination.at(to, folders)
    require_folder(to, "a mirror")
    return FolderDestination.at(to)


def _require_same(destination: Destination, mirrored: Mirrored) -> None:
    """Raise RegistryError if `destination` is a mirror of another registry."""
    present = Mirrored.of(destination.files)
    if present is None:
        return
    if present.root != mirrored.root or not (mirrored.root or present.origin == mirrored.origin):
        raise RegistryError(
            f"{destination.location} is a mirror of {present.origin}, and not of {mirrored.origin}",
            hint="name a new folder; a registry that was created again, or signed since, needs one too",
        )


def _require_plain(registry: StaticRegistry) -> None:
    """Raise RegistryError if the blobs of `registry` are not below its folder."""
    probe = sha256_bytes(b"")
    path = blob_path(probe, registry.config.download)
    # `config.json` is copied as it is, and may be signed: the mirror's blobs are where it says.
    if not is_inside(registry.config.download) or not is_file_path(path) or digest_in(path) != probe:
        raise RegistryError(
            f"the blobs of {registry.location} are elsewhere ({registry.config.download}), so it cannot be mirrored",
            hint="ask its maintainer for a registry whose blobs are in its folder",
        )


@dataclass(slots=True, kw_only=True)
class _Copying:
    """All that is written goes through here: a name from a server is a path of a registry, or an error."""

    origin: _Origin
    destination: Destination
    progress: Progress
    stop: threading.Event
    fetched: int = 0
    size: int = 0
    kept: int = 0

    def check(self, found: _Found) -> None:
        """Raise TrustError if not all names are those of files of a registry."""
        names = (path for each in (*found.blobs.values(), *found.index.values(), found.closing) for path in each)
        for path in names:
            if not is_file_path(path):
                raise TrustError(
                    f"{self.origin.registry.location} names {path!r}, which is no file of a registry",
                    hint="nothing was written; tell the registry's maintainer",
                )

    def bring(self, label: str, contents: Contents) -> None:
        """Copy what is not there yet: content that its path's digest determines."""
        wanted = {path: blob for each in contents.values() for path, blob in each.items()}
        absent = {path: blob for path, blob in wanted.items() if not self.destination.has(path, blob)}
        self.kept += len(wanted) - len(absent)
        with self.progress.step(label, total=sum(blob.size for blob in absent.values()), unit="B") as step:

            def bring_one(item: tuple[str, BlobRef]) -> tuple[BlobRef, bool]:
                path, blob = item
                return blob, self.destination.bring(path, blob, partial(self.origin.place, path, blob))

            for blob, is_new in at_once(bring_one, list(absent.items()), self.stop):
                step.advance(blob.size)
                self._count(blob.size, is_new=is_new)

    def close(self, closing: Mapping[str, bytes]) -> None:
        """Write the files that may change."""
        written = self.destination.close(closing)
        for path, data in closing.items():
            if path != MIRROR:
                self._count(len(data), is_new=path in written)

    def _count(self, size: int, *, is_new: bool) -> None:
        self.kept += not is_new
        self.fetched += is_new
        self.size += size * is_new


# The origin.


class _Origin(Protocol):
    @property
    def registry(self) -> StaticRegistry: ...

    def place(self, path: str, blob: BlobRef, final: Path) -> None:
        """Make the content at `path`, verified, the file `final`. Raises RegistryError, TrustError, NetworkError."""


def _open(text: str, scratch: Path, folders: Folders, progress: Progress, stop: threading.Event) -> _Origin:
    remote = remote_meant(text, folders)
    if remote is None or isinstance(remote.address, Path | BucketAddress):
        return _Storage(registry=open_registry(text, folders, progress=progress))
    cache, stoppable = RemoteCache(root=scratch), _Stoppable(stop)
    files = (
        OciFiles.of(remote.address, cache, progress=stoppable, uses_copies=False)
        if isinstance(remote.address, Reference)
        else HttpFiles(
            address=remote.address, cache=cache, patience=Patience.of_user(), progress=stoppable, uses_copies=False
        )
    )
    return _Server(registry=open_remote(files, remote.root, folders), files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Storage:
    registry: StaticRegistry

    def place(self, path: str, blob: BlobRef, final: Path) -> None:
        try:
            with self.registry.files.open(path, blob.size) as source:
                place(final, blob, source)
        except TrustError as error:
            raise changed(f"{self.registry.location}/{path}", blob) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    registry: StaticRegistry
    files: HttpFiles

    def place(self, path: str, blob: BlobRef, final: Path) -> None:
        self.files.move(path, blob.size, final)


class _Stoppable(Silent):
    """Downloads report here, and end here once one of them has failed."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    @contextmanager
    def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
        yield self

    def advance(self, amount: float = 1, *, note: str = "") -> None:
        if self._stop.is_set():
            raise Stopped("another transfer has failed")

    def phase(self, name: str) -> None: ...

    def skip(self, reason: str) -> None: ...


# What there is to copy.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What belongs into a mirror: content by path, then the files that make it hold, in the order of writing."""

    mirrored: Mirrored
    bootstrap: bytes | None
    packages: int
    blobs: Contents
    index: Contents
    closing: Mapping[str, bytes]
    expires: str = ""

    @property
    def contents(self) -> Contents:
        groups = {**self.blobs, **self.index}
        return {name: {**self.blobs.get(name, {}), **self.index.get(name, {})} for name in groups}


@dataclass(slots=True, kw_only=True)
class _Selection:
    """The index files of a part of a registry, and the blobs that they name. `read` gives an index file by its name."""

    registry: StaticRegistry
    part: Part
    read: Callable[[str], bytes | None]
    stop: threading.Event = field(default_factory=threading.Event)
    filter: Mirrored = field(init=False)
    taken: set[str] = field(default_factory=set)
    """Names of index files."""
    blobs: dict[str, dict[str, BlobRef]] = field(default_factory=lambda: defaultdict(dict))
    _later: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        channel, channels = self.part.channel, self.registry.channels
        if channel and channels is None:
            raise RegistryError(f"{self.registry.location} has no channels", hint="leave out --channel")
        if channel and channels is not None and channels.require(channel, self.registry.location) == channels.first:
            channel = ""  # it has everything
        self.filter = Mirrored(origin="", channel=channel, architecture=self.part.architecture)

    def take(self, names: Iterable[str], *, together: bool = True) -> None:
        """These packages. Raises RegistryError if there is none of a name."""
        self._read_all(sorted(names), together)
        while self.part.packages and (later := self._later - self.taken):
            self._read_all(sorted(later), together)

    def _read_all(self, names: Sequence[str], together: bool) -> None:
        # An unsigned registry's files come in this order already (HttpFiles.fetch_ahead).
        read = at_once(self.read, names, self.stop) if together else map(self.read, names)
        for name, data in zip(names, read, strict=True):
            self.taken.add(name)
            if data is not None:
                self._take(IndexFile.parse(data, f"{self.registry.location}/{index_path(name)}", name))

    def _take(self, index: IndexFile) -> None:
        if any((line.version or line.of) and line.entry is None for line in index.lines):
            raise RegistryError(
                f"{index.package} has versions that a newer tfaot-pkg published, so it cannot be mirrored",
                hint="upgrade tfaot-pkg",
            )
        # What was retired cannot be installed any more, and may be gone.
        for entry in (one for one in index.trees if not one.retired and is_here(one, self.filter)):
            for blob in entry.blobs.values():
                path = blob_path(blob.sha256, self.registry.config.download)
                self.blobs[shard_path(index.package)][path] = blob
            for text in entry.dependencies:
                self._later |= {*spellings(Requirement.parse(text).package)}


def _mirrored(selection: _Selection, part: Part, root: str) -> Mirrored:
    registry = selection.registry
    names = set(map(package_meant_by, selection.taken)) if part.packages else ()
    return Mirrored(
        origin=registry.location,
        root=root,
        packages=tuple(sorted(names)),
        channel=selection.filter.channel,
        architecture=part.architecture,
    )


def _asked(part: Part) -> list[str]:
    """The names that index files of the packages that were asked for may have."""
    return [name for text in part.packages for name in spellings(package_meant_by(text))]


def _require_known(registry: StaticRegistry, part: Part, known: Callable[[str], bool]) -> None:
    for text in part.packages:
        if not any(map(known, spellings(package_meant_by(text)))):
            raise unknown_package(registry, package_meant_by(text))


def _unsigned(origin: _Origin, part: Part) -> _Found:
    registry = origin.registry
    plain: dict[str, bytes] = {}

    def kept(path: str) -> bytes | None:
        data = registry.index.read(path)
        if data is not None:
            plain[path] = data
        return data

    config = registry.files.get(CONFIG, CONFIG_LIMIT)
    selection = _Selection(registry=registry, part=part, read=lambda name: kept(index_path(name)))
    # The shards before the index files: these then are as new, or newer, as after a publication.
    shards: dict[str, bytes] = {}
    for path in registry.index.search_shards():
        if (data := registry.index.read(path)) is not None:
            shards[path] = data
    names = _asked(part) if part.packages else sorted(_all_names(registry, shards))
    if isinstance(registry.files, HttpFiles):
        registry.files.fetch_ahead([index_path(name) for name in names], INDEX_LIMIT)
    selection.take(names, together=False)
    _require_known(registry, part, lambda name: index_path(name) in plain)
    plain |= shards
    if registry.config.has_channels:
        kept(CHANNELS)
    mirrored = _mirrored(selection, part, "")
    return _Found(
        mirrored=mirrored,
        bootstrap=None,
        packages=len({package_meant_by(path.rpartition("/")[2]) for path in plain if path.startswith("index/")}),
        blobs=selection.blobs,
        index={},
        closing={**plain, MIRROR: mirrored.to_bytes(), CONFIG: config},
    )


def _all_names(registry: StaticRegistry, shards: Mapping[str, bytes]) -> set[str]:
    if isinstance(registry, FolderRegistry):
        return set(registry.walk())
    listed = {one.name for path, data in shards.items() for one in summaries_in(data, f"{registry.location}/{path}")}
    return {spelling for name in listed for spelling in spellings(name)}


def _signed(
    origin: _Origin, signed: SignedIndex, destination: Destination, part: Part, stop: threading.Event
) -> _Found:
    registry = origin.registry
    signed.refresh()  # as a reader: rollback, expiry, the clock
    bootstrap = signed.bootstrap()
    floor = _higher(signed.floor(), _floor_of(destination.files, bootstrap))
    try:
        reading = _Reading(origin=registry.files, local=destination.local)
        state = _state(reading, bootstrap, floor, stop)
    except TrustError:
        # A file of this mirror may be damaged: then its origin's replaces it.
        reading = _Reading(origin=registry.files, local=None)
        state = _state(reading, bootstrap, floor, stop)
    targets = _index_targets(state)
    selection = _Selection(
        registry=registry,
        part=part,
        read=lambda name: state.read(index_path(name)) if name in targets else None,
        stop=stop,
    )
    _require_known(registry, part, targets.__contains__)
    selection.take(_asked(part) if part.packages else targets)
    taken = selection.taken & targets.keys()
    others = {**state.role(SEARCH).signed.targets, **state.role(TARGETS).signed.targets}
    index: dict[str, dict[str, BlobRef]] = defaultdict(dict)
    for name in sorted(taken):
        index[shard_path(name)][hashed_path(index_path(name), targets[name].sha256)] = targets[name]
    for path, blob in _blobs_of(state, others).items():
        index[path][hashed_path(path, blob.sha256)] = blob
    mirrored = _mirrored(selection, part, sha256_bytes(reading.got[metadata_path(ROOT, 1)]))
    # Roots stand beside the timestamp: a new root without it may be all that a reader rejects the old one for.
    roots = [metadata_path(ROOT, version) for version in range(1, state.root.signed.version + 1)]
    last = [metadata_path(SNAPSHOT, state.snapshot.signed.version), *roots]
    before = [path for path in reading.got if path not in {*last, CONFIG, TIMESTAMP_FILE}]
    closing = {path: reading.got[path] for path in [*before, *last]}
    ends = (state.root, state.snapshot, state.timestamp, state.role(TARGETS), state.role(PACKAGES), state.role(SEARCH))
    return _Found(
        mirrored=mirrored,
        bootstrap=bootstrap,
        packages=len(set(map(package_meant_by, taken))),
        blobs=selection.blobs,
        index=index,
        closing={
            **closing,
            MIRROR: mirrored.to_bytes(),
            CONFIG: reading.got[CONFIG],
            TIMESTAMP_FILE: reading.got[TIMESTAMP_FILE],
        },
        expires=iso(min(one.signed.expires for one in ends)),
    )


@dataclass(slots=True, kw_only=True)
class _Reading:
    """The origin's files (a `Files`), except those that never change and are in the mirror; metadata is remembered."""

    origin: Files
    local: FolderFiles | None
    got: dict[str, bytes] = field(default_factory=dict)

    @property
    def location(self) -> str:
        return self.origin.location

    def get(self, path: str, limit: int) -> bytes:
        if path in self.got:
            return self.got[path]
        data = self._from_mirror(path, limit)
        if data is None:
            data = self.origin.get(path, limit)
        if not digest_in(path):
            self.got[path] = data
        return data

    def _from_mirror(self, path: str, limit: int) -> bytes | None:
        if self.local is None or path in (CONFIG, TIMESTAMP_FILE) or not self.local.has(path):
            return None
        data = self.local.get(path, limit)
        digest = digest_in(path)
        return None if digest and sha256_bytes(data) != digest else data

    @contextmanager
    def open(self, path: str, limit: int) -> Iterator[BinaryIO]:
        with self.origin.open(path, limit) as file:
            yield file

    def has(self, path: str) -> bool:
        return self.origin.has(path)


def _state(reading: _Reading, bootstrap: bytes, floor: Floor, stop: threading.Event) -> SignedState:
    """The origin's state with all that it consists of, verified. Raises TrustError, StorageError, NetworkError."""
    state = SignedState.load(reading, bootstrap, floor)
    names = [TARGETS, PACKAGES, SEARCH, *state.bins.get_roles()]
    known = state.snapshot.signed.meta
    versions = {name: known[f"{name}.json"].version for name in names if f"{name}.json" in known}
    wanted = [(metadata_path(name, version), limit_of(name)) for name, version in versions.items()]
    for _ in at_once(lambda one: reading.get(*one), wanted, stop):
        pass
    for name in names:
        state.role(name)
    state.former_release_keys()  # reads and verifies all roots before this one
    newest = metadata_path(ROOT, state.root.signed.version)
    # If that is the pinned one, its file was not read yet.
    if load_root(reading, reading.get(newest, limit_of(ROOT))).signed != state.root.signed:
        raise TrustError(f"{reading.location}: {newest} is not the root that is trusted")
    state.require_config(sha256_bytes(reading.get(CONFIG, CONFIG_LIMIT)))
    return state


def _floor_of(files: Files, bootstrap: bytes) -> Floor:
    """The versions that the mirror has: it never goes back. Raises NetworkError."""
    try:
        state = SignedState.load(files, bootstrap)
    except NetworkError:
        raise
    except TfaotError:
        return Floor()
    return Floor(timestamp=state.timestamp.signed.version, snapshot=state.snapshot.signed.version)


def _higher(one: Floor, other: Floor) -> Floor:
    return Floor(timestamp=max(one.timestamp, other.timestamp), snapshot=max(one.snapshot, other.snapshot))


def _blobs_of(state: SignedState, targets: Mapping[str, TargetFile]) -> dict[str, BlobRef]:
    """Size and digest of each of `targets`, except `config.json`, which has a plain name. Raises TrustError."""
    found: dict[str, BlobRef] = {}
    for path, info in targets.items():
        sha256 = info.hashes.get("sha256")
        if not is_sha256(sha256):
            raise TrustError(f"{state.files.location}: {path} is signed without a SHA-256")
        if path != CONFIG:
            found[path] = BlobRef(sha256=str(sha256), size=info.length)
    return found


def _index_targets(state: SignedState) -> dict[str, BlobRef]:
    """Every index file of the registry, by its name."""
    found: dict[str, BlobRef] = {}
    for role in state.bins.get_roles():
        targets = state.role(role).signed.targets
        for path, blob in _blobs_of(state, targets).items():
            name = path.rpartition("/")[2]
            if not is_package_name(name) or index_path(name) != path:
                raise TrustError(f"{state.files.location}: {role} lists {path}, which is no path of an index file")
            found[name] = blob
    return found
