"""The commit that files of this machine belong to, and whether they are as they were committed.

Files are compared by git's own object ids, which are computed here: `git status` would run the filter programs that a
repository's configuration names, and the files may have come with such a repository.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import SourceError
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.spec.source.git import git_environment
from tfaot_pkg.spec.source.tree import local_files
from tfaot_pkg.spec.tuning import tuning_path
from tfaot_pkg.spec.types import FolderSource, ModelSpec

_TIMEOUT = 60.0
# The repository's own configuration could name programs to run, and a partial clone would fetch what it lacks. A folder
# of its content may look like a bare repository with a configuration by whoever committed it.
_GIT = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.bareRepository=explicit")
_OFFLINE = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """Where a spec comes from: a `commit`, and its `path` there.

    `modified`: the spec, or a file that the model is made from, is not the one of the commit. `address` is that of the
    repository, if the spec was fetched from one.
    """

    commit: str
    path: str
    modified: bool
    address: str = ""


def files_of(spec: ModelSpec) -> list[Path]:
    """Files and folders of this file system from which the model is built."""
    places = [spec.path, tuning_path(spec.path)]
    if isinstance(spec.source, FolderSource):
        places += local_files(spec.source.path, spec.model)
    return [*places, *spec.data_files.values()]


def checkout_of(spec: ModelSpec) -> Checkout | None:
    """The checkout that holds the spec's file; None without a repository, a commit or git. Raises StorageError."""
    try:
        root, commit, committed = _head(spec.path.parent)
    except CommandFailed:
        return None
    path = os.path.relpath(os.path.realpath(spec.path), root)
    with storage_errors(f"read the files of {spec.path}"):
        modified = path not in committed or any(_is_modified(each, root, committed) for each in files_of(spec))
    return Checkout(commit=commit, path=path, modified=modified)


def commit_of(paths: Sequence[Path]) -> tuple[str, bool]:
    """The commit of the repository that holds the first of `paths`, and whether one of them, files or folders, is not
    that of the commit; ("", False) without a repository, a commit or git. Raises StorageError.
    """
    try:
        root, commit, committed = _head(paths[0].parent)
    except CommandFailed:
        return "", False
    with storage_errors(f"read the files beside {paths[0]}"):
        return commit, any(_is_modified(each, root, committed) for each in paths)


def top_of(folder: Path) -> Path:
    """The top of the repository around `folder`. Raises SourceError."""
    try:
        return Path(_git(folder, "rev-parse", "--show-toplevel").removesuffix("\n"))
    except CommandFailed as error:
        raise SourceError(f"{folder} is in no git repository: {error.reason}", hint="check it out with git") from error


def _head(folder: Path) -> tuple[Path, str, dict[str, str]]:
    """The top of the repository around `folder`, its commit, and the commit's object ids by path."""
    root = Path(_git(folder, "rev-parse", "--show-toplevel").removesuffix("\n"))
    commit = _git(root, "rev-parse", "--verify", "HEAD^{commit}").strip()
    listing = _git(root, "ls-tree", "-r", "-z", "HEAD")
    return root, commit, dict(_entry(line) for line in listing.split("\0") if line)


def _entry(line: str) -> tuple[str, str]:
    """Path and object id of a line of `git ls-tree`: MODE TYPE ID, a tab, PATH."""
    facts, _, path = line.partition("\t")
    return path, facts.split()[2]


def _is_modified(place: Path, root: Path, committed: dict[str, str]) -> bool:
    """Whether a file or folder differs from the commit; what is outside of the repository does."""
    top = os.path.relpath(os.path.realpath(place), root)
    if top.startswith(".."):
        return place.exists()
    expected = {path: oid for path, oid in committed.items() if path == top or path.startswith(f"{top}/")}
    found = {os.path.relpath(path, root): path for path in _files(Path(root, top))}
    if found.keys() != expected.keys():
        return True
    return any(_object_id(path, len(expected[name])) != expected[name] for name, path in found.items())


def _files(place: Path) -> Iterable[Path]:
    if place.is_symlink() or not place.is_dir():
        return [place] if place.is_symlink() or place.exists() else []
    return (
        Path(folder, name)
        for folder, folders, names in os.walk(place)
        for name in [*names, *(each for each in folders if os.path.islink(os.path.join(folder, each)))]
    )


def _object_id(path: Path, length: int) -> str:
    """The id of a file's content: SHA-1, or SHA-256 in repositories of that format, whose ids are longer."""
    digest = hashlib.sha256() if length == hashlib.sha256().digest_size * 2 else hashlib.sha1(usedforsecurity=False)
    if path.is_symlink():
        target = os.fsencode(path.readlink())
        digest.update(b"blob %d\0" % len(target) + target)
        return digest.hexdigest()
    with path.open("rb") as file:
        digest.update(b"blob %d\0" % os.fstat(file.fileno()).st_size)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _git(folder: Path, *arguments: str) -> str:
    settings = [word for setting in _GIT for word in ("-c", setting)]
    argv: list[str | Path] = ["git", *settings, "-C", folder, *arguments]
    return run(argv, env={**git_environment(), **_OFFLINE}, timeout=_TIMEOUT).stdout
