"""A version of a package as an artifact: manifests and indexes as bytes, and what readers take from them. No I/O.

One manifest for each architecture that the version has:

    artifactType  application/vnd.tfaot.package.v1
    config        the version's index line (registry/entry.py), as published: not yanked
    layers        its archive (registry/archive.py) and the signed provenance, byte for byte as in the registry

and an index of them if there are several. Provenance and bill of materials are referrers as well (`subject`), for tools
that look for them there; copies of a tag leave referrers behind, so nothing here depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.documents import convert, read_json
from tfaot_pkg.ground.keys import canonical_json
from tfaot_pkg.package.name import current_name, is_package_name
from tfaot_pkg.registry.attestation import archive_name
from tfaot_pkg.registry.entry import TREE_SCHEMA, BlobRef, RegistryEntry, parse_lines
from tfaot_pkg.registry.files.layout import ATTESTATION, PREFIX
from tfaot_pkg.registry.oci.reference import INDEX, MANIFEST
from tfaot_pkg.registry.reader import SBOM

_T = TypeVar("_T")
ARTIFACT = "application/vnd.tfaot.package.v1"
_CONFIG = "application/vnd.tfaot.package.config.v1+json"
_ARCHIVE = "application/vnd.tfaot.package.prefix.v1.tar+gzip"
EMPTY_TYPE, EMPTY = "application/vnd.oci.empty.v1+json", b"{}"
"""Type and content of the config of what has none (image-spec, "Guidance for an Empty Descriptor")."""
_ENVELOPE, _CYCLONEDX = "application/vnd.dsse.envelope.v1+json", "application/vnd.cyclonedx+json"
_SLSA = "https://slsa.dev/provenance/v1"

LIMIT = 4 << 20
"""Bytes of a manifest that are read at most: what registries must take (distribution-spec, "Pushing manifests")."""
_MOST = 1000
"""Manifests in an index and layers in a manifest that are looked at."""

TITLE = "org.opencontainers.image.title"
_ANNOTATED = "org.opencontainers.image."
_LONGEST = 2_000
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}  # Go's names, which the image-spec asks for
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """What refers to content (image-spec, "OCI Content Descriptors")."""

    media_type: str
    digest: str
    size: int
    artifact_type: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    platform: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, content: bytes | BlobRef, media_type: str, annotations: Mapping[str, str] | None = None) -> Descriptor:
        blob = content if isinstance(content, BlobRef) else BlobRef.of(content)
        digest = f"sha256:{blob.sha256}"
        return cls(media_type=media_type, digest=digest, size=blob.size, annotations=annotations or {})

    @property
    def blob(self) -> BlobRef:
        return BlobRef(sha256=self.digest.removeprefix("sha256:"), size=self.size)

    def as_dict(self) -> dict[str, object]:
        optional = {"artifactType": self.artifact_type, "annotations": self.annotations, "platform": self.platform}
        given = {name: value for name, value in optional.items() if value}
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size, **given}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest or an index, and what refers to it."""

    body: bytes
    descriptor: Descriptor

    @classmethod
    def of(cls, document: Mapping[str, object], **described: object) -> Manifest:
        body = canonical_json({"schemaVersion": 2, **document})
        descriptor = Descriptor.of(body, str(document["mediaType"]))
        return cls(body=body, descriptor=replace(descriptor, **described))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeArtifact:
    """A version for one architecture: `config` is content, `blobs` are in the registry that it is published in."""

    manifest: Manifest
    config: bytes
    blobs: tuple[BlobRef, ...]
    referrers: tuple[Manifest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A version: `top` is what a tag names, the manifest of its only tree or an index of those of all."""

    top: Manifest
    trees: tuple[TreeArtifact, ...]


def artifact_of(entries: Sequence[RegistryEntry], homepage: str) -> Artifact:
    """The artifact of a version, of which `entries` are the trees."""
    trees = tuple(_tree(entry, homepage) for entry in sorted(entries, key=lambda entry: entry.architecture))
    if len(trees) == 1:
        return Artifact(top=trees[0].manifest, trees=trees)
    document = {
        "mediaType": INDEX,
        "artifactType": ARTIFACT,
        "manifests": [tree.manifest.descriptor.as_dict() for tree in trees],
        "annotations": _annotations(entries[0], homepage),
    }
    return Artifact(top=Manifest.of(document, artifact_type=ARTIFACT), trees=trees)


def _tree(entry: RegistryEntry, homepage: str) -> TreeArtifact:
    # Whether a version is yanked, or has other architectures, changes: the same package must have the same digests.
    line = replace(entry, yanked=None, retired="", others=()).line()
    stem = archive_name(entry).removesuffix(".tar.gz")
    layers = {PREFIX: Descriptor.of(entry.blobs[PREFIX], _ARCHIVE, {TITLE: archive_name(entry)})}
    if ATTESTATION in entry.blobs:
        layers[ATTESTATION] = Descriptor.of(entry.blobs[ATTESTATION], _ENVELOPE, {TITLE: f"{stem}.intoto.json"})
    document = {
        "mediaType": MANIFEST,
        "artifactType": ARTIFACT,
        "config": Descriptor.of(line, _CONFIG).as_dict(),
        "layers": [layer.as_dict() for layer in layers.values()],
        "annotations": _annotations(entry, homepage),
    }
    platform = {"os": "linux", "architecture": _MACHINES.get(entry.architecture, entry.architecture)}
    manifest = Manifest.of(document, artifact_type=ARTIFACT, platform=platform if entry.architecture else {})
    referring = {}
    if ATTESTATION in layers:
        referring[_ENVELOPE] = (layers[ATTESTATION], {"in-toto.io/predicate-type": _SLSA})
    if SBOM in entry.blobs:
        title = {TITLE: f"{stem}.cdx.json"}
        referring[_CYCLONEDX] = (Descriptor.of(entry.blobs[SBOM], _CYCLONEDX, title), {})
    return TreeArtifact(
        manifest=manifest,
        config=line,
        blobs=tuple(entry.blobs[role] for role in (PREFIX, ATTESTATION, SBOM) if role in entry.blobs),
        referrers=tuple(_referrer(manifest.descriptor, kind, *said) for kind, said in referring.items()),
    )


def _referrer(subject: Descriptor, kind: str, layer: Descriptor, annotations: Mapping[str, str]) -> Manifest:
    document = {
        "mediaType": MANIFEST,
        "artifactType": kind,
        "config": Descriptor.of(EMPTY, EMPTY_TYPE).as_dict(),
        "layers": [layer.as_dict()],
        "subject": Descriptor.of(subject.blob, subject.media_type).as_dict(),
        "annotations": annotations,
    }
    return Manifest.of(
        {name: value for name, value in document.items() if value}, artifact_type=kind, annotations=annotations
    )


def _annotations(entry: RegistryEntry, homepage: str) -> dict[str, str]:
    """What tools show of a version; nothing reads it back."""
    said = {
        "title": entry.package,
        "version": entry.version,
        "description": entry.description,
        "licenses": entry.license,
        "url": homepage,
        "source": homepage,
        "created": entry.published if _TIME.fullmatch(entry.published) else "",
    }
    # Authors wrote the texts: one line each, of characters that print.
    lines = {name: " ".join(text.split())[:_LONGEST] for name, text in said.items()}
    shown = {name: "".join(each if each.isprintable() else "?" for each in line) for name, line in lines.items()}
    return {f"{_ANNOTATED}{name}": text for name, text in shown.items() if text}


# Referrers of registries that have no list of their own (distribution-spec, "Referrers Tag Schema").


def referrers_tag(subject: Descriptor) -> str:
    return subject.digest.replace(":", "-")


def with_referrers(before: bytes | None, new: Sequence[Manifest], where: str) -> Manifest | None:
    """The index `before` with `new` in it; None if it has them all. Raises RegistryError if it is none."""
    listed: list[object] = []
    if before is not None:
        value = parsed(before, where)
        found = value.get("manifests")
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise unreadable(where, "it lists no manifests")
        listed = found
    there = {one.get("digest") for one in listed if isinstance(one, dict)}
    added = [one.descriptor.as_dict() for one in new if one.descriptor.digest not in there]
    return Manifest.of({"mediaType": INDEX, "manifests": [*listed, *added]}) if added else None


# Reading. Nothing of what follows is trusted: digests are compared by who fetches.


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A descriptor that was read."""

    digest: str
    size: int
    platform: Mapping[str, object] = field(default_factory=dict)
    annotations: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.digest.startswith("sha256:"):
            raise ValueError("digest must be a SHA-256")
        BlobRef(sha256=self.digest.removeprefix("sha256:"), size=self.size)

    @property
    def blob(self) -> BlobRef:
        return BlobRef(sha256=self.digest.removeprefix("sha256:"), size=self.size)

    @property
    def title(self) -> str:
        return str(self.annotations.get(TITLE, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    manifests: tuple[Described, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manifest:
    config: Described
    layers: tuple[Described, ...]


def chosen_manifest(body: bytes, machine: str, where: str) -> BlobRef | None:
    """The manifest for `machine` if `body` is an index, None if it is a manifest. Raises RegistryError."""
    value = parsed(body, where)
    if "manifests" not in value:
        return None
    listed = [(one, one.platform.get("architecture")) for one in converted(_Index, value, where).manifests[:_MOST]]
    wanted = _MACHINES.get(machine, machine)
    chosen = next((one for one, architecture in listed if architecture == wanted), None)
    if chosen is None:
        there = ", ".join(str(architecture)[:40] for _, architecture in listed if architecture) or "nothing"
        raise RegistryError(
            f"{where} has nothing for {machine}: it is for {there}", hint="--arch takes that of another architecture"
        )
    if chosen.size > LIMIT:
        raise unreadable(where, f"its manifest has {chosen.size} bytes")
    return chosen.blob


def manifests_in(body: bytes) -> set[str]:
    """The digests of the manifests in an index; none in a manifest, or in what cannot be read."""
    try:
        listed = read_json(body)["manifests"]
        return {one["digest"] for one in listed if isinstance(one["digest"], str)}
    except (ValueError, KeyError, TypeError, RecursionError):
        return set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a manifest refers to."""

    config: BlobRef
    layers: tuple[BlobRef, ...]


def content_of(body: bytes, where: str) -> Content:
    """What the manifest `body` of a package refers to. Raises RegistryError."""
    value = parsed(body, where)
    if value.get("artifactType") != ARTIFACT:
        raise RegistryError(
            f"{where} is not a package of tfaot-pkg: its type is {str(value.get('artifactType'))[:80]!r}",
            hint="check the address; `tfaot-pkg export --oci` makes such artifacts",
        )
    manifest = converted(_Manifest, value, where)
    if manifest.config.size > LIMIT:
        raise unreadable(where, f"its config has {manifest.config.size} bytes")
    return Content(config=manifest.config.blob, layers=tuple(layer.blob for layer in manifest.layers[:_MOST]))


def entry_of(config: bytes, content: Content, where: str) -> RegistryEntry:
    """The version that the config of a package describes. Raises RegistryError, TrustError (it has other content)."""
    try:
        value = read_json(config)
        name = value.get("name") if isinstance(value, dict) else None
        if not isinstance(name, str) or not is_package_name(name):
            raise ValueError("it names no package")
        (line,) = parse_lines(config, where, current_name(name))
    except ValueError as error:
        raise unreadable(where, f"its config is no index line: {error}") from None
    if line.entry is None or line.of or value.get("v") == TREE_SCHEMA:
        raise RegistryError(f"{where} is of a form that this version cannot read", hint="upgrade tfaot-pkg")
    entry = line.entry
    if any(entry.blobs[role] not in content.layers for role in (PREFIX, ATTESTATION) if role in entry.blobs):
        raise TrustError(f"{where} is damaged: its layers are not those of its config", hint="nothing of it was used")
    return entry


def parsed(body: bytes, where: str) -> dict[str, object]:
    try:
        value = read_json(body)
    except (ValueError, RecursionError) as error:
        raise unreadable(where, str(error)) from None
    if not isinstance(value, dict):
        raise unreadable(where, "it is not an object")
    return value


def converted(kind: type[_T], value: object, where: str) -> _T:
    try:
        return convert(kind, value)
    except ValueError as error:
        raise unreadable(where, str(error)) from None


def unreadable(where: str, why: str) -> RegistryError:
    return RegistryError(f"{where} is not a readable manifest: {why}", hint="check the address of the artifact")
