"""Results of builds by key: a folder, which appears in one step, or a file beside it if the build failed.

A task whose key has a result is not built again. Failures are in files of their own, so a late worker (one that was
given up, or whose coordinator was killed) can never replace a verified result with a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.documents import read, read_json, write
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.storage import new_folder, remove_folder, storage_errors, write_file
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.nightly.outcome import Attempt
from tfaot_pkg.nightly.types import Policy

if TYPE_CHECKING:
    from tfaot_pkg.pipeline.publish import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """The file of a result."""

    attempt: Attempt
    format: int = 1


FAILED = ".failed.json"
"""Suffix of the files of failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results in the state folder `root`. Methods raise StorageError."""

    root: Path

    def folder(self, key: Key) -> Path:
        return self.root / "results" / key[:2] / key

    def failure(self, key: Key) -> Path:
        """The file that says how the last failed build of `key` ended."""
        return self.folder(key).with_name(f"{key}{FAILED}")

    def get(self, key: Key, night: str) -> Attempt | None:
        """The result of `key`: verified in any night, or failed in `night`; None if it must be built."""
        verified = _read(self.folder(key) / "result.json")
        if verified is not None and verified.kind == "verified":
            return verified
        failed = _read(self.failure(key))
        return failed if failed is not None and failed.night == night else None

    def remembered(self, key: Key, policy: Policy) -> Attempt | None:
        """How an earlier build of `key` failed, if it would end so again and no other one was verified."""
        failed = _read(self.failure(key))
        if failed is None or not failed.would_end_so(policy) or self.get(key, "") is not None:
            return None
        return failed

    def put(self, key: Key, attempt: Attempt, release: Release | None = None, *, again: bool = False) -> None:
        """Record the result of `key`; `release` is that of a verified build. The first verified result stays, unless
        `again`.
        """
        folder = self.folder(key)
        content = write(_Document(attempt=attempt))
        with storage_errors(f"write {folder}"):
            if release is None:
                write_file(self.failure(key), content)
                return
            present = self.get(key, attempt.night)
            if present is not None and present.kind == "verified" and not again:
                return
            if folder.exists():
                remove_folder(folder)  # damaged: `get` could not read it
            with new_folder(folder) as temporary:
                write_file(temporary / "line", release.entry.line())
                for role, blob in release.blobs.items():
                    write_file(temporary / "blobs" / role, blob if isinstance(blob, bytes) else blob.read_bytes())
                write_file(temporary / "result.json", content)

    def release(self, key: Key) -> Release:
        """The release of a verified build of `key`, for publication. Raises StorageError if it is damaged."""
        from tfaot_pkg.pipeline.publish import Release  # planning needs results, but not this
        from tfaot_pkg.registry.entry import parse_index

        folder = self.folder(key)
        with storage_errors(f"read {folder}"):
            line = (folder / "line").read_bytes()
        try:
            (one,) = parse_index(line, str(folder / "line"), read_json(line)["name"])
            if one.entry is None:
                raise ValueError("written by a newer version of tfaot-pkg")
        except (ValueError, KeyError) as error:
            raise StorageError(f"{folder} is damaged: {error}", hint="delete this folder: it is built again") from error
        return Release(entry=one.entry, blobs={role: folder / "blobs" / role for role in one.entry.blobs})

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A temporary directory for one build, removed after the block."""
        with storage_errors(f"write {self.root}"):
            root = self.root / "scratch"
            root.mkdir(parents=True, exist_ok=True)
        with temporary_folder(root, prefix="") as folder:
            yield folder


def _read(path: Path) -> Attempt | None:
    """The attempt in a file; None if it is missing or damaged: then the task is built again."""
    with storage_errors(f"read {path}"):
        text = path.read_bytes() if path.exists() else b""
    try:
        return read(_Document, text, str(path), error=StorageError, hint="it is built again").attempt
    except StorageError:
        return None
