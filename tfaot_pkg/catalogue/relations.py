"""What a package's page tells from elsewhere: packages that need it, and downloads. Kept in a file of the catalogue.

An update after one publication reads neither all packages nor a log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfaot_pkg.catalogue.downloads import Downloads
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import convert, read_json
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.files.layout import PREFIX
from tfaot_pkg.registry.reader import Requirement

FILE = ".relations.json"
"""Below the catalogue; servers give no name that begins with a dot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    needs: dict[str, list[str]]
    until: str
    blobs: dict[str, int]


@dataclass(slots=True)
class Relations:
    """`needs` are the packages that a package's offered version depends on, for packages that have any."""

    needs: dict[str, list[str]] = field(default_factory=dict)
    downloads: Downloads = field(default_factory=Downloads)

    def dependents(self) -> dict[str, list[str]]:
        """The packages that need a package, sorted, for each that is needed."""
        found: dict[str, list[str]] = {}
        for name in sorted(self.needs):
            for needed in self.needs[name]:
                found.setdefault(needed, []).append(name)
        return found

    def take(self, name: str, entry: RegistryEntry | None) -> None:
        """Remember what `entry`, the version of `name` that is offered, depends on."""
        needed = sorted(needed_by(entry)) if entry else []
        # Also if nothing is needed now: the version that was offered before may have needed something.
        self.needs.pop(name, None)
        if needed:
            self.needs[name] = needed

    def counts(self, entries: Sequence[RegistryEntry]) -> Mapping[str, int]:
        """Downloads by version."""
        blobs = self.downloads.blobs
        return {one.version: blobs.get(one.blobs[PREFIX].sha256, 0) for one in entries if PREFIX in one.blobs}

    def to_bytes(self) -> bytes:
        written = {"needs": self.needs, "until": self.downloads.until, "blobs": self.downloads.blobs}
        return json.dumps(written, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> Relations:
        """Raises ValueError."""
        read = convert(_File, read_json(data))
        return cls(read.needs, Downloads(until=read.until, blobs=read.blobs))


def needed_by(entry: RegistryEntry) -> set[str]:
    """The packages that `entry` depends on, without what is no requirement: a publisher wrote it."""
    found = set()
    for text in entry.dependencies:
        try:
            found.add(Requirement.parse(text).package)
        except RegistryError:
            continue
    return found
