"""A folder for each version and architecture, for file systems that machines share, and `current` beside the versions.

    DIR/tfaot-model-NAME/VERSION/ARCH/     a prefix, as `install` makes it; its files are read-only
    DIR/tfaot-model-NAME/VERSION/TARGET    a link to it for each kind of CPU that can run its code
    DIR/tfaot-model-NAME/current           a link to a version

Readers are on other machines and take no lock. So a folder appears whole, under its final name, and `current` is
replaced by a rename. A killed run leaves hidden folders, which the next one removes, and `current` as it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.documents import write
from tfaot_pkg.ground.storage import locked, make_folder, storage_errors, sync_file_system, sync_folder
from tfaot_pkg.ground.temporary import temporary_file, temporary_folder
from tfaot_pkg.ground.walk import remove_tree
from tfaot_pkg.package.prefix.install import already_installed
from tfaot_pkg.package.prefix.manifest import manifest_path
from tfaot_pkg.package.prefix.plan import Package
from tfaot_pkg.pipeline.distributions.described import Described
from tfaot_pkg.pipeline.distributions.files import Written
from tfaot_pkg.registry.verified import VerifiedTree

CURRENT = "current"
_LOCK = ".tfaot-tree.lock"
_LOCK_TIMEOUT = 600.0  # s
_LEFT = ".tfaot-part."


def place(described: Sequence[Described], root: Path, whole: bool) -> Written:
    """Add the trees of one version to the folder `root`, then let `current` lead to it.

    Unless the trees are the `whole` version, `current` never goes back, nor to a version that lacks an architecture
    that it has. Raises StorageError (other files are there), and as the trees when they are read.
    """
    package, version = described[0].facts.package, str(described[0].facts.version)
    home, kept = root.absolute() / package, ""
    with storage_errors(f"write into {root}"):
        before = _current(home)
        missing = [path for each in described for path in _missing(home / version, each)]
        if missing or before != version:  # nothing to do: the file system may be read-only
            make_folder(home)
            with locked(home / _LOCK, what=str(home), timeout=_LOCK_TIMEOUT):
                _remove_left(home)
                for each in described:
                    _add(home, version, each)
                before = _current(home)
                kept = "" if whole else _reason_to_stay(home, version, before)
                if not kept:
                    _switch(home, version)
    return Written(
        name=package,
        version=version,
        files=tuple(home / version / each.architecture for each in described),
        notes=(f"{home / CURRENT} is {_words(version, before, kept)}",),
    )


def _words(version: str, before: str, kept: str) -> str:
    if kept:
        return f"still {before}: {kept}"
    return f"{version} (was {before})" if before not in ("", version) else version


def _remove_left(home: Path) -> None:
    """Remove what killed runs left. The caller holds the lock, so nobody uses it."""
    for left in home.glob(f"{_LEFT}*"):
        if left.is_dir() and not left.is_symlink():
            remove_tree(left)
        else:
            left.unlink()


def _current(home: Path) -> str:
    """The version that `current` leads to; empty without one. Raises StorageError, OSError."""
    link = home / CURRENT
    if not os.path.lexists(link):
        return ""
    if not link.is_symlink():
        raise StorageError(
            f"{link} exists and is no link", hint="nothing was written; remove it, or name another folder"
        )
    return os.readlink(link)


def _missing(folder: Path, each: Described) -> Iterator[Path]:
    """What `folder`, the version's, lacks of a tree. Raises StorageError if it has other files in its place."""
    architecture = each.architecture
    prefix = folder / architecture
    if not os.path.lexists(prefix):
        yield prefix
    elif not _is_there(prefix, each.tree):
        raise StorageError(
            f"{prefix} exists already, and has other files",
            hint="nothing was written; remove it, or name another folder",
        )
    for name in each.targets:
        link = folder / name
        if not os.path.lexists(link):
            yield link
        elif not (link.is_symlink() and os.readlink(link) == architecture):
            raise StorageError(
                f"{link} exists already, and leads elsewhere",
                hint="nothing was written; remove it, or name another folder",
            )


def _is_there(prefix: Path, tree: VerifiedTree) -> bool:
    manifest = tree.manifests[0]
    package = Package(name=manifest.name, version=manifest.version, key=manifest.key, tree=manifest.tree)
    return package.name in already_installed([package], prefix)


def _add(home: Path, version: str, each: Described) -> None:
    """Put what is missing of a tree into the version's folder: the prefix first, then the links to it."""
    folder, architecture = home / version, each.architecture
    for path in list(_missing(folder, each)):
        make_folder(folder)
        if path.name != architecture:
            _link(home, architecture, path)
            continue
        with temporary_folder(home, prefix=_LEFT) as staged:
            _fill(staged, each.tree)
            os.rename(staged, path)
        sync_folder(folder)


def _fill(folder: Path, tree: VerifiedTree) -> None:
    """Write the files of `tree` into the empty `folder`, read-only, with the manifests of an installation; durable."""
    for member in tree.members:
        path = folder / member.path
        if member.kind == "link":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(member.content)
        else:
            _write(path, tree.chunks(member), 0o555 if member.kind == "program" else 0o444)
    for part in tree.manifests:
        _write(folder / manifest_path(part.name), (write(part),), 0o444)
    for below in (folder, *(path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())):
        below.chmod(0o755)  # whatever the umask, others read them
    sync_file_system(folder)


def _write(path: Path, chunks: Iterable[bytes], mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.writelines(chunks)
        os.fchmod(file.fileno(), mode)


def _reason_to_stay(home: Path, version: str, current: str) -> str:
    """Why `current` must not go to a version that was added in part; empty if it may."""
    if not current or current == version:
        return ""
    lost = sorted(_architectures(home / current) - _architectures(home / version))
    if lost:
        return f"{version} has no {', '.join(lost)} here"
    try:
        is_older = Version(version) < Version(current)
    except InvalidVersion:
        return ""
    return f"{version} is older" if is_older else ""


def _architectures(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.is_symlink()} if folder.is_dir() else set()


def _switch(home: Path, version: str) -> None:
    """Let `current` lead to `version`: a reader finds the old link or the new one."""
    if _current(home) != version:
        _link(home, version, home / CURRENT)


def _link(home: Path, target: str, path: Path) -> None:
    with temporary_file(home, prefix=_LEFT) as staged:
        staged.symlink_to(target)
        os.replace(staged, path)
    sync_folder(path.parent)
