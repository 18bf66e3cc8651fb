"""What planning remembers from one time to the next, so that it reads only what changed: a cache, which may be lost.

Digests of files go by path, size, times and inode. A file that was changed so shortly before it was read that another
change would show the same times is not remembered (git calls such entries racy): it is digested again next time.

It lies in the user's data folder, not in the state folder: builders can write there, and a remembered spec decides what
is built and signed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tfaot_pkg.code import code_digest
from tfaot_pkg.documents import read_json
from tfaot_pkg.errors import StorageError
from tfaot_pkg.folders import Folders
from tfaot_pkg.keys import canonical_json, sha256_bytes, sha256_file
from tfaot_pkg.spec import load_spec
from tfaot_pkg.spec.tuning import tuning_path
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.storage import storage_errors, write_file

_RACY = 2_000_000_000
"""Nanoseconds: the coarsest clock of file systems in use counts in steps of 2 s."""
_DIGITS = 16
_SPECS = TypeAdapter(dict[str, ModelSpec])

Stamp = tuple[int, ...]


@dataclass(slots=True)
class Memory:
    """Digests of files, parsed specs, and which targets a published validation did not run.

    Used entries are kept; `clock` is the time in ns since 1970, as the file systems' clocks have it.
    """

    digests: dict[str, tuple[Stamp, str]] = field(default_factory=dict)
    specs: dict[str, ModelSpec] = field(default_factory=dict)
    not_run: dict[str, tuple[str, ...]] = field(default_factory=dict)
    clock: Callable[[], int] = time.time_ns
    used: set[str] = field(default_factory=set)
    changed: bool = False

    @classmethod
    def of(cls, file: Path) -> Memory:
        """What `file` remembers; nothing where that is missing or damaged."""
        try:
            document = read_json(file.read_bytes())
            if document["made by"] != _maker():
                return cls()
            return cls(
                digests={path: (tuple(stamp), digest) for path, (stamp, digest) in document["digests"].items()},
                specs=_SPECS.validate_python(document["specs"]),
                not_run={digest: tuple(names) for digest, names in document["not run"].items()},
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
            return cls()

    def keep(self, file: Path, *, whole: bool) -> None:
        """Write it to `file` where it changed; where the disk refuses, planning is slow next time, nothing else.

        `whole` says that everything was planned: what was not used then is dropped.
        """
        tables: dict[str, Mapping[str, Any]] = {
            "digests": self.digests,
            "specs": _SPECS.dump_python(self.specs, mode="json") if self.changed or whole else {},
            "not run": self.not_run,
        }
        if whole and any(key not in self.used for table in tables.values() for key in table):
            tables = {name: {key: table[key] for key in table if key in self.used} for name, table in tables.items()}
            self.changed = True
        if self.changed:
            with suppress(StorageError), storage_errors(f"write {file}"):
                write_file(file, canonical_json({"made by": _maker(), **tables}))

    def digest(self, path: Path) -> str:
        """SHA-256 of a file. Raises OSError."""
        before = self.clock()
        name, stamp = str(path), _stamp(path)
        known = self.digests.get(name)
        if known is not None and known[0] == stamp:
            self.used.add(name)
            return known[1]
        digest = sha256_file(path)
        if max(stamp[:2]) < before - _RACY:
            self.digests[name] = (stamp, digest)
            self.used.add(name)
            self.changed = True
        else:
            self.changed = self.digests.pop(name, None) is not None or self.changed
        return digest

    def spec(self, path: Path, defines: Mapping[str, str]) -> ModelSpec:
        """`load_spec`. Raises SpecError."""
        try:
            key = self._key_of(path, defines)
            if key not in self.specs:
                found = load_spec(path, defines)
                if self._key_of(path, defines) != key:  # the files changed in between: what was read has another key
                    return found
                self.specs[key] = found
                self.changed = True
        except OSError:
            return load_spec(path, defines)  # says what is wrong
        self.used.add(key)
        return self.specs[key]

    def _key_of(self, path: Path, defines: Mapping[str, str]) -> str:
        tuning = tuning_path(path)
        digests = [self.digest(path), self.digest(tuning) if tuning.exists() else ""]
        return sha256_bytes(canonical_json([str(path), *digests, dict(defines)]))

    def validation(self, digest: str, read: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """Which targets the validation with this SHA-256 did not run; `read` finds out."""
        if digest not in self.not_run:
            self.not_run[digest] = read()
            self.changed = True
        self.used.add(digest)
        return self.not_run[digest]


def memory_file(folders: Folders, state: Path) -> Path:
    """Where planning with the state folder `state` remembers."""
    return folders.data / "nightly" / f"{sha256_bytes(os.fsencode(state.resolve()))[:_DIGITS]}.json"


def _stamp(path: Path) -> Stamp:
    """What changes when a file does. The second is set by the kernel alone: programs can set the first back."""
    status = os.stat(path)
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)


def _maker() -> str:
    """The code that made what is remembered."""
    return code_digest("tfaot_pkg.spec.parse", __name__)
