"""Reading any registry of static files: one code for folders and servers, signed and unsigned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Protocol

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import read, write
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.package.name import current_name, package_meant_by, spellings
from tfaot_pkg.registry import reader
from tfaot_pkg.registry.blobs import open_blob
from tfaot_pkg.registry.channels import Channels, ChannelStand
from tfaot_pkg.registry.entry import BlobRef, Deprecation, RegistryEntry, newest
from tfaot_pkg.registry.files.files import Files, MissingFile
from tfaot_pkg.registry.files.layout import (
    CHANNELS,
    CONFIG,
    DOWNLOAD,
    FORMAT,
    LATENCY,
    blob_path,
    index_path,
    template_fault,
)
from tfaot_pkg.registry.files.mirrored import lacking
from tfaot_pkg.registry.index import LIMIT as INDEX_LIMIT
from tfaot_pkg.registry.index import SHARDS, IndexFile, PackageSummary, summaries_in
from tfaot_pkg.registry.reader import Requirement


class Index(Protocol):
    """Where index files and search shards come from: unverified (PlainIndex), or verified (SignedIndex)."""

    def forget(self) -> None:
        """The next read takes the newest state; until then all reads may be of one state."""

    def read(self, path: str) -> bytes | None:
        """The file, None if there is none. Raises TrustError, StorageError, NetworkError."""

    @property
    def root_version(self) -> int | None:
        """The version of the trusted root, None if nothing is signed. Raises as `read`."""

    def search_shards(self) -> tuple[str, ...]:
        """The paths of the shards that may be there, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainIndex:
    """The files without verification: damage is detected, forgery is not."""

    files: Files

    def forget(self) -> None: ...

    def read(self, path: str) -> bytes | None:
        try:
            return self.files.get(path, INDEX_LIMIT)
        except MissingFile:
            return None

    @property
    def root_version(self) -> int | None:
        return None

    def search_shards(self) -> tuple[str, ...]:
        return SHARDS


