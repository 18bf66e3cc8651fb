"""The lock file: what was asked for, and exactly which content serves it.

JSON, one value per line so that differences read well; no time, no path of this machine beside the registry's. The
same registry and requirements give the same bytes. What is locked is content (digests): a registry or mirror that has
other content under the same version is rejected.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import fields_of, read, write_indented
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.ground.targets import ARCHITECTURES
from tfaot_pkg.package.name import current_name, is_package_name, package_meant_by
from tfaot_pkg.registry.dependencies.resolution import Constraints, Resolution, resolve
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry, newest
from tfaot_pkg.registry.files.layout import is_sha256
from tfaot_pkg.registry.reader import Followed, RegistryReader, Requirement

LOCK = "tfaot.lock"
"""The name that commands look for."""

SCHEMA = 1
_LIMIT = 16 << 20
_HINT = "restore it from version control, or write a new one with tfaot-pkg resolve"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedTree:
    """A further install tree of a version."""

    tree: str
    blobs: Mapping[str, BlobRef]

    def __post_init__(self) -> None:
        if not is_sha256(self.tree):
            raise ValueError("tree must be 64 hexadecimal digits")

    @classmethod
    def of(cls, entry: RegistryEntry) -> LockedTree:
        return cls(tree=entry.tree, blobs=dict(sorted(entry.blobs.items())))


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPackage:
    """One version, by what it contains: `tree` is the digest of the install tree, `blobs` go by role.

    `others` are its trees for other architectures, so that one lock file serves several machines.
    """

    name: str
    version: str
    tree: str
    blobs: Mapping[str, BlobRef]
    dependencies: tuple[str, ...]
    others: Mapping[str, LockedTree] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Names become paths, and a lock file may come from anyone.
        if not is_package_name(self.name):
            raise ValueError(f"{self.name!r} is not a package name")
        if not is_sha256(self.tree):
            raise ValueError("tree must be 64 hexadecimal digits")
        try:
            Requirement.parse(f"{self.name}@{self.version}")
        except RegistryError as error:
            raise ValueError(error.message) from error

    @classmethod
    def of(cls, entry: RegistryEntry) -> LockedPackage:
        # In an order of its own: the machine that resolves must not change the file.
        first, *others = sorted(entry.trees, key=lambda one: [*ARCHITECTURES, one.architecture].index(one.architecture))
        return cls(
            name=entry.package,
            version=entry.version,
            tree=first.tree,
            blobs=dict(sorted(first.blobs.items())),
            dependencies=entry.dependencies,
            others={one.architecture: LockedTree.of(one) for one in others},
        )

    def as_dict(self) -> dict[str, object]:
        fields = fields_of(self)
        # Lock files keep their bytes if a version is for one architecture.
        if not self.others:
            del fields["others"]
        return fields

    def of_tree(self, tree: str, machine: str) -> LockedPackage:
        """What is locked of `tree`, or else for `machine`; of the first one, if that is all."""
        matching = (one for one in self.others.values() if one.tree == tree)
        found = next(matching, None if tree == self.tree else self.others.get(machine))
        return replace(self, tree=found.tree, blobs=found.blobs) if found else self

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def difference(self, entry: RegistryEntry) -> str:
        """What of `entry`'s content is not as locked; empty if all is."""
        now = LockedPackage.of(replace(entry, others=()))
        if now.tree != self.tree:
            return f"its files have the digest {now.tree}, {self.tree} is locked"
        for role, blob in self.blobs.items():
            if now.blobs.get(role) != blob:
                other = now.blobs[role].sha256 if role in now.blobs else "no digest"
                return f"its blob {role!r} has {other}, {blob.sha256} is locked"
        return "" if now.dependencies == self.dependencies else "it depends on other packages than were locked"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedRegistry:
    """Where the packages come from: `name` is that of a registry that was added (or empty), `location` folder or URL.

    `root_version` is that of the trusted root of a signed registry, None if it is unsigned.
    """

    location: str
    name: str = ""
    root_version: int | None = None

    def __post_init__(self) -> None:
        if self.root_version is not None and self.root_version < 1:
            raise ValueError("root_version must be at least 1")

    @property
    def is_signed(self) -> bool:
        return self.root_version is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock file's content: `packages` stand after what they depend on."""

    requirements: tuple[Requirement, ...]
    constraints: Constraints
    registry: LockedRegistry
    packages: tuple[LockedPackage, ...]

    @property
    def versions(self) -> dict[str, str]:
        return {package.name: package.version for package in self.packages}

    def as_dict(self) -> dict[str, object]:
        document = _Document(
            # Sorted: the order of arguments must not change the file.
            requirements=tuple(sorted(map(str, self.requirements))),
            targets=self.constraints.targets,
            toolchain=str(self.constraints.toolchain),
            channel=self.constraints.channel,
            architecture=self.constraints.architecture,
            registry=self.registry,
            packages=self.packages,
        )
        fields = fields_of(document)
        # Lock files keep their bytes if neither was asked for.
        return {name: value for name, value in fields.items() if name not in ("channel", "architecture") or value}

    def to_bytes(self) -> bytes:
        return write_indented(self)

    @classmethod
    def parse(cls, data: bytes, file: str) -> Lock:
        """Read a lock file. Raises RegistryError."""
        document = read(_Document, data, f"the lock file {file}", error=RegistryError, hint=_HINT)
        try:
            return document.lock()
        except RegistryError as error:
            raise RegistryError(f"{file}: {error.message}", hint=_HINT) from error

    @classmethod
    def read(cls, path: Path) -> Lock:
        """Raises RegistryError if there is none or it is damaged, StorageError."""
        with storage_errors(f"read {path}"):
            try:
                with path.open("rb") as file:
                    # One byte more than is allowed shows that the file is too long.
                    data = file.read(_LIMIT + 1)
            except (FileNotFoundError, NotADirectoryError):
                raise RegistryError(
                    f"there is no lock file {path}", hint="tfaot-pkg resolve REQUIREMENT... writes one"
                ) from None
        if len(data) > _LIMIT:
            raise RegistryError(f"{path} is not a lock file: longer than {_LIMIT} bytes", hint=_HINT)
        return cls.parse(data, str(path))

    def write(self, path: Path) -> bool:
        """Replace `path` in one step; False if it was so already. Raises StorageError."""
        with storage_errors(f"write {path}"):
            if path.is_file() and path.read_bytes() == self.to_bytes():
                return False
            write_file(path, self.to_bytes())
            return True


