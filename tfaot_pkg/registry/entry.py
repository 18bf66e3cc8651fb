"""A line of the index: all that is known of one version of a package without fetching a blob.

A line never changes once it is written, except for `yanked` and `retired`. Readers ignore names that they do not
know; writers keep them. A line whose `v` is newer than ours is skipped by readers (an older tool still sees the older
versions).

A version has an install tree for each of several architectures: its first line has `v` 1, the others have 2 and name it
as `of`. Their own `version` ends with the architecture: tools that know only 1 reject two lines of one version, skip
those of a newer form, and remove no blobs of a registry that has any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NoReturn

from packaging.version import InvalidVersion, Version

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import convert, fields_of, read_json, write
from tfaot_pkg.ground.keys import Key, sha256_bytes, sha256_file
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.package.name import current_name, is_package_name, spellings
from tfaot_pkg.registry.events import KIND as EVENT
from tfaot_pkg.registry.events import Event
from tfaot_pkg.registry.files.layout import PREFIX, is_sha256

_IN_WORD = re.compile(r"(?<=[a-z])(?=[0-9])")
SCHEMA = 1
"""The `v` of the lines that this code writes."""
TREE_SCHEMA = 2
"""The `v` of lines about further install trees of a version."""
_ROLE = re.compile(r"[a-z][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobRef:
    """A blob by SHA-256, with its size in bytes, which caps what a reader accepts."""

    sha256: str
    size: int

    def __post_init__(self) -> None:
        if not is_sha256(self.sha256):
            raise ValueError("sha256 must be 64 hexadecimal digits")
        if self.size < 0:
            raise ValueError("size must be a whole number")

    @classmethod
    def of(cls, source: Path | bytes) -> BlobRef:
        """The reference of a file's or a byte string's content. Raises OSError."""
        if isinstance(source, bytes):
            return cls(sha256=sha256_bytes(source), size=len(source))
        return cls(sha256=sha256_file(source), size=source.stat().st_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """One published version.

    `name` is the package's, as its files have it: versions that were published under the former spelling keep that.
    `key` is that of everything the package was made from, `tree` the digest of its install tree (archive.py),
    `tool` the version of tfaot-pkg that made it, `blobs` go by role, `rows_independent` is None if it was published
    before that was known (else see `Rows`), `any_batch_size` is whether the model is compiled for every number of
    rows (then `batch_sizes` are those that were validated and measured), `glibc` is the oldest C library that the
    shared library and the programs load with (empty: not known),
    `attestors` are the keys that signed its provenance (attestation.py), by id, as in TUF's metadata,
    `yanked` is the reason for a yank or None, `retired` is when it left the registry (retention.py; empty: it did not),
    and then it is yanked, too; `published` is UTC in ISO 8601 (empty before publication),
    `extra` holds names that a newer tool wrote. Not in the line: `channels` have it, by the package's log (events.py),
    `offered` is whether it may be chosen by who names no channel, `others` are the version's trees for other
    architectures.
    """

    name: str
    model: str
    version: str
    key: Key
    tree: str
    toolchain: str
    targets: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    signature: Signature
    license: str
    description: str
    blobs: Mapping[str, BlobRef]
    rows_independent: bool | None = None
    any_batch_size: bool = False
    dependencies: tuple[str, ...] = ()
    glibc: str = ""
    attestors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    yanked: str | None = None
    retired: str = ""
    published: str = ""
    tool: str = __version__
    extra: Mapping[str, object] = field(default_factory=dict)
    channels: tuple[str, ...] = field(default=(), compare=False)
    offered: bool = field(default=True, compare=False)
    others: tuple[RegistryEntry, ...] = field(default=(), compare=False)

    @property
    def package(self) -> str:
        """The package that this is a version of, in the spelling of today."""
        return current_name(self.name)

    @property
    def architecture(self) -> str:
        """That of its targets (`x86_64`); empty for targets that this version does not know."""
        found = {TARGETS[name].architecture for name in self.targets if name in TARGETS}
        return found.pop() if len(found) == 1 else ""

    @property
    def trees(self) -> tuple[RegistryEntry, ...]:
        """The version for every architecture, the one that was published first before the others."""
        return (replace(self, others=()), *self.others)

    def on(self, architecture: str) -> RegistryEntry | None:
        """The version for `architecture` (empty: as it is), with the others beside it; None if there is none."""
        if architecture in ("", self.architecture):
            return self
        trees = self.trees
        chosen = next((one for one in trees if one.architecture == architecture), None)
        return chosen and replace(chosen, others=tuple(one for one in trees if one is not chosen))

    @property
    def order(self) -> Version:
        """What versions are compared by: `1.0` and `1.0.0` are equal."""
        return Version(self.version)

    @property
    def rank(self) -> Version:
        """What the newest is found by: as `order`, but a number in a word of the local part counts as a number.

        Else `1.0.0+tf2.17.1.b10` would be older than `1.0.0+tf2.17.1.b9` (PEP 440 compares words by their letters).
        """
        version = self.order
        return Version(f"{version.public}+{_IN_WORD.sub('.', version.local)}") if version.local else version

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def as_dict(self) -> dict[str, object]:
        """The JSON object of the line; unknown names included."""
        line = fields_of(self)
        for name in _NOT_IN_LINE:
            del line[name]
        # Versions published before these fields existed have lines without them, and lines keep their bytes.
        for name, unknown in _OPTIONAL.items():
            if line[name] == unknown:
                del line[name]
        return {**self.extra, "v": SCHEMA, **line, "yanked": self.yanked if self.yanked is not None else False}

    def tree_line(self) -> bytes:
        """The canonical form of a further tree of a version that has a line, with its line end."""
        return write({**self.as_dict(), "v": TREE_SCHEMA, "of": self.version, "version": self.line_version})

    @property
    def line_version(self) -> str:
        """What the line of a further tree has as its version."""
        word = self.architecture.replace("_", ".")
        return f"{self.version}{'.' if '+' in self.version else '+'}{word}"

    @property
    def batch_sizes_text(self) -> str:
        """`1, 4`, and whether these are all that run; or `any (validated and measured: 1, 4)`."""
        if self.any_batch_size:
            return f"any (validated and measured: {', '.join(map(str, self.batch_sizes))})"
        only = "; no others, because rows depend on one another" if self.rows_independent is False else ""
        return ", ".join(map(str, self.batch_sizes)) + only

    def line(self) -> bytes:
        """The canonical form, with its line end."""
        return write(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deprecation:
    """That a package should not be used any more: `use` is the package to use instead (or empty), with the reason."""

    use: str = ""
    reason: str = ""

    def __str__(self) -> str:
        use = f"use {self.use}" if self.use else ""
        return "; ".join(filter(None, (use, self.reason))) or "deprecated"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLine:
    """A line of an index file, without its line end.

    `name` is the package's, in the spelling that the line has. `version` is empty if the line is not about a version;
    `of` is the version if it is about a further tree of one. `entry` is None in other lines, and if a newer tool wrote
    it. `event` is one of the package's log.
    """

    name: str
    version: str
    entry: RegistryEntry | None
    raw: bytes
    deprecation: Deprecation | None = None
    event: Event | None = None
    of: str = ""


def parse_index(data: bytes, file: str, package: str) -> tuple[IndexLine, ...]:
    """The versions in an index file of `package`; `file` names it in errors. Raises RegistryError (file, line)."""
    return tuple(line for line in parse_lines(data, file, package) if line.version)


def parse_lines(data: bytes, file: str, package: str) -> tuple[IndexLine, ...]:
    """As `parse_index`, with the lines that are not about a version."""
    lines = data.split(b"\n")
    # Every line has an end: what follows the last one is an interrupted write.
    if lines.pop():
        _damaged(file, len(lines) + 1, "the line is cut off")
    parsed = tuple(_parse_line(line, file, number, package) for number, line in enumerate(lines, 1))
    seen: dict[Version, int] = {}
    for number, one in enumerate(parsed, 1):
        version = one.entry.line_version if one.of and one.entry else one.version
        if not version:
            continue
        # By value: 1.0 and 1.0.0 are the same version.
        first = seen.setdefault(Version(version), number)
        if first != number:
            _damaged(file, number, f"version {version} is on line {first} already")
    return parsed


def _parse_line(data: bytes, file: str, number: int, package: str) -> IndexLine:
    try:
        return _line_from(read_json(data), package, data)
    except ValueError as fault:
        _damaged(file, number, str(fault))


def _damaged(file: str, number: int, reason: str) -> NoReturn:
    raise RegistryError(
        f"{file}:{number}: damaged index line: {reason}",
        hint="restore this file from a copy of the registry; other packages are not affected",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """What all lines have: a version's, and (with a `kind`) one about the package."""

    v: int
    name: str
    kind: str = ""
    version: str = ""
    of: str = ""
    deprecated: object = None


