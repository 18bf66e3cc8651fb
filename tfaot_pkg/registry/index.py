"""An index file: the lines of one package, and the few ways in which they may change.

A line per version (entry.py). Beside them at most one line of `"kind": "package"` about the package as a whole (that
it is deprecated). Readers ignore kinds that they do not know, writers keep every line that they do not change, byte by
byte.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from packaging.version import Version

from tfaot_pkg.documents import write
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.registry.entry import SCHEMA, Deprecation, IndexLine, RegistryEntry, parse_lines

LIMIT = 64 << 20
"""Bytes of an unsigned index file that are read at most (of a signed one: what was signed)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """The index file of `package`; empty for a package that is not there."""

    package: str
    lines: tuple[IndexLine, ...]

    @classmethod
    def parse(cls, data: bytes | None, file: str, package: str) -> IndexFile:
        """`file` names it in errors. Raises RegistryError with file and line."""
        return cls(package=package, lines=parse_lines(data, file, package) if data else ())

    def to_bytes(self) -> bytes:
        return b"".join(line.raw + b"\n" for line in self.lines)

    @property
    def entries(self) -> tuple[RegistryEntry, ...]:
        """The versions that this tool can read, oldest version first."""
        return tuple(sorted((line.entry for line in self.lines if line.entry), key=lambda entry: entry.rank))

    @property
    def deprecation(self) -> Deprecation | None:
        return next((line.deprecation for line in self.lines if line.deprecation), None)

    def line_of(self, version: str) -> IndexLine | None:
        return next((line for line in self.lines if line.version and Version(line.version) == Version(version)), None)

    def with_entry(self, entry: RegistryEntry) -> IndexFile:
        line = IndexLine(name=entry.name, version=entry.version, entry=entry, raw=entry.line()[:-1])
        return replace(self, lines=(*self.lines, line))

    def with_yanked(self, version: str, reason: str | None) -> IndexFile:
        """`reason` None takes a yank back. Raises RegistryError where there is no such version."""
        line = self.line_of(version)
        if line is None:
            there = ", ".join(entry.version for entry in self.entries) or "none"
            raise RegistryError(f"there is no {self.package}@{version}", hint=f"versions that are there: {there}")
        if line.entry is None:
            raise RegistryError(
                f"{self.package}@{version} was published by a newer version of tfaot-pkg", hint="upgrade tfaot-pkg"
            )
        entry = replace(line.entry, yanked=reason)
        changed = replace(line, entry=entry, raw=entry.line()[:-1])
        return replace(self, lines=tuple(changed if one is line else one for one in self.lines))

    def with_deprecation(self, deprecation: Deprecation | None) -> IndexFile:
        """None takes it back."""
        if self.deprecation == deprecation:
            return self
        others = tuple(line for line in self.lines if line.deprecation is None)
        if deprecation is None:
            return replace(self, lines=others)
        return replace(self, lines=(*others, _deprecation_line(self.package, deprecation)))

    def joined(self, former: IndexFile) -> IndexFile:
        """The file with those lines of `former`, the file of the former spelling, that it does not hold yet."""
        missing = [line for line in former.lines if line.deprecation is None and not self._holds(line)]
        joined = replace(self, lines=(*missing, *self.lines))
        return joined if self.lines else joined.with_deprecation(former.deprecation)

    def _holds(self, line: IndexLine) -> bool:
        return self.line_of(line.version) is not None if line.version else line in self.lines

    def under(self, name: str) -> IndexFile:
        """The file of the former spelling `name`: what tools that know no other one may see of this package."""
        lines = tuple(line for line in self.lines if line.name == name and line.deprecation is None)
        return replace(self, package=name, lines=lines).with_deprecation(self.deprecation)


def _deprecation_line(package: str, deprecation: Deprecation) -> IndexLine:
    document = {"v": SCHEMA, "kind": "package", "name": package, "deprecated": deprecation}
    return IndexLine(name=package, version="", entry=None, raw=write(document).rstrip(b"\n"), deprecation=deprecation)
