"""What an installation changes, decided file by file before anything is changed.

Files are never overwritten unless they belong to the same package. Shared headers (`include/tfaot/`): the newest of
those that the installed packages brought stay, as a whole; headers are compatible within a major version, and a
package whose major version is another one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import PrefixError, TrustError
from tfaot_pkg.package.listing import Member, Tree
from tfaot_pkg.package.tree import headers_version
from tfaot_pkg.prefix.manifest import HEADERS, Manifest, Prefix, look

_HEADERS_FOLDER = "include/tfaot/"
_VERSION_FILE = "include/tfaot/version.h"
_PER_MAJOR = 10_000
_OURS = re.compile(r"share/tfaot[^/]*/(manifest|pending)\.json")
_FOUND_LAST = ("lib/cmake/", "lib/pkgconfig/", "etc/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package on its way into a prefix: `tree` is the digest of the files that it must have."""

    name: str
    version: str
    key: str
    tree: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """What is to be done for one part: move `moved`, write `manifest`, then remove `stale`."""

    manifest: Manifest
    moved: tuple[str, ...]
    stale: tuple[str, ...]
    touched: frozenset[str]


def parts_of(package: Package, tree: Tree, staged: Path) -> tuple[Manifest, ...]:
    """Check the staged tree against its promise and split it into the shared headers and the package's own files.

    Raises TrustError.
    """
    if tree.digest != package.tree:
        raise TrustError(
            f"the files of {package} are not the tree that was promised (digest {tree.digest[:12]}, promised: "
            f"{package.tree[:12]})",
            hint="nothing was installed; tell the registry's keeper",
        )
    for member in tree.members:
        if _OURS.fullmatch(member.path):
            raise TrustError(f"{package} holds {member.path!r}, which only the installer writes")
    shared = tuple(member for member in tree.members if member.path.startswith(_HEADERS_FOLDER))
    own = tuple(member for member in tree.members if not member.path.startswith(_HEADERS_FOLDER))
    manifest = _manifest(package.name, package.version, package.key, tree.digest, own, uses_headers=bool(shared))
    if not shared:
        return (manifest,)
    version = _headers_version(staged / _VERSION_FILE)
    return (_manifest(HEADERS, version, "", Tree(members=shared).digest, shared, uses_headers=False), manifest)


def _manifest(
    name: str, version: str, key: str, digest: str, members: tuple[Member, ...], *, uses_headers: bool
) -> Manifest:
    tree = Tree(members=members)
    return Manifest(
        name=name,
        version=version,
        key=key,
        tree=digest,
        files=tree.files,
        links=tree.links,
        uses_headers=uses_headers,
    )


def _headers_version(file: Path) -> str:
    return str(headers_version(file.read_text(errors="replace")) if file.is_file() else 0)


def plan(before: Prefix, package: str, parts: Iterable[Manifest]) -> tuple[PartPlan, ...]:
    """What installing `parts` of `package` changes. Raises PrefixError that names every file in the way."""
    wanted = [part for part in parts if part.name != HEADERS or _takes_headers(before, package, part)]
    in_the_way = [line for part in wanted for line in _conflicts(before, part)]
    if in_the_way:
        raise PrefixError(
            f"{package} is not installed into {before.root}, because these files are in the way:\n  "
            + "\n  ".join(in_the_way),
            hint="remove these files or the package that they belong to, or use another prefix",
        )
    return tuple(_plan_part(before, part) for part in wanted)


def _takes_headers(before: Prefix, package: str, new: Manifest) -> bool:
    """Whether the package's shared headers replace those in the prefix. Raises PrefixError where neither fits."""
    old = before.manifests.get(HEADERS)
    others = users_of_headers(before, package)
    if old is None or not others:
        return True
    if int(old.version) // _PER_MAJOR != int(new.version) // _PER_MAJOR:
        raise PrefixError(
            f"the tfaot headers of {package} (version {new.version}) and those in {before.root} (version "
            f"{old.version}, used by {', '.join(others)}) have different major versions",
            hint="use another prefix, or rebuild these packages with the same version of tfaot-pkg",
        )
    if old.version == new.version and old.tree != new.tree:
        raise PrefixError(
            f"the tfaot headers of {package} and those in {before.root} (used by {', '.join(others)}) both say version "
            f"{new.version}, but differ",
            hint="use another prefix, or rebuild these packages with the same version of tfaot-pkg",
        )
    return int(new.version) >= int(old.version)


def users_of_headers(before: Prefix, package: str) -> list[str]:
    """The packages beside `package` that need the shared headers; an interrupted one may."""
    return [
        name
        for name in before.packages()
        if name != package and (name not in before.manifests or before.manifests[name].uses_headers)
    ]


def _conflicts(before: Prefix, part: Manifest) -> Iterator[str]:
    own = before.owned_by(part.name)
    for path, content in sorted(part.contents.items()):
        actual = look(before.root / path)
        if actual in (None, content):
            continue
        owner = before.owner_beside(part.name, path)
        if owner is not None:
            yield f"{path} (belongs to {owner})"
        elif path not in own or actual in ("no file", "below a file"):
            yield f"{path} (was not installed by tfaot-pkg)"


def _plan_part(before: Prefix, part: Manifest) -> PartPlan:
    old = before.owned_by(part.name)
    return PartPlan(
        manifest=part,
        moved=tuple(path for path in in_order(part.contents) if look(before.root / path) != part.contents[path]),
        stale=tuple(
            path for path in sorted(old - part.contents.keys()) if before.owner_beside(part.name, path) is None
        ),
        touched=old | part.contents.keys(),
    )


def in_order(paths: Iterable[str]) -> list[str]:
    """Libraries and headers first, then what makes build systems find them."""
    return sorted(paths, key=lambda path: (path.startswith(_FOUND_LAST), path))
