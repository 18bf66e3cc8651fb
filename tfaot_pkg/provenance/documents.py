"""The documents of a published package, from the registry alone: the package itself is not fetched."""

from __future__ import annotations

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.reader import RegistryReader


def read_document(reader: RegistryReader, entry: RegistryEntry, role: str) -> bytes:
    """The document of `entry` in `role` (provenance.materials.FILES).

    Raises RegistryError where the version was published without it, TrustError where it was changed.
    """
    if role not in entry.blobs:
        raise RegistryError(
            f"{entry} was published without {role}",
            hint="an older version of tfaot-pkg published it: publish a new version of the model",
        )
    with reader.open_blob(entry.blobs[role]) as file:
        return file.read()
