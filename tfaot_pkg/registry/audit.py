"""`registry verify`: everything that a registry says is checked, and every fault is reported, not only the first.

Signatures, versions and expiry of all metadata, every line of every index file, the search shards, every blob's size
and digest, the signature of every provenance, what every package holds, its binaries included, and whether the other
blobs are the documents in it. Files that nothing refers to are no fault (see `collect`).
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import BinaryIO

from packaging.version import Version

from tfaot_pkg.errors import NetworkError, RegistryError, StorageError, TfaotError, TrustError
from tfaot_pkg.ground.documents import fields_of, iso, read_json, utc
from tfaot_pkg.ground.progress import Progress, Silent, Step
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.package.name import current_name, is_package_name, spellings
from tfaot_pkg.registry.archive import pack, unpack_sound
from tfaot_pkg.registry.attestation import check_attestation
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry
from tfaot_pkg.registry.events import chain_faults, check_signatures
from tfaot_pkg.registry.files.layout import ATTESTATION, BENCH, CHANNELS, INDEX, LATENCY, PREFIX, blob_path, index_path
from tfaot_pkg.registry.files.layout import SEARCH as SEARCH_FOLDER
from tfaot_pkg.registry.files.mirrored import Mirrored
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.index import IndexFile, shard_path, summary_of
from tfaot_pkg.registry.reader import FILES
from tfaot_pkg.registry.static import StaticRegistry
from tfaot_pkg.registry.storage import Storage
from tfaot_pkg.registry.trust.client import SignedIndex
from tfaot_pkg.registry.trust.keys import RELEASE, ROOT, SNAPSHOT, TIMESTAMP
from tfaot_pkg.registry.trust.roles import BIN, METADATA, PACKAGES, SEARCH, TARGETS, hashed_path, metadata_path
from tfaot_pkg.registry.trust.state import SignedState
from tfaot_pkg.registry.writable import WritableRegistry

# An archive may be this many times as long as one that is made here, and some bytes more: deflate libraries differ.
_MOST_LONGER, _LONGER = 1.25, 4096


@dataclass(slots=True, kw_only=True)
class Audit:
    """What was checked and what was found. A note is no fault: it cannot mislead a reader."""

    registry: str
    signed: bool
    packages: int = 0
    versions: int = 0
    blobs: int = 0
    size: int = 0
    """Bytes of all blobs."""
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults

    def as_dict(self) -> dict[str, object]:
        return {**fields_of(self), "ok": self.ok}

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Errors of the registry in the block become faults. Failures of the machine (disk, network) are raised."""
        try:
            yield
        except (StorageError, NetworkError):
            raise
        except TfaotError as error:
            self.faults.append(error.message)


def audit(registry: StaticRegistry, progress: Progress, *, within: timedelta = timedelta()) -> Audit:
    """Check all of `registry`; what expires `within` this time is a fault, too.

    Raises StorageError and NetworkError only; all else is in the result.
    """
    found = Audit(registry=registry.location, signed=registry.is_signed)
    blobs: dict[BlobRef, RegistryEntry] = {}
    shards: dict[str, list[bytes]] = {}
    state = signed_state(registry, found)
    part = part_of(registry, found)
    if part is not None:
        found.notes.append(f"{registry.location} is a partial mirror of {part.origin}: only {part.part} was checked")
    if state is not None:
        found.faults += expiring(state, datetime.now(timezone.utc), within)
    with progress.step("index") as step:
        current: set[str] = set()
        # A file of a former spelling is judged last: what it may hold depends on whether there is a current one.
        former: list[IndexFile] = []
        for index in index_files(registry, state, part, found, step):
            if index.package != current_name(index.package):
                former.append(index)
                continue
            current.add(index.package)
            _count(found, index, part, state, blobs, shards)
    for index in former:
        if current_name(index.package) in current:
            _check_former(registry, found, index)
        else:
            _count(found, index, part, state, blobs, shards)
    # Search shards are about all packages of the origin.
    if part is None or not part.packages:
        _check_search(registry, state, found, shards)
    with progress.step("blobs", total=len(blobs)) as step:
        # By content: versions may share a blob, which is then read once.
        for blob, entry in blobs.items():
            step.advance(note=str(entry))
            found.blobs += 1
            found.size += blob.size
            with found.collecting(), registry.open_blob(blob) as content:
                if blob == entry.blobs.get(PREFIX):
                    _check_package(content, entry, found)
                elif blob == entry.blobs.get(ATTESTATION):
                    check_attestation(content.read(), entry)
                elif blob in {entry.blobs.get(role) for role in (LATENCY, BENCH)}:
                    _check_times(content.read(), entry)
    return found


