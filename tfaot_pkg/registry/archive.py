"""An install tree as one archive: the same bytes for the same tree, and unpacking that trusts nothing.

The archive is a gzip-compressed POSIX ustar file of regular files and relative links, sorted by name, with no
clock, user or machine in it. The tar bytes depend on the tree only; gzip's also on the deflate library (zlib and
zlib-ng differ), so equality of packages is decided by `Tree.digest`, never by the archive's digest.

Only headers that Python's `TarInfo.frombuf` decodes are read, one by one, from a stream: no extended headers, no hard
links, no devices, no `extractall`. Each header must be, byte for byte, the one that `pack` writes for what it says, and
nothing may lie beside the files: no bytes after the end, in padding, in gzip's header (gunzip.py). So two archives of
one tree differ in nothing but how deflate encoded them.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.storage import sync_folder
from tfaot_pkg.package.check import Identity, require_sound
from tfaot_pkg.package.custom_files import custom_files
from tfaot_pkg.package.listing import Kind, Member, Tree, foreign_path, parents, path_fault, scan_tree, tree_fault
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.gunzip import Gunzip, NotCanonical
from tfaot_pkg.registry.told import require_told

_LEVEL = 6  # gzip's own default
_CHUNK = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an archive may unpack to."""

    files: int = 10_000
    total: int = 4 << 30
    """Bytes, headers included."""


DEFAULT_LIMITS = Limits()


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def pack(root: Path, archive: BinaryIO) -> Tree:
    """Write the tree at `root` to `archive` and return it. Raises RegistryError, OSError."""
    tree = scan_tree(root)
    # No name and no time in gzip's header: they would differ from run to run.
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=archive, mtime=0) as stream:
        write_tar(root, tree, stream)
    return tree


def write_tar(root: Path, tree: Tree, stream: BinaryIO | gzip.GzipFile) -> None:
    """The uncompressed archive: bytes that depend on `tree` and the files' contents only."""
    for member in tree.members:
        if member.kind == "link":
            stream.write(_header(_info(member.path, member.kind, target=member.content)))
            continue
        with (root / member.path).open("rb") as file:
            # Of the open file: another one may have its name by now.
            size = os.fstat(file.fileno()).st_size
            stream.write(_header(_info(member.path, member.kind, size=size)))
            digest = hashlib.sha256()
            for chunk in _exactly(file, size):
                digest.update(chunk)
                stream.write(chunk)
            # The digest of the tree is published, so the archive must hold exactly that tree.
            if digest.hexdigest() != member.content:
                raise RegistryError(f"{root / member.path} was changed while it was being packed")
            stream.write(bytes(-size % _BLOCK))
    # POSIX: two empty blocks end an archive.
    stream.write(bytes(2 * _BLOCK))


_MODES: Mapping[Kind, int] = {"program": 0o755, "file": 0o644, "link": 0o777}


def _info(path: str, kind: Kind, *, size: int = 0, target: str = "") -> tarfile.TarInfo:
    """What the archive says of a member: TarInfo's defaults have no time, user or group."""
    info = tarfile.TarInfo(path)
    info.mode, info.size, info.linkname = _MODES[kind], size, target
    info.type = tarfile.SYMTYPE if kind == "link" else tarfile.REGTYPE
    return info


def _header(info: tarfile.TarInfo) -> bytes:
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
    except ValueError as error:
        raise RegistryError(f"{info.name!r} cannot be packed: {error}", hint="choose shorter file names") from error


def unpack(
    archive: BinaryIO,
    into: Path,
    *,
    what: str,
    limits: Limits = DEFAULT_LIMITS,
    foreign: Callable[[str], str] | None = None,
    durable: bool = True,
) -> Tree:
    """Unpack into the empty folder `into`; files are durable when this returns, unless that is not wanted.

    `foreign` says why a path may not be in the package (empty: it may). Modes are 0644 and 0755 whatever the archive
    says; times are now, so that builds see that headers changed. Raises TrustError (naming `what`) for anything that
    `pack` would not have written, and OSError. What was unpacked until then stays in `into`, for the caller to drop.
    """
    try:
        return _unpack(_Capped(Gunzip(archive), limits.total), into, limits, foreign, durable)
    except (tarfile.TarError, NotCanonical, EOFError, zlib.error, UnicodeError) as error:
        raise _refused(what, f"not a readable archive ({error})") from error
    except _Refused as refused:
        raise _refused(what, str(refused)) from None


def _refused(what: str, reason: str) -> TrustError:
    return TrustError(
        f"the archive of {what} is rejected: {reason}",
        hint="nothing of it was installed; tell the registry's maintainer: tfaot-pkg never makes such an archive",
    )


class _Refused(Exception):
    """Why an archive is rejected."""


class _Capped:
    """A stream that ends in `_Refused` after `limit` bytes, whatever headers promise."""

    def __init__(self, stream: _Readable, limit: int) -> None:
        self._stream = stream
        self._left = limit

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _Refused("it unpacks to more than is allowed")
        return data


