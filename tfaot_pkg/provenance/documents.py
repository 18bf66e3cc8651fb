"""The documents of a published package, from the registry alone: the package itself is not fetched."""

from __future__ import annotations

from typing import Any

from tfaot_pkg.documents import read_json
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.reader import RegistryReader

PROVENANCE, SBOM, VALIDATION, GRAPH = "provenance", "sbom", "validation", "graph"
"""Roles of the documents' blobs in a registry entry."""

FILES = {PROVENANCE: "provenance.json", SBOM: "sbom.cdx.json", VALIDATION: "validation.json", GRAPH: "graph.json"}
"""The documents' names in `share/tfaot-model-NAME/`, by role."""


def read_document(reader: RegistryReader, entry: RegistryEntry, role: str) -> bytes:
    """The document of `entry` in `role` (`FILES`).

    Raises RegistryError where the version was published without it, TrustError where it was changed.
    """
    if role not in entry.blobs:
        raise RegistryError(
            f"{entry} was published without {role}",
            hint="an older version of tfaot-pkg published it: publish a new version of the model",
        )
    with reader.open_blob(entry.blobs[role]) as file:
        return file.read()


def parse_document(data: bytes, entry: RegistryEntry, role: str) -> Any:
    """The value of what `read_document` gave. Raises RegistryError if it is damaged."""
    try:
        return read_json(data)
    except ValueError as error:
        raise RegistryError(
            f"the {role} of {entry} is damaged: {error}", hint="ask who published the package for a new version of it"
        ) from None
