"""Installing into a prefix that several packages share, and removing from it.

The files of all packages are staged beside the final places and checked as a whole; packages are rejected before
anything is changed. Then they are moved one by one (each move is atomic), CMake's and pkg-config's files last, so that
`find_package` sees a package when its library is there. plan.py decides what is moved. Where packages come from (a
registry, a build) is their callers' business.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tfaot_pkg.errors import PrefixError
from tfaot_pkg.ground.documents import write
from tfaot_pkg.ground.storage import locked, make_folder, storage_errors, sync_folder, write_chunks, write_file
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.package.listing import Tree, scan_tree
from tfaot_pkg.package.name import package_meant_by
from tfaot_pkg.package.prefix.manifest import (
    HEADERS,
    LOCK,
    STAGING,
    Prefix,
    encode_pending,
    look,
    manifest_path,
    pending_path,
    read_prefix,
    report_part,
)
from tfaot_pkg.package.prefix.plan import Package, PartPlan, checked, in_order, plan, users_of_headers

if TYPE_CHECKING:
    from tfaot_pkg.package.tree import PackageTree

_LOCK_TIMEOUT = 600.0
_CHUNK = 1 << 20  # bytes

Status = Literal["installed", "replaced", "repaired", "unchanged"]
Fill = Callable[[Path], Tree]
"""Puts a package's files into an empty folder and returns what it put there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A package to install, and how its files are brought.

    `headers` is the include folder to take the shared headers from, in place of those that the package brings: a
    downloaded package must not replace code that other packages are compiled with.
    """

    package: Package
    fill: Fill
    headers: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What an installation did; `previous` is the version that was there before."""

    name: str
    version: str
    prefix: Path
    status: Status
    previous: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uninstalled:
    """What `uninstall` did; `kept` are files that someone changed after the installation."""

    name: str
    version: str
    prefix: Path
    kept: tuple[str, ...]


def install_built(built: PackageTree, key: str, prefix: Path) -> Installed:
    """Install a copy of a package that was built here; `key` is the build's. Raises as `install_packages`."""
    with storage_errors(f"read {built.root}"):
        tree = scan_tree(built.root)
    package = Package(name=built.package_name, version=built.version, key=key, tree=tree.digest)
    unchanged = already_installed([package], prefix)
    delivery = Delivery(package=package, fill=lambda staged: _copy(tree, built.root, staged))
    return (unchanged or install_packages([delivery], prefix))[package.name]


def already_installed(packages: Iterable[Package], prefix: Path) -> dict[str, Installed]:
    """The outcomes, by name, for those of `packages` whose files, with the shared headers, are all as they should be.

    Only leftovers of killed runs are removed. Raises PrefixError for a damaged manifest, StorageError.
    """
    root = prefix.absolute()
    with storage_errors(f"install into {root}"):
        before = read_prefix(root)
        current = [package for package in packages if _is_current(before, package)]
        # The lock is taken only if there is something to remove: a check of an unchanged prefix waits for nobody.
        if current and any(_leftovers(root)):
            with _locked(root):
                _drop_leftovers(root)
    return {package.name: _installed(package, root, "unchanged", package.version) for package in current}


def install_packages(deliveries: Sequence[Delivery], prefix: Path) -> dict[str, Installed]:
    """Install all packages of `deliveries`, or none, in place of any other versions of them; the outcomes by name.

    Raises PrefixError (a file that belongs to someone else, headers that do not fit), TrustError (not the files that
    were promised) and what a `fill` raises: then nothing was changed. StorageError if the disk fails: after that,
    and after a kill, the prefix says that it was interrupted, until the same call completes the work.
    """
    root = prefix.absolute()
    with storage_errors(f"install into {root}"), _locked(root), _staging(root) as staging:
        before = read_prefix(root)
        staged = []
        for number, delivery in enumerate(deliveries):
            folder = staging / str(number)
            folder.mkdir()
            staged.append(checked(delivery.package, delivery.fill(folder), folder, headers=delivery.headers))
        _apply(before, plan(before, staged))
    return {one.package.name: _outcome(before, one.package) for one in deliveries}


def _outcome(before: Prefix, package: Package) -> Installed:
    parts = [package.name, *before.replaced_by(package.name)]
    old = next((before.manifests[part] for part in parts if part in before.manifests), None)
    status: Status = "installed" if old is None else "repaired" if old.tree == package.tree else "replaced"
    return _installed(package, before.root, status, old.version if old else None)


