"""A confined program, ready to run, and the watch over what it uses. Programs are started in this form only.

The kernel counts neither the disk space of one program, nor its memory and threads where it may not make a control
group. It limits single files, addresses and a user's threads (enter.py); the sums are measured several times per
second, so a program may exceed its limits by what it takes in between.
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

from tfaot_pkg.ground import process
from tfaot_pkg.ground.process import CommandFailed, Finished
from tfaot_pkg.ground.process_tree import kill_tree, own_memory, threads_of, tree_of
from tfaot_pkg.ground.walk import entries_below

MOST_OF_LOG = 64 << 20
"""Bytes that a program may print into a log."""

_BLOCK = 512  # of st_blocks, whatever the file system's is
_LEAST = 4096  # bytes that a name counts for: empty files fill a disk too
# Decision 027: five looks a second, as long as they take less than 2 % of the time.
_INTERVAL = 0.2  # seconds
_SHARE = 50  # looks take no more than this part of the time
_GIGABYTE = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Most:
    """Bytes below the writable folders, bytes of memory, and threads: of all processes of a program (0: no limit)."""

    disk: int = 0
    memory: int = 0
    threads: int = 0


class Watch:
    """Kills a program that takes more than `most`, also below `folders`, or prints more than MOST_OF_LOG into `log`.

    Call `begin` when the program runs and `end` after it. `fault` then says which limit it exceeded, if any.
    """

    def __init__(self, folders: Sequence[Path], most: Most, log: Path | None = None) -> None:
        self._folders, self._most, self._log = folders, most, log
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.fault = ""

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        self._thread = threading.Thread(target=self._watch, args=(process,), daemon=True, name="watch of a program")
        self._thread.start()

    def end(self) -> None:
        """Measure a last time, after the program has ended. A log that is too long is truncated."""
        self._ended.set()
        if (thread := self._thread) is not None:
            thread.join()
        # A program may write more than its limit and end between two looks.
        self.fault = self.fault or self._found(())
        if self._log is not None and self._log.exists() and self._log.stat().st_size > MOST_OF_LOG:
            # Errors quote the log, and users keep it: both need a limit.
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

    def _found(self, processes: Sequence[int]) -> str:
        """Which limit is exceeded now ("" if none)."""
        most = self._most
        if most.threads and sum(map(threads_of, processes)) > most.threads:
            return f"started more than {most.threads:,} threads and processes (TFAOT_WORKER_THREADS)"
        if most.memory and sum(map(own_memory, processes)) > most.memory:
            return f"took more than {most.memory / _GIGABYTE:.4g} GiB of memory (TFAOT_WORKER_MEMORY)"
        try:
            if self._log is not None and self._log.stat().st_size > MOST_OF_LOG:
                return f"printed more than {MOST_OF_LOG >> 20} MiB"
            if most.disk and _taken(self._folders, processes, most.disk) > most.disk:
                return f"wrote more than {most.disk / _GIGABYTE:g} GiB (TFAOT_WORKER_DISK)"
        # Folders without permissions, or nested too deeply, would hide what is below them.
        except OSError as error:
            return f"wrote files that cannot be listed: {error.strerror}"
        return ""


def _taken(folders: Sequence[Path], processes: Iterable[int], most: int) -> int:
    """Bytes below `folders`, including removed files that are in use; counting stops above `most`."""
    taken = 0
    for folder in folders:
        for entry in entries_below(folder):
            try:
                taken += _size(entry.stat(follow_symlinks=False))
            # Removed since its folder was read.
            except FileNotFoundError:
                continue
            if taken > most:
                return taken
    devices = {os.stat(folder).st_dev for folder in folders if folder.exists()}
    return taken + sum(_nameless(processes, devices).values())


def _nameless(processes: Iterable[int], devices: set[int]) -> dict[tuple[int, int], int]:
    """Bytes of removed files on `devices` that processes still have open or mapped, by device and inode."""
    found: dict[tuple[int, int], int] = {}
    for pid in processes:
        with suppress(OSError):  # it has ended
            for device, number, size in (*_open_files(pid), *_mapped_files(pid)):
                if device in devices:
                    # By inode: several processes, or several mappings, share the space of one file.
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
    """As `_open_files`, for mapped files: their size up to the end of the mapping; proc_pid_maps(5)."""
    for line in Path(f"/proc/{process}/maps").read_bytes().splitlines():
        if line.endswith(b" (deleted)"):
            addresses, _, offset, device, number = line.split(None, 5)[:5]
            first, last = (int(address, 16) for address in addresses.split(b"-"))
            major, minor = (int(part, 16) for part in device.split(b":"))
            # /proc/PID/map_files would give the file's own size, but only to administrators.
            yield os.makedev(major, minor), int(number), int(offset, 16) + last - first


def _size(status: os.stat_result) -> int:
    return max(_LEAST, status.st_blocks * _BLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The command line `argv` with the complete environment `env`; messages show `meant`, which is without the sandbox.

    `timeout` is in seconds and applies to `run`. It is killed if it takes more than `most`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    meant: tuple[str, ...]
    timeout: float
    writable: tuple[Path, ...] = ()
    most: Most = Most()

    def run(self, *, log: Path | None = None, stdin: bytes | None = None) -> Finished:
        """As `process.run`. Raises CommandFailed, which names the program and not its sandbox."""
        watch = Watch(self.writable, self.most)
        try:
            finished = process.run(
                self.argv, env=self.env, timeout=self.timeout, log=log, stdin=stdin, started=watch.begin
            )
        except CommandFailed as error:
            # Before `watch.fault` is read: its last look may be the one that finds the fault.
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
        watch = Watch(self.writable, self.most, Path(log.name))
        watch.begin(started)
        return Running(process=started, watch=watch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A confined program that was started; its owner calls `end`."""

    process: subprocess.Popen[bytes]
    watch: Watch

    def end(self) -> None:
        """Kill it, unless it has ended; it is gone when this returns. May be called several times."""
        process.end(self.process)
        self.watch.end()

    @property
    def fault(self) -> str:
        """The limit for which it was killed; "" if it was not."""
        return self.watch.fault