def read_config(files: Files) -> RegistryConfig:
    """`config.json`. Raises MissingFile, RegistryError, StorageError, NetworkError."""
    return RegistryConfig.parse(files.get(CONFIG, CONFIG_LIMIT), f"{files.location}/{CONFIG}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticRegistry:
    """A `RegistryReader` over `files`, with what its `index` says."""

    files: Files
    config: RegistryConfig
    index: Index

    @property
    def location(self) -> str:
        return self.files.location

    @property
    def is_signed(self) -> bool:
        """Whether what is read was verified against a trusted root."""
        return not isinstance(self.index, PlainIndex)

    @property
    def root_version(self) -> int | None:
        """The version of the trusted root, None if the registry is unsigned. Raises TrustError, NetworkError."""
        return self.index.root_version

    def names(self) -> tuple[str, ...]:
        """All packages, sorted. Raises RegistryError, TrustError, StorageError."""
        return tuple(sorted({one.name for path in self.index.search_shards() for one in self._summaries(path)}))

    def search(self, text: str) -> reader.SearchResult:
        """Packages that hold all words of `text` in name, description or licence, in any case."""
        words = text.casefold().split()
        matching: list[PackageSummary] = []
        damaged: list[str] = []
        for path in self.index.search_shards():
            try:
                matching += self._summaries(path, words)
            except RegistryError as error:
                damaged.append(error.message)
        return reader.SearchResult.of(matching, damaged)

    def _summaries(self, path: str, words: list[str] | None = None) -> Iterator[PackageSummary]:
        shard = self.index.read(path)
        for one in summaries_in(shard or b"", f"{self.location}/{path}", words or ()):
            # An older shard may name a package by its former spelling.
            yield replace(one, name=current_name(one.name))

    def index_file(self, package: str) -> IndexFile:
        """All lines of `package`; without any if there is no such package. Raises RegistryError, TrustError.

        A package of which nothing was published under the spelling of today has the file of the former one.
        """
        package = package_meant_by(package)
        files = (self.index_file_of(name) for name in spellings(package))
        # The current spelling first: the second read is needed only if that has no file (decision 034).
        found = next((file for file in files if file.lines), None)
        # What a signed registry lacks is missed where its signatures name it.
        if found is None and not self.is_signed and (partial := lacking(self.files, index_path(package))):
            raise partial
        return replace(found, package=package) if found else IndexFile(package=package, lines=())

    def index_file_of(self, name: str) -> IndexFile:
        """The index file under this spelling alone. Raises as `index_file`."""
        path = index_path(name)
        return IndexFile.parse(self.index.read(path), f"{self.location}/{path}", name)

    def entries(self, package: str) -> tuple[RegistryEntry, ...]:
        """The versions of `package` that this tool can read, oldest version first.

        Raises RegistryError if the index is damaged, TrustError if it is not what was signed, StorageError.
        """
        entries, channels = self.index_file(package).entries, self.channels
        if channels is None:
            return entries

        def told(entry: RegistryEntry) -> RegistryEntry:
            others = tuple(told(one) for one in entry.others)
            return replace(entry, offered=channels.has(entry, channels.default), others=others)

        return tuple(map(told, entries))

    def deprecation(self, package: str) -> Deprecation | None:
        """Whether `package` should not be used any more. Raises as `entries`."""
        return self.index_file(package).deprecation

    def channels_of(self, package: str) -> tuple[ChannelStand, ...]:
        """What each channel has of `package`, in the order of promotion; none of a registry without channels."""
        channels, index = self.channels, self.index_file(package)
        if channels is None:
            return ()
        best = {
            name: newest([entry for entry in index.entries if channels.has(entry, name)]) for name in channels.names
        }
        held = index.standing.held
        return tuple(
            ChannelStand(
                channel=name,
                build=one.version if one else "",
                is_default=name == channels.default,
                held=held[name].reason if name in held else "",
            )
            for name, one in best.items()
        )

    @contextmanager
    def open_blob(self, blob: BlobRef) -> Iterator[BinaryIO]:
        """The blob's content, checked before the first byte is given. Raises RegistryError, TrustError."""
        with open_blob(self.files, blob_path(blob.sha256, self.config.download), blob) as file:
            yield file

    def has_blobs(self, entry: RegistryEntry) -> bool:
        """Whether all blobs of `entry` are there; their content is not looked at. Raises StorageError.

        Measurements do not count: publishing again cannot restore them.
        """
        blobs = [blob for role, blob in entry.blobs.items() if role != LATENCY]
        paths = (blob_path(blob.sha256, self.config.download) for blob in blobs)
        return all(self.files.has(path) for path in paths)

    def resolve(self, requirement: Requirement | str, channel: str = "", architecture: str = "") -> RegistryEntry:
        """The version that `requirement` (`NAME`, `NAME@VERSION`, `NAME>=1,<2`) means. Raises RegistryError."""
        return reader.resolve(self, requirement, channel, architecture)

    @property
    def channels(self) -> Channels | None:
        """The registry's channels, None if it has none. Raises RegistryError, TrustError, StorageError."""
        # Unsigned, only `config.json` tells without asking a server for a file that few registries have.
        if not self.is_signed and not self.config.has_channels:
            return None
        data = self.index.read(CHANNELS)
        if data is None:
            return None
        return Channels.parse(data, f"{self.location}/{CHANNELS}")


SIGNED = "signed"
"""Capability: index files are TUF targets; there is no plain copy of them."""

SEARCHABLE = "search"
"""Capability: there are search shards (index.py)."""

CHANNELLED = "channels"
"""Capability of an unsigned registry: there is a `channels.json`. What a signed one has, its signatures say."""

CONFIG_LIMIT = 65_536
"""Bytes of `config.json` that are read at most."""

_NOT_OURS = "restore the file from a copy of the registry, or name another folder"


class UnknownFormat(RegistryError):
    """The registry is of a format that this version cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """`config.json`. `capabilities` says what there is beyond format 1; readers ignore what they do not know."""

    download: str = DOWNLOAD
    capabilities: tuple[str, ...] = (SEARCHABLE,)
    sha256: str = field(default="", compare=False)
    """Of the file that it was read from: what a signed registry's signatures say as well."""

    def to_bytes(self) -> bytes:
        return write(_Document(download=self.download, capabilities=self.capabilities))

    def having(self, capability: str) -> RegistryConfig:
        return replace(self, capabilities=tuple(sorted({*self.capabilities, capability})))

    @property
    def is_signed(self) -> bool:
        return SIGNED in self.capabilities

    @property
    def has_search(self) -> bool:
        return SEARCHABLE in self.capabilities

    @property
    def has_channels(self) -> bool:
        return CHANNELLED in self.capabilities

    @classmethod
    def parse(cls, data: bytes, file: str) -> RegistryConfig:
        """Read `config.json`. Raises RegistryError, also for a format that is not ours."""
        document = read(_Document, data, file, error=RegistryError, other_format=UnknownFormat, hint=_NOT_OURS)
        return cls(download=document.download, capabilities=document.capabilities, sha256=sha256_bytes(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    format: int = FORMAT
    download: str = DOWNLOAD
    capabilities: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if fault := template_fault(self.download):
            raise ValueError(f"download {fault}")
