"""A line of the index: all that is known of one version of a package without fetching a blob.

A line never changes once it is written, but for `yanked`. Readers ignore names that they do not know; writers keep
them. A line whose `v` is newer than ours is skipped by readers (an older tool still sees the older versions).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from packaging.version import InvalidVersion, Version

from tfaot_pkg._version import __version__
from tfaot_pkg.documents import read_json
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.keys import Key, canonical_json, sha256_bytes, sha256_file
from tfaot_pkg.package.name import current_name, is_package_name, spellings
from tfaot_pkg.signature import Signature
from tfaot_pkg.static.layout import PREFIX, is_sha256

_IN_WORD = re.compile(r"(?<=[a-z])(?=[0-9])")
SCHEMA = 1
"""The `v` of the lines that this code writes."""
_ROLE = re.compile(r"[a-z][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobRef:
    """A blob by SHA-256, with its size in bytes, which caps what a reader accepts."""

    sha256: str
    size: int

    @classmethod
    def of(cls, source: Path | bytes) -> BlobRef:
        """The reference of a file's or a byte string's content. Raises OSError."""
        if isinstance(source, bytes):
            return cls(sha256=sha256_bytes(source), size=len(source))
        return cls(sha256=sha256_file(source), size=source.stat().st_size)

    def as_dict(self) -> dict[str, object]:
        return {"sha256": self.sha256, "size": self.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """One published version.

    `name` is the package's, as its files have it: versions that were published under the former spelling keep that.
    `key` is that of everything the package was made from, `tree` the digest of its install tree (archive.py),
    `tool` the version of tfaot-pkg that made it, `blobs` go by role, `rows_independent` is None if it was published
    before that was known (else see `Rows`),
    `glibc` is the oldest C library that the shared library and the programs load with (empty: not known),
    `yanked` is the reason for a yank or None, `published` is UTC in ISO 8601 (empty before publication),
    `extra` holds names that a newer tool wrote.
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
    dependencies: tuple[str, ...] = ()
    glibc: str = ""
    yanked: str | None = None
    published: str = ""
    tool: str = __version__
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def package(self) -> str:
        """The package that this is a version of, in the spelling of today."""
        return current_name(self.name)

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
        return {
            **self.extra,
            "v": SCHEMA,
            "name": self.name,
            "model": self.model,
            "version": self.version,
            "key": self.key,
            "tree": self.tree,
            "tool": self.tool,
            "toolchain": self.toolchain,
            "targets": list(self.targets),
            "batch_sizes": list(self.batch_sizes),
            **({} if self.rows_independent is None else {"rows_independent": self.rows_independent}),
            "signature": self.signature.as_dict(),
            "license": self.license,
            "description": self.description,
            "blobs": {role: blob.as_dict() for role, blob in self.blobs.items()},
            "dependencies": list(self.dependencies),
            **({"glibc": self.glibc} if self.glibc else {}),
            "yanked": self.yanked if self.yanked is not None else False,
            "published": self.published,
        }

    @property
    def batch_sizes_text(self) -> str:
        """`1, 4`, and whether these are all that run."""
        only = "; no others, because rows depend on one another" if self.rows_independent is False else ""
        return ", ".join(map(str, self.batch_sizes)) + only

    def line(self) -> bytes:
        """The canonical form, with its line end."""
        return canonical_json(self.as_dict()) + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deprecation:
    """That a package should not be used any more: `use` is the package to use instead (or empty), with the reason."""

    use: str = ""
    reason: str = ""

    def as_dict(self) -> dict[str, object]:
        return {"use": self.use, "reason": self.reason}

    def __str__(self) -> str:
        use = f"use {self.use}" if self.use else ""
        return "; ".join(filter(None, (use, self.reason))) or "deprecated"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLine:
    """A line as it stands in an index file, without its line end.

    `name` is the package's, in the spelling that the line has. `version` is empty if the line is not about a version;
    `entry` is None there, and if a newer tool wrote it.
    """

    name: str
    version: str
    entry: RegistryEntry | None
    raw: bytes
    deprecation: Deprecation | None = None


def parse_index(data: bytes, file: str, package: str) -> tuple[IndexLine, ...]:
    """The versions in an index file of `package`; `file` names it in errors. Raises RegistryError (file, line)."""
    return tuple(line for line in parse_lines(data, file, package) if line.version)


def parse_lines(data: bytes, file: str, package: str) -> tuple[IndexLine, ...]:
    """As `parse_index`, with the lines that are not about a version."""
    lines = data.split(b"\n")
    if lines.pop():
        _damaged(file, len(lines) + 1, "the line is cut off")
    parsed = tuple(_parse_line(line, file, number, package) for number, line in enumerate(lines, 1))
    seen: dict[Version, int] = {}
    for number, one in enumerate(parsed, 1):
        if not one.version:
            continue
        first = seen.setdefault(Version(one.version), number)
        if first != number:
            _damaged(file, number, f"version {one.version} stands in line {first} already")
    return parsed


def _parse_line(data: bytes, file: str, number: int, package: str) -> IndexLine:
    try:
        value = read_json(data)
    except (ValueError, RecursionError) as error:
        _damaged(file, number, f"not JSON ({error})")
    try:
        return _line_from(_Fields(value), package, data)
    except _Fault as fault:
        _damaged(file, number, str(fault))


def _damaged(file: str, number: int, reason: str) -> NoReturn:
    raise RegistryError(
        f"{file}:{number}: damaged index line: {reason}",
        hint="restore this file from a copy of the registry; other packages are not affected",
    )


class _Fault(Exception):
    """What is wrong with a line."""