_OPTIONAL = {"any_batch_size": False, "attestors": {}, "glibc": "", "retired": "", "rows_independent": None}
"""Fields that a line may lack, and their values then."""
_NOT_IN_LINE = ("extra", "channels", "offered", "others")
_KNOWN = frozenset(field.name for field in fields(RegistryEntry)) - {*_NOT_IN_LINE}


def _line_from(value: object, package: str, raw: bytes) -> IndexLine:
    """Raises ValueError with the place of what is wrong."""
    line = convert(_Line, value)
    if line.v < 0:
        raise ValueError("$.v: must be a whole number")
    # The file of a package also holds lines of its former spelling, whose archives have files of that name.
    if line.name not in {package, *spellings(package)[1:]}:
        raise ValueError(f"name is {line.name!r}, not {package!r}")
    # Older tools still see the versions that they can read.
    is_known = line.v <= SCHEMA
    if line.kind:
        if is_known and line.kind == EVENT:
            return IndexLine(name=line.name, version="", entry=None, raw=raw, event=convert(Event, value))
        is_deprecation = is_known and line.kind == "package"
        deprecation = convert(Deprecation, line.deprecated, "$.deprecated") if is_deprecation else None
        return IndexLine(name=line.name, version="", entry=None, raw=raw, deprecation=deprecation)
    try:
        Version(line.version)
    except InvalidVersion:
        raise ValueError(f"{line.version!r} is not a version") from None
    assert isinstance(value, dict)
    if line.v == TREE_SCHEMA and line.of:
        entry = _entry_from({**{name: item for name, item in value.items() if name != "of"}, "version": line.of})
        if entry.line_version != line.version:
            raise ValueError(f"version is {line.version!r}, not {entry.line_version!r}")
        return IndexLine(name=line.name, version="", entry=entry, raw=raw, of=line.of)
    return IndexLine(name=line.name, version=line.version, entry=_entry_from(value) if is_known else None, raw=raw)


