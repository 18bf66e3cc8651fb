"""Which models were touched in git since a revision: by their spec, tuning file, validation inputs or model's files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tfaot_pkg.errors import SourceError
from tfaot_pkg.nightly.models import Model, Unreadable
from tfaot_pkg.nightly.types import GitSpec, NightlyDefinition
from tfaot_pkg.process import CommandFailed, run
from tfaot_pkg.source.git import git_environment
from tfaot_pkg.spec.names import shown
from tfaot_pkg.spec.tuning import tuning_path
from tfaot_pkg.spec.types import FolderSource, ModelSpec

_TIMEOUT = 60.0


def touched_since(definition: NightlyDefinition, revision: str) -> Callable[[Model | Unreadable], bool]:
    """Whether a model differs between `revision` and the files as they are, in the definition's repository.

    Files that git does not know yet (and does not ignore) count. A spec in another repository is touched where the
    definition is. Raises SourceError: no repository, no such revision, no git.
    """
    folder = definition.path.parent
    root = Path(_git(folder, "rev-parse", "--show-toplevel").removesuffix("\n"))
    commit = _commit(folder, revision)
    changed = _git(root, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", commit, "--")
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    files = {os.path.join(root, name) for name in (changed + new).split("\0") if name}
    folders = {str(parent) for name in files for parent in Path(name).parents}

    def touched(model: Model | Unreadable) -> bool:
        if isinstance(model.entry.specs, GitSpec):
            return os.path.realpath(definition.path) in files
        places = _places(model.spec) if isinstance(model, Model) else [model.path]
        return any(real in files or real in folders for real in map(os.path.realpath, places))

    return touched


def _places(spec: ModelSpec) -> list[Path]:
    """Files and folders of this file system that decide about the model."""
    places = [spec.path, tuning_path(spec.path)]
    if isinstance(spec.source, FolderSource):
        places.append(spec.source.path / spec.model.saved_model)
    if spec.validation.inputs is not None:
        places.append(spec.validation.inputs)
    return places


def _commit(folder: Path, revision: str) -> str:
    try:
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return _git(folder, *words).strip()
    except SourceError as error:  # git itself and the repository were found to be there before
        raise SourceError(
            f"--changed-since: there is no revision {shown(revision)} in the repository of {folder}",
            hint="in a shallow clone, fetch it first: git fetch --depth=1 origin REV",
        ) from error


def _git(folder: Path, *arguments: str) -> str:
    argv: list[str | Path] = [
        "git",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.quotePath=false",
        "-C",
        folder,
        *arguments,
    ]
    try:
        return run(argv, env=git_environment(), timeout=_TIMEOUT).stdout
    except CommandFailed as error:
        said = error.output.strip().partition("\n")[0]
        raise SourceError(
            f"--changed-since: git cannot tell what changed around {folder}: {said or error.reason}",
            hint="it needs git, and the definition in a repository",
        ) from error
