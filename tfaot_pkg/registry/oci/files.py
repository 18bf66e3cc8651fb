"""`Files` (registry/files/files.py) of a registry in a repository of an OCI registry: layers, which table.py names.

Every file is content with a digest; the tag alone may change. What `HttpFiles` does for files that may change (ask each
time, keep a copy when its reader has accepted it, do without a network) happens to the tag.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tfaot_pkg.ground.http.site import Patience
from tfaot_pkg.ground.progress import Progress, Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.files import MissingFile
from tfaot_pkg.registry.oci.artifact import LIMIT, Described
from tfaot_pkg.registry.oci.credentials import client_for
from tfaot_pkg.registry.oci.reference import Reference
from tfaot_pkg.registry.oci.table import NAMED, TAG, files_in, manifests_in
from tfaot_pkg.registry.remote.cache import RemoteCache
from tfaot_pkg.registry.remote.files import HttpFiles, digest_in


@dataclass(slots=True, kw_only=True)
class OciFiles(HttpFiles):
    """The files of the registry in the repository `reference`. Several threads may read at once."""

    reference: Reference
    address_hint: ClassVar[str] = (
        "check the address; `tfaot-pkg registry mirror ORIGIN oci://HOST/REPOSITORY` brings a registry there"
    )
    _named: dict[str, BlobRef] = field(init=False, default_factory=dict)
    """All files whose paths have no digest."""
    _asked: set[str] | None = field(init=False, default=None)
    """Those that were asked for since the tag was read; None: it was not."""
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    @classmethod
    def of(
        cls,
        reference: Reference,
        cache: RemoteCache,
        *,
        progress: Progress | None = None,
        offline: bool = False,
        uses_copies: bool = True,
    ) -> OciFiles:
        """With the user's login and patience. Raises NetworkError, StorageError (a damaged file of logins)."""
        patience = Patience.of_user()
        return cls(
            address=reference.address,
            reference=reference,
            cache=cache,
            patience=patience,
            progress=progress or Silent(),
            offline=offline,
            uses_copies=uses_copies,
            client=client_for(reference, patience),
        )

    @classmethod
    def of_user(cls, reference: Reference, folders: Folders, *, progress: Progress, offline: bool = False) -> OciFiles:
        return cls.of(reference, RemoteCache.of(reference.url, folders), progress=progress, offline=offline)

    @property
    def location(self) -> str:
        return self.reference.url

    def get(self, path: str, limit: int) -> bytes:
        # Without a network: it is never older than what the copy of the tag names (decision 013).
        found = self._verified(path) if self.offline else None
        return HttpFiles.get(self, path, limit) if found is None else found

    def place_of(self, path: str) -> str:
        return self._blob(digest_in(path) or self._named_file(path).sha256)

    def fetch_ahead(self, paths: Sequence[str], limit: int) -> None:
        there = self.named()
        self.prefetch([(self._blob(there[path].sha256), limit) for path in paths if path in there])

    def named(self) -> dict[str, BlobRef]:
        """The files whose paths have no digest, as the tag has them now. Raises as `get`."""
        with self._lock:
            if self._asked is None:
                self._load()
            return dict(self._named)

    def index(self) -> bytes | None:
        """What the tag names; None if there is no such tag. Raises as `get`."""
        try:
            return self._newest(f"{self.reference.api}/manifests/{TAG}", LIMIT)
        except MissingFile:
            return None

    def listed(self, manifest: Described) -> dict[str, BlobRef]:
        """The files of a manifest that the index lists. Raises as `get`."""
        digest = manifest.blob.sha256
        body = self._content(f"{self.reference.api}/manifests/sha256:{digest}", digest, manifest.size)
        return files_in(body, f"{self.location}@{manifest.digest}")

    def _blob(self, sha256: str) -> str:
        return f"{self.reference.api}/blobs/sha256:{sha256}"

    def _named_file(self, path: str) -> BlobRef:
        with self._lock:
            # Who asks again for what may change wants it as it is now.
            if self._asked is None or path in self._asked:
                self._load()
            assert self._asked is not None
            self._asked.add(path)
            found = self._named.get(path)
        if found is None:
            raise MissingFile(f"the registry lacks the file {self.location}/{path}", hint=self.address_hint)
        return found

    def _load(self) -> None:
        index = self.index()
        if index is None:
            raise MissingFile(f"{self.location} has no tag {TAG!r}", hint=self.address_hint)
        where = f"{self.location}:{TAG}"
        for manifest in manifests_in(index, where):
            if manifest.title == NAMED:
                # Beside what was there: who has begun to read a state reads it to its end.
                self._named |= self.listed(manifest)
        self._asked = set()
