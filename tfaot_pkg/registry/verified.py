"""The files of a package that was verified, from a registry or from a prefix, for who makes something else of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import PrefixError, RegistryError, TfaotError, TrustError
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.package.listing import Member
from tfaot_pkg.package.name import current_name
from tfaot_pkg.package.prefix.manifest import HEADERS, Manifest, read_prefix
from tfaot_pkg.package.prefix.plan import Package, checked
from tfaot_pkg.registry.archive import unpack_sound
from tfaot_pkg.registry.attestation import require_attested
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.files.layout import PREFIX
from tfaot_pkg.registry.reader import RegistryReader, Requirement

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedTree:
    """A package's files in the folder `root`; each is checked again while it is read.

    `name` is the package's, in the spelling that its files have; `members` are sorted by path, `manifests` are those
    of an installation: of the package, and of the shared headers if it has some.
    """

    name: str
    version: str
    root: Path
    members: tuple[Member, ...]
    manifests: tuple[Manifest, ...]
    is_installed: bool = False

    @property
    def package(self) -> str:
        return current_name(self.name)

    def chunks(self, member: Member) -> Iterator[bytes]:
        """The content of a file. Raises PrefixError or TrustError, after the last chunk, if it was changed."""
        digest = hashlib.sha256()
        try:
            with (self.root / member.path).open("rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
                    yield chunk
        except FileNotFoundError:
            raise self._changed(member.path) from None
        if digest.hexdigest() != member.content:
            raise self._changed(member.path)

    def read(self, member: Member) -> bytes:
        """The content of a file that is small. Raises as `chunks`."""
        return b"".join(self.chunks(member))

    def size(self, member: Member) -> int:
        """Bytes of a file. Raises as `chunks`, OSError."""
        try:
            return (self.root / member.path).stat().st_size
        except FileNotFoundError:
            raise self._changed(member.path) from None

    def _changed(self, path: str) -> TfaotError:
        if self.is_installed:
            return PrefixError(
                f"{self.root / path} was changed since it was installed",
                hint=f"nothing was written; install {self.name} again, then export it",
            )
        return TrustError(f"{path} of {self.name} was changed while it was read", hint="nothing was written")


@contextmanager
def published_tree(
    reader: RegistryReader, entry: RegistryEntry, *, headers: Path | None = None
) -> Iterator[VerifiedTree]:
    """The package of `entry`, checked as for an installation, in a temporary folder.

    Nothing checks the shared headers that a package has. With `headers`, an include folder, it gets those in it, as in
    an installation. Raises RegistryError, TrustError, NetworkError, PrefixError (it needs other headers), StorageError.
    """
    if PREFIX not in entry.blobs:
        raise RegistryError(f"{entry} has nothing to export (no {PREFIX!r} blob)")
    require_attested(reader, entry)
    with temporary_folder(prefix="tfaot-export-") as scratch:
        with storage_errors(f"unpack {entry}"), reader.open_blob(entry.blobs[PREFIX]) as archive:
            tree = unpack_sound(archive, scratch, entry, durable=False)
            package = Package(name=entry.name, version=entry.version, key=entry.key, tree=entry.tree)
            staged = checked(package, tree, scratch, headers=headers, durable=False)
        parts = (staged.manifest, *([staged.headers] if staged.headers else []))
        members = _members(scratch, parts)
        yield VerifiedTree(name=entry.name, version=entry.version, root=scratch, members=members, manifests=parts)


def installed_tree(prefix: Path, requirement: Requirement | str) -> VerifiedTree:
    """A package that is installed in `prefix`, with the shared headers that it uses.

    Raises PrefixError (not installed, or in another version), StorageError.
    """
    wanted = Requirement.parse(requirement) if isinstance(requirement, str) else requirement
    with storage_errors(f"read {prefix}"):
        found = read_prefix(prefix)
        manifest = next(
            (found.manifests[each] for each in found.parts_of(wanted.package) if each in found.manifests), None
        )
        if manifest is None:
            raise PrefixError(
                f"{wanted.package} is not installed in {prefix}", hint="without --prefix, the registry is asked"
            )
        if not wanted.specifier.contains(manifest.version, prereleases=True):
            raise PrefixError(
                f"{manifest.name} is installed in {prefix} in version {manifest.version}, and not {wanted.specifier}",
                hint="without --prefix, the registry is asked",
            )
        headers = [found.manifests[HEADERS]] if manifest.uses_headers and HEADERS in found.manifests else []
        parts = (manifest, *headers)
        members = _members(prefix, parts)
    return VerifiedTree(
        name=manifest.name, version=manifest.version, root=prefix, members=members, manifests=parts, is_installed=True
    )


def _members(root: Path, parts: Iterable[Manifest]) -> tuple[Member, ...]:
    """The files and links of `parts` in `root`, sorted by path."""
    made = []
    for part in parts:
        for path, digest in part.files.items():
            place = root / path
            # One that is missing is reported when it is read.
            is_program = place.is_file() and bool(place.stat().st_mode & 0o100)
            made.append(Member(path=path, kind="program" if is_program else "file", content=digest))
        made += [Member(path=path, kind="link", content=target) for path, target in part.links.items()]
    return tuple(sorted(made, key=lambda member: member.path))
