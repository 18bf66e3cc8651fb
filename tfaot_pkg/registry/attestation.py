"""The signed provenance beside a package: what readers check of it.

The index line of a version names its envelope (trust/envelope.py) as a blob, and the keys that signed it. They stay
there when the registry's keys change: whoever signs the index vouches for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.documents import convert, read_json
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.files.layout import ATTESTATION, PREFIX
from tfaot_pkg.registry.trust.envelope import opened

if TYPE_CHECKING:
    from tfaot_pkg.registry.reader import RegistryReader


def archive_name(entry: RegistryEntry) -> str:
    """The name of the archive among the subjects of the statement."""
    return f"{entry.name}-{entry.version}.tar.gz"


def require_attested(reader: RegistryReader, entry: RegistryEntry) -> None:
    """Check the signed provenance of `entry`; versions of registries without signatures, and older ones, have none.

    Raises TrustError if it is not signed by the keys of the index, or is about another archive.
    """
    if ATTESTATION not in entry.blobs:
        if entry.attestors:
            raise TrustError(f"{entry} has lost its signed provenance", hint="tell the registry's maintainer")
        return
    with reader.open_blob(entry.blobs[ATTESTATION]) as file:
        check_attestation(file.read(), entry)


def check_attestation(envelope: bytes, entry: RegistryEntry) -> None:
    """Raise TrustError unless `envelope` is signed by the attestors of `entry`, and about its archive."""
    what = f"the provenance of {entry}"
    payload = opened(envelope, entry.attestors, what)
    try:
        subjects = convert(_Statement, read_json(payload)).subject
    except ValueError as error:
        raise TrustError(f"{what} is not an in-toto statement: {error}") from error
    digests = [each.digest.get("sha256") for each in subjects if each.name == archive_name(entry)]
    if digests != [entry.blobs[PREFIX].sha256]:
        raise TrustError(f"{what} is about another archive", hint="tell the registry's maintainer")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    name: str
    digest: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    subject: tuple[_Subject, ...]
