"""What can be asked of any registry, near or far, and the answers that follow from its index alone."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.package.name import model_of, package_meant_by
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.entry import BlobRef, Deprecation, RegistryEntry, newest
from tfaot_pkg.registry.index import PackageSummary, summary_of


class RegistryReader(Protocol):
    """A registry that can be read: static files in a folder or on a server (static.py)."""

    @property
    def location(self) -> str:
        """Folder or URL, for messages."""

    @property
    def root_version(self) -> int | None:
        """The version of the trusted root, None if the registry is unsigned. Raises TrustError."""

    @property
    def channels(self) -> Channels | None:
        """The registry's channels, None if it has none. Raises RegistryError, TrustError."""

    def names(self) -> Sequence[str]:
        """All packages, sorted."""

    def entries(self, package: str) -> tuple[RegistryEntry, ...]:
        """The versions of `package`, oldest version first; empty if there is no such package.

        Raises RegistryError if the index is damaged.
        """

    def deprecation(self, package: str) -> Deprecation | None:
        """Whether `package` should not be used any more. Raises as `entries`."""

    def search(self, text: str) -> SearchResult:
        """Packages that hold all words of `text` in name, description or licence, in any case."""

    def open_blob(self, blob: BlobRef) -> AbstractContextManager[BinaryIO]:
        """The blob's content, checked before the first byte is given. Raises RegistryError, TrustError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The packages that were found, sorted; the names of those that only have yanked versions; which files could not be
    read.
    """

    found: tuple[PackageSummary, ...]
    yanked: tuple[str, ...]
    damaged: tuple[str, ...]

    @classmethod
    def of(cls, matching: Sequence[PackageSummary], damaged: Sequence[str]) -> SearchResult:
        ordered = sorted(matching, key=lambda one: one.name)
        return cls(
            found=tuple(one for one in ordered if one.version is not None),
            yanked=tuple(one.name for one in ordered if one.version is None),
            damaged=tuple(damaged),
        )


def search(reader: RegistryReader, text: str) -> SearchResult:
    """Packages whose best version holds all words of `text` in name, description or licence, in any case.

    For registries without search shards: it reads every index file.
    """
    words = text.casefold().split()
    matching: list[PackageSummary] = []
    damaged: list[str] = []
    for name in reader.names():
        try:
            summary = summary_of(name, reader.entries(name), reader.deprecation(name))
        except RegistryError as error:
            damaged.append(error.message)
            continue
        if summary.matches(words):
            matching.append(summary)
    return SearchResult.of(matching, damaged)


def resolve(
    reader: RegistryReader, requirement: Requirement | str, channel: str = "", architecture: str = ""
) -> RegistryEntry:
    """The version that `requirement` means in `channel` (empty: the registry's default one), for `architecture` (empty:
    any).

    Raises RegistryError with a line for every rejected version.
    """
    wanted = Requirement.parse(requirement) if isinstance(requirement, str) else requirement
    entries = tuple(entry.on(architecture) or entry for entry in reader.entries(wanted.package))
    if not entries:
        raise unknown_package(reader, wanted.package)
    followed = Followed.of(reader, channel)

    def fault(entry: RegistryEntry) -> str:
        return followed.rejection(entry, wanted.names(entry)) or other_architecture(entry, architecture)

    chosen = choose([entry for entry in entries if not fault(entry)], wanted)
    if chosen is None:
        reasons = "\n".join(f"  {entry.version}: {_rejection(entry, wanted) or fault(entry)}" for entry in entries)
        raise RegistryError(
            f"no version of {wanted.package} in {reader.location} is {wanted.specifier or 'usable'}:\n{reasons}",
            hint=f"ask for another version; NAME@VERSION accepts a yanked one too{followed.hint}",
        )
    return chosen


def other_architecture(entry: RegistryEntry, architecture: str) -> str:
    """Why `entry` does not run on `architecture`; empty if it may."""
    # Targets that this version does not know may be of any architecture.
    if not architecture or not entry.architecture or entry.on(architecture) is not None:
        return ""
    return f"is for {' and '.join(sorted(one.architecture for one in entry.trees))}, not {architecture}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The channel whose builds are chosen; none of a registry without channels, whose builds are all chosen from."""

    channels: Channels | None = None
    channel: str = ""

    @classmethod
    def of(cls, reader: RegistryReader, channel: str = "") -> Followed:
        """The channel `channel`, or the default one of `reader`. Raises RegistryError if it has no such channel."""
        channels = reader.channels
        if channels is not None:
            return cls(channels=channels, channel=channels.require(channel, reader.location))
        if channel:
            raise RegistryError(f"{reader.location} has no channels", hint="leave out --channel")
        return cls()

    def rejection(self, entry: RegistryEntry, is_named: bool) -> str:
        """Why `entry` is not chosen; empty if it may be. Who names exactly this build asked for it (`is_named`)."""
        if self.channels is None or is_named or self.channels.has(entry, self.channel):
            return ""
        return f"is not in the channel {self.channel}"

    @property
    def hint(self) -> str:
        """More of a hint, for those who got nothing."""
        if self.channels is None or self.channel == self.channels.first:
            return ""
        return f"; --channel {self.channels.first} takes what was not promoted yet"