def _count(
    found: Audit,
    index: IndexFile,
    part: Mirrored | None,
    state: SignedState | None,
    blobs: dict[BlobRef, RegistryEntry],
    shards: dict[str, list[bytes]],
) -> None:
    """Take the package of `index` into account: its blobs, by the entries that name them, and its search line."""
    found.packages += 1
    found.versions += len(index.entries)
    # Of what was retired some may be there still, which nobody may ask for.
    for entry in (one for one in index.trees if not one.retired and is_here(one, part)):
        blobs.update(dict.fromkeys(entry.blobs.values(), entry))
    _check_log(index, state, found)
    summary = summary_of(index.package, index.entries, index.deprecation)
    shards.setdefault(shard_path(index.package), []).append(summary.line())


def _check_log(index: IndexFile, state: SignedState | None, found: Audit) -> None:
    """The events of a package follow one another, each signed by keys that could sign then, and name what is there."""
    found.faults += (
        f"{index.package}: {fault}"
        for fault in chain_faults([(one.raw, one.event) for one in index.lines if one.event])
    )
    trees = {(entry.order, entry.tree) for entry in index.trees}
    for channel, builds in index.standing.pointers.items():
        for one in builds.values():
            if any((Version(one.build), tree) not in trees for tree in one.trees):
                found.faults.append(f"{index.package}: the channel {channel} has {one.build}, which is not there")
    if state is not None and index.events:
        keys = state.former_release_keys()
        for event in index.events:
            with found.collecting():
                check_signatures(event, keys)


def _check_package(archive: BinaryIO, entry: RegistryEntry, found: Audit) -> None:
    """Check an archive as an installation does, with the documents beside it, and what deflate made of it."""
    # Not durable: the copy is removed again at once.
    with storage_errors(f"unpack {entry}"), temporary_folder(prefix="tfaot-verify-") as folder:
        tree = unpack_sound(archive, folder, entry, durable=False)
        with tempfile.TemporaryFile() as again:
            pack(folder, again)
            size = again.tell()
    if tree.digest != entry.tree:
        raise TrustError(f"the files of {entry} are not the tree that the index promises")
    if entry.attestors and ATTESTATION not in entry.blobs:
        found.faults.append(f"{entry} has lost its signed provenance")
    # Deflate libraries differ by less. Empty blocks, which give nothing when they are unpacked, can have any size.
    if entry.blobs[PREFIX].size > _MOST_LONGER * size + _LONGER:
        found.faults.append(f"the archive of {entry} is longer than its content explains: {entry.blobs[PREFIX].size}")
    for role, name in FILES.items():
        inside = {tree.files.get(f"share/{stem}/{name}") for stem in spellings(entry.name)} - {None}
        if role in entry.blobs and {entry.blobs[role].sha256} != inside:
            found.faults.append(f"the {role} of {entry} is not the one in its archive")
    for role in sorted(entry.blobs.keys() - {PREFIX, ATTESTATION, LATENCY, BENCH, *FILES}):
        found.notes.append(f"{entry} has a blob {role!r}, which this version of tfaot-pkg does not know")


def _check_times(data: bytes, entry: RegistryEntry) -> None:
    """Times of an engine or of others: JSON, written as publishers write it."""
    try:
        if json.dumps(json.loads(data)).encode() == data:
            return
    except (ValueError, RecursionError):
        pass
    raise TrustError(f"the measurements beside {entry} are not written as tfaot-pkg writes them")


