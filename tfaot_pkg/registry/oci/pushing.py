"""Writes a published version into a store: content first, its tag last, and nothing that is there already."""

from __future__ import annotations

import io
from dataclasses import dataclass

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry
from tfaot_pkg.registry.oci.artifact import EMPTY, Artifact, TreeArtifact, artifact_of, manifests_in
from tfaot_pkg.registry.oci.reference import tag_of
from tfaot_pkg.registry.oci.store import Store
from tfaot_pkg.registry.reader import INFO, RegistryReader, Requirement, package_document, resolve
from tfaot_pkg.registry.verified import published_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What was written where: `digest` is what pins exactly this; `uploaded` counts blobs and manifests."""

    name: str
    version: str
    tag: str
    digest: str
    architectures: tuple[str, ...]
    uploaded: int
    before: str = ""
    """The digest that the tag had, if that was another."""


def push(
    reader: RegistryReader,
    requirement: Requirement | str,
    store: Store,
    *,
    tag: str = "",
    architecture: str = "",
    progress: Progress,
) -> Pushed:
    """Write the version that `requirement` means, for `architecture` (empty: each that it has), under `tag`.

    Without one, the tag is the version's, which is never given to something else. The package is checked as for an
    installation. Raises RegistryError, TrustError, NetworkError, PrefixError, StorageError.
    """
    entry = resolve(reader, requirement, architecture=architecture)
    trees = [entry] if architecture else list(entry.trees)
    for each in trees:
        with published_tree(reader, each):
            pass
    artifact = artifact_of(trees, _homepage(reader, entry))
    name = tag or tag_of(entry.version)
    there = store.tagged(name)
    before = f"sha256:{sha256_bytes(there)}" if there is not None else ""
    if there is not None and before != artifact.top.descriptor.digest and not tag:
        _require_part(there, before, artifact, entry, name)
    uploaded = 0
    with progress.step(f"push {entry}", total=len(trees), unit="manifests") as step:
        for tree in artifact.trees:
            uploaded += _push_tree(reader, tree, store)
            step.advance()
    if before != artifact.top.descriptor.digest:
        store.tag(artifact.top, name)
        uploaded += len(trees) > 1
    return Pushed(
        name=entry.package,
        version=entry.version,
        tag=name,
        digest=artifact.top.descriptor.digest,
        architectures=tuple(one.architecture for one in trees),
        uploaded=uploaded,
        before=before if before != artifact.top.descriptor.digest else "",
    )


def _homepage(reader: RegistryReader, entry: RegistryEntry) -> str:
    """What the model's author gave as its address; empty if nothing usable."""
    if INFO not in entry.blobs:
        return ""
    try:
        document = read_json(package_document(reader, entry, INFO))
    except ValueError:
        return ""
    found = document.get("homepage") if isinstance(document, dict) else None
    return found if isinstance(found, str) and found.startswith(("https://", "http://")) else ""


def _require_part(there: bytes, digest: str, artifact: Artifact, entry: RegistryEntry, tag: str) -> None:
    """Raise RegistryError unless what the tag of a version has is a part of `artifact`: other architectures came."""
    new = {tree.manifest.descriptor.digest for tree in artifact.trees}
    if not (manifests_in(there) or {digest}) <= new:
        raise RegistryError(
            f"the tag {tag} has something else than {entry}: {digest}",
            hint="nothing was written; a version never changes. To move a tag, name it: HOST/REPOSITORY:TAG",
        )


def _push_tree(reader: RegistryReader, tree: TreeArtifact, store: Store) -> int:
    """Write one manifest and all that it needs; how much was not there before."""
    count = 0
    for blob in tree.blobs:
        if not store.has(blob):
            with reader.open_blob(blob) as content:
                store.put(blob, content)
            count += 1
    for data in (tree.config, *([EMPTY] if tree.referrers else [])):
        if not store.has(BlobRef.of(data)):
            store.put(BlobRef.of(data), io.BytesIO(data))
            count += 1
    if not store.has_manifest(tree.manifest):
        store.put_manifest(tree.manifest)
        count += 1
    return count + (store.refer(tree.manifest.descriptor, tree.referrers) if tree.referrers else 0)
