"""`mirror.json` in a mirror of a registry: the registry that it copies, and which part of it.

Nobody signs this file, so nothing that is trusted follows from it: it explains why a file is missing, and keeps
publishers out of mirrors.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from tfaot_pkg.errors import RegistryError, TfaotError
from tfaot_pkg.ground.documents import read, write
from tfaot_pkg.package.name import current_name
from tfaot_pkg.registry.files.files import Files, MissingFile

MIRROR = "mirror.json"
_LIMIT = 16_000_000
_INDEX_FILE = re.compile(r"index/[^/]+/[^/]+/(?:[0-9a-f]{64}\.)?(?P<package>[^/]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """A mirror of the registry at `origin`, whose first root has the SHA-256 `root` (empty: unsigned).

    It has the files of `packages` alone (empty: of all), and of these what `channel` has for `architecture` (empty:
    everything). Signed metadata and search shards are always all there.
    """

    origin: str
    root: str = ""
    packages: tuple[str, ...] = ()
    channel: str = ""
    architecture: str = ""
    format: int = 1

    @classmethod
    def of(cls, files: Files) -> Mirrored | None:
        """What `files` are a mirror of; None if they are none. Raises RegistryError (damaged), and as `Files.get`."""
        try:
            data = files.get(MIRROR, _LIMIT)
        except MissingFile:
            return None
        where = f"{files.location}/{MIRROR}"
        return read(cls, data, where, error=RegistryError, hint="delete the mirror's folder, and mirror again")

    @property
    def is_partial(self) -> bool:
        return bool(self.packages or self.channel or self.architecture)

    @property
    def part(self) -> str:
        """The part of its origin that it has, for people; empty if it has all."""
        names = ", ".join(self.packages[:5]) + (f" and {len(self.packages) - 5} more" if self.packages[5:] else "")
        found = (names, self.channel and f"the channel {self.channel}", self.architecture)
        return ", ".join(filter(None, found))

    def has(self, package: str) -> bool:
        return not self.packages or current_name(package) in self.packages

    def has_tree(self, architecture: str, channels: Collection[str]) -> bool:
        """Whether it has a build for `architecture` (empty: unknown) that is in `channels`."""
        is_right = not (self.architecture and architecture) or architecture == self.architecture
        return is_right and (not self.channel or self.channel in channels)

    def to_bytes(self) -> bytes:
        return write(self)

    def lacks(self, what: str, location: str) -> RegistryError:
        """The error for what the origin may have, and this mirror does not."""
        return RegistryError(
            f"{what} is not in {location}, a partial mirror of {self.origin} that has only: {self.part}",
            hint="read from the registry that it mirrors, or ask who keeps the mirror to add it (registry mirror)",
        )


def lacking(files: Files, path: str) -> RegistryError | None:
    """The reason why `files` have no file `path`, if they are a partial mirror and it is not in their part."""
    try:
        found = Mirrored.of(files)
    # It would only have explained the error that the caller has.
    except TfaotError:
        return None
    if found is None or not found.is_partial:
        return None
    named = _INDEX_FILE.fullmatch(path)
    if named is None:
        return found.lacks(f"the file {path}", files.location) if path.startswith("blobs/") else None
    return None if found.has(named["package"]) else found.lacks(named["package"], files.location)
