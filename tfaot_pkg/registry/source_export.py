"""Exporting the source form of a package, from a registry or from a prefix, into a new folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import PrefixError, RegistryError
from tfaot_pkg.ground.storage import make_folder, require_new, storage_errors, write_file
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.package.listing import Member, source_folder
from tfaot_pkg.registry.reader import RegistryReader, Requirement, resolve
from tfaot_pkg.registry.verified import VerifiedTree, installed_tree, published_tree

NO_SOURCE = "rebuild it with `package: {source: true}` in its spec, as a new version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The result of an export into `folder`."""

    name: str
    version: str
    folder: Path
    files: int


def export_published(reader: RegistryReader, requirement: Requirement | str, folder: Path) -> Exported:
    """Write the source form of the version that `requirement` means into `folder`, which must not exist.

    The package is checked as for an installation. Raises RegistryError (no such version, or one without sources),
    TrustError, NetworkError, StorageError.
    """
    require_new(folder)
    entry = resolve(reader, requirement)
    with published_tree(reader, entry) as tree:
        sources = sources_of(tree)
        if not sources:
            raise RegistryError(f"{entry} was published without sources", hint=NO_SOURCE)
        files = _write(folder, tree, sources)
    return Exported(name=entry.package, version=entry.version, folder=folder, files=files)


def export_installed(prefix: Path, requirement: Requirement | str, folder: Path) -> Exported:
    """Write the source form of a package that is installed in `prefix` into `folder`, which must not exist.

    Raises PrefixError (not installed, in another version, without sources, or changed since), StorageError.
    """
    require_new(folder)
    tree = installed_tree(prefix, requirement)
    sources = sources_of(tree)
    if not sources:
        raise PrefixError(f"{tree.name}@{tree.version} in {prefix} has no sources", hint=NO_SOURCE)
    return Exported(name=tree.name, version=tree.version, folder=folder, files=_write(folder, tree, sources))


def sources_of(tree: VerifiedTree) -> dict[str, Member]:
    """The files of the source form by their path in it."""
    start = f"{source_folder(tree.name)}/"
    found = (each for each in tree.members if each.path.startswith(start) and each.kind != "link")
    return {each.path.removeprefix(start): each for each in found}


def _write(folder: Path, tree: VerifiedTree, sources: Mapping[str, Member]) -> int:
    """Write `sources` into `folder`, which appears with all files or not at all."""
    with storage_errors(f"write {folder}"):
        make_folder(folder.absolute().parent)
        with temporary_folder(folder.absolute().parent, prefix=f".{folder.name}.", suffix=".part") as staged:
            for path, member in sources.items():
                write_file(staged / path, tree.read(member))
            staged.chmod(0o755)  # it was private while it was incomplete
            staged.rename(folder)
    return len(sources)