def _check_former(registry: StaticRegistry, found: Audit, former: IndexFile) -> None:
    """The file of a former spelling repeats lines of that of today; an older tool may have added others."""
    current = registry.index_file(former.package)
    if former.to_bytes() != current.under(former.package).to_bytes():
        found.notes.append(
            f"{registry.location}: the index files of {current.package} and of {former.package}, its former spelling, "
            "differ: publishing a version of it corrects this"
        )


def part_of(registry: StaticRegistry, found: Audit) -> Mirrored | None:
    """What `registry` has of another one, if it is a partial mirror; None if it should have everything."""
    mirrored: Mirrored | None = None
    with found.collecting():
        mirrored = Mirrored.of(registry.files)
    return mirrored if mirrored is not None and mirrored.is_partial else None


def is_here(entry: RegistryEntry, part: Mirrored | None) -> bool:
    """Whether the blobs of `entry` should be in a registry that has `part` (None: all) of another one."""
    return part is None or part.has_tree(entry.architecture, entry.channels)


def signed_index(registry: StaticRegistry) -> SignedIndex | None:
    """What verifies `registry`; None if it is unsigned."""
    # A registry on a server wraps its SignedIndex (registry/remote/registry.py).
    signed = registry.index if isinstance(registry.index, SignedIndex) else getattr(registry.index, "index", None)
    return signed if isinstance(signed, SignedIndex) else None


def signed_state(registry: StaticRegistry, found: Audit) -> SignedState | None:
    """The one signed state that all else is compared with; None if the registry is unsigned, or that is a fault."""
    signed = signed_index(registry)
    if signed is None:
        return None
    with found.collecting():
        signed.refresh()  # as a reader sees it: rollback, expiry of what every reader needs, the clock
    try:
        # Read in spite of faults, so that all of them are reported.
        return signed.state()
    except TrustError as error:
        found.faults.append(error.message)
        return None


def index_files(
    registry: StaticRegistry, state: SignedState | None, part: Mirrored | None, found: Audit, step: Step
) -> Iterator[IndexFile]:
    """Every index file that can be read; the others are faults."""
    if registry.is_signed:
        for name in _role_names(state, found) if state else ():
            step.advance(note=name)
            assert state is not None
            with found.collecting():
                if name.startswith(BIN):
                    yield from _bin_indexes(state, name, part, found)
        return
    folder = isinstance(registry, FolderRegistry)
    names = registry.walk() if isinstance(registry, FolderRegistry) else registry.names()
    for name in names if part is None else filter(part.has, names):
        step.advance(note=name)
        with found.collecting():
            read = [registry.index_file_of(one) for one in ([name] if folder else spellings(name))]
            yield from (index for index in read if index.lines)
            if not any(index.lines for index in read):
                found.faults.append(f"{registry.location}: {name} is in the wrong folder, or is empty")


def _role_names(state: SignedState, found: Audit) -> list[str]:
    try:
        return [TARGETS, PACKAGES, SEARCH, *state.bins.get_roles()]
    except TrustError as error:
        found.faults.append(error.message)
        return []


def expiring(state: SignedState, now: datetime, within: timedelta) -> list[str]:
    """What expires between `now` and the end of `within`, or has expired; () for files that cannot be read.

    What has expired of root, snapshot and timestamp is left to the reader, who rejects it.
    """
    ends = _ends(state)
    soon = {name: expires for name, expires in ends.items() if expires <= now + within}
    left = {name: expires for name, expires in soon.items() if expires > now or name not in _ALWAYS}
    return _expiries(state, left, now)


def renewals(registry: StaticRegistry, now: datetime) -> list[str]:
    """What should be signed again: it expires within 30 days, and less than a third of its lifetime is left.

    What a night signs is newer, unless its key is missing: that of root is not on the machine of nights.
    Nothing of registries without signatures; faults of those that cannot be read.
    """
    found = Audit(registry=registry.location, signed=registry.is_signed)
    state = signed_state(registry, found)
    if state is None:
        return found.faults
    old = {
        name: expires
        for name, expires in _ends(state).items()
        if expires < now + _EARLY and state.lifetimes.is_old(name if name in _ALWAYS else RELEASE, expires, now)
    }
    return [*found.faults, *_expiries(state, old, now)]