def choose(entries: Sequence[RegistryEntry], wanted: Requirement) -> RegistryEntry | None:
    """The newest version that `wanted` allows: pre-releases by packaging's rules, yanked ones if pinned.

    Retired ones are never chosen.
    """
    usable = [entry for entry in entries if entry.yanked is None or (wanted.is_pinned and not entry.retired)]
    if not wanted.specifier:
        return newest(usable)
    # `filter` lets pre-releases in only if no final version matches.
    allowed = set(wanted.specifier.filter([entry.order for entry in usable]))
    # The greatest `rank`, not `order`: PEP 440 compares b10 and b9 by their letters (entry.py).
    return max((entry for entry in usable if entry.order in allowed), key=lambda entry: entry.rank, default=None)


def _rejection(entry: RegistryEntry, wanted: Requirement) -> str:
    if not wanted.specifier.contains(entry.order, prereleases=True):
        return f"is not {wanted.specifier}"
    if entry.yanked is not None:
        return f"was {entry.yanked}" if entry.retired else f"was yanked ({entry.yanked})"
    if not entry.order.is_prerelease or wanted.is_pinned:
        return ""
    return "is a pre-release, which only a requirement that names one allows"


def readable_names(readers: Iterable[RegistryReader]) -> list[str]:
    """All packages of `readers`, sorted. For a guess: what is damaged is left out."""
    found = [reader.search("") for reader in readers]
    return sorted({name for each in found for name in (*(one.name for one in each.found), *each.yanked)})


def names_like(package: str, readers: Iterable[RegistryReader]) -> list[str]:
    """Names of packages in `readers` that a user may have meant by `package`."""
    names = readable_names(readers)
    # By the models' names: what all packages begin with would make any two of them alike. Without the name itself: the
    # list of names may be newer or older than the index.
    models = {model_of(name): name for name in names if name != package}
    return [models[near] for near in difflib.get_close_matches(model_of(package), models, n=3, cutoff=0.6)]


def unknown_package(reader: RegistryReader, package: str) -> RegistryError:
    """The error for a package that is not there, with names that are like it."""
    hint = meant(names_like(package, [reader]))
    return RegistryError(f"there is no package {package} in {reader.location}", hint=hint)


def meant(near: Sequence[str]) -> str:
    """The hint to an unknown name."""
    return f"did you mean {' or '.join(near)}?" if near else "tfaot-pkg search lists what is there"


_FORM = re.compile(r"\s*(?P<name>[A-Za-z0-9_.-]+)\s*(?:@\s*(?P<version>\S+)|(?P<specifier>[<>=!~].*))?\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A package and the accepted versions of it (all if `specifier` is empty)."""

    package: str
    specifier: SpecifierSet

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Read `NAME`, `NAME@VERSION` or `NAME>=1,<2`. Raises RegistryError."""
        form = _FORM.fullmatch(text)
        if form is None:
            raise RegistryError(f"{text!r} is not a requirement", hint="write NAME, NAME@VERSION or 'NAME>=1,<2'")
        package = package_meant_by(form["name"])
        try:
            specifier = f"=={Version(form['version'])}" if form["version"] else form["specifier"] or ""
            return cls(package=package, specifier=SpecifierSet(specifier))
        except InvalidVersion as error:
            raise RegistryError(
                f"{text!r}: {form['version']!r} is not a version", hint="versions look like 1.2, 1.2.3 or 2.0rc1"
            ) from error
        except InvalidSpecifier as error:
            raise RegistryError(
                f"{text!r}: {form['specifier']!r} is not a version range", hint="ranges look like '>=1,<2' or '~=1.4'"
            ) from error

    @property
    def is_pinned(self) -> bool:
        """Whether exactly one version is meant, which a yank does not hide."""
        return any(
            one.operator == "===" or (one.operator == "==" and not one.version.endswith(".*")) for one in self.specifier
        )

    def names(self, entry: RegistryEntry) -> bool:
        """Whether exactly the build `entry` is meant, its local part included."""
        return any(
            one.operator in ("==", "===") and not one.version.endswith(".*") and Version(one.version) == entry.order
            for one in self.specifier
        )

    def __str__(self) -> str:
        return f"{self.package}{self.specifier}"


PROVENANCE, SBOM, VALIDATION, GRAPH, INFO = "provenance", "sbom", "validation", "graph", "info"
"""Roles of the documents' blobs in a registry entry."""

FILES = {
    PROVENANCE: "provenance.json",
    SBOM: "sbom.cdx.json",
    VALIDATION: "validation.json",
    GRAPH: "graph.json",
    INFO: "info.json",
}
"""The documents' names in `share/tfaot-model-NAME/`, by role."""


def package_document(reader: RegistryReader, entry: RegistryEntry, role: str) -> bytes:
    """The document of `entry` in `role` (`FILES`).

    Raises RegistryError if the version was published without it, TrustError if it was changed.
    """
    if role not in entry.blobs:
        raise RegistryError(
            f"{entry} was published without {role}",
            hint="an older version of tfaot-pkg published it: publish a new version of the model",
        )
    with reader.open_blob(entry.blobs[role]) as file:
        return file.read()


def parse_document(data: bytes, entry: RegistryEntry, role: str) -> Any:
    """The value of what `package_document` gave. Raises RegistryError if it is damaged."""
    try:
        return read_json(data)
    except ValueError as error:
        raise RegistryError(
            f"the {role} of {entry} is damaged: {error}", hint="ask who published the package for a new version of it"
        ) from None
