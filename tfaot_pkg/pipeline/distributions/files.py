"""The files of an export before they are written: bytes made here, or a file of the package; and what was written."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.package.listing import Member
from tfaot_pkg.registry.verified import VerifiedTree


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file by its path in the archive. `link` is the target if it is one; `chunks` gives its content."""

    path: str
    size: int
    sha256: str
    chunks: Callable[[], Iterable[bytes]] = field(compare=False)
    is_program: bool = False
    link: str = ""

    @classmethod
    def made(cls, path: str, data: bytes | str, *, is_program: bool = False) -> File:
        content = data.encode() if isinstance(data, str) else data
        return cls(
            path=path,
            size=len(content),
            sha256=sha256_bytes(content),
            chunks=lambda: [content],
            is_program=is_program,
        )

    @classmethod
    def of(cls, tree: VerifiedTree, member: Member, path: str) -> File:
        """The file `member` at another `path`; a link is followed only by who reads `link`."""
        if member.kind == "link":
            return cls(path=path, size=0, sha256="", chunks=list, link=member.content)
        return cls(
            path=path,
            size=tree.size(member),
            sha256=member.content,
            chunks=lambda: tree.chunks(member),
            is_program=member.kind == "program",
        )

    @property
    def mode(self) -> int:
        return 0o755 if self.is_program else 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """An archive before it is written: `name` is its file's name, `folder` where it stands in a channel or index."""

    name: str
    files: tuple[File, ...]
    write: Callable[[BinaryIO, tuple[File, ...]], None] = field(compare=False)
    folder: str = ""

    def write_to(self, path: Path) -> None:
        """Raises PrefixError or TrustError if a file of the package was changed, StorageError."""
        with storage_errors(f"write {path}"), path.open("xb") as stream:
            self.write(stream, self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What an export wrote; `files` may have been there before, as they are. `notes` are further results in words."""

    name: str
    version: str
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip file can hold: no clock is in an archive."""


def write_zip(stream: BinaryIO, members: Mapping[str, File], *, compression: int) -> None:
    """A zip file of `members` in their order, which depends on them only."""
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for path, file in members.items():
            info = zipfile.ZipInfo(path, date_time=_EPOCH)
            info.compress_type, info.create_system, info.file_size = compression, 3, file.size
            info.external_attr = (0o100000 | file.mode) << 16
            with archive.open(info, "w") as target:
                for chunk in file.chunks():
                    target.write(chunk)


def without_links(files: Iterable[File]) -> Iterator[File]:
    """`files`, with a copy of what it leads to for each link: a wheel can hold none."""
    found = {file.path: file for file in files}
    for path, file in found.items():
        if not file.link:
            yield file
            continue
        target = found[f"{path.rpartition('/')[0]}/{file.link}"]
        yield File(
            path=path, size=target.size, sha256=target.sha256, chunks=target.chunks, is_program=target.is_program
        )