_ALWAYS, _EARLY = (ROOT, SNAPSHOT, TIMESTAMP), timedelta(days=30)
"""What every reader needs."""


def _ends(state: SignedState) -> dict[str, datetime]:
    """When signatures expire, by role; those of files that cannot be read are left out."""
    ends = {name: getattr(state, name).signed.expires for name in _ALWAYS}
    with suppress(TrustError):
        ends |= {name: state.role(name).signed.expires for name in (TARGETS, PACKAGES, SEARCH, *state.bins.get_roles())}
    return ends


def _expiries(state: SignedState, ends: Mapping[str, datetime], now: datetime) -> list[str]:
    return [
        f"{state.files.location}: {name} {'has expired' if expires <= now else 'expires'} at {iso(expires)}"
        for name, expires in ends.items()
    ]


def _bin_indexes(state: SignedState, name: str, part: Mirrored | None, found: Audit) -> Iterator[IndexFile]:
    for path in state.role(name).signed.targets:
        package = path.rpartition("/")[2]
        if not is_package_name(package) or index_path(package) != path or state.role_for(path) != name:
            found.faults.append(f"{state.files.location}: {name} lists {path}, which is no path of an index file")
            continue
        if part is not None and not part.has(package):
            continue
        with found.collecting():
            yield IndexFile.parse(state.read(path), f"{state.files.location}/{path}", package)


def _check_search(
    registry: StaticRegistry, state: SignedState | None, found: Audit, shards: dict[str, list[bytes]]
) -> None:
    """Compare the search shards with what the index files say. If those are damaged there is nothing to compare."""
    if found.faults or not (state or registry.config.has_search):
        return
    # One state for all shards, if the registry is signed.
    read = state.read if state else registry.index.read
    paths = state.role(SEARCH).signed.targets if state else registry.index.search_shards()
    for path in sorted({*paths, *shards}):
        with found.collecting():
            if (read(path) or b"") == _sorted(shards.get(path, [])):
                continue
            text = f"{registry.location}/{path} does not agree with the index files"
            if state:
                found.faults.append(text)
            else:
                # Unsigned, the shard is written after the index file: a publisher killed in between is no fault.
                found.notes.append(f"{text}: publishing any of its packages again corrects it")


def _sorted(lines: list[bytes]) -> bytes:
    # Index files come in the order of bins; the lines of a shard are sorted by name.
    named = {read_json(line)["name"]: line for line in lines}
    return b"".join(named[name] for name in sorted(named))


# Readers that hold an older state may still ask for its files.
GRACE = timedelta(days=7)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_HASHED = re.compile(r"(?P<folder>(?:index|search)/(?:.*/)?)(?P<sha256>[0-9a-f]{64})\.(?P<name>[^/]+)")
_VERSIONED = re.compile(METADATA + r"/\d+\.(?P<role>[a-z0-9-]+)\.json")
_CHANNELS = re.compile(r"[0-9a-f]{64}\.channels\.json")
_BLOB = re.compile(r"blobs/sha256/[0-9a-f]{2}/[0-9a-f]{62}")


