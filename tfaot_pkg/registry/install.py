"""Installing from a registry: resolve, fetch, verify and unpack; the prefix does the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.prefix.install import Installed, Status, already_installed, install_package
from tfaot_pkg.prefix.plan import Package
from tfaot_pkg.registry.archive import unpack
from tfaot_pkg.registry.entry import Deprecation, RegistryEntry
from tfaot_pkg.registry.layout import PREFIX
from tfaot_pkg.registry.reader import RegistryReader, resolve
from tfaot_pkg.registry.requirement import Requirement


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledEntry:
    """What `install` did, and with which entry; `deprecation` where its package should not be used any more."""

    entry: RegistryEntry
    outcome: Installed
    deprecation: Deprecation | None = None

    @property
    def status(self) -> Status:
        return self.outcome.status

    @property
    def version(self) -> str:
        return self.outcome.version

    @property
    def previous(self) -> str | None:
        return self.outcome.previous

    def as_dict(self) -> dict[str, object]:
        yanked = self.entry.yanked
        return {
            **self.outcome.as_dict(),
            "yanked": yanked if yanked is not None else False,
            "deprecated": self.deprecation.as_dict() if self.deprecation else None,
        }


def install(reader: RegistryReader, requirement: Requirement | str, prefix: Path) -> InstalledEntry:
    """Install the version that `requirement` means into `prefix`, in place of any other version of it.

    Raises RegistryError (unknown package), TrustError (content is not what the index says, hostile archive),
    PrefixError (a file that belongs to someone else), StorageError. After an error or a kill, the same call completes
    the work.
    """
    entry = resolve(reader, requirement)
    if entry.dependencies:
        raise RegistryError(
            f"{entry} depends on {', '.join(entry.dependencies)}, which would be left out",
            hint="tfaot-pkg install installs them as well",
        )
    return install_entry(reader, entry, prefix)


def install_entry(reader: RegistryReader, entry: RegistryEntry, prefix: Path) -> InstalledEntry:
    """Install exactly `entry`, without what it depends on (dependencies/install.py does that); see `install`."""
    package = Package(name=entry.name, version=entry.version, key=entry.key, tree=entry.tree)
    outcome = already_installed(package, prefix) or _install(reader, entry, package, prefix)
    return InstalledEntry(entry=entry, outcome=outcome, deprecation=reader.deprecation(entry.name))


def _install(reader: RegistryReader, entry: RegistryEntry, package: Package, prefix: Path) -> Installed:
    if PREFIX not in entry.blobs:
        raise RegistryError(f"{entry} has nothing to install (no {PREFIX!r} blob)")
    with reader.open_blob(entry.blobs[PREFIX]) as archive:
        return _from_archive(archive, package, prefix)


def _from_archive(archive: BinaryIO, package: Package, prefix: Path) -> Installed:
    return install_package(package, prefix, lambda staged: unpack(archive, staged, what=str(package)))
