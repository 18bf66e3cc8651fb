"""Unpack archives that are not trusted.

Members are unpacked one by one: regular files and folders with plain relative names, nothing else. Permissions, owners
and times in the archive are ignored. No link is created: a link to a file of the archive becomes a copy of the file, a
link out of the archive is rejected, others are left out. Limits count the bytes that come out of the stream, not the
sizes in headers.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tarfile import (  # type: ignore[attr-defined]  # the three header errors are public, but not in the stubs
    EmptyHeaderError,
    InvalidHeaderError,
    ReadError,
    TarFile,
    TruncatedHeaderError,
)
from typing import BinaryIO, cast

from tfaot_pkg.errors import SourceError

_CHUNK = 1 << 18
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of an archive's content. `ratio` (unpacked to packed) applies above `ratio_floor` bytes only."""

    members: int = 20_000
    bytes: int = 8 << 30
    # Deflate reaches about 1000 to 1 on zeros, which a small archive may hold: hence the floor.
    ratio: int = 200
    ratio_floor: int = 256 * _MIB
    depth: int = 40
    # The standard library reads both of these into memory, whatever size the archive announces.
    header_bytes: int = _MIB
    zip_directory_bytes: int = 8 * _MIB


LIMITS = Limits()


def unpack(archive: Path, into: Path, *, label: str, limits: Limits = LIMITS) -> tuple[str, ...]:
    """Unpack `archive` (tar, also with gzip, bzip2, xz; or zip; told by its first bytes) into the empty folder `into`.

    `label` names the archive in messages. Returns the names of links that were left out (to folders, or to nothing).
    Raises SourceError if the archive is unsafe, damaged or too large, OSError if the disk is full or cannot be written.
    """
    with archive.open("rb") as file:
        head = file.read(512)
        file.seek(0)
        tree = _NewTree(root=into, label=label, packed=max(archive.stat().st_size, 1), limits=limits)
        with _damage(label):
            if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                _unpack_zip(file, tree)
            else:
                with _plain_tar(file, head, label) as plain:
                    _unpack_tar(plain, tree)
            return tree.finish()


@contextmanager
def _damage(label: str) -> Iterator[None]:
    """Turn the standard library's errors for a damaged archive into SourceError; errors of the disk pass."""
    try:
        yield
    except OSError as error:
        # gzip and bz2 raise OSError without a number for damaged data; the kernel's errors have one.
        if error.errno is not None:
            raise
        raise _damaged(label, error) from error
    except (
        tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, NotImplementedError,
        RecursionError, OverflowError, MemoryError, KeyError, IndexError, RuntimeError,
    ) as error:  # fmt: skip
        raise _damaged(label, error) from error


def _damaged(label: str, error: BaseException) -> SourceError:
    return SourceError(
        f"{label}: the archive is damaged: {str(error) or type(error).__name__}", hint="make or download it again"
    )


