"""A program that is confined, ready to run: the only form in which one is started. Its use of the disk is watched.

No kernel counts the disk for one program. The limit of a single file is the kernel's (RLIMIT_FSIZE, enter.py); what
many files take together is looked at several times per second, so a program may exceed its limit by what it writes in
between.
"""

from __future__ import annotations

import os
import stat
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg import process
from tfaot_pkg.process import CommandFailed, Finished
from tfaot_pkg.process_tree import kill_tree, tree_of
from tfaot_pkg.walk import entries_below

MOST_OF_LOG = 64 << 20
"""Bytes that a program may print into a log."""

_BLOCK = 512  # of st_blocks, whatever the file system's is
_LEAST = 4096  # bytes that a name counts for: empty files fill a disk too
_INTERVAL = 0.2  # seconds
_SHARE = 50  # looks take no more than this part of the time
_GIGABYTE = 1 << 30


class DiskWatch:
    """Kills a program that takes more than `most` bytes below `folders`, or prints more than MOST_OF_LOG into `log`.

    Use it around the program's life, and `begin` when it runs. `fault` says afterwards what it did, if anything.
    """

    def __init__(self, folders: Sequence[Path], most: int, log: Path | None = None) -> None:
        self._folders, self._most, self._log = folders, most, log
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.fault = ""

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        self._thread = threading.Thread(target=self._watch, args=(process,), daemon=True, name="disk watch")
        self._thread.start()

    def end(self) -> None:
        """Look for the last time; the program has ended. A log that is too long is cut."""
        self._ended.set()
        if (thread := self._thread) is not None:
            thread.join()
        self.fault = self.fault or self._found(())
        if self._log is not None and self._log.exists() and self._log.stat().st_size > MOST_OF_LOG:
            os.truncate(self._log, MOST_OF_LOG)

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        cost = 0.0
        while not self._ended.wait(max(_INTERVAL, _SHARE * cost)):
            start = time.monotonic()
            self.fault = self._found(tree_of(process.pid))
            if self.fault:
                kill_tree(process.pid)
                return
            cost = time.monotonic() - start

    def _found(self, processes: Iterable[int]) -> str:
        """What is wrong with what lies there now."""
        try:
            if self._log is not None and self._log.stat().st_size > MOST_OF_LOG:
                return f"printed more than {MOST_OF_LOG >> 20} MiB"
            if self._most and _taken(self._folders, processes, self._most) > self._most:
                return f"wrote more than {self._most / _GIGABYTE:g} GiB (TFAOT_WORKER_DISK)"
        except OSError as error:
            return f"wrote what cannot be looked at: {error.strerror}"
        return ""


def _taken(folders: Sequence[Path], processes: Iterable[int], most: int) -> int:
    """Bytes below `folders`, with files that have no name any more; counting ends above `most`."""
    taken = 0
    for folder in folders:
        for entry in entries_below(folder):
            try:
                taken += _size(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            if taken > most:
                return taken
    devices = {os.stat(folder).st_dev for folder in folders if folder.exists()}
    return taken + sum(_nameless(processes, devices).values())


def _nameless(processes: Iterable[int], devices: set[int]) -> dict[tuple[int, int], int]:
    """Bytes of files on `devices` that were removed while processes have them open or mapped, by device and number."""
    found: dict[tuple[int, int], int] = {}
    for pid in processes:
        with suppress(OSError):  # it has ended
            for device, number, size in (*_open_files(pid), *_mapped_files(pid)):
                if device in devices:
                    found[device, number] = max(size, found.get((device, number), 0))
    return found


def _open_files(process: int) -> Iterator[tuple[int, int, int]]:
    """Device, number and size of the removed files that a process has open."""
    for name in os.listdir(f"/proc/{process}/fd"):
        with suppress(FileNotFoundError):
            status = os.stat(f"/proc/{process}/fd/{name}")
            if status.st_nlink == 0 and stat.S_ISREG(status.st_mode):
                yield status.st_dev, status.st_ino, _size(status)


def _mapped_files(process: int) -> Iterator[tuple[int, int, int]]:
    """As `_open_files`, of those that it has mapped: up to where the last page of them is mapped; proc_pid_maps(5)."""
    for line in Path(f"/proc/{process}/maps").read_bytes().splitlines():
        if line.endswith(b" (deleted)"):
            addresses, _, offset, device, number = line.split(None, 5)[:5]
            first, last = (int(address, 16) for address in addresses.split(b"-"))
            major, minor = (int(part, 16) for part in device.split(b":"))
            yield os.makedev(major, minor), int(number), int(offset, 16) + last - first


def _size(status: os.stat_result) -> int:
    return max(_LEAST, status.st_blocks * _BLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`argv` is what is started, with `env` as its whole environment; `meant` is the program as people name it.

    `timeout` is in seconds; it holds for `run`. Below `writable` it may take `disk` bytes (0: no limit).
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    meant: tuple[str, ...]
    timeout: float
    writable: tuple[Path, ...] = ()
    disk: int = 0

    def run(self, *, log: Path | None = None, stdin: bytes | None = None) -> Finished:
        """As `process.run`. Raises CommandFailed, which tells of the program, not of its sandbox."""
        watch = DiskWatch(self.writable, self.disk)
        try:
            finished = process.run(
                self.argv, env=self.env, timeout=self.timeout, log=log, stdin=stdin, started=watch.begin
            )
        except CommandFailed as error:
            watch.end()
            raise CommandFailed(self.meant, None, watch.fault or error.reason, error.output) from error
        finally:
            watch.end()
        if watch.fault:
            raise CommandFailed(self.meant, None, watch.fault, finished.stderr or finished.stdout)
        return finished

    def start(self, *, stdin: int, log: BinaryIO, pass_fds: Sequence[int] = ()) -> Running:
        """Start it; it prints to the file `log`, and `pass_fds` stay open in it. Raises OSError."""
        started = process.start(self.argv, env=self.env, stdin=stdin, stdout=log, stderr=log, pass_fds=pass_fds)
        watch = DiskWatch(self.writable, self.disk, Path(log.name))
        watch.begin(started)
        return Running(process=started, watch=watch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A confined program that was started; its owner calls `end`."""

    process: subprocess.Popen[bytes]
    watch: DiskWatch

    def end(self) -> None:
        """Kill it, unless it has ended; it is gone when this returns. Again and again is harmless."""
        process.end(self.process)
        self.watch.end()

    @property
    def fault(self) -> str:
        """The limit of the disk that it did not keep, of which it was killed; "" if it did."""
        return self.watch.fault
