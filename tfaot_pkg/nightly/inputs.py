"""What decides about each task, read: the model's files, its toolchain, the compiler. Each of them is read once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tfaot_pkg.cxx.compiler import Compiler, find_compiler
from tfaot_pkg.errors import TfaotError
from tfaot_pkg.folders import Folders
from tfaot_pkg.keys import Digest
from tfaot_pkg.nightly.task_spec import at_release
from tfaot_pkg.nightly.types import Task
from tfaot_pkg.pipeline import Plan, pinned_toolchain, plan_of
from tfaot_pkg.progress import Progress
from tfaot_pkg.provenance.materials import ToolchainFacts
from tfaot_pkg.source.tree import SourceTree, fetch, source_tree
from tfaot_pkg.spec.types import ModelSpec, Source
from tfaot_pkg.targets import TARGETS
from tfaot_pkg.verify.validate import inputs_document

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Reads what decides about tasks. `digest` gives the SHA-256 of a file."""

    folders: Folders
    progress: Progress
    digest: Digest
    _sources: dict[tuple[Source, str], SourceTree | TfaotError] = field(default_factory=dict)
    _toolchains: dict[str, ToolchainFacts | TfaotError] = field(default_factory=dict)
    _compilers: dict[str, Compiler | TfaotError] = field(default_factory=dict)

    def plan(self, spec: ModelSpec, task: Task, release: str) -> Plan:
        """The keys, and what they are made from, of `task` (which is of `spec`) at the version `release`.

        The same as the pipeline's. Raises SpecError, SourceError, NetworkError, CompilerError.
        """
        wanted = at_release(spec, task, release)
        architecture = TARGETS[wanted.compilation.targets[0]].architecture
        return plan_of(
            wanted,
            _once(self._sources, (spec.source, spec.model.saved_model), lambda: self._source(spec)),
            _once(self._toolchains, task.toolchain, lambda: pinned_toolchain(task.toolchain)),
            _once(self._compilers, architecture, lambda: self._compiler(architecture)),
            inputs=inputs_document(wanted, self.digest),
        )

    def _source(self, spec: ModelSpec) -> SourceTree:
        root = fetch(spec.source, folders=self.folders, progress=self.progress)
        return source_tree(root, Path(spec.model.saved_model), self.digest)

    def _compiler(self, architecture: str) -> Compiler:
        return find_compiler(architecture, log=self.folders.logs / "nightly-plan.log", output=self.progress.output)


_Key = TypeVar("_Key")


def _once(known: dict[_Key, _Value | TfaotError], key: _Key, find: Callable[[], _Value]) -> _Value:
    """What `find` gave, or raised, when it was first asked for `key`."""
    if key not in known:
        try:
            known[key] = find()
        except TfaotError as error:
            known[key] = error
    found = known[key]
    if isinstance(found, TfaotError):
        raise found
    return found