@dataclass(slots=True, kw_only=True)
class _NewTree:
    """The folder that is being filled. No other process writes to it, and it never contains a link."""

    root: Path
    label: str
    packed: int
    limits: Limits
    _folders: set[str] = field(default_factory=set)
    _files: set[str] = field(default_factory=set)
    _links: dict[str, str] = field(default_factory=dict)
    _count: int = 0
    _bytes: int = 0

    def refuse(self, name: str, why: str, hint: str = "") -> SourceError:
        return SourceError(
            f"{self.label}: cannot unpack {name!r}: {why}",
            hint=hint or "take an archive from a source that you trust, or make one that contains plain files only",
        )

    def folder(self, name: str) -> None:
        clean = self._admit(name)
        # A folder may be listed twice, or after its files: tar writes both.
        if clean in self._files or clean in self._links:
            raise self.refuse(name, "the name is used for a file and a folder")
        self._make_folders(clean)

    def file(self, name: str, chunks: Iterator[bytes]) -> None:
        clean = self._admit(name)
        self._claim(name, clean)
        self._files.add(clean)
        self._write(name, clean, chunks)

    def link(self, name: str, target: str, *, hard: bool = False) -> None:
        """A link at `name`: `target` is relative to the link's folder, or to the top for a hard link."""
        clean = self._admit(name)
        self._claim(name, clean)
        start = "" if hard else posixpath.dirname(clean)
        aim = posixpath.normpath(posixpath.join(start, target))
        if target.startswith("/") or aim == ".." or aim.startswith("../"):
            raise self.refuse(name, f"a link that leads out of the archive, to {target!r}")
        # Only noted: the file that it points to may come later in the archive.
        self._links[clean] = aim

    def finish(self) -> tuple[str, ...]:
        """Copy the files that links point to; returns the links that do not point to a file."""
        if not self._files:
            raise SourceError(f"{self.label}: the archive contains no files")
        left_out = []
        for name in sorted(self._links):
            aim = self._end_of(name)
            if aim is None:
                left_out.append(name)
            else:
                self._write(name, name, _chunks(self.root / aim))
        return tuple(left_out)

    def _end_of(self, name: str) -> str | None:
        # Links to links may form a circle.
        for _ in range(self.limits.depth):
            name = self._links[name]
            if name in self._files:
                return name
            if name not in self._links:
                return None
        return None

    def _admit(self, name: str) -> str:
        """The name without `./`. Counts the member. Raises SourceError if the name is unsafe."""
        self._count += 1
        if self._count > self.limits.members:
            raise SourceError(f"{self.label}: more than {self.limits.members} members in the archive")
        fault = _fault_of_name(name, self.limits.depth)
        if fault:
            raise self.refuse(name, fault)
        return posixpath.normpath(name)

    def _claim(self, name: str, clean: str) -> None:
        if clean == ".":
            raise self.refuse(name, "it is the folder into which everything is unpacked")
        # Readers differ in which of two members wins, so a reviewer may have seen the other one.
        if clean in self._files or clean in self._links or clean in self._folders:
            raise self.refuse(name, "the name occurs twice")
        self._make_folders(posixpath.dirname(clean))

    def _make_folders(self, name: str) -> None:
        missing: list[str] = []
        while name not in ("", ".") and name not in self._folders:
            if name in self._files or name in self._links:
                raise self.refuse(name, "a file or link used as a folder")
            missing.append(name)
            name = posixpath.dirname(name)
        for folder in reversed(missing):
            # Names in _folders were made by us: no parent of a member can be a link.
            os.mkdir(self.root / folder, 0o755)
            self._folders.add(folder)

    def _write(self, name: str, clean: str, chunks: Iterator[bytes]) -> None:
        # O_EXCL and O_NOFOLLOW are a second guard: on a case-insensitive disk two names may be one file.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        # Read-only: a cached tree stands for a checksum, so a slip of an editor must not change it.
        with os.fdopen(os.open(self.root / clean, flags, 0o444), "wb") as file:
            for chunk in chunks:
                self._count_bytes(name, len(chunk))
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    def _count_bytes(self, name: str, amount: int) -> None:
        self._bytes += amount
        if self._bytes > self.limits.bytes:
            raise self.refuse(name, f"the archive unpacks to more than {self.limits.bytes} bytes")
        if self._bytes > self.limits.ratio_floor and self._bytes > self.limits.ratio * self.packed:
            raise self.refuse(
                name, f"the archive unpacks to more than {self.limits.ratio} times its size: a decompression bomb?"
            )


def _fault_of_name(name: str, depth: int) -> str:
    """Why `name` cannot be the name of a member ("" if it can)."""
    parts = name.split("/")
    if not name or name.startswith("/"):
        return "an absolute path" if name else "an empty name"
    if ".." in parts:
        return "the name contains '..'"
    # A backslash separates folders on Windows; control characters would end up in logs.
    if "\\" in name or any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        return "the name contains a backslash or a control character"
    try:
        data = name.encode()
    except UnicodeEncodeError:
        return "the name is not UTF-8"
    # 255 bytes per name is Linux's limit; longer paths would fail halfway through.
    if len(data) > 1024 or len(parts) > depth or any(len(part.encode()) > 255 for part in parts):
        return "the name is too long or too deep"
    return ""


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


# tar


def _open_xz(file: BinaryIO) -> AbstractContextManager[object]:
    return lzma.LZMAFile(file)  # the caller closes it


def _open_bzip2(file: BinaryIO) -> AbstractContextManager[object]:
    return bz2.BZ2File(file)


def _open_gzip(file: BinaryIO) -> AbstractContextManager[object]:
    return gzip.GzipFile(fileobj=file)


_OPENERS: tuple[tuple[bytes, Callable[[BinaryIO], AbstractContextManager[object]]], ...] = (
    (b"\x1f\x8b", _open_gzip),
    (b"BZh", _open_bzip2),
    (b"\xfd7zXZ\x00", _open_xz),
)


