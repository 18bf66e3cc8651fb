"""Installing several packages into one prefix: what requirements resolve to now, or what a lock file says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.documents import fields_of
from tfaot_pkg.package.name import package_meant_by
from tfaot_pkg.package.prefix.install import Delivery, Fill, Installed, Status, already_installed, install_packages
from tfaot_pkg.package.prefix.plan import Package
from tfaot_pkg.registry.archive import unpack_sound
from tfaot_pkg.registry.attestation import require_attested
from tfaot_pkg.registry.dependencies.lock import Lock, LockedPackage, LockedRegistry
from tfaot_pkg.registry.dependencies.resolution import Constraints, Resolution, resolve
from tfaot_pkg.registry.entry import Deprecation, RegistryEntry
from tfaot_pkg.registry.files.layout import PREFIX
from tfaot_pkg.registry.reader import RegistryReader, Requirement, other_architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledEntry:
    """What `install` did, and with which entry; `deprecation` if its package should not be used any more."""

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


def install_requirements(
    reader: RegistryReader,
    requirements: Sequence[Requirement],
    prefix: Path,
    constraints: Constraints | None = None,
    *,
    custom: bool = False,
) -> tuple[InstalledEntry, ...]:
    """Install what serves `requirements` and what that depends on into `prefix`, dependencies first.

    Everything or nothing is installed. Raises as `resolve` and `install_entries`.
    """
    return install_entries(reader, resolve(reader, requirements, constraints).entries, prefix, custom=custom)


def install_locked(
    reader: RegistryReader,
    lock: Lock,
    prefix: Path,
    names: Sequence[str] = (),
    *,
    custom: bool = False,
    machine: str = "",
) -> tuple[InstalledEntry, ...]:
    """Install exactly what `lock` says, also versions that were yanked since; only `names` and what they depend on,
    if some are given. `machine` is the architecture of what is installed (empty: that which was locked first).

    Everything or nothing is installed. Raises RegistryError (exit 16) if a version is gone,
    TrustError (exit 18) if its content or the registry's trust is not what was locked, and as `install_entries`.
    """
    check_trust(reader, lock.registry)
    entries = [locked_entry(reader, package, machine) for package in _selected(lock, names)]
    return install_entries(reader, entries, prefix, custom=custom)


def install_entries(
    reader: RegistryReader, entries: Sequence[RegistryEntry], prefix: Path, *, custom: bool = False
) -> tuple[InstalledEntry, ...]:
    """Install all of `entries` or none, without what they depend on.

    `custom`: also packages with headers and build files that no release of this tool makes.
    Everything is fetched and verified before the prefix is touched. Raises RegistryError, TrustError (content is not
    what the index says, hostile archive), PrefixError (a file that belongs to someone else), StorageError. After an
    error or a kill, the same call completes the work.
    """
    packages = {
        entry.name: Package(name=entry.name, version=entry.version, key=entry.key, tree=entry.tree) for entry in entries
    }
    deprecations = {entry.name: reader.deprecation(entry.name) for entry in entries}
    outcomes = already_installed(packages.values(), prefix)
    # All archives are fetched and verified before the prefix is touched, and stay open until all are installed.
    with ExitStack() as opened:
        deliveries = [
            Delivery(
                package=packages[entry.name],
                fill=opened.enter_context(_files_of(reader, entry, custom)),
                # Our own: a package must not replace headers that other packages are compiled with (decision 008).
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
def _files_of(reader: RegistryReader, entry: RegistryEntry, custom: bool) -> Iterator[Fill]:
    """The archive of `entry`, fetched and verified, as what unpacks and checks it."""
    if PREFIX not in entry.blobs:
        raise RegistryError(f"{entry} has nothing to install (no {PREFIX!r} blob)")
    require_attested(reader, entry)
    with reader.open_blob(entry.blobs[PREFIX]) as archive:
        yield lambda folder: unpack_sound(archive, folder, entry, custom=custom)


def locked_entry(reader: RegistryReader, package: LockedPackage, machine: str = "") -> RegistryEntry:
    """The registry's entry of a locked version, for `machine`. Raises as `install_locked`."""
    entries = reader.entries(package.name)
    # As versions: for PEP 440, 1.0 and 1.0.0 are the same.
    entry = next((one for one in entries if one.order == Version(package.version)), None)
    if entry is None:
        there = ", ".join(one.version for one in entries) or "no version of it"
        raise RegistryError(
            f"{package} is locked, but is no longer in {reader.location}",
            hint=f"there is {there}: tfaot-pkg update {package.name} locks another, --registry names a mirror",
        )
    if fault := other_architecture(entry, machine):
        raise RegistryError(
            f"{package} {fault}", hint="tfaot-pkg resolve on that machine, or with --arch, finds another"
        )
    entry = _locked_tree(package, entry, machine)
    package = package.of_tree(entry.tree, machine)
    # The version is not enough: an unsigned registry or a mirror may have changed it (decision 015).
    difference = package.difference(entry)
    if difference:
        raise TrustError(
            f"{package} in {reader.location} is not what was locked: {difference}",
            hint="a published version never changes: install nothing from there until its maintainer has explained it",
        )
    return entry


