"""What an installation of one or several packages changes, decided file by file before anything is changed.

Files are never overwritten unless they belong to a package that is being replaced. Shared headers (`include/tfaot/`):
the newest of those that the installed packages brought stay, as a whole; headers are compatible within a major version,
and a package with another major version is rejected.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import PrefixError, TrustError
from tfaot_pkg.ground.storage import write_file
from tfaot_pkg.package.listing import VERSION_FILE, Member, Tree, headers_version, scan_tree
from tfaot_pkg.package.prefix.manifest import HEADERS, Manifest, Prefix, look, manifest_path, pending_path

_HEADERS_FOLDER = "include/tfaot/"
# TFAOT_HEADERS_VERSION is 10000 * major + 100 * minor + patch (tfaot/version.h).
_PER_MAJOR = 10_000
_OURS = re.compile(r"share/tfaot[^/]*/(manifest|pending)\.json")
_FOUND_LAST = ("lib/cmake/", "lib/pkgconfig/", "etc/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package to be installed: `tree` is the digest of the files that it must have."""

    name: str
    version: str
    key: str
    tree: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPackage:
    """A package whose files lie in `folder`, checked. `headers` are the shared ones among them."""

    package: Package
    folder: Path
    manifest: Manifest
    headers: Manifest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """The steps for one part: move `moved` out of `staged`, write `manifest`, then remove `stale` in order."""

    manifest: Manifest
    staged: Path
    moved: tuple[str, ...]
    stale: tuple[str, ...]
    touched: frozenset[str]


def checked(
    package: Package, tree: Tree, folder: Path, *, headers: Path | None = None, durable: bool = True
) -> StagedPackage:
    """Check the tree in `folder` against its promise and split it into the shared headers and the package's own files.

    With `headers`, an include folder, the shared headers are replaced by those in it, which a power failure may undo
    unless that is `durable`. Raises TrustError, PrefixError (the package needs headers that these are not), OSError.
    """
    if tree.digest != package.tree:
        raise TrustError(
            f"the files of {package} do not match their digest (got {tree.digest[:12]}, expected: {package.tree[:12]})",
            hint="nothing was installed; tell the registry's maintainer",
        )
    for member in tree.members:
        # A manifest decides what is removed later, so it must not come from a package.
        if _OURS.fullmatch(member.path):
            raise TrustError(f"{package} contains {member.path!r}, which only the installer may write")
    shared = tuple(member for member in tree.members if member.path.startswith(_HEADERS_FOLDER))
    own = tuple(member for member in tree.members if not member.path.startswith(_HEADERS_FOLDER))
    manifest = _manifest(package.name, package.version, package.key, tree.digest, own, uses_headers=bool(shared))
    brought = None
    if shared:
        if headers is not None:
            shared = _replaced_headers(package, folder, headers, durable)
        version = _headers_version(folder / VERSION_FILE)
        brought = _manifest(HEADERS, version, "", Tree(members=shared).digest, shared, uses_headers=False)
    return StagedPackage(package=package, folder=folder, manifest=manifest, headers=brought)


def _replaced_headers(package: Package, folder: Path, headers: Path, durable: bool) -> tuple[Member, ...]:
    """Put the shared headers in the include folder `headers` in place of those that `package` brought to `folder`."""
    theirs = int(_headers_version(folder / VERSION_FILE))
    ours = int(_headers_version(headers / "tfaot" / "version.h"))
    if theirs > ours or theirs // _PER_MAJOR != ours // _PER_MAJOR:
        raise PrefixError(
            f"{package} is for the tfaot headers of version {theirs}, and this tfaot-pkg has version {ours}",
            hint="nothing was installed; "
            + ("upgrade tfaot-pkg" if theirs > ours else "ask for a package that was built more recently"),
        )
    # As a whole: a mixture of two sets of headers would be inconsistent (decision 008).
    shutil.rmtree(folder / _HEADERS_FOLDER)
    for file in sorted((headers / "tfaot").rglob("*.h")):
        place = folder / "include" / file.relative_to(headers)
        if durable:
            write_file(place, file.read_bytes())
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())
    found = scan_tree(folder).members
    return tuple(member for member in found if member.path.startswith(_HEADERS_FOLDER))


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


def plan(before: Prefix, packages: Sequence[StagedPackage]) -> tuple[PartPlan, ...]:
    """What installing all of `packages` changes. Raises PrefixError that names every file in the way."""
    parts = {one.package.name: (one.manifest, one.folder) for one in packages}
    headers = _newest_headers(before, packages)
    if headers is not None and headers.headers is not None:
        parts = {HEADERS: (headers.headers, headers.folder), **parts}
    after = _after(before, [manifest for manifest, _ in parts.values()])
    known, owners = before.owners(), after.owners()
    in_the_way = [
        line for manifest, _ in parts.values() for line in _conflicts(after, manifest, known=known, owners=owners)
    ]
    if in_the_way:
        raise PrefixError(
            f"{' and '.join(str(one.package) for one in packages)} cannot be installed into {before.root}, because "
            "these files are in the way:\n  " + "\n  ".join(in_the_way),
            hint="nothing was installed; remove these files or the package that they belong to, or use another prefix",
        )
    return tuple(_plan_part(before, manifest, staged, owners) for manifest, staged in parts.values())


