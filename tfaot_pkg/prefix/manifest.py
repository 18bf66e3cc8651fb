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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfaot_pkg.documents import read_json
from tfaot_pkg.errors import PrefixError
from tfaot_pkg.keys import canonical_json, sha256_file
from tfaot_pkg.package.listing import path_fault
from tfaot_pkg.package.name import is_package_name, other_spellings, spellings

HEADERS = "tfaot"
"""Name of the part that holds the shared headers."""

LOCK = ".tfaot-prefix.lock"
STAGING = ".tfaot-staging."

_FORMAT = 1
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
    uses_headers: bool

    @property
    def contents(self) -> dict[str, str]:
        """Path to what `look` gives for it."""
        return {**self.files, **{path: f"-> {target}" for path, target in self.links.items()}}

    def as_dict(self) -> dict[str, object]:
        return {
            "format": _FORMAT,
            "name": self.name,
            "version": self.version,
            "key": self.key,
            "tree": self.tree,
            "files": dict(self.files),
            "links": dict(self.links),
            "uses_headers": self.uses_headers,
        }

    def encode(self) -> bytes:
        return canonical_json(self.as_dict()) + b"\n"

    @classmethod
    def parse(cls, data: bytes, file: str, part: str) -> Manifest:
        """Read the manifest of `part`. Raises PrefixError where it is damaged."""
        value = _object(data, file)
        files, links = value.get("files"), value.get("links")
        texts = {name: value.get(name) for name in ("name", "version", "key", "tree")}
        if not (_is_text_map(files) and _is_text_map(links) and all(isinstance(text, str) for text in texts.values())):
            raise PrefixError(f"{file} is damaged: it is not a manifest", hint=_HINT)
        if value["name"] != part or (part == HEADERS and not value["version"].isdecimal()):
            raise PrefixError(f"{file} is damaged: it is not the manifest of {part}", hint=_HINT)
        assert isinstance(files, dict) and isinstance(links, dict)
        _check_paths([*files, *links], file)
        return cls(files=files, links=links, uses_headers=value.get("uses_headers") is True, **texts)  # type: ignore[arg-type]


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
            pending[part] = _parse_pending(data, str(root / pending_path(part)))
    return Prefix(root=root, manifests=manifests, pending=pending)


def encode_pending(paths: frozenset[str]) -> bytes:
    return canonical_json({"format": _FORMAT, "paths": sorted(paths)}) + b"\n"


def look(path: Path) -> str | None:
    """What is at `path`: a file's SHA-256, `-> TARGET` of a link, another word for anything else, None for nothing."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return "below a file"
    if stat.S_ISLNK(mode):
        return f"-> {os.readlink(path)}"
    return sha256_file(path) if stat.S_ISREG(mode) else "no file"


def _parts(root: Path) -> Iterator[str]:
    try:
        names = sorted(os.listdir(root / "share"))
    except (FileNotFoundError, NotADirectoryError):
        return
    yield from (name for name in names if name == HEADERS or is_package_name(name))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _parse_pending(data: bytes, file: str) -> frozenset[str]:
    paths = _object(data, file).get("paths")
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise PrefixError(f"{file} is damaged", hint=_HINT)
    _check_paths(paths, file)
    return frozenset(paths)


def _object(data: bytes, file: str) -> dict[str, Any]:
    try:
        value = read_json(data)
    except (ValueError, RecursionError) as error:
        raise PrefixError(f"{file} is damaged: not JSON ({error})", hint=_HINT) from error
    if not isinstance(value, dict):
        raise PrefixError(f"{file} is damaged: it must be an object", hint=_HINT)
    if value.get("format") != _FORMAT:
        raise PrefixError(f"{file}: format {value.get('format')!r} is unknown", hint="upgrade tfaot-pkg")
    return value


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _check_paths(paths: list[str], file: str) -> None:
    """What a manifest lists may be removed one day: nothing outside of the prefix may stand in it."""
    for path in paths:
        fault = path_fault(path)
        if fault:
            raise PrefixError(f"{file} is damaged: {path!r} {fault}", hint=_HINT)
