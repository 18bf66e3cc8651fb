"""Whether all in a prefix is as it was installed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import PrefixError
from tfaot_pkg.prefix.manifest import Prefix, look, read_prefix
from tfaot_pkg.storage import storage_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport:
    """How an installed part compares with its manifest. Paths are relative to the prefix."""

    name: str
    version: str
    missing: tuple[str, ...]
    changed: tuple[str, ...]
    interrupted: bool

    @property
    def ok(self) -> bool:
        return not (self.missing or self.changed or self.interrupted)

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "version": self.version,
            "ok": self.ok,
            "missing": list(self.missing),
            "changed": list(self.changed),
            "interrupted": self.interrupted,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixReport:
    """All parts of a prefix."""

    prefix: Path
    parts: tuple[PartReport, ...]

    @property
    def ok(self) -> bool:
        return all(part.ok for part in self.parts)

    def as_dict(self) -> dict[str, object]:
        return {"prefix": str(self.prefix), "ok": self.ok, "parts": list(self.parts)}


def verify_install(root: Path) -> PrefixReport:
    """Compare every file that was installed into `root` with its manifest.

    Raises PrefixError where nothing is installed there or a manifest is damaged, StorageError.
    """
    with storage_errors(f"read {root}"):
        prefix = read_prefix(root)
        parts = sorted(prefix.manifests.keys() | prefix.pending.keys())
        if not parts:
            raise PrefixError(f"no package is installed in {root}", hint="name the prefix given to install --prefix")
        return PrefixReport(prefix=root, parts=tuple(report_part(prefix, part) for part in parts))


def report_part(prefix: Prefix, part: str) -> PartReport:
    """How `part` compares with its manifest. Raises OSError."""
    manifest = prefix.manifests.get(part)
    contents = manifest.contents if manifest else {}
    found = {path: (look(prefix.root / path), content) for path, content in contents.items()}
    return PartReport(
        name=part,
        version=manifest.version if manifest else "",
        missing=tuple(sorted(path for path, (actual, _) in found.items() if actual is None)),
        changed=tuple(sorted(path for path, (actual, wanted) in found.items() if actual not in (None, wanted))),
        interrupted=part in prefix.pending,
    )
