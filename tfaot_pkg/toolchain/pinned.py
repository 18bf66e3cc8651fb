"""Virtual environments made on demand from pinned, hashed requirements: TensorFlow's, and those of engines beside it.

A virtual environment cannot be moved, so it is made in place, under a lock, and counts only once its marker is there,
which is written last: what a killed run leaves is wiped by the next one.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.documents import read_json
from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.folders import Folders
from tfaot_pkg.progress import Progress
from tfaot_pkg.storage import locked, storage_errors, write_file
from tfaot_pkg.toolchain.installation import install
from tfaot_pkg.toolchain.interpreter import Interpreter

_MARKER = ".complete"
_LOCK_TIMEOUT = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonEnvironment:
    """A Python and the packages that it has; `identity` (64 hexadecimal digits, for keys) tells which they are."""

    python: Path
    site_packages: Path
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """What an environment is made of: the lock file `requirements`.

    `title` is for people, `stem` begins the names of its folders. `identity` is the same on every machine.
    """

    title: str
    stem: str
    requirements: Path
    identity: str

    def environments(self, folders: Folders) -> list[PythonEnvironment]:
        """Those that are there, made by whichever Python, sorted by folder."""
        return [found for folder in folders_of(self.stem, folders) if (found := self._read(folder))]

    def ensure(
        self, interpreter: Interpreter, *, folders: Folders, progress: Progress, wheelhouse: Path | None
    ) -> PythonEnvironment:
        """The environment of `interpreter`, made now where it is missing; from the wheels in `wheelhouse`, if given.

        Raises ToolchainError, NetworkError, TrustError, StorageError.
        """
        folder = folders.toolchains / f"{self.stem}-py{interpreter.minor}-{self.identity[:12]}"
        with storage_errors(f"make the environment {folder}"), exclusive(folder) as lock:
            found = self._read(folder)
            if found is None:
                log = folders.logs / f"{folder.name}.log"
                self._make(folder, interpreter, lock=lock, log=log, progress=progress, wheelhouse=wheelhouse)
                found = self._read(folder)
        if found is None:
            raise ToolchainError(f"the environment {folder} is not there although it was made", log=log)
        return found

    def _read(self, folder: Path) -> PythonEnvironment | None:
        """The environment in `folder`; None where it is incomplete, of other packages, or has lost its Python."""
        try:
            marker = read_json((folder / _MARKER).read_bytes())
        except (OSError, ValueError):
            return None
        python = folder / "bin" / "python"
        site_packages = next(folder.glob("lib/python3.*/site-packages"), None)
        if marker.get("identity") != self.identity or site_packages is None or not python.exists():
            return None
        return PythonEnvironment(python=python, site_packages=site_packages, identity=self.identity)

    def _make(
        self,
        folder: Path,
        interpreter: Interpreter,
        *,
        lock: int,
        log: Path,
        progress: Progress,
        wheelhouse: Path | None,
    ) -> None:
        """Fill `folder`, whose `lock` the caller holds; whatever goes wrong, nothing of it stays."""
        log.unlink(missing_ok=True)
        _wipe(folder)
        try:
            install(
                interpreter=interpreter, folder=folder, requirements=self.requirements, wheelhouse=wheelhouse,
                what=self.title, log=log, progress=progress, pass_fds=(lock,),
            )  # fmt: skip
            write_file(folder / _MARKER, json.dumps({"identity": self.identity}).encode())
        except BaseException:
            with suppress(OSError):  # what went wrong matters more than what could not be wiped
                _wipe(folder)
            raise


def folders_of(stem: str, folders: Folders) -> list[Path]:
    """All environments whose names begin so, whatever their Python, packages and state."""
    if not folders.toolchains.is_dir():
        return []
    return sorted(each for each in folders.toolchains.iterdir() if each.name.startswith(f"{stem}-py") and each.is_dir())


def remove_environment(folder: Path) -> None:
    """Raises StorageError where it is being made right now."""
    with exclusive(folder, timeout=5):
        _wipe(folder)


@contextmanager
def exclusive(folder: Path, *, timeout: float = _LOCK_TIMEOUT) -> Iterator[int]:
    """Hold `folder` alone; gives a file handle that programs which write into it must inherit.

    The lock of a killed process is free at once, but the pip that it started goes on for a while. It has inherited
    the second lock, so nobody touches the folder before it has ended.
    """
    with locked(folder.with_name(folder.name + ".lock"), what=f"the environment {folder.name}", timeout=timeout):
        handle = os.open(folder.with_name(folder.name + ".writers.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)


def _wipe(folder: Path) -> None:
    """Delete `folder`, its marker first: a kill in between leaves no half that looks whole."""
    (folder / _MARKER).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)
