"""What is newer than a lock file, and locking it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfaot_pkg.dependencies.lock import Lock
from tfaot_pkg.dependencies.resolution import Resolution, resolve
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.package.name import package_meant_by
from tfaot_pkg.registry.entry import newest
from tfaot_pkg.registry.reader import RegistryReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated:
    """How a locked version stands.

    `allowed` is what `update` would lock, `newest` what a requirement without a range means; both are empty where there
    is none. `notes` say what else is to know (yanked, gone, deprecated).
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
    """What `update` did to a package; `before` or `after` is empty where it came or went."""

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
    return tuple(_standing(reader, name, version, allowed.get(name, "")) for name, version in lock.versions.items())


def _allowed(reader: RegistryReader, lock: Lock) -> dict[str, str]:
    """What `update` would lock; where it would fail, what it would lock for each package without the others."""
    try:
        return _versions(resolve(reader, lock.requirements, lock.constraints))
    except RegistryError:
        pass
    allowed: dict[str, str] = {}
    for name in lock.versions:
        alone = [one for one in lock.requirements if one.package == name]
        try:
            allowed |= {name: _versions(resolve(reader, alone, lock.constraints)).get(name, "")}
        except RegistryError:
            continue
    return allowed


def _versions(resolution: Resolution) -> dict[str, str]:
    return {entry.package: entry.version for entry in resolution.entries}


def _standing(reader: RegistryReader, name: str, locked: str, allowed: str) -> Outdated:
    entries, deprecation = reader.entries(name), reader.deprecation(name)
    present = next((entry for entry in entries if entry.version == locked), None)
    best = newest(entries)
    notes = []
    if present is None:
        notes.append(f"{locked} is gone from the registry")
    elif present.yanked is not None:
        notes.append(f"{locked} was yanked ({present.yanked})")
    if deprecation is not None:
        notes.append(f"deprecated: {deprecation}")
    if not allowed:
        notes.append("no version serves the requirements any more")
    return Outdated(name=name, locked=locked, allowed=allowed, newest=best.version if best else "", notes=tuple(notes))


def update(reader: RegistryReader, lock: Lock, names: Sequence[str] = ()) -> Resolution:
    """Resolve the lock's requirements anew: the newest versions of `names` (without any: of all); others stay locked
    as far as that goes. Raises RegistryError, and what `reader` raises.
    """
    chosen = {package_meant_by(name) for name in names}
    unknown = sorted(chosen - lock.versions.keys())
    if unknown:
        raise RegistryError(
            f"{unknown[0]} is not in the lock file", hint=f"locked are {', '.join(lock.versions) or 'no packages'}"
        )
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
