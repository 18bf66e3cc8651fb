"""Exports of a verified package: its trees, from a registry or a prefix, and what writes them in another form."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.storage import make_folder, storage_errors, sync_folder
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.pipeline.distributions.conda import conda_packages_of
from tfaot_pkg.pipeline.distributions.described import Described
from tfaot_pkg.pipeline.distributions.files import Distribution, Written
from tfaot_pkg.pipeline.distributions.recipe import MANAGERS, write_recipe
from tfaot_pkg.pipeline.distributions.tree import place
from tfaot_pkg.pipeline.distributions.wheel import wheel_of
from tfaot_pkg.registry.reader import RegistryReader, Requirement, resolve
from tfaot_pkg.registry.verified import VerifiedTree, installed_tree, published_tree


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
        return _FORMS[kind]([Described.of(tree) for tree in unpacked], folder, not architecture)


def export_installed(prefix: Path, requirement: Requirement | str, kind: Kind, folder: Path) -> Written:
    """Write a package that is installed in `prefix` into `folder`. Raises PrefixError, RegistryError, StorageError."""
    tree = installed_tree(prefix, requirement)
    with storage_errors(f"read {prefix}"):
        described = Described.of(tree)
    return _FORMS[kind]([described], folder, False)


def _wheels(described: Sequence[Described], folder: Path, _: bool) -> Written:
    return _write([wheel_of(each.facts, each.files) for each in described], folder, described[0].tree)


def _conda_packages(described: Sequence[Described], folder: Path, _: bool) -> Written:
    made = [package for each in described for package in conda_packages_of(each.facts, each.files)]
    return _write(made, folder, described[0].tree)


def _write(made: Sequence[Distribution], folder: Path, tree: VerifiedTree) -> Written:
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
    return Written(name=tree.package, version=tree.version, files=tuple(by_path))


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


Kind = Literal["wheel", "conda", "tree", "bazel", "debian", "nix", "spack", "vcpkg"]
_FORMS: dict[Kind, Callable[[Sequence[Described], Path, bool], Written]] = {
    "wheel": _wheels,
    "conda": _conda_packages,
    "tree": place,
    **{manager: partial(write_recipe, manager) for manager in MANAGERS},
}
"""What writes the trees of a version into a folder, and whether these are all that it has."""
