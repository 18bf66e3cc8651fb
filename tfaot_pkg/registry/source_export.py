"""Exporting the source form of a package, from a registry or from a prefix, into a new folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import PrefixError, RegistryError, TrustError
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.storage import make_folder, require_new, storage_errors, write_file
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.package.listing import source_folder
from tfaot_pkg.package.prefix.manifest import Manifest, read_prefix
from tfaot_pkg.registry.archive import unpack_sound
from tfaot_pkg.registry.attestation import require_attested
from tfaot_pkg.registry.files.layout import PREFIX
from tfaot_pkg.registry.reader import RegistryReader, Requirement, resolve

_NO_SOURCE = "rebuild it with `package: {source: true}` in its spec, as a new version"


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
    if PREFIX not in entry.blobs:
        raise RegistryError(f"{entry} has nothing to export (no {PREFIX!r} blob)")
    require_attested(reader, entry)
    with temporary_folder(prefix="tfaot-export-") as scratch, storage_errors(f"unpack {entry}"):
        with reader.open_blob(entry.blobs[PREFIX]) as archive:
            tree = unpack_sound(archive, scratch, entry, durable=False)
        if tree.digest != entry.tree:
            raise TrustError(
                f"the archive of {entry} does not contain what the index says",
                hint="nothing was written; tell the registry's maintainer",
            )
        paths = _sources(tree.files, entry.name)
        if not paths:
            raise RegistryError(f"{entry} was published without sources", hint=_NO_SOURCE)
        files = _write(folder, paths, lambda path: (scratch / path).read_bytes())
    return Exported(name=entry.package, version=entry.version, folder=folder, files=files)


def export_installed(prefix: Path, requirement: Requirement | str, folder: Path) -> Exported:
    """Write the source form of a package that is installed in `prefix` into `folder`, which must not exist.

    Raises PrefixError (not installed, in another version, without sources, or changed since), StorageError.
    """
    require_new(folder)
    manifest = _installed(prefix, Requirement.parse(requirement) if isinstance(requirement, str) else requirement)

    def content(path: str) -> bytes:
        data = (prefix / path).read_bytes()
        if sha256_bytes(data) != manifest.files[path]:
            raise PrefixError(
                f"{prefix / path} was changed since it was installed",
                hint=f"nothing was written; install {manifest.name} again, then export it",
            )
        return data

    paths = _sources(manifest.files, manifest.name)
    if not paths:
        raise PrefixError(f"{manifest.name}@{manifest.version} in {prefix} has no sources", hint=_NO_SOURCE)
    return Exported(name=manifest.name, version=manifest.version, folder=folder, files=_write(folder, paths, content))


def _installed(prefix: Path, wanted: Requirement) -> Manifest:
    with storage_errors(f"read {prefix}"):
        found = read_prefix(prefix)
    manifest = next((found.manifests[each] for each in found.parts_of(wanted.package) if each in found.manifests), None)
    if manifest is None:
        raise PrefixError(
            f"{wanted.package} is not installed in {prefix}", hint="without --prefix, the registry is asked"
        )
    if not wanted.specifier.contains(manifest.version, prereleases=True):
        raise PrefixError(
            f"{manifest.name} is installed in {prefix} in version {manifest.version}, and not {wanted.specifier}",
            hint="without --prefix, the registry is asked",
        )
    return manifest


def _sources(files: Iterable[str], package: str) -> dict[str, str]:
    """The files of the source form: path in it to path in the package."""
    start = f"{source_folder(package)}/"
    return {path.removeprefix(start): path for path in sorted(files) if path.startswith(start)}


def _write(folder: Path, paths: Mapping[str, str], content: Callable[[str], bytes]) -> int:
    """Write `content` of the package's `paths` into `folder`, which appears with all files or not at all."""
    with storage_errors(f"write {folder}"):
        make_folder(folder.absolute().parent)
        with temporary_folder(folder.absolute().parent, prefix=f".{folder.name}.", suffix=".part") as staged:
            for path, place in paths.items():
                write_file(staged / path, content(place))
            staged.chmod(0o755)  # it was private while it was incomplete
            staged.rename(folder)
    return len(paths)
