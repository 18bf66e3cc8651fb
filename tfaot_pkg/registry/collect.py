"""`registry gc`: remove what nothing refers to any more, once nobody can still be reading it.

Orphans of publishers that were killed, and, in a signed registry, metadata, index files and search shards that newer
ones replaced. A reader that began before the replacement may still need the old ones, so they stay for a grace period
that is counted from the replacement. All versions of root stay for ever: clients walk through them.

Only names of the registry's own forms are touched; the lock is held, so nobody publishes meanwhile.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.progress import Silent
from tfaot_pkg.registry.audit import Audit, index_files, signed_state
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.static.layout import INDEX, SEARCH, blob_path
from tfaot_pkg.trust.keys import ROOT, SNAPSHOT
from tfaot_pkg.trust.roles import METADATA, hashed_path, metadata_path
from tfaot_pkg.trust.state import SignedState

GRACE = timedelta(days=7)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_HASHED = re.compile(r"(?P<folder>(?:index|search)/(?:.*/)?)(?P<sha256>[0-9a-f]{64})\.(?P<name>[^/]+)")
_VERSIONED = re.compile(METADATA + r"/\d+\.(?P<role>[a-z0-9-]+)\.json")
_BLOB = re.compile(r"blobs/sha256/[0-9a-f]{2}/[0-9a-f]{62}")


def parse_grace(text: str) -> timedelta:
    """`7d`, `12h`, `30m`, `0s`. Raises RegistryError."""
    form = re.fullmatch(r"(\d{1,6})([smhd])", text, re.ASCII)
    if form is None:
        raise RegistryError(f"{text!r} is no period", hint="write a number and a unit: 7d, 12h, 30m, 0s")
    return timedelta(**{_UNITS[form[2]]: int(form[1])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What was removed (or would be), and how much of what nothing refers to is still in its grace period."""

    removed: tuple[str, ...]
    size: int
    waiting: int
    dry_run: bool


def collect(registry: FolderRegistry, *, grace: timedelta = GRACE, dry_run: bool = False) -> Collected:
    """Remove garbage that is older than `grace`.

    Raises TrustError, with nothing removed, where the registry does not verify: what it refers to cannot be known then.
    Raises StorageError.
    """
    with registry.locked():
        live = _live(registry)
        deadline = time.time() - grace.total_seconds()
        garbage = list(_garbage(registry.root, live))
        old = [one for one in garbage if one.since <= deadline]
        if not dry_run:
            for one in old:
                (registry.root / one.path).unlink(missing_ok=True)
        return Collected(
            removed=tuple(sorted(one.path for one in old)),
            size=sum(one.size for one in old),
            waiting=len(garbage) - len(old),
            dry_run=dry_run,
        )


def _live(registry: FolderRegistry) -> set[str]:
    """The paths of all that a reader may ask for from now on."""
    found = Audit(registry=registry.location, signed=registry.is_signed)
    live: set[str] = set()
    state = signed_state(registry, found)
    with Silent().step("index") as step:
        for index in index_files(registry, state, found, step):
            for entry in index.entries:
                live |= {blob_path(blob.sha256, registry.config.download) for blob in entry.blobs.values()}
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
    """When it became garbage, as far as that can be told: its own time or that of what replaced it."""


def _garbage(root: Path, live: set[str]) -> Iterator[_Garbage]:
    replaced = {_subject(path): _time_of(root / path) for path in live if _subject(path)}
    for folder in (INDEX, SEARCH, METADATA, "blobs"):
        for path, status in _files(root, folder):
            if path in live or not (_is_temporary(path) or _subject(path) or _BLOB.fullmatch(path)):
                continue
            if (role := _VERSIONED.fullmatch(path)) and role["role"] == ROOT:
                continue
            since = max(status.st_mtime, replaced.get(_subject(path), 0.0))
            yield _Garbage(path=path, size=status.st_size, since=since)


def _subject(path: str) -> str:
    """What a file is a version of: `index/di/gi/NAME`, `metadata/ROLE`; empty for anything else."""
    if hashed := _HASHED.fullmatch(path):
        return hashed["folder"] + hashed["name"]
    versioned = _VERSIONED.fullmatch(path)
    return f"{METADATA}/{versioned['role']}" if versioned else ""


def _is_temporary(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(".") and name.endswith(".part")


def _time_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _files(root: Path, folder: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        items = sorted(os.scandir(root / folder), key=lambda item: item.name)
    except FileNotFoundError:
        return
    for item in items:
        if item.is_dir(follow_symlinks=False):
            yield from _files(root, f"{folder}/{item.name}")
        elif item.is_file(follow_symlinks=False):
            yield f"{folder}/{item.name}", item.stat(follow_symlinks=False)
