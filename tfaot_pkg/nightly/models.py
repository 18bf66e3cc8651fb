"""The models that a definition names: their specs, found and read, and which of them changed in git.

A model that cannot be read does not stop the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tfaot_pkg.errors import SourceError, StorageError, TfaotError
from tfaot_pkg.ground.forms.document import read_document
from tfaot_pkg.ground.http.site import without_secrets
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.wording import shown
from tfaot_pkg.nightly.definition import definition_error, names_several, spec_files
from tfaot_pkg.nightly.types import OWN, GitSpec, ModelEntry, NightlyDefinition, Task
from tfaot_pkg.spec.parse import load_spec, override
from tfaot_pkg.spec.rules import name_fault, version_fault
from tfaot_pkg.spec.source.address import inside
from tfaot_pkg.spec.source.checkout import files_of
from tfaot_pkg.spec.source.git import fetch_git, git_environment
from tfaot_pkg.spec.types import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model whose spec was read; `number` is that of its entry in the definition."""

    spec: ModelSpec
    entry: ModelEntry
    number: int

    def tasks(self, definition: NightlyDefinition) -> Iterator[Task]:
        """One for each toolchain: the entry's own, the definition's or the spec's; one if no TensorFlow reads it."""
        model, own = self.spec.model, self.spec.compilation
        yield from self.entry.tasks(
            definition,
            model.name,
            model.version,
            self.spec.path,
            toolchain=OWN if self.spec.is_lowered else own.tensorflow,
            targets=own.targets,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A spec that cannot be fetched or read.

    `name` and `version` are those in it if they can be read, else a name made from its path, and "".
    """

    name: str
    version: str
    path: Path
    error: TfaotError
    entry: ModelEntry
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Models whose specs could be read, each after its dependencies, and the others."""

    readable: tuple[Model, ...]
    unreadable: tuple[Unreadable, ...]


def load_models(
    definition: NightlyDefinition,
    read: Callable[[Path, Mapping[str, str]], ModelSpec],
    *,
    folders: Folders,
    progress: Progress,
) -> Models:
    """All models of `definition`; `read` gives the spec at a path with these values of `env.*`.

    Raises SpecError if they contradict each other: duplicate names, unknown names, cycles of dependencies.
    """
    readable: list[Model] = []
    unreadable: list[Unreadable] = []
    for number, entry, place in _places(definition):
        path = place
        try:
            path = place or _fetched(entry, folders, progress)
            spec = read(path, entry.defines)
            readable.append(Model(spec=spec, entry=entry, number=number))
        except TfaotError as error:
            unreadable.append(_unreadable(error, entry, number, path, definition))
    if faults := list(_faults(readable, complete=not unreadable)):
        raise definition_error(definition, faults)
    return Models(readable=_in_order(readable), unreadable=tuple(unreadable))


def _unreadable(
    error: TfaotError, entry: ModelEntry, number: int, path: Path | None, definition: NightlyDefinition
) -> Unreadable:
    place = _shown(entry.origin) if entry.origin is not None else os.path.relpath(path or "", definition.path.parent)
    name, version = _called(path) if path is not None else ("", "")
    name = name or re.sub(r"[^a-z0-9]+", "_", place.lower()).strip("_")
    return Unreadable(name=name, version=version, path=path or definition.path, error=error, entry=entry, number=number)


def _shown(origin: GitSpec) -> str:
    """The name of a spec in another repository: the repository's name and the path in it."""
    return f"{origin.url.rstrip('/').rpartition('/')[2]} {origin.path}"


def _called(path: Path) -> tuple[str, str]:
    """Name and version in a spec that has faults; "" if they are not valid."""
    try:
        document = read_document(path.read_bytes(), path.name)
    except OSError:
        return "", ""
    name, version = (document.texts.get(("model", key), "") for key in ("name", "version"))
    return "" if name_fault(name) else name, "" if version_fault(version) else version


def _places(definition: NightlyDefinition) -> Iterator[tuple[int, ModelEntry, Path | None]]:
    """The specs of each entry: patterns exclude a spec that has an entry of its own.

    None means a spec in another repository.
    """
    folder = definition.path.parent
    single = {
        path for entry in definition.models if not names_several(entry.specs) for path in spec_files(entry, folder)
    }
    for number, entry in enumerate(definition.models):
        if entry.origin is not None:
            yield number, entry, None
        for path in spec_files(entry, folder):
            if not names_several(entry.specs) or path not in single:
                yield number, entry, path


def _fetched(entry: ModelEntry, folders: Folders, progress: Progress) -> Path:
    """The spec in another repository, at its commit. Raises as `fetch_git`, and SourceError if it is not in it."""
    origin = entry.origin
    assert origin is not None
    root = fetch_git(origin.url, origin.revision, folders=folders, progress=progress)
    try:
        return inside(root, origin.path, what="spec.path")
    except SourceError as error:  # its text names a folder of our cache
        raise SourceError(
            f"{origin.path} is not in {without_secrets(origin.url)} at {origin.revision}", hint=error.hint
        ) from error


def _faults(models: Sequence[Model], *, complete: bool) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Contradictions between models, by path in the definition. Unknown names may be those of unread specs."""
    first: dict[str, Model] = {}
    for model in models:
        name = model.spec.model.name
        other = first.setdefault(name, model)
        if other is not model:
            yield (
                ("models", model.number, "spec"),
                f"the model {name} of {model.spec.path} is that of {other.spec.path} too: one needs another name",
            )
    for model in models:
        for number, name in enumerate(model.entry.depends):
            if name not in first and complete:
                yield ("models", model.number, "depends", number), f"there is no model {name!r} in this file"
    try:
        _sorted(models)
    except CycleError as error:
        # graphlib lists the circle backwards: each model before the one that needs it.
        names: list[str] = error.args[1]
        number = first[names[0]].number
        yield ("models", number, "depends"), f"models depend on each other: {' -> '.join(reversed(names))}"


def _in_order(models: Sequence[Model]) -> tuple[Model, ...]:
    """The models, each after its dependencies, else in the definition's order."""
    by_name = {model.spec.model.name: model for model in models}
    # The graph also has dependencies whose specs cannot be read.
    return tuple(by_name[name] for name in _sorted(models) if name in by_name)


def _sorted(models: Sequence[Model]) -> Sequence[str]:
    graph: Mapping[str, tuple[str, ...]] = {model.spec.model.name: model.entry.depends for model in models}
    return tuple(TopologicalSorter(graph).static_order())


_TIMEOUT = 60.0
# The repository's own configuration could name programs to run, and quotes some names. A folder of its content may look
# like a bare repository with a configuration by whoever committed it.
_GIT = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.quotePath=false", "safe.bareRepository=explicit")


def touched_since(definition: NightlyDefinition, revision: str) -> Callable[[Model | Unreadable], bool]:
    """A function: whether a model differs between `revision` and the files now, in the definition's repository.

    Untracked files count, unless git ignores them. A spec in another repository counts as changed if the definition
    changed. Raises SourceError: no repository, no such revision, no git.
    """
    folder = definition.path.parent
    root = Path(_git(folder, "rev-parse", "--show-toplevel").removesuffix("\n"))
    commit = _commit(folder, revision)
    # No renames: the former place of a moved file counts as changed. -z: names may have any character.
    changed = _git(root, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", commit, "--")
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    files = {os.path.join(root, name) for name in (changed + new).split("\0") if name}
    folders = {str(parent) for name in files for parent in Path(name).parents}

    def touched(model: Model | Unreadable) -> bool:
        if isinstance(model.entry.specs, GitSpec):
            return os.path.realpath(definition.path) in files
        places = files_of(model.spec) if isinstance(model, Model) else [model.path]
        # git names files by real paths; specs may be reached through links.
        return any(real in files or real in folders for real in map(os.path.realpath, places))

    return touched


def _commit(folder: Path, revision: str) -> str:
    try:
        # A revision may look like an option, and a tag is an object of its own: `^{commit}` gives what it names.
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return _git(folder, *words).strip()
    except SourceError as error:  # git and the repository were found before: only the revision can be missing
        raise SourceError(
            f"--changed-since: there is no revision {shown(revision)} in the repository of {folder}",
            hint="in a shallow clone, fetch it first: git fetch --depth=1 origin REV",
        ) from error


def _git(folder: Path, *arguments: str) -> str:
    settings = [word for setting in _GIT for word in ("-c", setting)]
    argv: list[str | Path] = ["git", *settings, "-C", folder, *arguments]
    try:
        return run(argv, env=git_environment(), timeout=_TIMEOUT).stdout
    except CommandFailed as error:
        said = error.output.strip().partition("\n")[0]
        raise SourceError(
            f"--changed-since: git cannot list what changed in {folder}: {said or error.reason}",
            hint="it needs git, and the definition in a repository",
        ) from error


def spec_for(task: Task, release: str) -> ModelSpec:
    """The spec of `task`, read now, that gives the version `release`.

    Raises SpecError, and StorageError if it is not the model and the version that were planned.
    """
    spec = load_spec(task.spec, task.defines)
    if (spec.model.name, spec.model.version) != (task.model, task.version):
        raise StorageError(
            f"{task.spec} is the spec of {spec.model.name}@{spec.model.version}: "
            f"{task.model}@{task.version} was planned",
            hint="the next night builds it as it is then",
        )
    return at_release(spec, task, release)


def at_release(spec: ModelSpec, task: Task, release: str) -> ModelSpec:
    """`spec`, that of `task`, at `release`. Pure. Raises SpecError (targets of several architectures)."""
    spec = override(spec, targets=task.targets, tensorflow=task.tensorflow or None)
    return replace(spec, model=replace(spec.model, version=release))
