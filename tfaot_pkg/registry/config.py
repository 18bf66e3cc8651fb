"""`config.json`: what a reader must know before anything else."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfaot_pkg.documents import read_json
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.keys import canonical_json, sha256_bytes
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

    def as_dict(self) -> dict[str, object]:
        return {"format": FORMAT, "download": self.download, "capabilities": list(self.capabilities)}

    def to_bytes(self) -> bytes:
        return canonical_json(self.as_dict()) + b"\n"

    @property
    def is_signed(self) -> bool:
        return SIGNED in self.capabilities

    @property
    def has_search(self) -> bool:
        return SEARCH in self.capabilities

    @classmethod
    def parse(cls, data: bytes, file: str) -> RegistryConfig:
        """Read `config.json`. Raises RegistryError, also for a format that is not ours."""
        try:
            value = read_json(data)
        except (ValueError, RecursionError) as error:
            raise RegistryError(f"{file} is not JSON ({error})", hint=_NOT_OURS) from error
        if not isinstance(value, dict) or type(value.get("format")) is not int:
            raise RegistryError(f"{file} is not the configuration of a registry", hint=_NOT_OURS)
        if value["format"] != FORMAT:
            raise UnknownFormat(
                f"{file}: registry format {value['format']} is unknown; this version reads format {FORMAT}",
                hint="upgrade tfaot-pkg, or use another registry",
            )
        download, capabilities = value.get("download", DOWNLOAD), value.get("capabilities", [])
        fault = template_fault(download)
        if fault:
            raise RegistryError(f"{file}: download {fault}", hint=_NOT_OURS)
        if not isinstance(capabilities, list) or not all(isinstance(item, str) for item in capabilities):
            raise RegistryError(f"{file}: capabilities must be a list of strings", hint=_NOT_OURS)
        return cls(download=download, capabilities=tuple(capabilities), sha256=sha256_bytes(data))
