"""A mirror in a repository of an OCI registry (registry/destination.py): content first, the tag last.

OCI registries have no conditional writes. So one mirror writes here, and nobody publishes; what it read of the tag at
the start is compared again before the tag moves, which finds a second writer except in that last moment.
"""

from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tfaot_pkg.ground.http.site import Patience
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import locked, make_folder, storage_errors
from tfaot_pkg.registry.destination import Contents, at_once
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.files import FolderFiles
from tfaot_pkg.registry.files.mirrored import Mirrored
from tfaot_pkg.registry.oci.artifact import EMPTY, Described, Manifest
from tfaot_pkg.registry.oci.files import OciFiles
from tfaot_pkg.registry.oci.reference import Reference
from tfaot_pkg.registry.oci.store import HttpStore
from tfaot_pkg.registry.oci.table import NAMED, TAG, index_of, manifests_in, manifests_of
from tfaot_pkg.registry.remote.cache import RemoteCache
from tfaot_pkg.registry.storage import Conflict


@dataclass(slots=True, kw_only=True)
class OciDestination:
    """The repository of `store`. `scratch` has downloads, and the origin's index."""

    files: OciFiles
    store: HttpStore
    scratch: Path
    _before: bytes | None = field(init=False, default=None)
    _listed: tuple[Described, ...] = field(init=False, default=())
    _manifests: tuple[Manifest, ...] = field(init=False, default=())
    _known: set[BlobRef] = field(init=False, default_factory=set)

    @classmethod
    def at(cls, reference: Reference, folders: Folders) -> OciDestination:
        """Raises NetworkError, StorageError (a damaged file of logins)."""
        scratch = folders.cache / "mirrors" / sha256_bytes(reference.url.encode())[:24]
        return cls(
            # A copy of the tag could hide that it went on.
            files=OciFiles.of(reference, RemoteCache.of(reference.url, folders), uses_copies=False),
            store=HttpStore(reference=reference, patience=Patience.of_user()),
            scratch=scratch,
        )

    @property
    def location(self) -> str:
        return self.files.location

    @property
    def local(self) -> FolderFiles | None:
        return None

    @contextmanager
    def opened(self, timeout: float) -> Iterator[None]:
        with storage_errors(f"use {self.scratch}"):
            make_folder(self.scratch)
            with locked(self.scratch / ".lock", what=f"the mirror {self.location}", timeout=timeout):
                self._before = self.files.index()
                if self._before is not None:
                    self._listed = manifests_in(self._before, f"{self.location}:{TAG}")
                try:
                    yield
                finally:
                    shutil.rmtree(self._sent, ignore_errors=True)
                    self.store.close()

    def begin(self, mirrored: Mirrored, contents: Contents) -> None:
        there = {one.digest for one in self._listed}
        planned = {title: manifests_of(title, files) for title, files in contents.items()}
        self._manifests = tuple(one for title in sorted(planned) for one in planned[title])
        for title, files in contents.items():
            if all(one.descriptor.digest in there for one in planned[title]):
                self._known |= set(files.values())
                continue
            for old in self._listed:
                if old.title == title:
                    self._known |= set(self.files.listed(old).values())

    def has(self, path: str, blob: BlobRef) -> bool:
        return blob in self._known

    def bring(self, path: str, blob: BlobRef, fetch: Callable[[Path], None]) -> bool:
        # Of a run that was interrupted, or of an artifact.
        if self.store.has(blob):
            return False
        file = self._sent / sha256_bytes(path.encode())
        fetch(file)
        with file.open("rb") as content:
            self.store.put(blob, content)
        file.unlink()
        return True

    def close(self, closing: Mapping[str, bytes]) -> set[str]:
        present = self.files.named() if self._before is not None else {}
        blobs = {path: BlobRef.of(data) for path, data in closing.items()}
        written = {path for path, blob in blobs.items() if present.get(path) != blob}
        self._send([closing[path] for path in sorted(written)])
        manifests = (*self._manifests, *manifests_of(NAMED, blobs))
        index = index_of(manifests)
        if index.body == self._before:
            return written
        there = {one.digest for one in self._listed}
        if not self.store.has(BlobRef.of(EMPTY)):
            self._send([EMPTY])
        missing = [one for one in manifests if one.descriptor.digest not in there]
        for _ in at_once(self.store.put_manifest, missing, threading.Event()):
            pass
        if self.store.tagged(TAG) != self._before:
            raise Conflict(
                f"somebody else has mirrored into {self.location} at the same time",
                hint="one mirror writes there; run the same command again",
            )
        self.store.tag(index, TAG)
        return written

    @property
    def _sent(self) -> Path:
        return self.scratch / "sent"

    def _send(self, files: list[bytes]) -> None:
        for _ in at_once(lambda data: self.store.put(BlobRef.of(data), io.BytesIO(data)), files, threading.Event()):
            pass
