"""`config.json`: what a reader must know before anything else."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfaot_pkg.documents import read, write
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.keys import sha256_bytes
from tfaot_pkg.static.layout import DOWNLOAD, FORMAT, template_fault

SIGNED = "signed"
"""Capability: index files are TUF targets; there is no plain copy of them."""

SEARCH = "search"
"""Capability: there are search shards (summary.py)."""

LIMIT = 65_536
"""Bytes of `config.json` that are read at most."""

_NOT_OURS = "restore the file from a copy of the registry, or name another folder"


class UnknownFormat(RegistryError):
    """The registry is of a format that this version cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """`config.json`. `capabilities` says what there is beyond format 1; readers ignore what they do not know."""

    download: str = DOWNLOAD
    capabilities: tuple[str, ...] = (SEARCH,)
    sha256: str = field(default="", compare=False)
    """Of the file that it was read from: what a signed registry's signatures say as well."""

    def to_bytes(self) -> bytes:
        return write(_Document(download=self.download, capabilities=self.capabilities))

    @property
    def is_signed(self) -> bool:
        return SIGNED in self.capabilities

    @property
    def has_search(self) -> bool:
        return SEARCH in self.capabilities

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