def parse_period(text: str) -> timedelta:
    """`7d`, `12h`, `30m`, `0s`. Raises RegistryError."""
    form = re.fullmatch(r"(\d{1,6})([smhd])", text, re.ASCII)
    if form is None:
        raise RegistryError(f"{text!r} is not a period", hint="write a number and a unit: 7d, 12h, 30m, 0s")
    return timedelta(**{_UNITS[form[2]]: int(form[1])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What was removed (or would be), and how much of what nothing refers to is still in its grace period."""

    removed: tuple[str, ...]
    size: int
    waiting: int
    dry_run: bool


_LEAST = timedelta(hours=1)
"""The shortest grace period where publishers do not wait for a collector."""


def collect(registry: WritableRegistry, *, grace: timedelta = GRACE, dry_run: bool = False) -> Collected:
    """Remove garbage that is older than `grace`.

    Raises TrustError, with nothing removed, if the registry does not verify: what it refers to cannot be known then.
    Raises StorageError.
    """
    if grace < _LEAST and not registry.files.has_lock:
        raise RegistryError(
            f"nobody can lock {registry.location}: what a publisher writes now would be removed",
            hint=f"--grace of {_LEAST.total_seconds() / 3600:g}h or more",
        )
    # A publisher writes blobs before anything refers to them: without the lock they would count as garbage.
    with registry.files.changing(registry.lock_timeout):
        deadline = time.time() - grace.total_seconds()
        live = _live(registry, deadline)
        garbage = list(_garbage(registry.files, live))
        old = [one for one in garbage if one.since <= deadline]
        if not dry_run:
            for one in old:
                registry.files.remove(one.path)
        return Collected(
            removed=tuple(sorted(one.path for one in old)),
            size=sum(one.size for one in old),
            waiting=len(garbage) - len(old),
            dry_run=dry_run,
        )


def _live(registry: WritableRegistry, deadline: float) -> set[str]:
    """The paths of all that a reader may ask for from now on; what was retired before `deadline` is not among them."""
    found = Audit(registry=registry.location, signed=registry.is_signed)
    live: set[str] = set()
    state, part = signed_state(registry, found), part_of(registry, found)
    with Silent().step("index") as step:
        for index in index_files(registry, state, part, found, step):
            for entry in index.trees:
                if not is_here(entry, part) or (entry.retired and utc(entry.retired).timestamp() <= deadline):
                    continue
                live |= {blob_path(blob.sha256, registry.config.download) for blob in entry.blobs.values()}
            # A line of a newer tool may refer to blobs that we do not know of.
            if any(line.version and line.entry is None for line in index.lines):
                found.faults.append(f"{index.package} has versions that a newer tfaot-pkg published")
    if found.faults:
        raise TrustError(
            f"nothing was removed, because not all of {registry.location} can be read: {found.faults[0]}",
            hint="tfaot-pkg registry verify lists all faults; where a newer version published, use that one",
        )
    return live | _live_metadata(state) if state else live


def _live_metadata(state: SignedState) -> set[str]:
    """Current metadata (all of root), index files and search shards."""
    live = {metadata_path(ROOT, version) for version in range(1, state.root.signed.version + 1)}
    live.add(metadata_path(SNAPSHOT, state.snapshot.signed.version))
    for file, meta in state.snapshot.signed.meta.items():
        role = file.removesuffix(".json")
        live.add(metadata_path(role, meta.version))
        live |= {hashed_path(path, info.hashes["sha256"]) for path, info in state.role(role).signed.targets.items()}
    return live


@dataclass(frozen=True, slots=True, kw_only=True)
class _Garbage:
    path: str
    size: int
    since: float
    """When it became garbage: its own time or that of what replaced it, whichever is later."""


def _garbage(files: Storage, live: set[str]) -> Iterator[_Garbage]:
    # Beside `config.json` all but channels is someone else's.
    found = [one for one in files.items("") if _CHANNELS.fullmatch(one.path)]
    found += [one for folder in (INDEX, SEARCH_FOLDER, METADATA, "blobs") for one in files.items(folder)]
    replaced = {_subject(one.path): one.modified for one in found if one.path in live and _subject(one.path)}
    for one in found:
        # Files that are not of our layout belong to someone else, and stay.
        if one.path in live or not (_is_temporary(one.path) or _subject(one.path) or _BLOB.fullmatch(one.path)):
            continue
        # Clients verify the chain of roots from the one that they know, so old roots stay.
        if (role := _VERSIONED.fullmatch(one.path)) and role["role"] == ROOT:
            continue
        # An old file may have been replaced only now, and readers may still want it.
        since = max(one.modified, replaced.get(_subject(one.path), 0.0))
        yield _Garbage(path=one.path, size=one.size, since=since)


def _subject(path: str) -> str:
    """What a file is a version of: `index/di/gi/NAME`, `metadata/ROLE`; empty for anything else."""
    if _CHANNELS.fullmatch(path):
        return CHANNELS
    if hashed := _HASHED.fullmatch(path):
        return hashed["folder"] + hashed["name"]
    versioned = _VERSIONED.fullmatch(path)
    return f"{METADATA}/{versioned['role']}" if versioned else ""


def _is_temporary(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(".") and name.endswith(".part")