@contextmanager
def _plain_tar(file: BinaryIO, head: bytes, label: str) -> Iterator[BinaryIO]:
    """The tar stream inside `file`, whatever it is compressed with."""
    for magic, opener in _OPENERS:
        if head.startswith(magic):
            with opener(file) as plain:
                yield cast("BinaryIO", plain)
            return
    # Archives from before POSIX have no magic: nothing would tell them from other files.
    if head[257:262] != b"ustar":
        raise SourceError(
            f"{label}: neither a tar archive (plain, gzip, bzip2, xz) nor a zip archive",
            hint=_hint_of(head),
        )
    yield file


def _hint_of(head: bytes) -> str:
    if head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "it is a web page: the address leads to a page about the archive, or to a log-in"
    return "pack the model's folder with: tar -czf model.tar.gz FOLDER"


class _Metered(io.RawIOBase):
    """A stream that gives at most `allowance` bytes until that is raised again.

    tarfile reads headers of any announced size into memory; the allowance limits that.
    """

    def __init__(self, stream: BinaryIO, label: str) -> None:
        self._stream = stream
        self._label = label
        self.allowance = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self.allowance -= len(data)
        if self.allowance < 0:
            raise SourceError(f"{self._label}: a header of the archive is far too large")
        return data


class _TarMember(tarfile.TarInfo):
    """A header, read strictly: tarfile itself accepts an archive that was cut between two members."""

    @classmethod
    def fromtarfile(cls, tarfile: TarFile) -> _TarMember:
        try:
            return super().fromtarfile(tarfile)
        except (EmptyHeaderError, InvalidHeaderError, TruncatedHeaderError) as error:
            raise ReadError(f"{error}, before the end of the archive") from error


def _unpack_tar(plain: BinaryIO, tree: _NewTree) -> None:
    stream = _Metered(plain, tree.label)
    stream.allowance = tree.limits.header_bytes
    # `r|` never seeks back, so that the meter sees every byte once.
    with tarfile.open(
        fileobj=cast("BinaryIO", stream), mode="r|", encoding="utf-8", errors="strict", tarinfo=_TarMember
    ) as archive:
        while True:
            stream.allowance = tree.limits.header_bytes
            member = archive.next()
            if member is None:
                return
            # The content of this member, and its padding, may now be read.
            stream.allowance = tree.limits.header_bytes + max(member.size, 0)
            _take_tar_member(archive, member, tree)
            archive.members.clear()  # type: ignore[attr-defined]  # else memory grows with every member


def _take_tar_member(archive: tarfile.TarFile, member: tarfile.TarInfo, tree: _NewTree) -> None:
    if member.isdir():
        tree.folder(member.name)
    elif member.issym() or member.islnk():
        tree.link(member.name, member.linkname, hard=member.islnk())
    elif not member.isreg() or member.issparse():
        raise tree.refuse(member.name, "a device, a pipe or a sparse file")
    elif member.size < 0:
        raise tree.refuse(member.name, "a negative size")
    else:
        stream = archive.extractfile(member)
        assert stream is not None  # a regular file has content
        tree.file(member.name, iter(lambda: stream.read(_CHUNK), b""))


# zip


class _SmallReads(io.RawIOBase):
    """A seekable file that rejects very large reads: zipfile reads the whole table of contents at once."""

    def __init__(self, file: BinaryIO, limit: int, label: str) -> None:
        self._file = file
        self._limit = limit
        self._label = label

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        if size > self._limit:
            raise SourceError(f"{self._label}: the archive's table of contents is far too large")
        return self._file.read(size)


def _unpack_zip(file: BinaryIO, tree: _NewTree) -> None:
    bounded = _SmallReads(file, tree.limits.zip_directory_bytes, tree.label)
    with zipfile.ZipFile(cast("BinaryIO", bounded)) as archive:
        for member in archive.infolist():
            _take_zip_member(archive, member, tree)


def _take_zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, tree: _NewTree) -> None:
    # `filename` is cut at a NUL byte and has had backslashes replaced on some systems.
    name = member.orig_filename
    kind = stat.S_IFMT(member.external_attr >> 16)
    if member.flag_bits & 0x1:
        raise tree.refuse(name, "it is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # The others decompress without a bound on memory in the standard library.
        raise tree.refuse(name, "compressed by a method that is not read", "pack it again with: zip -r")
    if kind == stat.S_IFLNK:
        with archive.open(member) as stream:
            # 4096 is PATH_MAX; a zip stores a link's target as its content.
            tree.link(name, stream.read(4096).decode())
    elif name.endswith("/"):
        tree.folder(name)
    # 0: programs for Windows store no Unix mode.
    elif kind in (0, stat.S_IFREG):
        with archive.open(member) as stream:
            tree.file(name, iter(lambda: stream.read(_CHUNK), b""))
    else:
        raise tree.refuse(name, "a device or a pipe")