def _locked_tree(package: LockedPackage, entry: RegistryEntry, machine: str) -> RegistryEntry:
    """The tree of `entry` that was locked for `machine`. Raises RegistryError if it was added since."""
    if not machine or not entry.architecture:
        # Without a machine: the tree that was locked, if it is there, or the first, which is then not as locked.
        return next((one for one in entry.trees if one.tree == package.tree), entry)
    chosen = entry.on(machine)
    assert chosen is not None
    locked_first = next((one for one in entry.trees if one.tree == package.tree), None)
    if machine not in package.others and locked_first is not None and locked_first.architecture != machine:
        raise RegistryError(
            f"{package} was locked before it was published for {machine}",
            hint=f"tfaot-pkg update {package.name} locks it for every architecture that it has now",
        )
    return chosen


def check_trust(reader: RegistryReader, locked: LockedRegistry) -> None:
    """Raise TrustError if a signed registry was locked, and `reader` is unsigned or has an older root."""
    if locked.root_version is None:
        return
    version = reader.root_version
    if version is None:
        raise TrustError(
            f"{reader.location} is unsigned, but the lock file was made with a signed registry",
            hint="name a signed registry with --registry, or lock again with tfaot-pkg resolve",
        )
    # An old copy of a signed registry verifies as well; the version of its root shows its age.
    if version < locked.root_version:
        raise TrustError(
            f"{reader.location} has version {version} of its root, but the lock file has version {locked.root_version}",
            hint="this is an old copy of the registry: use another mirror",
        )


def locked_registry(reader: RegistryReader, *, location: str, name: str = "") -> LockedRegistry:
    """What a lock file says of `reader`."""
    return LockedRegistry(location=location, name=name, root_version=reader.root_version)


def lock_of(
    resolution: Resolution, requirements: Iterable[Requirement], constraints: Constraints, registry: LockedRegistry
) -> Lock:
    """The lock file of an answer."""
    return Lock(
        requirements=tuple(sorted(set(requirements), key=str)),
        constraints=constraints,
        registry=registry,
        packages=tuple(map(LockedPackage.of, resolution.entries)),
    )


def _selected(lock: Lock, names: Sequence[str]) -> list[LockedPackage]:
    """The packages of `names` and those below them, in the lock's order; all if there are no names."""
    if not names:
        return list(lock.packages)
    packages = {package.name: package for package in lock.packages}
    chosen: set[str] = set()
    todo = [package_meant_by(name) for name in names]
    # The lock file has dependencies too, so no index is read to find what the chosen packages need.
    while todo:
        name = todo.pop()
        if name not in packages:
            raise RegistryError(
                f"{name} is not in the lock file",
                hint=f"locked are {', '.join(packages) or 'no packages'}; tfaot-pkg resolve locks others",
            )
        # Packages may depend on one another in circles.
        if name not in chosen:
            chosen.add(name)
            todo += [Requirement.parse(text).package for text in packages[name].dependencies]
    return [package for package in lock.packages if package.name in chosen]
