"""Writes wheels and conda packages of a verified package into a folder: all of them, or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tfaot_pkg.errors import PrefixError, RegistryError, StorageError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.storage import make_folder, storage_errors, sync_folder
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.package.name import spellings
from tfaot_pkg.pipeline.distributions.conda import conda_packages_of
from tfaot_pkg.pipeline.distributions.facts import Facts, Platform
from tfaot_pkg.pipeline.distributions.files import Distribution, File
from tfaot_pkg.pipeline.distributions.wheel import wheel_of
from tfaot_pkg.registry.reader import RegistryReader, Requirement, resolve
from tfaot_pkg.registry.verified import VerifiedTree, installed_tree, published_tree

Kind = Literal["wheel", "conda"]
_MAKE: dict[Kind, Callable[[Facts, Iterable[File]], tuple[Distribution, ...]]] = {
    "wheel": lambda facts, files: (wheel_of(facts, files),),
    "conda": conda_packages_of,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What an export wrote; `files` were there before if they had the same bytes."""

    name: str
    version: str
    files: tuple[Path, ...]


def export_published(
    reader: RegistryReader, requirement: Requirement | str, kind: Kind, folder: Path, architecture: str = ""
) -> Written:
    """Write the version that `requirement` means into `folder`, for `architecture` (empty: each that it has).

    The package is checked as for an installation. Raises RegistryError, TrustError, NetworkError, StorageError.
    """
    entry = resolve(reader, requirement, architecture=architecture)
    with ExitStack() as trees:
        chosen = [entry] if architecture else entry.trees
        headers = resources.headers()
        unpacked = [trees.enter_context(published_tree(reader, one, headers=headers)) for one in chosen]
        made = [each for tree in unpacked for each in _made(tree, kind)]
        return _write(made, folder, entry.package, entry.version)


def export_installed(prefix: Path, requirement: Requirement | str, kind: Kind, folder: Path) -> Written:
    """Write a package that is installed in `prefix` into `folder`. Raises PrefixError, RegistryError, StorageError."""
    tree = installed_tree(prefix, requirement)
    with storage_errors(f"read {prefix}"):
        made = _made(tree, kind)
    return _write(made, folder, tree.package, tree.version)


def _made(tree: VerifiedTree, kind: Kind) -> tuple[Distribution, ...]:
    members = {member.path: member for member in tree.members}
    info = next((path for stem in spellings(tree.name) if (path := f"share/{stem}/info.json") in members), None)
    if info is None:
        raise PrefixError(f"{tree.name} has no info.json")
    loaded = [member for path, member in members.items() if member.kind != "link" and _is_loaded(path)]
    if not any(member.path.endswith(".so") for member in loaded):
        raise RegistryError(f"{tree.name} has no shared library")
    platform = Platform.of(map(tree.read, loaded), tree.name)
    facts = Facts.of(tree.name, tree.version, tree.read(members[info]), platform)
    return _MAKE[kind](facts, [File.of(tree, member, member.path) for member in tree.members])


def _is_loaded(path: str) -> bool:
    """Whether the system's loader reads the file."""
    return path.startswith("bin/") or (path.startswith("lib/") and path.endswith(".so"))


def _write(made: Sequence[Distribution], folder: Path, name: str, version: str) -> Written:
    """Write `made` into `folder` with names that only complete files have. A file of other bytes is never replaced."""
    by_path = {folder / each.folder / each.name: each for each in made}
    with storage_errors(f"write into {folder}"):
        make_folder(folder)
        with temporary_folder(folder, prefix=".export.", suffix=".part") as staged:
            new = {path: staged / str(number) for number, path in enumerate(by_path)}
            for path, each in by_path.items():
                each.write_to(new[path])
            moved = [path for path, file in new.items() if not _is_there(path, file)]
            for path in moved:
                make_folder(path.parent)
                os.replace(new[path], path)
                sync_folder(path.parent)
    return Written(name=name, version=version, files=tuple(by_path))


def _is_there(path: Path, file: Path) -> bool:
    """Whether `path` has the content of `file` already. Raises StorageError if it has another one."""
    if not os.path.lexists(path):
        return False
    if path.is_file() and sha256_file(path) == sha256_file(file):
        return True
    raise StorageError(
        f"{path} exists already, and has other bytes",
        hint="nothing was written; remove it, or name another folder",
    )
