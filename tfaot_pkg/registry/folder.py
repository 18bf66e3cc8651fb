"""A registry in a folder: the default one, and the one that a web server would serve."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.storage import make_folder, storage_errors, write_file
from tfaot_pkg.package.name import current_name, is_package_name
from tfaot_pkg.registry import reader
from tfaot_pkg.registry.commit import Keys
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.files import MissingFile
from tfaot_pkg.registry.files.layout import CONFIG, INDEX
from tfaot_pkg.registry.static import RegistryConfig, StaticRegistry
from tfaot_pkg.registry.storage import FolderStorage
from tfaot_pkg.registry.trust.client import Anchor
from tfaot_pkg.registry.writable import WritableRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRegistry(WritableRegistry):
    """The registry in a folder."""

    files: FolderStorage

    @classmethod
    def create(cls, root: Path, *, anchor: Anchor | None = None, keys: Keys | None = None) -> FolderRegistry:
        """Make an unsigned registry in `root` (missing or empty), or open the one that is there.

        Raises RegistryError if the folder holds something else, StorageError.
        """
        root = root.absolute()
        with storage_errors(f"make a registry in {root}"):
            if not (root / CONFIG).exists():
                make_folder(root)
                require_empty(root)
                write_file(root / CONFIG, RegistryConfig().to_bytes())
        return cls.open(root, anchor=anchor, keys=keys)

    @classmethod
    def find(cls, root: Path, *, keys: Keys | None = None) -> FolderRegistry | None:
        """The registry in `root`, None if `root` is missing or empty; nothing is made.

        Raises RegistryError if the folder holds something else, StorageError.
        """
        root = root.absolute()
        with storage_errors(f"read the registry {root}"):
            if (root / CONFIG).exists():
                return cls.open(root, keys=keys)
            if root.exists():
                require_empty(root)
        return None

    @classmethod
    def open(cls, root: Path, *, anchor: Anchor | None = None, keys: Keys | None = None) -> FolderRegistry:
        """Open the registry in `root`, as `WritableRegistry.of` does.

        Raises RegistryError if there is none or one of an unknown format.
        """
        root = root.absolute()
        try:
            return cls.of(FolderStorage(root=root), anchor=anchor, keys=keys)
        except MissingFile:
            if (root / CONFIG).exists():
                raise
            reason = "there is no such folder" if not root.exists() else f"it has no {CONFIG}"
            raise RegistryError(
                f"{root} is not a registry: {reason}",
                hint="name a registry with --registry; publishing a package makes a new one",
            ) from None

    @property
    def root(self) -> Path:
        return self.files.root

    def blob_file(self, blob: BlobRef) -> Path:
        """The file that holds a blob."""
        return self.root / self.blob_path(blob)

    def names(self) -> tuple[str, ...]:
        """All packages, sorted. Raises RegistryError, TrustError, StorageError."""
        if self.is_signed or self.config.has_search:
            # `super()` without arguments fails in a slotted dataclass, which is a second class of the name.
            return StaticRegistry.names(self)
        return tuple(sorted(set(map(current_name, self.walk()))))

    def walk(self) -> tuple[str, ...]:
        """The packages whose index files lie in the (unsigned) folder, as these are spelled. Raises StorageError."""
        with storage_errors(f"read the registry {self.root}"):
            return tuple(sorted(_file_names(self.root / INDEX)))

    def search(self, text: str) -> reader.SearchResult:
        """Packages that hold all words of `text` in name, description or licence."""
        if self.is_signed or self.config.has_search:
            return StaticRegistry.search(self, text)
        return reader.search(self, text)


def require_empty(root: Path) -> None:
    """Raise RegistryError if `root` holds anything that is not hidden."""
    if any(not path.name.startswith(".") for path in root.iterdir()) and not (root / CONFIG).exists():
        raise RegistryError(f"{root} is not a registry and not empty", hint="name a new folder, or one that is empty")


def _file_names(index: Path) -> Iterator[str]:
    for first in _folders(index):
        for second in _folders(first):
            with os.scandir(second) as items:
                yield from (item.name for item in items if is_package_name(item.name))


def _folders(path: str | Path) -> Iterator[str]:
    try:
        with os.scandir(path) as items:
            yield from sorted(item.path for item in items if not item.name.startswith(".") and item.is_dir())
    except FileNotFoundError:
        return
