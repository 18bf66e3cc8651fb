"""Builds that several independent builders have to make alike before they count: policy.builders.

Builders are told apart by their keys. Each result is kept apart from the others until enough have the same bytes; then
the first of these becomes the result. Documents about a build, which name what its machine could run and measure, may
differ: the publisher checks them (documents.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.storage import remove_folder, storage_errors
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.pipeline.publish import Release
from tfaot_pkg.registry.archive import unpack
from tfaot_pkg.registry.files.layout import PREFIX
from tfaot_pkg.registry.reader import FILES, PROVENANCE, SBOM, VALIDATION
from tfaot_pkg.verify.oracle import REFERENCE_FILE

_OF_THE_MACHINE = frozenset({*(FILES[role] for role in (PROVENANCE, SBOM, VALIDATION)), REFERENCE_FILE})
_SHOWN = 5


def builder_of(worker: str) -> str:
    """The end of a worker's name, which is that of its key (identity.py)."""
    return worker.rpartition("-")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    attempt: Attempt
    release: Release
    tree: str
    files: Mapping[str, str]

    def differs_from(self, other: _Built) -> tuple[str, ...]:
        """The files that one has otherwise than the other; none if they are alike."""
        if self.tree == other.tree:
            return ()
        paths = self.files.keys() | other.files.keys()
        found = sorted(path for path in paths if self.files.get(path) != other.files.get(path))
        return tuple(found) or (("the archive",) if not self.files or not other.files else ())


@dataclass(kw_only=True)
class Agreement:
    """The results of one request, of which `needed` of at most `most` builders must have made the same."""

    request: Request
    needed: int
    most: int
    _built: dict[str, _Built] = field(default_factory=dict)

    @property
    def builders(self) -> frozenset[str]:
        """Who built it: no one builds it twice."""
        return frozenset(self._built)

    def place(self, worker: str) -> Results:
        """Where the result of `worker` is kept."""
        return Results(root=self._folder / builder_of(worker))

    def add(self, attempt: Attempt) -> tuple[Attempt | None, Mapping[str, tuple[str, ...]]]:
        """Count the verified `attempt`. Returns how the build ends (None: another builder is needed), and by worker the
        files that it made otherwise than those who agree.
        """
        self._built[builder_of(attempt.worker)] = self._read(attempt)
        alike = {
            name: [other for other in self._built if not one.differs_from(self._built[other])]
            for name, one in self._built.items()
        }
        first = max(alike, key=lambda name: len(alike[name]))
        chosen = self._built[first]
        if len(alike[first]) >= self.needed:
            agreed = replace(chosen.attempt, builders=tuple(sorted(alike[first])))
            Results(root=self.request.state).put(self._key, agreed, chosen.release, again=True)
            self.drop()
            odd = (one for name, one in self._built.items() if name not in alike[first])
            return agreed, {one.attempt.worker: one.differs_from(chosen) for one in odd}
        if len(self._built) < self.most:
            return None, {}
        self.drop()
        return self._failed(), {}

    def _failed(self) -> Attempt:
        """They do not agree: a fault of the model, whose build is not reproducible, or of most builders."""
        first, *others = self._built.values()
        lines = [
            f"  {one.attempt.worker} and {first.attempt.worker}: {', '.join(found[:_SHOWN])}"
            for one in others
            if (found := one.differs_from(first))
        ]
        error = (
            f"{len(self._built)} builders made no {self.needed} packages with the same bytes (policy.builders):\n"
            + "\n".join(lines)
        )
        attempt = replace(
            first.attempt, kind="not reproducible", error=error, error_class="builders differ", figures=None
        )
        Results(root=self.request.state).put(self._key, attempt)
        return attempt

    def _read(self, attempt: Attempt) -> _Built:
        release = self.place(attempt.worker).release(self._key)
        archive = release.blobs[PREFIX]
        assert isinstance(archive, Path)
        try:
            with temporary_folder(prefix="tfaot-agree-") as scratch, archive.open("rb") as stream:
                files = unpack(stream, scratch, what=str(release.entry), durable=False).files
        except (TfaotError, OSError):  # the publisher says what is wrong with it, if it is the one
            files = {}
        code = {path: digest for path, digest in files.items() if PurePosixPath(path).name not in _OF_THE_MACHINE}
        return _Built(attempt=attempt, release=release, tree=release.entry.tree, files=code)

    def drop(self) -> None:
        """Remove what is kept apart."""
        with storage_errors(f"remove {self._folder}"):
            if self._folder.exists():
                remove_folder(self._folder)

    @property
    def _key(self) -> Key:
        return self.request.decision.key

    @property
    def _folder(self) -> Path:
        return self.request.state / "candidates" / self._key
