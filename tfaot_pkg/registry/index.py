"""An index file: the lines of one package, and the few ways in which they may change.

A line per version (entry.py). Beside them at most one line of `"kind": "package"` about the package as a whole (that
it is deprecated), and lines of `"kind": "event"`, its log (events.py). Readers ignore kinds that they do not know,
writers keep every line that they do not change, byte by byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from packaging.version import Version

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import convert, read_json, write
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.package.name import model_of, spellings
from tfaot_pkg.registry.entry import SCHEMA, Deprecation, IndexLine, RegistryEntry, newest, parse_lines
from tfaot_pkg.registry.events import Event, Standing
from tfaot_pkg.registry.files.layout import SEARCH

LIMIT = 64 << 20
"""Bytes of an unsigned index file that are read at most (of a signed one: what was signed)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """The index file of `package`; empty for a package that is not there."""

    package: str
    lines: tuple[IndexLine, ...]
    _found: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What follows from the lines, once it was asked for."""

    @classmethod
    def parse(cls, data: bytes | None, file: str, package: str) -> IndexFile:
        """`file` names it in errors. Raises RegistryError with file and line."""
        return cls(package=package, lines=parse_lines(data, file, package) if data else ())

    def to_bytes(self) -> bytes:
        return b"".join(line.raw + b"\n" for line in self.lines)

    @property
    def entries(self) -> tuple[RegistryEntry, ...]:
        """The versions that this tool can read, oldest version first, with the channels that have them."""
        if "entries" not in self._found:
            self._found["entries"] = self._read_entries()
        entries: tuple[RegistryEntry, ...] = self._found["entries"]
        return entries

    def _read_entries(self) -> tuple[RegistryEntry, ...]:
        standing = self.standing

        def told(entry: RegistryEntry) -> RegistryEntry:
            return replace(entry, channels=standing.channels_of(entry.version, entry.tree))

        found = sorted((line.entry for line in self.lines if line.version and line.entry), key=lambda one: one.rank)
        if standing.pointers:
            found = [told(one) for one in found]
        others: dict[Version, list[RegistryEntry]] = {}
        for line in self.lines:
            if line.of and line.entry:
                others.setdefault(line.entry.order, []).append(told(line.entry))
        return tuple(replace(one, others=tuple(others[one.order])) if one.order in others else one for one in found)

    @property
    def trees(self) -> tuple[RegistryEntry, ...]:
        """Every install tree of every version."""
        return tuple(tree for entry in self.entries for tree in entry.trees)

    @property
    def events(self) -> tuple[Event, ...]:
        """The package's log, oldest event first."""
        return tuple(line.event for line in self.lines if line.event)

    @property
    def standing(self) -> Standing:
        """Where its channels stand."""
        if "standing" not in self._found:
            self._found["standing"] = Standing.after(self.events)
        standing: Standing = self._found["standing"]
        return standing

    @property
    def deprecation(self) -> Deprecation | None:
        return next((line.deprecation for line in self.lines if line.deprecation), None)

    def line_of(self, version: str) -> IndexLine | None:
        return next((line for line in self.lines if line.version and Version(line.version) == Version(version)), None)

    def with_entry(self, entry: RegistryEntry) -> IndexFile:
        line = IndexLine(name=entry.name, version=entry.version, entry=entry, raw=entry.line()[:-1])
        return replace(self, lines=(*self.lines, line))

    def with_tree(self, entry: RegistryEntry) -> IndexFile:
        """With one more tree of a version that is there."""
        line = IndexLine(name=entry.name, version="", entry=entry, raw=entry.tree_line()[:-1], of=entry.version)
        return replace(self, lines=(*self.lines, line))

    def with_event(self, event: Event) -> IndexFile:
        line = IndexLine(name=self.package, version="", entry=None, raw=event.line(), event=event)
        return replace(self, lines=(*self.lines, line))

    @property
    def head(self) -> str:
        """The digest of the last event, which the next one names; empty if there is none."""
        return next((sha256_bytes(line.raw) for line in reversed(self.lines) if line.event), "")

    def with_yanked(self, version: str, reason: str | None) -> IndexFile:
        """`reason` None undoes a yank. Raises RegistryError if there is no such version."""
        line = self.line_of(version)
        if line is None:
            there = ", ".join(entry.version for entry in self.entries) or "none"
            raise RegistryError(f"there is no {self.package}@{version}", hint=f"versions that are there: {there}")
        if line.entry is None:
            raise RegistryError(
                f"{self.package}@{version} was published by a newer version of tfaot-pkg", hint="upgrade tfaot-pkg"
            )
        if line.entry.retired and reason is None:
            raise RegistryError(
                f"{self.package}@{version} was retired, and its files are removed",
                hint="publish the model again: a night gives it the next number",
            )
        return replace(self, lines=tuple(_yanked(one, version, reason) for one in self.lines))

    def with_retired(self, versions: Iterable[str], reason: str, moment: str) -> IndexFile:
        """With these versions retired at `moment` (ISO 8601): they are yanked, and cannot be installed any more."""
        lines = self.lines
        for version in versions:
            lines = tuple(_yanked(one, version, reason, moment) for one in lines)
        return replace(self, lines=lines)

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
        # An older tool may have added versions to the former file: they are merged in here (decision 034).
        missing = [line for line in former.lines if line.deprecation is None and not self._holds(line)]
        joined = replace(self, lines=(*missing, *self.lines))
        return joined if self.lines else joined.with_deprecation(former.deprecation)

    def _holds(self, line: IndexLine) -> bool:
        return self.line_of(line.version) is not None if line.version else line in self.lines

    def under(self, name: str) -> IndexFile:
        """The file of the former spelling `name`: what tools that know no other one may see of this package."""
        lines = tuple(line for line in self.lines if line.name == name and line.deprecation is None)
        return replace(self, package=name, lines=lines).with_deprecation(self.deprecation)


