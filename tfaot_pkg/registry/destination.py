"""Where a mirror is written: the port, its form for a folder, and transfers that run at once.

oci/destination.py is the form for a repository of an OCI registry.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from tfaot_pkg.errors import RegistryError, TfaotError
from tfaot_pkg.ground.http.connection import AT_ONCE
from tfaot_pkg.ground.storage import locked, make_folder, storage_errors
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.files import Files, FolderFiles
from tfaot_pkg.registry.files.layout import CONFIG, LOCK
from tfaot_pkg.registry.files.mirrored import MIRROR, Mirrored
from tfaot_pkg.registry.folder import require_empty
from tfaot_pkg.registry.storage import FolderStorage

Contents = Mapping[str, Mapping[str, BlobRef]]
"""Content by what it belongs to (the path of a search shard, for its packages), then by path."""


class Destination(Protocol):
    """Where a mirror is written. All raise RegistryError, StorageError, NetworkError.

    Paths have the form of a registry's (files/layout.py, `is_file_path`). Nobody reads what `close` did not end.
    """

    @property
    def location(self) -> str: ...

    @property
    def files(self) -> Files:
        """What the mirror has now."""

    @property
    def local(self) -> FolderFiles | None:
        """The same, if that is on this machine."""

    @property
    def scratch(self) -> Path:
        """The folder for downloads, on the disk of what `bring` asks for."""

    def opened(self, timeout: float) -> AbstractContextManager[None]:
        """Around one run. Another run on this machine waits; after `timeout` seconds, that is a StorageError."""

    def begin(self, mirrored: Mirrored, contents: Contents) -> None:
        """It becomes that mirror, with these contents beside what `close` gets."""

    def has(self, path: str, blob: BlobRef) -> bool:
        """Whether content is there, as far as that can be told at once."""

    def bring(self, path: str, blob: BlobRef, fetch: Callable[[Path], None]) -> bool:
        """Write the verified file that `fetch` makes; False if it was there. Several may run at once."""

    def close(self, closing: Mapping[str, bytes]) -> set[str]:
        """Write files that name the others, in this order; the paths of those that were not there yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderDestination:
    """A folder that is new, empty or a mirror."""

    root: Path

    @classmethod
    def at(cls, root: Path) -> FolderDestination:
        """Raises RegistryError if the folder holds something else."""
        root = root.absolute()
        with storage_errors(f"read {root}"):
            if root.exists() and not (root / MIRROR).exists():
                if (root / CONFIG).exists():
                    raise RegistryError(
                        f"{root} is a registry of its own, and no mirror", hint="name a new folder for the mirror"
                    )
                require_empty(root)
        return cls(root=root)

    @property
    def location(self) -> str:
        return str(self.root)

    @property
    def files(self) -> FolderStorage:
        return FolderStorage(root=self.root)

    @property
    def local(self) -> FolderFiles | None:
        return self.files

    @property
    def scratch(self) -> Path:
        # Beside the mirror: what was received is moved to its place, and never on this disk twice.
        return self.root / ".mirror"

    @contextmanager
    def opened(self, timeout: float) -> Iterator[None]:
        with storage_errors(f"write the mirror {self.root}"):
            make_folder(self.root)
            with locked(self.root / LOCK, what=f"the mirror {self.root}", timeout=timeout):
                yield

    def begin(self, mirrored: Mirrored, contents: Contents) -> None:
        if not self.files.has(MIRROR):
            self.files.put(MIRROR, mirrored.to_bytes())

    def has(self, path: str, blob: BlobRef) -> bool:
        final = self.root / path
        # Its name was given to verified content only; `registry verify` finds what a disk has done to it since.
        return final.is_file() and final.stat().st_size == blob.size

    def bring(self, path: str, blob: BlobRef, fetch: Callable[[Path], None]) -> bool:
        fetch(self.root / path)
        return True

    def close(self, closing: Mapping[str, bytes]) -> set[str]:
        written = set()
        for path, data in closing.items():
            final = self.root / path
            if not final.is_file() or final.read_bytes() != data:
                self.files.put(path, data)
                written.add(path)
        for leftover in ("content", "partial"):
            shutil.rmtree(self.scratch / leftover, ignore_errors=True)
        return written


class Stopped(TfaotError):
    """Another transfer has failed."""


_T = TypeVar("_T")
_R = TypeVar("_R")


def at_once(work: Callable[[_T], _R], items: Sequence[_T], stop: threading.Event) -> Iterator[_R]:
    """The results of `work`, several at a time, in the order of `items`; after an error nothing more is begun."""
    errors: list[BaseException] = []

    def guarded(item: _T) -> _R:
        try:
            if stop.is_set():
                raise Stopped("another transfer has failed")
            return work(item)
        except BaseException as error:
            errors.append(error)
            # Ends also what has begun: a download may take an hour, and what it has received is kept.
            stop.set()
            raise

    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        yield from pool.map(guarded, items)
    except Stopped:
        raise errors[0] from None
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
        stop.clear()
        # Errors refer to this list by their traceback, and would keep connections open until that is found.
        errors.clear()