def location_beside(location: str, lock_file: Path) -> str:
    """How a lock file names a registry: a folder below its own relative to it, so that both move together."""
    folder = Path(os.path.abspath(lock_file)).parent
    if "://" not in location and Path(location).is_relative_to(folder):
        return "./" + Path(location).relative_to(folder).as_posix()
    return location


def location_meant(location: str, lock_file: Path) -> str:
    """The folder or URL that `location` in `lock_file` means."""
    return str(Path(os.path.abspath(lock_file)).parent / location) if location.startswith("./") else location


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """The file as it stands; `schema` is the number of its form."""

    schema: int = SCHEMA
    requirements: tuple[str, ...]
    targets: tuple[str, ...]
    toolchain: str
    registry: LockedRegistry
    packages: tuple[LockedPackage, ...]
    channel: str = ""
    architecture: str = ""

    def lock(self) -> Lock:
        return Lock(
            requirements=tuple(map(Requirement.parse, self.requirements)),
            constraints=Constraints.parse(self.targets, self.toolchain, self.channel, self.architecture),
            registry=self.registry,
            # Lock files that were written before decision 034 have the former spelling.
            packages=tuple(replace(package, name=current_name(package.name)) for package in self.packages),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated:
    """How a locked version stands.

    `allowed` is what `update` would lock, `newest` what a requirement without a range means; both are empty if there
    is none. `notes` say more (yanked, gone, deprecated).
    """

    name: str
    locked: str
    allowed: str
    newest: str
    notes: tuple[str, ...]

    @property
    def is_outdated(self) -> bool:
        return bool(self.notes) or self.locked not in (self.allowed, "") or self.newest not in (self.locked, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What `update` did to a package; `before` is empty if it was added, `after` if it was removed."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.before and self.after:
            return f"{self.name}: {self.before} -> {self.after}"
        return f"{self.name}: {self.after} added" if self.after else f"{self.name}: {self.before} not needed any more"


def outdated(reader: RegistryReader, lock: Lock) -> tuple[Outdated, ...]:
    """How each locked package stands, in the lock's order. Raises what `reader` raises."""
    allowed = _allowed(reader, lock)
    return tuple(_standing(reader, lock, name, allowed.get(name, "")) for name in lock.versions)


def _allowed(reader: RegistryReader, lock: Lock) -> dict[str, str]:
    """What `update` would lock; if it would fail, what it would lock for each package alone."""
    try:
        return _versions(resolve(reader, lock.requirements, lock.constraints))
    except RegistryError:
        pass
    allowed: dict[str, str] = {}
    for name in lock.versions:
        # One package whose requirements fail must not hide what the others could become.
        alone = [one for one in lock.requirements if one.package == name]
        try:
            allowed |= {name: _versions(resolve(reader, alone, lock.constraints)).get(name, "")}
        except RegistryError:
            continue
    return allowed


def _versions(resolution: Resolution) -> dict[str, str]:
    return {entry.package: entry.version for entry in resolution.entries}


def _standing(reader: RegistryReader, lock: Lock, name: str, allowed: str) -> Outdated:
    locked = lock.versions[name]
    entries, deprecation = reader.entries(name), reader.deprecation(name)
    # Among all entries, because a yanked version may still be locked.
    present = next((entry for entry in entries if entry.version == locked), None)
    followed = Followed.of(reader, lock.constraints.channel)
    best = newest([entry for entry in entries if not followed.rejection(entry, False)])
    notes = []
    if present is None:
        notes.append(f"{locked} is gone from the registry")
    elif present.yanked is not None:
        notes.append(f"{locked} was yanked ({present.yanked})")
    elif fault := followed.rejection(present, False):
        notes.append(f"{locked} {fault}")
    if deprecation is not None:
        notes.append(f"deprecated: {deprecation}")
    if not allowed:
        notes.append("no version meets the requirements any more")
    return Outdated(name=name, locked=locked, allowed=allowed, newest=best.version if best else "", notes=tuple(notes))


def update(reader: RegistryReader, lock: Lock, names: Sequence[str] = ()) -> Resolution:
    """Resolve the lock's requirements again: the newest versions of `names` (without any: of all); others stay locked
    if possible. Raises RegistryError, and what `reader` raises.
    """
    chosen = {package_meant_by(name) for name in names}
    unknown = sorted(chosen - lock.versions.keys())
    if unknown:
        raise RegistryError(
            f"{unknown[0]} is not in the lock file", hint=f"locked are {', '.join(lock.versions) or 'no packages'}"
        )
    # Without names nothing is kept: all are updated.
    kept = {name: version for name, version in lock.versions.items() if chosen and name not in chosen}
    return resolve(reader, lock.requirements, lock.constraints, locked=kept)


def changes(before: Lock, after: Lock) -> tuple[Change, ...]:
    """What differs, by name."""
    old, new = before.versions, after.versions
    names = sorted(old.keys() | new.keys())
    return tuple(
        Change(name=name, before=old.get(name, ""), after=new.get(name, ""))
        for name in names
        if old.get(name) != new.get(name)
    )
