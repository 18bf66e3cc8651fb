"""What is installed in a prefix, and who owns which file.

Several packages share a prefix. Each has `share/NAME/manifest.json` (path to SHA-256), which is written last. While
files are being moved, `share/NAME/pending.json` lists the paths that may be old, new or missing, so that an interrupted
installation is recognized, and repeated or removed like any other.

The `tfaot/` headers, which every package brings along, belong to none of them: they are a part of their own, with a
manifest in `share/tfaot/`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfaot_pkg.errors import PrefixError
from tfaot_pkg.ground.documents import read, write
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.package.listing import path_fault
from tfaot_pkg.package.name import is_package_name, other_spellings, spellings

HEADERS = "tfaot"
"""Name of the part that holds the shared headers."""

LOCK = ".tfaot-prefix.lock"
STAGING = ".tfaot-staging."

_HINT = "remove that file and install the package again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """An installed part: a package, or the shared headers.

    `tree` is the digest of the whole package's tree (of the headers alone for `HEADERS`, whose `version` is
    TFAOT_HEADERS_VERSION), `files` maps path to SHA-256, `links` path to target, `uses_headers` says whether the
    package came with the shared headers.
    """

    name: str
    version: str
    key: str
    tree: str
    files: Mapping[str, str]
    links: Mapping[str, str]
    uses_headers: bool = False
    format: int = 1

    def __post_init__(self) -> None:
        _check_paths((*self.files, *self.links))

    @property
    def contents(self) -> dict[str, str]:
        """Path to what `look` gives for it."""
        return {**self.files, **{path: f"-> {target}" for path, target in self.links.items()}}

    @classmethod
    def parse(cls, data: bytes, file: str, part: str) -> Manifest:
        """Read the manifest of `part`. Raises PrefixError if it is damaged."""
        manifest = read(cls, data, file, error=PrefixError, hint=_HINT)
        # The version of the headers is compared as a number (plan.py).
        if manifest.name != part or (part == HEADERS and not manifest.version.isdecimal()):
            raise PrefixError(f"{file} is damaged: it is not the manifest of {part}", hint=_HINT)
        return manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """The paths that an interrupted installation or removal may have left."""

    paths: frozenset[str]
    format: int = 1

    def __post_init__(self) -> None:
        _check_paths(self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """What a prefix holds, by part. `pending` has the paths of parts whose installation or removal was interrupted."""

    root: Path
    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    pending: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def owned_by(self, part: str) -> frozenset[str]:
        """All paths of `part`, those that an interrupted run may have left included."""
        manifest = self.manifests.get(part)
        return frozenset(manifest.contents if manifest else ()) | self.pending.get(part, frozenset())

    def owners(self) -> dict[str, list[str]]:
        """The parts that each path belongs to, sorted."""
        owners: dict[str, list[str]] = {}
        for part in sorted(self.manifests.keys() | self.pending.keys()):
            for path in self.owned_by(part):
                owners.setdefault(path, []).append(part)
        return owners

    def packages(self) -> list[str]:
        return sorted((self.manifests.keys() | self.pending.keys()) - {HEADERS})

    def parts_of(self, package: str) -> list[str]:
        """The parts that are `package`, in whichever spelling it was installed."""
        return [part for part in spellings(package) if part in self.packages()]

    def replaced_by(self, package: str) -> list[str]:
        """The parts of another spelling that an installation of `package` takes the place of."""
        return [part for part in other_spellings(package) if part in self.packages()]


def manifest_path(part: str) -> str:
    return f"share/{part}/manifest.json"


def pending_path(part: str) -> str:
    return f"share/{part}/pending.json"


def read_prefix(root: Path) -> Prefix:
    """What is installed in `root`, which need not exist. Raises PrefixError for a damaged manifest, OSError."""
    manifests: dict[str, Manifest] = {}
    pending: dict[str, frozenset[str]] = {}
    for part in _parts(root):
        data = _read(root / manifest_path(part))
        if data is not None:
            manifests[part] = Manifest.parse(data, str(root / manifest_path(part)), part)
        data = _read(root / pending_path(part))
        if data is not None:
            pending[part] = read(_Pending, data, str(root / pending_path(part)), error=PrefixError, hint=_HINT).paths
    return Prefix(root=root, manifests=manifests, pending=pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """An installed package; `damaged` if its installation or removal was interrupted (`version` may be empty then)."""

    name: str
    version: str
    key: str
    files: int
    damaged: bool


def list_prefix(root: Path) -> tuple[Listed, ...]:
    """The packages in `root`, sorted by name; no file is read but the manifests. Raises PrefixError, StorageError."""
    with storage_errors(f"read {root}"):
        if not root.is_dir():
            raise PrefixError(f"there is no prefix {root}", hint="name the folder that was given to install --prefix")
        prefix = read_prefix(root)
    return tuple(_listed(prefix, name) for name in prefix.packages())


def _listed(prefix: Prefix, name: str) -> Listed:
    manifest, damaged = prefix.manifests.get(name), name in prefix.pending
    if manifest is None:
        return Listed(name=name, version="", key="", files=0, damaged=damaged)
    files = len(manifest.contents)
    return Listed(name=name, version=manifest.version, key=manifest.key, files=files, damaged=damaged)


def encode_pending(paths: frozenset[str]) -> bytes:
    return write(_Pending(paths=paths))


def look(path: Path) -> str | None:
    """What is at `path`: a file's SHA-256, `-> TARGET` of a link, another word for anything else, None for nothing."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return "below a file"
    # `lstat`: a link is compared by its target, not by the file that it leads to.
    if stat.S_ISLNK(mode):
        return f"-> {os.readlink(path)}"
    return sha256_file(path) if stat.S_ISREG(mode) else "no file"


def _parts(root: Path) -> Iterator[str]:
    try:
        names = sorted(os.listdir(root / "share"))
    except (FileNotFoundError, NotADirectoryError):
        return
    # What else is below share/ belongs to others.
    yield from (name for name in names if name == HEADERS or is_package_name(name))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_paths(paths: Iterable[str]) -> None:
    """What a manifest lists may be removed one day, so it must not name anything outside of the prefix."""
    for path in paths:
        fault = path_fault(path)
        if fault:
            raise ValueError(f"{path!r} {fault}")


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

    Raises PrefixError if nothing is installed there or a manifest is damaged, StorageError.
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
