"""The source bundle of a build: all files that it reads, under names that depend on no machine.

    spec/       the spec, what lies beside it, and what it names below its folder
    outside/    files of rows elsewhere, each in a folder of its own
    source/     the model's files, as in the root of its source

A key depends on paths below the spec's folder, and on the last names of others (spec/document.py): both stay.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tfaot_pkg.errors import StorageError, TrustError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.nightly.farm.messages import Job
from tfaot_pkg.nightly.farm.store import Store, fetch
from tfaot_pkg.nightly.models import spec_for
from tfaot_pkg.nightly.types import Decision
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.tuning import tuning_path
from tfaot_pkg.spec.types import ModelSpec

SPEC, OUTSIDE, SOURCE = "spec", "outside", "source"
MOST_BYTES = 64 << 30
"""Of all files of a bundle together, against mistakes: a worker's disk must not fill."""
_MOST_FILES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Local files by their paths in the bundle; `data` as in `Job`."""

    files: Mapping[str, Path]
    data: Mapping[str, str] = field(default_factory=dict)


def bundle_of(decision: Decision, folders: Folders) -> Bundle:
    """The bundle of `decision`. Raises SpecError, SourceError, NetworkError, StorageError."""
    spec = spec_for(decision.task, decision.release)
    source = Pipeline(folders=folders, progress=Silent()).source(spec)
    top = source.folder.relative_to(source.root).as_posix()
    files = {str(PurePosixPath(SOURCE, top, name)): source.folder / name for name in source.files}
    beside = (spec.path, tuning_path(spec.path), *([spec.card_file] if spec.card_file else []))
    files |= {_below(spec, path): path for path in beside if path.exists()}
    data = {key: _place(spec, key, path) for key, path in spec.data_files.items()}
    return Bundle(files={**files, **{data[key]: path for key, path in spec.data_files.items()}}, data=data)


def _below(spec: ModelSpec, path: Path) -> str:
    relative = os.path.relpath(path, spec.folder)
    if relative.startswith(".."):
        raise StorageError(
            f"{path} is outside of the spec's folder {spec.folder}: other machines do not have it",
            hint="copy it beside the spec",
        )
    return str(PurePosixPath(SPEC, relative))


def _place(spec: ModelSpec, key: str, path: Path) -> str:
    relative = os.path.relpath(path, spec.folder)
    return str(PurePosixPath(OUTSIDE, key, path.name) if relative.startswith("..") else PurePosixPath(SPEC, relative))


def unbundle(store: Store, job: Job, folder: Path) -> None:
    """Write the files of `job` into the empty `folder`. Raises TrustError, StorageError, NetworkError."""
    left = MOST_BYTES
    if len(job.files) > _MOST_FILES:
        raise TrustError(f"the source bundle has {len(job.files):,} files")
    for path, digest in job.files.items():
        place = folder / require_inner(path)
        with storage_errors(f"write {place}"):
            place.parent.mkdir(parents=True, exist_ok=True)
        left -= fetch(store, digest, place, left)


def require_inner(path: str) -> str:
    """`path`, if it stays in its bundle. Raises TrustError."""
    parts = path.split("/")
    if parts[0] not in (SPEC, OUTSIDE, SOURCE) or len(parts) < 2 or any(each in ("", ".", "..") for each in parts):
        raise TrustError(f"the source bundle has a file {path!r}")
    return path
