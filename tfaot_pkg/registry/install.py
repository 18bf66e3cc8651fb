"""Installing from a registry: resolve, fetch and verify everything, then unpack; the prefix does the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg import resources
from tfaot_pkg.documents import fields_of
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.package.check import Identity, require_sound
from tfaot_pkg.package.listing import Tree, foreign_path
from tfaot_pkg.prefix.install import Delivery, Fill, Installed, Status, already_installed, install_packages
from tfaot_pkg.prefix.plan import Package
from tfaot_pkg.registry.archive import unpack
from tfaot_pkg.registry.entry import Deprecation, RegistryEntry
from tfaot_pkg.registry.reader import RegistryReader, Requirement, resolve
from tfaot_pkg.static.layout import PREFIX


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
            **fields_of(self.outcome),
            "yanked": yanked if yanked is not None else False,
            "deprecated": self.deprecation,
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
    (done,) = install_entries(reader, [entry], prefix)
    return done


def install_entries(
    reader: RegistryReader, entries: Sequence[RegistryEntry], prefix: Path
) -> tuple[InstalledEntry, ...]:
    """Install all of `entries` or none, without what they depend on (dependencies/install.py does that).

    Everything is fetched and verified before the prefix is touched. Raises as `install`.
    """
    packages = {
        entry.name: Package(name=entry.name, version=entry.version, key=entry.key, tree=entry.tree) for entry in entries
    }
    deprecations = {entry.name: reader.deprecation(entry.name) for entry in entries}
    outcomes = already_installed(packages.values(), prefix)
    with ExitStack() as opened:
        deliveries = [
            Delivery(
                package=packages[entry.name],
                fill=opened.enter_context(_files_of(reader, entry)),
                headers=resources.headers(),
            )
            for entry in entries
            if entry.name not in outcomes
        ]
        if deliveries:
            outcomes |= install_packages(deliveries, prefix)
    return tuple(
        InstalledEntry(entry=entry, outcome=outcomes[entry.name], deprecation=deprecations[entry.name])
        for entry in entries
    )


@contextmanager
def _files_of(reader: RegistryReader, entry: RegistryEntry) -> Iterator[Fill]:
    """The archive of `entry`, fetched and verified, as what unpacks and checks it."""
    if PREFIX not in entry.blobs:
        raise RegistryError(f"{entry} has nothing to install (no {PREFIX!r} blob)")
    with reader.open_blob(entry.blobs[PREFIX]) as archive:
        yield lambda folder: unpack_sound(archive, folder, entry)


def unpack_sound(archive: BinaryIO, folder: Path, entry: RegistryEntry, *, durable: bool = True) -> Tree:
    """Unpack the package of `entry` into the empty `folder` and check that it is one, and that of `entry`.

    Raises TrustError, OSError.
    """
    tree = unpack(
        archive, folder, what=str(entry), foreign=lambda path: foreign_path(entry.name, path), durable=durable
    )
    require_sound(folder, tree, Identity(package=entry.name, version=entry.version, key=entry.key))
    return tree
