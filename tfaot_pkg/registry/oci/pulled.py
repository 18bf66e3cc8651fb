"""A package from an artifact, as a registry that has nothing else: what installs from registries installs from it.

What a tag names is trusted no more than its transport. So whoever installs says what they trust: the digest that they
name, the public keys of who releases the model (they signed the provenance, which names the archive), or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.http.site import Patience
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.registry.attestation import check_attestation
from tfaot_pkg.registry.blobs import open_blob
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.entry import BlobRef, Deprecation, RegistryEntry
from tfaot_pkg.registry.files.files import Files, FolderFiles
from tfaot_pkg.registry.files.layout import ATTESTATION
from tfaot_pkg.registry.oci.artifact import LIMIT, chosen_manifest, content_of, entry_of
from tfaot_pkg.registry.oci.credentials import client_for
from tfaot_pkg.registry.oci.layout import BLOBS, meant_by
from tfaot_pkg.registry.oci.reference import SCHEME, LayoutReference, Reference
from tfaot_pkg.registry.reader import SearchResult
from tfaot_pkg.registry.remote.cache import RemoteCache
from tfaot_pkg.registry.remote.files import HttpFiles
from tfaot_pkg.registry.trust.keys import public_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusting:
    """Whom a user trusts: `keys` are files with public keys (PEM)."""

    keys: tuple[Path, ...] = ()
    unsigned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the parts of an artifact are below `files`: paths with `{sha256}`. `first` is that of what is meant."""

    files: Files
    where: str
    first: str
    pinned: str
    """The SHA-256 of what is meant, if that is known before it is read."""
    manifests: str
    blobs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledPackage:
    """A `RegistryReader` with one version of one package."""

    place: Place
    entry: RegistryEntry

    @property
    def location(self) -> str:
        return self.place.where

    @property
    def root_version(self) -> int | None:
        return None

    @property
    def channels(self) -> Channels | None:
        return None

    def names(self) -> Sequence[str]:
        return (self.entry.package,)

    def entries(self, package: str) -> tuple[RegistryEntry, ...]:
        return (self.entry,) if package == self.entry.package else ()

    def deprecation(self, package: str) -> Deprecation | None:
        return None

    def search(self, text: str) -> SearchResult:
        return SearchResult.of((), ())

    @contextmanager
    def open_blob(self, blob: BlobRef) -> Iterator[BinaryIO]:
        with open_blob(self.place.files, self.place.blobs.format(sha256=blob.sha256), blob) as file:
            yield file


@contextmanager
def opened(
    text: str,
    folders: Folders,
    *,
    trusting: Trusting,
    machine: str,
    plain_http: bool = False,
    progress: Progress,
    offline: bool = False,
) -> Iterator[PulledPackage]:
    """The package at `oci://HOST/REPOSITORY:TAG` or `oci:DIR:TAG` (or `@DIGEST`) for the architecture `machine`.

    Raises RegistryError, TrustError (it is not signed by who is trusted), NetworkError, StorageError.
    """
    if not text.startswith(SCHEME):
        yield _read(_in_layout(LayoutReference.parse(text)), trusting, machine)
        return
    reference = Reference.parse(text, plain_http=plain_http)
    if not reference.tag and not reference.digest:
        raise RegistryError(
            f"{text} names no tag",
            hint="write oci://HOST/REPOSITORY:TAG; a version's tag is its number. If a "
            "registry is there: registry add NAME oci://HOST/REPOSITORY, and install PACKAGE --registry NAME",
        )
    patience = Patience.of_user()
    client = client_for(reference, patience)
    try:
        files = HttpFiles(
            address=reference.address,
            cache=RemoteCache.of(reference.address.url, folders),
            patience=patience,
            progress=progress,
            offline=offline,
            client=client,
        )
        package = _read(_in_registry(reference, files), trusting, machine)
        files.confirm()
        yield package
    finally:
        client.close()


def _in_registry(reference: Reference, files: HttpFiles) -> Place:
    manifests = f"{reference.api}/manifests/sha256:{{sha256}}"
    pinned = reference.digest.removeprefix("sha256:")
    return Place(
        files=files,
        where=f"{SCHEME}{reference}",
        first=f"{reference.api}/manifests/{reference.digest or reference.tag}",
        pinned=pinned,
        manifests=manifests,
        blobs=f"{reference.api}/blobs/sha256:{{sha256}}",
    )


def _in_layout(reference: LayoutReference) -> Place:
    found = meant_by(reference)
    return Place(
        files=FolderFiles(root=reference.folder),
        where=str(reference),
        first=BLOBS.format(sha256=found),
        pinned=found if reference.digest else "",
        manifests=BLOBS,
        blobs=BLOBS,
    )


def _read(place: Place, trusting: Trusting, machine: str) -> PulledPackage:
    body = place.files.get(place.first, LIMIT)
    if place.pinned and sha256_bytes(body) != place.pinned:
        raise TrustError(f"{place.where} was changed: it has another digest", hint="nothing of it was used")
    chosen = chosen_manifest(body, machine, place.where)
    if chosen is not None:
        body = _small(place, place.manifests, chosen)
    content = content_of(body, place.where)
    entry = entry_of(_small(place, place.blobs, content.config), content, place.where)
    package = PulledPackage(place=place, entry=entry)
    # A digest that the user names stands for everything below it.
    if not place.pinned:
        _require_trusted(package, trusting)
    elif trusting.keys:
        _require_signed(package, trusting.keys)
    return package


def _small(place: Place, template: str, blob: BlobRef) -> bytes:
    with open_blob(place.files, template.format(sha256=blob.sha256), blob) as file:
        return file.read()


def _require_trusted(package: PulledPackage, trusting: Trusting) -> None:
    if trusting.keys:
        _require_signed(package, trusting.keys)
    elif not trusting.unsigned:
        signed = "it is signed; " if package.entry.attestors else "it is not signed; "
        raise TrustError(
            f"{package.location}: nothing says whom to trust",
            hint=f"{signed}give --release-key FILE (the public key of who releases the model), name a digest "
            "(@sha256:...), or accept whatever is there with --unsigned",
        )


def _require_signed(package: PulledPackage, files: Sequence[Path]) -> None:
    """Raise TrustError unless every key in `files` has signed the provenance of the package."""
    entry = package.entry
    signers = [_identity(key) for key in entry.attestors.values()]
    for file in files:
        if _identity(public_key(file).to_dict()) not in signers:
            raise TrustError(
                f"{package.location} is not signed by {file}",
                hint="nothing of it was installed; get the key from who releases the model, not from the registry",
            )
    if ATTESTATION not in entry.blobs:
        raise TrustError(f"{package.location} has lost its signed provenance", hint="nothing of it was installed")
    with package.open_blob(entry.blobs[ATTESTATION]) as envelope:
        check_attestation(envelope.read(), entry)


def _identity(key: Mapping[str, Any]) -> tuple[object, object]:
    return key.get("keytype"), key.get("keyval")
