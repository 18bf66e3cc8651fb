"""`registry verify`: everything that a registry says is checked, and every fault is reported, not only the first.

Signatures, versions and expiry of all metadata, every line of every index file, the search shards, every blob's size
and digest. What lies in the folder and is referred to by nothing is no fault (see collect.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone

from tfaot_pkg.errors import NetworkError, StorageError, TfaotError, TrustError
from tfaot_pkg.package.name import is_package_name
from tfaot_pkg.progress import Progress, Step
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.index import IndexFile
from tfaot_pkg.registry.layout import index_path
from tfaot_pkg.registry.static import StaticRegistry
from tfaot_pkg.registry.summary import shard_path, summary_of
from tfaot_pkg.trust.client import SignedIndex
from tfaot_pkg.trust.roles import BIN, PACKAGES, SEARCH, TARGETS, iso
from tfaot_pkg.trust.state import SignedState


@dataclass(slots=True, kw_only=True)
class Audit:
    """What was checked and what was found. A note is worth knowing, but nothing that a reader can be misled by."""

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
        return {
            "registry": self.registry,
            "signed": self.signed,
            "ok": self.ok,
            "packages": self.packages,
            "versions": self.versions,
            "blobs": self.blobs,
            "size": self.size,
            "faults": self.faults,
            "notes": self.notes,
        }

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """What is wrong inside becomes a fault. The machine's own failures (disk, network) are raised as they are."""
        try:
            yield
        except (StorageError, NetworkError):
            raise
        except TfaotError as error:
            self.faults.append(error.message)


def audit(registry: StaticRegistry, progress: Progress) -> Audit:
    """Check all of `registry`. Raises StorageError and NetworkError only; all else is in the result."""
    found = Audit(registry=registry.location, signed=registry.is_signed)
    blobs: dict[BlobRef, str] = {}
    shards: dict[str, list[bytes]] = {}
    state = signed_state(registry, found)
    with progress.step("index") as step:
        for index in index_files(registry, state, found, step):
            found.packages += 1
            found.versions += len(index.entries)
            for entry in index.entries:
                blobs.update({blob: str(entry) for blob in entry.blobs.values()})
            summary = summary_of(index.package, index.entries, index.deprecation)
            shards.setdefault(shard_path(index.package), []).append(summary.line())
    _check_search(registry, state, found, shards)
    with progress.step("blobs", total=len(blobs)) as step:
        for blob, owner in blobs.items():
            step.advance(note=owner)
            found.blobs += 1
            found.size += blob.size
            with found.collecting(), registry.open_blob(blob):
                pass
    return found


def signed_state(registry: StaticRegistry, found: Audit) -> SignedState | None:
    """The one signed state that all else is compared with; None where the registry is unsigned, or that is a fault."""
    signed = registry.index if isinstance(registry.index, SignedIndex) else getattr(registry.index, "index", None)
    if not isinstance(signed, SignedIndex):
        return None
    with found.collecting():
        signed.refresh()  # as a reader sees it: rollback, expiry of what every reader needs, the clock
    try:
        return signed.state()
    except TrustError as error:
        found.faults.append(error.message)
        return None


def index_files(registry: StaticRegistry, state: SignedState | None, found: Audit, step: Step) -> Iterator[IndexFile]:
    """Every index file that can be read; the others are faults."""
    if registry.is_signed:
        for name in _role_names(state, found) if state else ():
            step.advance(note=name)
            assert state is not None
            with found.collecting():
                _check_expiry(state, name, found)
                if name.startswith(BIN):
                    yield from _bin_indexes(state, name, found)
        return
    names = registry.walk() if isinstance(registry, FolderRegistry) else registry.names()
    for name in names:
        step.advance(note=name)
        with found.collecting():
            index = registry.index_file(name)
            if index.lines:
                yield index
            else:
                found.faults.append(f"{registry.location}: {name} lies in the wrong folder, or is empty")


def _role_names(state: SignedState, found: Audit) -> list[str]:
    try:
        return [TARGETS, PACKAGES, SEARCH, *state.bins.get_roles()]
    except TrustError as error:
        found.faults.append(error.message)
        return []


def _check_expiry(state: SignedState, name: str, found: Audit) -> None:
    expires = state.role(name).signed.expires
    if expires <= datetime.now(timezone.utc):
        found.faults.append(f"{state.files.location}: {name} has expired at {iso(expires)}")


def _bin_indexes(state: SignedState, name: str, found: Audit) -> Iterator[IndexFile]:
    for path in state.role(name).signed.targets:
        package = path.rpartition("/")[2]
        if not is_package_name(package) or index_path(package) != path or state.role_for(path) != name:
            found.faults.append(f"{state.files.location}: {name} names {path}, where no package can be")
            continue
        with found.collecting():
            yield IndexFile.parse(state.read(path), f"{state.files.location}/{path}", package)


def _check_search(
    registry: StaticRegistry, state: SignedState | None, found: Audit, shards: dict[str, list[bytes]]
) -> None:
    """Compare the search shards with what the index files say. Where those are damaged there is nothing to compare."""
    if found.faults or not (state or registry.config.has_search):
        return
    read = state.read if state else registry.index.read
    paths = state.role(SEARCH).signed.targets if state else registry.index.search_shards()
    for path in sorted({*paths, *shards}):
        with found.collecting():
            if (read(path) or b"") == _sorted(shards.get(path, [])):
                continue
            text = f"{registry.location}/{path} does not say what the index files say"
            if state:
                found.faults.append(text)
            else:
                found.notes.append(f"{text}: publishing any of its packages again puts it right")


def _sorted(lines: list[bytes]) -> bytes:
    named = {json.loads(line)["name"]: line for line in lines}
    return b"".join(named[name] for name in sorted(named))
