"""Where a registry can be written: in a folder, or in a bucket."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.objects import SCHEME, BucketAddress
from tfaot_pkg.registry.bucket import BucketStorage
from tfaot_pkg.registry.commit import Keys
from tfaot_pkg.registry.files.files import MissingFile
from tfaot_pkg.registry.files.layout import CONFIG
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.static import RegistryConfig
from tfaot_pkg.registry.storage import Occupied
from tfaot_pkg.registry.trust.client import Anchor
from tfaot_pkg.registry.writable import WritableRegistry

Place: TypeAlias = "Path | BucketAddress"


def bucket_meant(text: str) -> BucketAddress | None:
    """The bucket that `--registry TEXT` means; None if it means something else. Raises TfaotError."""
    return BucketAddress.parse(text, "--registry") if text.startswith(SCHEME) else None


def require_folder(path: Path, what: str) -> None:
    """Raise RegistryError if a user meant a bucket, or a server, where `what` needs a folder."""
    # Path takes `s3://x` for a folder `s3:` with another one in it.
    if re.match(r"[a-z][a-z0-9+.-]*:/", str(path)):
        raise RegistryError(
            f"{what} is a folder, which {str(path).replace(':/', '://', 1)} is not", hint="name a folder"
        )


def open_at(place: Place, *, anchor: Anchor | None = None, keys: Keys | None = None) -> WritableRegistry:
    """The registry at `place`. Raises as `WritableRegistry.of`, RegistryError if there is none."""
    if isinstance(place, Path):
        return FolderRegistry.open(place, anchor=anchor, keys=keys)
    try:
        return WritableRegistry.of(BucketStorage.at(place), anchor=anchor, keys=keys)
    except MissingFile:
        raise RegistryError(
            f"{place} is not a registry: it has no {CONFIG}",
            hint="name a registry with --registry; publishing a package makes a new one",
        ) from None


def find_at(place: Place, *, keys: Keys | None = None) -> WritableRegistry | None:
    """The registry at `place`, None if there is nothing; nothing is made. Raises as `open_at`."""
    if isinstance(place, Path):
        return FolderRegistry.find(place, keys=keys)
    files = BucketStorage.at(place)
    if files.has(CONFIG):
        return WritableRegistry.of(files, keys=keys)
    require_nothing(files)
    return None


def create_at(place: Place, *, keys: Keys | None = None) -> WritableRegistry:
    """Make an unsigned registry at `place`, which is missing or empty, or open the one that is there.

    Raises RegistryError if there is something else.
    """
    if isinstance(place, Path):
        return FolderRegistry.create(place, keys=keys)
    if (found := find_at(place, keys=keys)) is not None:
        return found
    files = BucketStorage.at(place)
    try:
        files.put(CONFIG, RegistryConfig().to_bytes())
    except Occupied:  # somebody else made one now
        pass
    return open_at(place, keys=keys)


def require_nothing(files: BucketStorage, but: str = "") -> None:
    """Raise RegistryError if there is an object that is not in the folder `but`."""
    if any(not path.startswith(f"{but}/") for path in files.paths()):
        raise RegistryError(
            f"{files.location} is not a registry and not empty", hint="name a new prefix, or one that is empty"
        )
