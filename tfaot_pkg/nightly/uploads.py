"""Published packages that a Conan remote does not have yet: noted before an upload begins, until it is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.documents import read_json
from tfaot_pkg.errors import StorageError
from tfaot_pkg.keys import canonical_json
from tfaot_pkg.nightly.documents import decision_document, decision_of
from tfaot_pkg.nightly.types import Decision
from tfaot_pkg.storage import storage_errors, write_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploads:
    """The notes in the state folder `root`: `uploads/<REMOTE>/<KEY>.json`. Methods raise StorageError."""

    root: Path

    def begin(self, remote: str, decision: Decision) -> None:
        """Note that the package of `decision` is missing on `remote`."""
        path = self._path(remote, decision)
        with storage_errors(f"write {path}"):
            write_file(path, canonical_json(decision_document(decision)) + b"\n")

    def end(self, remote: str, decision: Decision) -> None:
        """Note that `remote` has it, or will never need it."""
        path = self._path(remote, decision)
        with storage_errors(f"remove {path}"):
            path.unlink(missing_ok=True)

    def missing(self, remote: str) -> tuple[Decision, ...]:
        """What `remote` does not have, by release."""
        folder = self.root / "uploads" / remote
        with storage_errors(f"read {folder}"):
            found = [_read(path) for path in folder.glob("*.json")] if folder.is_dir() else []
        return tuple(sorted(found, key=lambda one: (one.task.model, one.release)))

    def _path(self, remote: str, decision: Decision) -> Path:
        return self.root / "uploads" / remote / f"{decision.key}.json"


def _read(path: Path) -> Decision:
    try:
        decision = decision_of(read_json(path.read_bytes()), str(path))
    except (ValueError, TypeError) as error:
        raise StorageError(f"{path} is damaged: {error}", hint="delete it, and upload the package by hand") from error
    if path.name != f"{decision.key}.json":  # a key is a part of paths
        raise StorageError(f"{path} is damaged: it is about {decision.key}", hint="delete it")
    return decision