def _yanked(line: IndexLine, version: str, reason: str | None, retired: str = "") -> IndexLine:
    """`line` with that yank, if it is about `version`, all of whose trees are yanked together."""
    if line.entry is None or line.entry.order != Version(version):
        return line
    entry = replace(line.entry, yanked=reason, retired=retired or line.entry.retired)
    return replace(line, entry=entry, raw=(entry.tree_line() if line.of else entry.line())[:-1])


def _deprecation_line(package: str, deprecation: Deprecation) -> IndexLine:
    document = {"v": SCHEMA, "kind": "package", "name": package, "deprecated": deprecation}
    return IndexLine(name=package, version="", entry=None, raw=write(document).rstrip(b"\n"), deprecation=deprecation)


# 256 shards, each about 65 KB in a registry of 100,000 packages (decision 011, benchmarks/registry_scale.py).
SHARDS = tuple(f"{SEARCH}/{number:02x}.jsonl" for number in range(256))


def shard_path(package: str) -> str:
    """The shard that holds `package`."""
    # By hash: nearly all names begin alike, so a prefix would put them into one shard.
    return f"{SEARCH}/{hashlib.sha256(package.encode()).hexdigest()[:2]}.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSummary:
    """A package as search shows it: `version` is the best one, None if all are yanked."""

    name: str
    version: str | None
    description: str = ""
    license: str = ""
    deprecated: str = ""

    @property
    def model(self) -> str:
        return model_of(self.name)

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name

    def line(self) -> bytes:
        return write(self)

    def matches(self, words: Iterable[str]) -> bool:
        text = f"{' '.join(spellings(self.name))} {self.description} {self.license}".casefold()
        return all(word in text for word in words)


def summary_of(package: str, entries: Sequence[RegistryEntry], deprecation: Deprecation | None) -> PackageSummary:
    """What search shows of a package with these versions."""
    best = newest(entries)
    return PackageSummary(
        name=package,
        version=best.version if best else None,
        description=best.description if best else "",
        license=best.license if best else "",
        deprecated=str(deprecation) if deprecation else "",
    )


def updated_shard(shard: bytes, file: str, name: str, summary: PackageSummary | None) -> bytes:
    """`shard` with `summary` (None: nothing) in place of the line of the package `name`. Raises RegistryError."""
    kept = {one.name: one for one in summaries_in(shard, file) if one.name != name}
    if summary is not None:
        kept[name] = summary
    return b"".join(kept[name].line() for name in sorted(kept))


def summaries_in(shard: bytes, file: str, words: Sequence[str] = ()) -> Iterator[PackageSummary]:
    """The packages in a shard that hold all `words` (in case-folded form). Raises RegistryError if it is damaged.

    Names are those of the lines: in the former spelling, if all versions have it.
    """
    if shard and not shard.endswith(b"\n"):
        raise _damaged(file, "its end is missing")
    # Most lines do not match: their text is searched before they are parsed, so words are escaped as in JSON.
    escaped = [_either_spelling(json.dumps(word, ensure_ascii=False)[1:-1]) for word in words]
    try:
        for line in shard.decode().split("\n")[:-1]:
            if not escaped or _holds(line, escaped):
                summary = convert(PackageSummary, read_json(line))
                if summary.matches(words):
                    yield summary
    except ValueError as error:
        raise _damaged(file, str(error)) from error


def _holds(line: str, words: Sequence[str]) -> bool:
    text = _either_spelling(line.casefold())
    return all(word in text for word in words)


def _either_spelling(text: str) -> str:
    # A word must be found in either spelling of a name, whichever one the shard has.
    return text.replace("_", "-")


def _damaged(file: str, reason: str) -> RegistryError:
    return RegistryError(
        f"{file}: damaged search shard ({reason})",
        hint="restore it from a copy of the registry; install and show do not need it",
    )
