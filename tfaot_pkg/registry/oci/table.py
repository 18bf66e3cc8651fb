"""The files of a registry as an image index and its manifests, and what readers take from them. No I/O.

    index       artifactType application/vnd.tfaot.registry.v1; the tag `registry` names it
    manifests   artifactType application/vnd.tfaot.registry.files.v1: the layers are files, their titles the paths

Most paths in a registry have a SHA-256 in them, which is the digest of the layer, too. So readers need no more than the
manifests titled `registry`, with all other paths: metadata, `config.json`, an unsigned registry's index. The others are
there so that nothing is collected that is needed. Each has the packages of one search shard: 256 suffice for 100,000
packages, and those in which nothing has changed keep their digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.layout import is_file_path
from tfaot_pkg.registry.oci.artifact import (
    EMPTY,
    EMPTY_TYPE,
    LIMIT,
    TITLE,
    Described,
    Descriptor,
    Manifest,
    converted,
    parsed,
    unreadable,
)
from tfaot_pkg.registry.oci.reference import INDEX, MANIFEST

TAG = "registry"
NAMED = "registry"
"""Title of the manifests with all files whose paths have no digest."""
_REGISTRY = "application/vnd.tfaot.registry.v1"
_FILES = "application/vnd.tfaot.registry.files.v1"
_FILE = "application/octet-stream"
_LAYERS = 2000
"""Of a manifest: about 500 KB. Registries need not take more than 4 MB, and some limit the number."""
_MOST_BYTES = 64 << 20
"""Of all manifests with the title `registry` that a reader takes: 250,000 files."""


def manifests_of(title: str, files: Mapping[str, BlobRef]) -> tuple[Manifest, ...]:
    """The manifests of `files`, by path. The same files always have the same ones."""
    paths = sorted(files)
    return tuple(
        _manifest(title, {path: files[path] for path in paths[start : start + _LAYERS]})
        for start in range(0, len(paths), _LAYERS)
    )


def _manifest(title: str, files: Mapping[str, BlobRef]) -> Manifest:
    document = {
        "mediaType": MANIFEST,
        "artifactType": _FILES,
        "config": Descriptor.of(EMPTY, EMPTY_TYPE).as_dict(),
        "layers": [Descriptor.of(blob, _FILE, {TITLE: path}).as_dict() for path, blob in files.items()],
    }
    return Manifest.of(document, artifact_type=_FILES, annotations={TITLE: title})


def index_of(manifests: Iterable[Manifest]) -> Manifest:
    """The index of a registry. Raises RegistryError if it is too long for OCI registries."""
    listed = [manifest.descriptor.as_dict() for manifest in manifests]
    index = Manifest.of({"mediaType": INDEX, "artifactType": _REGISTRY, "manifests": listed})
    if len(index.body) > LIMIT:
        raise RegistryError(
            f"the registry is too large for an OCI registry: {len(listed)} manifests",
            hint="mirror a part of it: --package, --channel or --arch",
        )
    return index


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    manifests: tuple[Described, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manifest:
    layers: tuple[Described, ...]


def manifests_in(index: bytes, where: str) -> tuple[Described, ...]:
    """The manifests of a registry. Raises RegistryError if it is none."""
    listed = converted(_Index, parsed(index, where), where).manifests
    # Not its type: skopeo leaves that out of the copy of an index.
    if not any(one.title == NAMED for one in listed):
        raise _another(where, f"no manifest of it has the title {NAMED!r}")
    if any(one.size > LIMIT for one in listed) or sum(one.size for one in listed if one.title == NAMED) > _MOST_BYTES:
        raise unreadable(where, "its manifests are too long")
    return listed


def files_in(manifest: bytes, where: str) -> dict[str, BlobRef]:
    """The files of a manifest by path. Raises RegistryError if a title is no path of a registry's file."""
    files: dict[str, BlobRef] = {}
    value = parsed(manifest, where)
    if value.get("artifactType") != _FILES:
        raise _another(where, f"its type is {str(value.get('artifactType'))[:80]!r}")
    for layer in converted(_Manifest, value, where).layers:
        if not is_file_path(layer.title):
            raise unreadable(where, f"{layer.title[:200]!r} is no path of a file of a registry")
        if files.setdefault(layer.title, layer.blob) != layer.blob:
            raise unreadable(where, f"it has {layer.title} twice")
    return files


def _another(where: str, why: str) -> RegistryError:
    return RegistryError(
        f"{where} is not a registry of tfaot-pkg: {why}",
        hint="check the address; `tfaot-pkg registry mirror` brings a registry there",
    )