def _newest_headers(before: Prefix, packages: Sequence[StagedPackage]) -> StagedPackage | None:
    """The package whose shared headers the prefix is to have; None if the present ones stay.

    Raises PrefixError if they do not fit together.
    """
    names = [name for one in packages for name in (one.package.name, *before.replaced_by(one.package.name))]
    # Headers that only the replaced packages used need not fit.
    others = users_of_headers(before, names)
    newest = before.manifests.get(HEADERS) if others else None
    whose = f"those in {before.root} (version {newest.version}, used by {', '.join(others)})" if newest else ""
    chosen = None
    for one in packages:
        if one.headers is None:
            continue
        if newest is not None:
            _check_fit(one.package, one.headers, newest, whose)
        # Equal versions are chosen too, so that missing or changed headers are put back.
        if newest is None or int(one.headers.version) >= int(newest.version):
            newest, chosen = one.headers, one
            whose = f"those of {one.package} (version {newest.version})"
    return chosen


def _check_fit(package: Package, new: Manifest, old: Manifest, whose: str) -> None:
    """Raise PrefixError if the shared headers `new` of `package` cannot take the place of `old`, or the reverse."""
    headers = f"the tfaot headers of {package} (version {new.version}) and {whose}"
    hint = "nothing was installed; use another prefix, or rebuild these packages with the same version of tfaot-pkg"
    if int(old.version) // _PER_MAJOR != int(new.version) // _PER_MAJOR:
        raise PrefixError(f"{headers} have different major versions", hint=hint)
    if old.version == new.version and old.tree != new.tree:
        raise PrefixError(f"{headers} differ, but have the same version", hint=hint)


def users_of_headers(before: Prefix, beside: Collection[str]) -> list[str]:
    """The packages that need the shared headers, except those in `beside`; an interrupted one may need them."""
    return [
        name
        for name in before.packages()
        if name not in beside and (name not in before.manifests or before.manifests[name].uses_headers)
    ]


def _after(before: Prefix, parts: Iterable[Manifest]) -> Prefix:
    """The prefix when all of `parts` are in it."""
    new = {part.name: part for part in parts}
    gone = {name for part in new for name in (part, *before.replaced_by(part))}
    pending = {name: paths for name, paths in before.pending.items() if name not in gone}
    kept = {name: manifest for name, manifest in before.manifests.items() if name not in gone}
    return Prefix(root=before.root, manifests={**kept, **new}, pending=pending)


def _conflicts(
    after: Prefix, part: Manifest, *, known: Mapping[str, list[str]], owners: Mapping[str, list[str]]
) -> Iterator[str]:
    """What is in the way of `part`. `known` and `owners` are whose each path is before and after the installation."""
    for path, content in sorted(part.contents.items()):
        actual = look(after.root / path)
        owner = next((one for one in owners[path] if one != part.name), None)
        if owner is not None and not _may_share(after.manifests.get(owner), path, content, actual):
            yield f"{path} (belongs to {owner})"
        # Files that we installed may be overwritten, changed or not; folders and devices never.
        elif actual not in (None, content) and (path not in known or actual in ("no file", "below a file")):
            yield f"{path} (was not installed by tfaot-pkg)"


def _may_share(owner: Manifest | None, path: str, content: str, actual: str | None) -> bool:
    """Whether `path` may have `content` for its other `owner`; one that was interrupted says nothing, the disk does."""
    wanted = owner.contents.get(path) if owner else None
    return actual in (None, content) if wanted is None else wanted == content


def _plan_part(before: Prefix, part: Manifest, staged: Path, owners: Mapping[str, list[str]]) -> PartPlan:
    replaced, contents = before.replaced_by(part.name), part.contents
    old = before.owned_by(part.name).union(*map(before.owned_by, replaced))
    stale = [path for path in sorted(old) if path not in owners]
    # The manifest of the other spelling goes last, so that a run which is killed before can be repeated.
    stale += [path(name) for name in replaced for path in (pending_path, manifest_path)]
    return PartPlan(
        manifest=part,
        staged=staged,
        # Files that are right already stay as they are: builds see no change.
        moved=tuple(path for path in in_order(contents) if look(before.root / path) != contents[path]),
        stale=tuple(stale),
        touched=old | contents.keys(),
    )


def in_order(paths: Iterable[str]) -> list[str]:
    """Libraries and headers first, then what makes build systems find them."""
    return sorted(paths, key=lambda path: (path.startswith(_FOUND_LAST), path))