def _entry_from(value: dict[str, object]) -> RegistryEntry:
    if missing := sorted(_KNOWN - _OPTIONAL.keys() - value.keys()):
        raise ValueError(f"$: missing required field {missing[0]}")
    yanked = value["yanked"]
    if isinstance(yanked, bool):
        yanked = "no reason given" if yanked else None
    elif yanked is None:
        raise ValueError("$.yanked: expected false or the reason, got null")
    # A line that we write again (a yank) must keep what a newer tool wrote into it.
    others = {name: item for name, item in value.items() if name not in _KNOWN and name != "v"}
    known = {name: item for name, item in value.items() if name in _KNOWN}
    entry = convert(RegistryEntry, {**known, "yanked": yanked, "extra": others})
    for name in ("key", "tree"):
        if not is_sha256(getattr(entry, name)):
            raise ValueError(f"$.{name}: must be 64 hexadecimal digits")
    for role in entry.blobs:
        if not _ROLE.fullmatch(role):  # files are called after them
            raise ValueError(f"$.blobs: {role!r} is not a role")
    return entry


def newest(entries: Sequence[RegistryEntry]) -> RegistryEntry | None:
    """What a requirement without a version means: no yanked version, a pre-release only if there is nothing else."""
    usable = [entry for entry in entries if entry.yanked is None]
    final = [entry for entry in usable if not entry.order.is_prerelease]
    return max(final or usable, key=lambda entry: entry.rank, default=None)


def check_new(entry: RegistryEntry) -> None:
    """Raise RegistryError for what no reader could read back."""
    if not is_package_name(entry.name):
        raise RegistryError(f"{entry.name!r} is not a package name", hint="change model.name in the spec")
    if entry.name != entry.package:
        raise RegistryError(
            f"{entry.name} is the former spelling of {entry.package}, under which nothing new is published",
            hint="build the package again with this version of tfaot-pkg",
        )
    if PREFIX not in entry.blobs:
        raise RegistryError(f"{entry}: nothing to install (no {PREFIX!r} blob)")
    try:
        # What we publish must be readable by the same code that readers use.
        _line_from(read_json(entry.line()), entry.name, b"")
    except ValueError as fault:
        raise RegistryError(f"{entry} cannot be published: {fault}") from None
