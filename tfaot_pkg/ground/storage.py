"""Atomic and durable writing to disk.

Every file and folder that others may read is written beside its final path, synced, then renamed. So a reader finds the
old state or the new one, even after a killed process or with a full disk.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import filelock

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.temporary import temporary_file, temporary_folder

_OWN_HOME = "(TFAOT_HOME sets where tfaot-pkg keeps its own files)"
"""The disk may be that of a prefix, a registry or our own home: the message names the file."""

_ELSEWHERE = f"or take a folder on another disk {_OWN_HOME}"
_OTHER_FOLDER = f"choose another folder {_OWN_HOME}"

_READ_OF_END = 1 << 20

_HINTS = {
    errno.ENOSPC: f"free some space, {_ELSEWHERE}",
    errno.EDQUOT: f"the quota is used up: free some space, {_ELSEWHERE}",
    errno.EFBIG: "the file is larger than this process may write (ulimit -f; TFAOT_WORKER_DISK for what runs models), "
    "or than the file system allows",
    errno.EROFS: f"the file system is read-only: {_OTHER_FOLDER}",
    errno.EACCES: f"no permission: change its rights, or {_OTHER_FOLDER}",
    errno.EPERM: f"no permission: change its rights, or {_OTHER_FOLDER}",
}


def is_refusal(error: OSError) -> bool:
    """Whether the disk is full, read-only or has no permission."""
    return error.errno in _HINTS


_REFUSALS = {
    "No space left on device": errno.ENOSPC,
    "No usable temporary directory found": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "File too large": errno.EFBIG,
    "Read-only file system": errno.EROFS,
}
"""English messages of programs about a full or read-only disk; the second is Python's."""


def refusal_in(text: str) -> str:
    """The line of another program's output that reports a full or read-only disk; "" if there is none."""
    return next((line.strip() for line in text.splitlines() if any(words in line for words in _REFUSALS)), "")


def refused(action: str, line: str) -> StorageError:
    """The error for a program that could not do `action`; `line` of its output has the reason."""
    hint = next((_HINTS[number] for words, number in _REFUSALS.items() if words in line), "")
    return StorageError(f"cannot {action}: {line}", hint=hint)


def end_of_file(path: Path) -> str:
    """The last mebibyte of a log. Raises OSError."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _READ_OF_END))
        return file.read().decode("utf-8", "replace")


def keep_newest(folder: Path, pattern: str, count: int) -> None:
    """Delete all except the newest `count` files in `folder` that match `pattern`, as far as possible."""
    dated = []
    for path in folder.glob(pattern):
        try:
            dated.append((path.stat().st_mtime_ns, path))
        except OSError:  # another process deletes too
            continue
    for _, path in sorted(dated)[: max(0, len(dated) - count)]:
        try:
            path.unlink()
        except OSError:
            continue


@contextmanager
def storage_errors(action: str) -> Iterator[None]:
    """Turn an OSError in `action` ("write the registry") into a StorageError."""
    try:
        yield
    except OSError as error:
        # A subclass of OSError; `locked` reports it with the holder of the lock.
        if isinstance(error, filelock.Timeout):
            raise
        where = f" ({error.filename})" if error.filename else ""
        raise StorageError(
            f"cannot {action}: {error.strerror or error}{where}", hint=_HINTS.get(error.errno or 0, "")
        ) from error


def write_file(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace `path` by `data` atomically; durable when this returns. Raises OSError."""
    write_chunks(path, (data,), mode=mode)


def write_chunks(path: Path, chunks: Iterable[bytes], *, mode: int = 0o644) -> None:
    """Replace `path` by all of `chunks` atomically, without holding them in memory; durable when this returns.

    If `chunks` raises (for a wrong digest, for example), `path` stays as it was. Raises OSError.
    """
    make_folder(path.parent)
    with temporary_file(path.parent, prefix=f".{path.name}.", suffix=".part") as temporary:
        with open(temporary, "xb", opener=_privately) as file:
            file.writelines(chunks)
            file.flush()
            # Private until complete, and then the mode exactly as given, whatever the umask.
            os.fchmod(file.fileno(), mode)
            # Before the rename: otherwise a power failure may leave the new name with an empty file.
            os.fsync(file.fileno())
        os.replace(temporary, path)
    # A rename is durable only after a sync of the folder; fsync(2).
    sync_folder(path.parent)


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def append_lines(path: Path, lines: Sequence[bytes]) -> None:
    """Append `lines` (without their ends) to `path`; durable when this returns. The caller holds a lock.

    An incomplete last line, from a killed process, is removed first. Raises OSError.
    """
    make_folder(path.parent)
    known = path.exists()
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(0)
        whole = file.read().rfind(b"\n") + 1 if end and not _ends_line(file, end) else end
        if whole != end:
            file.truncate(whole)
        # If this is interrupted, at most one line is incomplete, and the next call removes it.
        file.write(b"".join(line + b"\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())
    if not known:
        sync_folder(path.parent)


def _ends_line(file: BinaryIO, end: int) -> bool:
    file.seek(end - 1)
    last = file.read(1)
    file.seek(0)
    return last == b"\n"


def require_new(folder: Path) -> None:
    """Raise StorageError if something is at `folder`, also a link that leads nowhere: nothing is replaced."""
    if os.path.lexists(folder):
        raise StorageError(f"{folder} exists already", hint="name a folder that does not exist yet, or remove this one")


def make_folder(path: Path) -> None:
    """Create `path` and its missing parents; durable when this returns. Raises OSError."""
    # Listed before mkdir, which does not say which of them it created.
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync_folder(folder.parent)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path`, which is renamed to `path` if the block succeeds.

    If another process has made `path` meanwhile, that one stays and ours is removed. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path.parent, prefix=f".{path.name}.", suffix=".part") as temporary:
        yield temporary
        # The folder was private while it was incomplete.
        temporary.chmod(0o755)
        try:
            os.rename(temporary, path)
        except OSError as error:
            # rename replaces an empty folder, and fails with one of these for any other.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder that others may read, atomically for them. Raises OSError.

    A killed process leaves it complete, or hidden as `.NAME.*.part`.
    """
    with temporary_folder(path.parent, prefix=f".{path.name}.", suffix=".part") as hidden:
        os.rename(path, hidden)


def sync_folder(path: Path) -> None:
    """Make renames inside `path` durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file_system(folder: Path) -> None:
    """Make all files of the file system with `folder` durable: for many files this is one flush. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path, *, what: str, timeout: float = 600) -> Iterator[None]:
    """Hold the lock file `path` (between processes). Raises StorageError, with the holder, after `timeout` seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = path.with_name(path.name + ".owner")
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=timeout)
    except filelock.Timeout as error:
        holder = owner.read_text() if owner.exists() else "an unknown process"
        raise StorageError(
            f"{what} has been in use by {holder} for more than {timeout:g} s",
            hint=f"wait for it to end; if it hangs, stop that process (lock file: {path})",
        ) from error
    try:
        # Only for the message of others that wait: the lock itself is `path`.
        owner.write_text(f"process {os.getpid()} on {os.uname().nodename}")
        yield
    finally:
        try:
            owner.unlink(missing_ok=True)
        finally:
            lock.release()