class _Fields:
    """Typed access to a JSON object from outside: every mismatch is a `_Fault` that names the field."""

    def __init__(self, value: object, where: str = "") -> None:
        if not isinstance(value, dict):
            raise _Fault(f"{where or 'the line'} must be an object")
        self._value = value
        self._where = where + "." if where else ""
        self._known: set[str] = set()

    def get(self, name: str) -> object:
        self._known.add(name)
        if name not in self._value:
            raise _Fault(f"{self._where}{name} is missing")
        return self._value[name]

    def text(self, name: str) -> str:
        value = self.get(name)
        if not isinstance(value, str):
            raise _Fault(f"{self._where}{name} must be a string")
        return value

    def optional_text(self, name: str) -> str:
        return self.text(name) if name in self._value else ""

    def optional_truth(self, name: str) -> bool | None:
        value = self.get(name) if name in self._value else None
        if value is not None and not isinstance(value, bool):
            raise _Fault(f"{self._where}{name} must be true or false")
        return value

    def whole(self, name: str) -> int:
        value = self.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise _Fault(f"{self._where}{name} must be a whole number")
        return value

    def digest(self, name: str) -> str:
        value = self.text(name)
        if not is_sha256(value):
            raise _Fault(f"{self._where}{name} must be 64 hexadecimal digits")
        return value

    def list_of(self, name: str, kind: type) -> list[object]:
        value = self.get(name)
        if not isinstance(value, list) or not all(type(item) is kind for item in value):
            raise _Fault(f"{self._where}{name} must be a list of {kind.__name__}")
        return value

    def fields(self, name: str) -> _Fields:
        return _Fields(self.get(name), self._where + name)

    def names(self) -> Iterator[str]:
        return iter(self._value)

    def others(self) -> dict[str, object]:
        """What was not asked for."""
        return {name: value for name, value in self._value.items() if name not in self._known}


def _line_from(fields: _Fields, package: str, raw: bytes) -> IndexLine:
    schema = fields.whole("v")
    name = fields.text("name")
    if name not in {package, *spellings(package)[1:]}:
        raise _Fault(f"name is {name!r}, not {package!r}")
    kind = fields.optional_text("kind")
    if kind:
        deprecation = _deprecation_from(fields) if kind == "package" and schema <= SCHEMA else None
        return IndexLine(name=name, version="", entry=None, raw=raw, deprecation=deprecation)
    version = fields.text("version")
    try:
        Version(version)
    except InvalidVersion:
        raise _Fault(f"{version!r} is not a version") from None
    return IndexLine(name=name, version=version, entry=_entry_from(fields) if schema <= SCHEMA else None, raw=raw)


def _deprecation_from(fields: _Fields) -> Deprecation:
    one = fields.fields("deprecated")
    return Deprecation(use=one.text("use"), reason=one.text("reason"))


def _entry_from(fields: _Fields) -> RegistryEntry:
    known: dict[str, object] = {
        "name": fields.text("name"),
        "model": fields.text("model"),
        "version": fields.text("version"),
        "key": Key(fields.digest("key")),
        "tree": fields.digest("tree"),
        "tool": fields.text("tool"),
        "toolchain": fields.text("toolchain"),
        "targets": tuple(fields.list_of("targets", str)),
        "batch_sizes": tuple(fields.list_of("batch_sizes", int)),
        "rows_independent": fields.optional_truth("rows_independent"),
        "signature": _signature_from(fields),
        "license": fields.text("license"),
        "description": fields.text("description"),
        "blobs": _blobs_from(fields.fields("blobs")),
        "dependencies": tuple(fields.list_of("dependencies", str)),
        "glibc": fields.optional_text("glibc"),
        "yanked": _yanked_from(fields),
        "published": fields.text("published"),
    }
    return RegistryEntry(**known, extra=fields.others())  # type: ignore[arg-type]


def _blobs_from(fields: _Fields) -> dict[str, BlobRef]:
    blobs = {}
    for role in fields.names():
        if not _ROLE.fullmatch(role):  # files are called after them
            raise _Fault(f"blobs: {role!r} is no role")
        one = fields.fields(role)
        blobs[role] = BlobRef(sha256=one.digest("sha256"), size=one.whole("size"))
    return blobs


def _yanked_from(fields: _Fields) -> str | None:
    value = fields.get("yanked")
    if value is False:
        return None
    if isinstance(value, str):
        return value
    if value is True:
        return "no reason given"
    raise _Fault("yanked must be false or the reason")


def _signature_from(fields: _Fields) -> Signature:
    signature = fields.fields("signature")
    for side in ("inputs", "outputs"):
        for number, tensor in enumerate(signature.list_of(side, dict)):
            _check_tensor(_Fields(tensor, f"signature.{side}[{number}]"))
    try:
        return Signature.from_dict(fields.get("signature"))  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError) as error:
        raise _Fault(f"signature: {error}") from None


def _check_tensor(tensor: _Fields) -> None:
    tensor.text("name")
    tensor.text("dtype")
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not all(size is None or type(size) is int for size in shape):
        raise _Fault("shape must be a list of whole numbers and null")


def newest(entries: Sequence[RegistryEntry]) -> RegistryEntry | None:
    """What a requirement without a version means: no yanked version, a pre-release only where nothing else is."""
    usable = [entry for entry in entries if entry.yanked is None]
    final = [entry for entry in usable if not entry.order.is_prerelease]
    return max(final or usable, key=lambda entry: entry.rank, default=None)


def check_new(entry: RegistryEntry) -> None:
    """Refuse what no reader could read back. Raises RegistryError."""
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
        _line_from(_Fields(read_json(entry.line())), entry.name, b"")
    except _Fault as fault:
        raise RegistryError(f"{entry} cannot be published: {fault}") from None