def uninstall(name: str, prefix: Path) -> Uninstalled:
    """Remove a package from `prefix`, and the shared headers with the last one.

    Files that were changed after the installation stay. Raises PrefixError if it is not installed, StorageError.
    """
    package, root = package_meant_by(name), prefix.absolute()
    with storage_errors(f"remove from {root}"):
        if not read_prefix(root).parts_of(package):
            installed = ", ".join(read_prefix(root).packages()) or "nothing"
            raise PrefixError(f"{package} is not installed in {root}", hint=f"installed there: {installed}")
        with _locked(root):
            before = read_prefix(root)
            parts = before.parts_of(package)
            # The headers go first: a run that is killed in between is completed by the next one.
            kept = [] if users_of_headers(before, parts) else _remove_part(before, HEADERS)
            for part in parts:
                # Read again: what was removed owns no paths any more.
                kept += _remove_part(read_prefix(root), part)
    old = next((before.manifests[part] for part in parts if part in before.manifests), None)
    return Uninstalled(
        name=parts[0] if parts else package, version=old.version if old else "", prefix=root, kept=tuple(kept)
    )


def _installed(package: Package, root: Path, status: Status, previous: str | None) -> Installed:
    return Installed(name=package.name, version=package.version, prefix=root, status=status, previous=previous)


def _is_current(prefix: Prefix, package: Package) -> bool:
    manifest = prefix.manifests.get(package.name)
    if manifest is None or (manifest.version, manifest.tree) != (package.version, package.tree):
        return False
    if prefix.replaced_by(package.name):
        return False
    parts = [package.name, HEADERS] if manifest.uses_headers else [package.name]
    return all(part in prefix.manifests and report_part(prefix, part).ok for part in parts)


def _copy(tree: Tree, root: Path, into: Path) -> Tree:
    """Copy the files of `tree` from `root` and return what has arrived."""
    for member in tree.members:
        if member.kind == "link":
            make_folder((into / member.path).parent)
            os.symlink(member.content, into / member.path)
        else:
            mode = 0o755 if member.kind == "program" else 0o644
            with (root / member.path).open("rb") as content:
                write_chunks(into / member.path, iter(partial(content.read, _CHUNK), b""), mode=mode)
    return scan_tree(into)


def _apply(before: Prefix, plan: tuple[PartPlan, ...]) -> None:
    root = before.root
    for part in plan:
        # First: from now on the prefix shows that a run was interrupted.
        write_file(root / pending_path(part.manifest.name), encode_pending(part.touched))
    for part in plan:
        _move(part.staged, root, part.moved)
    for part in plan:
        # After all moves: a manifest says that every file of its part is there.
        write_file(root / manifest_path(part.manifest.name), write(part.manifest))
        _remove(root, part.stale)
        # Last: until then it lists stale files that a killed run has left.
        (root / pending_path(part.manifest.name)).unlink()


def _move(staged: Path, root: Path, paths: tuple[str, ...]) -> None:
    for path in paths:
        make_folder((root / path).parent)
        os.replace(staged / path, root / path)
    # One flush of each folder makes all of its renames durable.
    for folder in {(root / path).parent for path in paths}:
        sync_folder(folder)


def _remove_part(before: Prefix, part: str) -> list[str]:
    """Remove the files of `part`, its manifest last; gives those that stay because someone changed them."""
    paths = before.owned_by(part)
    if not paths:
        return []
    root, manifest = before.root, before.manifests.get(part)
    contents = manifest.contents if manifest else {}
    owners = before.owners()
    # Reversed: `find_package` must fail before the library is gone.
    ours = [path for path in reversed(in_order(paths)) if owners[path] == [part]]
    # What an interrupted run wrote fits no manifest, but nobody has changed it.
    unsure = before.pending.get(part, frozenset())
    kept = [path for path in ours if path not in unsure and look(root / path) not in (None, contents.get(path))]
    _remove(root, (path for path in ours if path not in kept))
    # After the files: until then the part is installed, and the removal can be repeated.
    _remove(root, (pending_path(part), manifest_path(part)))
    return sorted(kept)


def _remove(root: Path, paths: Iterable[str]) -> None:
    """Remove files that may be missing, and the folders that are empty then."""
    for path in paths:
        try:
            (root / path).unlink()
        except (FileNotFoundError, NotADirectoryError):
            pass
        _remove_empty((root / path).parent, root)


def _remove_empty(folder: Path, root: Path) -> None:
    while folder != root:
        try:
            folder.rmdir()
        except OSError:  # not empty, or a link: both stay
            return
        folder = folder.parent


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    with locked(root / LOCK, what=f"the prefix {root}", timeout=_LOCK_TIMEOUT):
        yield


@contextmanager
def _staging(root: Path) -> Iterator[Path]:
    """A folder on the prefix's own file system, for the holder of the lock."""
    _drop_leftovers(root)
    # In the prefix, because a rename is atomic within one file system only.
    with temporary_folder(root, prefix=STAGING) as folder:
        yield folder


def _leftovers(root: Path) -> Iterator[Path]:
    return root.glob(f"{STAGING}*")


def _drop_leftovers(root: Path) -> None:
    """Remove what killed runs left. The caller holds the lock, so nobody uses it."""
    for left in _leftovers(root):
        shutil.rmtree(left, ignore_errors=True)
