"""An image layout in a folder (image-spec, "OCI Image Layout Specification"), for transports without a registry.

`index.json` is written last, so nobody reads half of an artifact. Other tools may have written what is there.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.keys import canonical_json
from tfaot_pkg.ground.storage import locked, make_folder, storage_errors, write_chunks, write_file
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.files import FolderFiles
from tfaot_pkg.registry.files.layout import is_sha256
from tfaot_pkg.registry.oci.artifact import LIMIT, Descriptor, Manifest
from tfaot_pkg.registry.oci.reference import INDEX, LayoutReference

BLOBS = "blobs/sha256/{sha256}"
"""Where content is in a layout."""
_CHUNK = 1 << 20
_LAYOUT_FILE, _INDEX_FILE = "oci-layout", "index.json"
_REF_NAME = "org.opencontainers.image.ref.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutStore:
    """An image layout (image-spec, "OCI Image Layout Specification"). `index.json` is written last."""

    folder: Path

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> Iterator[LayoutStore]:
        """Makes the folder if it is not there. Raises StorageError, RegistryError (it holds something else)."""
        with storage_errors(f"write into {folder}"):
            make_folder(folder / "blobs" / "sha256") if not folder.exists() or not any(folder.iterdir()) else None
            if not (folder / "blobs").is_dir():
                raise RegistryError(f"{folder} is not an image layout, and not empty", hint="name another folder")
            with locked(folder / ".lock", what=str(folder), timeout=60):
                if not (folder / _LAYOUT_FILE).exists():
                    write_file(folder / _LAYOUT_FILE, b'{"imageLayoutVersion":"1.0.0"}')
                yield cls(folder=folder)

    def has(self, blob: BlobRef) -> bool:
        path = self._path(blob)
        return path.is_file() and path.stat().st_size == blob.size

    def put(self, blob: BlobRef, content: BinaryIO) -> None:
        content.seek(0)
        with storage_errors(f"write into {self.folder}"):
            write_chunks(self._path(blob), iter(lambda: content.read(_CHUNK), b""))

    def has_manifest(self, manifest: Manifest) -> bool:
        return self.has(manifest.descriptor.blob)

    def put_manifest(self, manifest: Manifest) -> None:
        self.put(manifest.descriptor.blob, io.BytesIO(manifest.body))

    def refer(self, subject: Descriptor, referrers: Sequence[Manifest]) -> int:
        missing = [one for one in referrers if not self.has_manifest(one)]
        for one in missing:
            self.put_manifest(one)
        listed = self._listed()
        there = {each.get("digest") for each in listed}
        if added := [one.descriptor.as_dict() for one in referrers if one.descriptor.digest not in there]:
            self._write([*listed, *added])
        return len(missing)

    def tagged(self, tag: str) -> bytes | None:
        found = next((one for one in self._listed() if _tag(one) == tag), None)
        return self._files.get(BLOBS.format(sha256=_sha256(found)), LIMIT) if found and _sha256(found) else None

    def tag(self, manifest: Manifest, tag: str) -> None:
        if not self.has_manifest(manifest):
            self.put_manifest(manifest)
        named = {**manifest.descriptor.as_dict(), "annotations": {_REF_NAME: tag}}
        self._write([*(one for one in self._listed() if _tag(one) != tag), named])

    @property
    def _files(self) -> FolderFiles:
        return FolderFiles(root=self.folder)

    def _path(self, blob: BlobRef) -> Path:
        return self.folder / BLOBS.format(sha256=blob.sha256)

    def _listed(self) -> list[Mapping[str, Any]]:
        return _listed_in(self._files) if (self.folder / _INDEX_FILE).exists() else []

    def _write(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
        with storage_errors(f"write into {self.folder}"):
            write_file(self.folder / _INDEX_FILE, canonical_json(document))


def meant_by(reference: LayoutReference) -> str:
    """The SHA-256 of the manifest that is meant. Raises RegistryError, StorageError."""
    if reference.digest:
        return reference.digest.removeprefix("sha256:")
    files = FolderFiles(root=reference.folder)
    tagged = [one for one in _listed_in(files) if _tag(one) and reference.tag in ("", _tag(one)) and _sha256(one)]
    found = {_sha256(one) for one in tagged}
    if len(found) == 1:
        return found.pop()
    there = ", ".join(sorted({_tag(one)[:80] for one in tagged if _tag(one).isprintable()}))
    if found:
        raise RegistryError(f"{reference.folder} has several artifacts", hint=f"name one by its tag: {there}")
    raise RegistryError(f"there is no artifact {reference}", hint="write oci:DIR:TAG, with a tag that is in index.json")


def _listed_in(files: FolderFiles) -> list[Mapping[str, Any]]:
    """The descriptors in `index.json`. Raises RegistryError."""
    where = f"{files.location}/{_INDEX_FILE}"
    try:
        listed = read_json(files.get(_INDEX_FILE, LIMIT))["manifests"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RegistryError(f"{where} is damaged: {error}", hint="export into another folder") from None
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise RegistryError(f"{where} is damaged: it lists no manifests", hint="export into another folder")
    return listed


def _tag(described: Mapping[str, Any]) -> str:
    annotations = described.get("annotations")
    name = annotations.get(_REF_NAME) if isinstance(annotations, dict) else None
    return name if isinstance(name, str) else ""


def _sha256(described: Mapping[str, Any]) -> str:
    """Of the content; empty if there is none."""
    digest = str(described.get("digest")).removeprefix("sha256:")
    return digest if is_sha256(digest) else ""
