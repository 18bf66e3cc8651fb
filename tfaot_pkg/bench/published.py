"""A published package as it is measured: its own library, and the spec and model that it was built from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import SourceError
from tfaot_pkg.rebuild import CannotRebuild, Means, fetch_published, recorded_of, spec_of
from tfaot_pkg.registry.reader import RegistryReader, resolve
from tfaot_pkg.spec.types import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    spec: ModelSpec
    library: Path


def published(reader: RegistryReader, requirement: str, means: Means, folder: Path) -> Published:
    """The version that `requirement` means, unpacked below `folder`.

    Raises RegistryError (unknown package), TrustError (damaged package), SourceError where its model is not at hand,
    NetworkError, StorageError.
    """
    entry = resolve(reader, requirement)
    root = folder / "published"
    tree = fetch_published(reader, entry, root)
    try:
        spec = spec_of(recorded_of(entry, tree, root), means, folder / "spec")
    except CannotRebuild as error:
        raise SourceError(
            f"{entry} cannot be measured beside others: {error.reasons[0]}",
            hint="name the folder with the model's files: --source DIR",
        ) from error
    return Published(spec=spec, library=root / "lib" / f"lib{entry.name}.so")