def _unpack(stream: _Readable, into: Path, limits: Limits, foreign: Callable[[str], str] | None, durable: bool) -> Tree:
    members = tuple(_members(stream, into, limits, foreign, durable))
    # Reads on to the end of the gzip stream, whose checksum comes last.
    if stream.read(1):
        raise _Refused("there are bytes after its end")
    tree = Tree(members=members)
    fault = tree_fault(tree)
    if fault:
        raise _Refused(fault)
    for name, target in tree.links.items():  # after all files: nothing is ever written through a link
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, into / name)
    if durable:
        # A new file survives a power failure only if its folder was flushed too.
        for folder in {into, *(into / parent for member in members for parent in parents(member.path))}:
            sync_folder(folder)
    return tree


def _members(
    stream: _Readable, into: Path, limits: Limits, foreign: Callable[[str], str] | None, durable: bool
) -> Iterator[Member]:
    """Write the archive's files below `into`; links are only reported."""
    count, before = 0, ""
    while (info := _next(stream)) is not None:
        count += 1
        if count > limits.files:
            raise _Refused(f"it contains more than {limits.files} files")
        # Checked before anything is written: `foreign` expects a path that cannot leave the tree.
        fault = path_fault(info.name) or ("" if foreign is None else foreign(info.name))
        if fault:
            raise _Refused(f"{info.name!r} {fault}")
        if info.name <= before:
            raise _Refused(f"{info.name!r} occurs twice" if info.name == before else "its files are not sorted")
        before = info.name
        if info.issym():
            yield Member(path=info.name, kind="link", content=info.linkname)
        elif info.isreg():
            kind: Kind = "program" if info.mode & 0o100 else "file"
            yield Member(path=info.name, kind=kind, content=_write_member(stream, info, into, kind, durable))


def _next(stream: _Readable) -> tarfile.TarInfo | None:
    """The next header; None at the archive's end."""
    block = b"".join(_exactly(stream, _BLOCK))
    if block == bytes(_BLOCK):
        if any(b"".join(_exactly(stream, _BLOCK))):
            raise _Refused("it does not end with two empty blocks")
        return None
    info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    if info.type not in (tarfile.REGTYPE, tarfile.SYMTYPE):
        raise _Refused(f"{info.name!r} is neither a file nor a link inside the package")
    # GNU numbers may be negative, and a size without content would shift all headers that follow.
    if info.size < 0 or (info.size and not info.isreg()):
        raise _Refused(f"{info.name!r} has an impossible size")
    # Times, owners, devices, modes, other forms of numbers and bytes after names would be places to hide something.
    kind: Kind = "link" if info.issym() else "program" if info.mode & 0o100 else "file"
    if block != _header(_info(info.name, kind, size=info.size, target=info.linkname if info.issym() else "")):
        raise _Refused(f"the header of {info.name!r} is not the one that tfaot-pkg writes")
    return info


def _write_member(stream: _Readable, info: tarfile.TarInfo, into: Path, kind: Kind, durable: bool) -> str:
    path, mode, digest = into / info.name, 0o755 if kind == "program" else 0o644, hashlib.sha256()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # O_EXCL: a name that occurs twice must not overwrite, nor be followed as a link.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    except (FileExistsError, NotADirectoryError):
        raise _Refused(f"{info.name!r} occurs twice, or is both a file and a folder") from None
    with os.fdopen(handle, "wb") as file:
        for chunk in _exactly(stream, info.size):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        # The umask may have removed bits of the mode.
        os.fchmod(file.fileno(), mode)
        if durable:
            os.fsync(file.fileno())
    if any(b"".join(_exactly(stream, -info.size % _BLOCK))):
        raise _Refused(f"there are bytes after {info.name!r}")
    return digest.hexdigest()


def _exactly(stream: _Readable, size: int) -> Iterator[bytes]:
    """`size` bytes in pieces. Raises EOFError if the stream ends before."""
    left = size
    while left:
        chunk = stream.read(min(left, _CHUNK))
        if not chunk:
            raise EOFError(f"{left} bytes are missing")
        left -= len(chunk)
        yield chunk


def unpack_sound(
    archive: BinaryIO, folder: Path, entry: RegistryEntry, *, custom: bool = False, durable: bool = True
) -> Tree:
    """Unpack the package of `entry` into the empty `folder` and check that it is one, and that of `entry`.

    Unless it may be `custom`, its headers and build files must be those that a release of this tool makes. Raises
    TrustError, OSError.
    """
    # Paths are checked while unpacking, so that none is written outside; the rest needs all files.
    tree = unpack(
        archive, folder, what=str(entry), foreign=lambda path: foreign_path(entry.name, path), durable=durable
    )
    require_sound(folder, tree, Identity(package=entry.name, version=entry.version, key=entry.key))
    # After what is said of files that nobody asked for, which says more.
    if not custom:
        require_rendered(folder, tree, entry)
    require_told(folder, tree, entry)
    return tree


def require_rendered(folder: Path, tree: Tree, entry: RegistryEntry) -> None:
    """Raise TrustError if the package of `entry` in `folder` has files for users that no release of the tool makes."""
    if files := custom_files(folder, tree, entry.name, entry.signature, entry.tool):
        raise TrustError(
            f"{entry} has files for compilers and build systems that tfaot-pkg does not make for such a model: "
            + ", ".join(files[:_SHOWN])
            + (f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""),
            hint=f"it says that tfaot-pkg {entry.tool} made it: upgrade if that is newer than {__version__}; else ask "
            "who published it, and install it with --allow-custom-files only if you have read these files",
        )
