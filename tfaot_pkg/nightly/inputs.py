"""The inputs that decide about each task: the model's files, its toolchain, the compiler. Each is read once.

`PlanCache` keeps what was read from one plan to the next, so that planning reads only what changed; it may be lost.
Digests of files go by path, size, times and inode. A file that was changed so shortly before it was read that another
change would show the same times is not kept (git calls such entries racy): it is digested again next time.

The cache is in the user's data folder, not in the state folder: builders can write there, and a cached spec decides
what is built and signed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from tfaot_pkg.errors import StorageError, TfaotError
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.documents import convert, read_json
from tfaot_pkg.ground.keys import Digest, canonical_json, sha256_bytes, sha256_file
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.cxx.compiler import Compiler, find_compiler
from tfaot_pkg.nightly.models import at_release
from tfaot_pkg.nightly.types import Task
from tfaot_pkg.pipeline.pipeline import Plan, pinned_facts, plan_of
from tfaot_pkg.provenance.materials import ToolchainFacts
from tfaot_pkg.spec import values
from tfaot_pkg.spec.parse import load_spec
from tfaot_pkg.spec.source.tree import SourceTree, fetch, source_tree
from tfaot_pkg.spec.tuning import tuning_path
from tfaot_pkg.spec.types import ModelSpec, Source
from tfaot_pkg.verify.validate import inputs_document

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Reads the inputs of tasks. `digest` gives the SHA-256 of a file."""

    folders: Folders
    progress: Progress
    digest: Digest
    _sources: dict[tuple[Source | str, ...], SourceTree | TfaotError] = field(default_factory=dict)
    _toolchains: dict[tuple[str, str], ToolchainFacts | TfaotError] = field(default_factory=dict)
    _compilers: dict[str, Compiler | TfaotError] = field(default_factory=dict)

    def plan(self, spec: ModelSpec, task: Task, release: str) -> Plan:
        """The keys of `task` (of `spec`) at the version `release`, and their components: the same as the pipeline's.

        Raises SpecError, SourceError, NetworkError, CompilerError.
        """
        wanted = at_release(spec, task, release)
        architecture = TARGETS[wanted.compilation.targets[0]].architecture
        return plan_of(
            wanted,
            _once(self._sources, (spec.source, *spec.model.all_files), lambda: self._source(spec)),
            _once(self._toolchains, (task.toolchain, wanted.model.files.format), lambda: pinned_facts(wanted)),
            _once(self._compilers, architecture, lambda: self._compiler(architecture)),
            inputs=inputs_document(wanted, self.digest),
        )

    def _source(self, spec: ModelSpec) -> SourceTree:
        root = fetch(spec.source, folders=self.folders, progress=self.progress)
        files, beside = spec.model.files, spec.model.files_beside
        return source_tree(root, Path(files.path), self.digest, field=files.format, beside=beside)

    def _compiler(self, architecture: str) -> Compiler:
        return find_compiler(architecture, log=self.folders.logs / "nightly-plan.log", output=self.progress.output)


_Key = TypeVar("_Key")


def _once(known: dict[_Key, _Value | TfaotError], key: _Key, find: Callable[[], _Value]) -> _Value:
    """The result or the error of the first call of `find` for `key`."""
    if key not in known:
        try:
            known[key] = find()
        except TfaotError as error:
            # Kept too: a server that does not answer is not waited for again for each task.
            known[key] = error
    found = known[key]
    if isinstance(found, TfaotError):
        raise found
    return found


_RACY = 2_000_000_000
"""Nanoseconds: the coarsest time stamps of file systems in use (FAT) have steps of 2 s."""
_DIGITS = 16
_SPECS = TypeAdapter(dict[str, ModelSpec])  # a spec's source is one of three types, which msgspec cannot tell apart
_SPECS.rebuild(_types_namespace={"v": values})  # which the declarations of settings name (spec/types.py)

Stamp = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CacheFile:
    """The file of a `PlanCache`; `made_by` is the digest of the code that wrote it."""

    made_by: str
    digests: dict[str, tuple[Stamp, str]]
    specs: dict[str, Any]
    not_run: dict[str, tuple[str, ...]]


# For 3,000 tasks of small models, a plan without it takes 2.5 s, with it 2.2 s (benchmarks/nightly_plan.py).
@dataclass(slots=True)
class PlanCache:
    """Digests of files, parsed specs, and the targets that published validations did not run.

    `used` are the entries that this plan needed; `clock` gives the time in ns since 1970, as file systems do.
    """

    digests: dict[str, tuple[Stamp, str]] = field(default_factory=dict)
    specs: dict[str, ModelSpec] = field(default_factory=dict)
    not_run: dict[str, tuple[str, ...]] = field(default_factory=dict)
    clock: Callable[[], int] = time.time_ns
    used: set[str] = field(default_factory=set)
    changed: bool = False

    @classmethod
    def read(cls, file: Path) -> PlanCache:
        """The cache in `file`; an empty one if it is missing or damaged."""
        try:
            document = convert(_CacheFile, read_json(file.read_bytes()))
            # Other code may read the same spec in another way.
            if document.made_by != _maker():
                return cls()
            specs = _SPECS.validate_python(document.specs)
            return cls(digests=document.digests, specs=specs, not_run=document.not_run)
        except (OSError, ValueError):
            return cls()

    def write(self, file: Path, *, whole: bool) -> None:
        """Write it to `file` if it changed. If that fails, the next plan is slow, nothing else.

        With `whole`, everything was planned: entries that were not used are dropped.
        """
        tables: dict[str, Mapping[str, Any]] = {
            "digests": self.digests,
            "specs": _SPECS.dump_python(self.specs, mode="json") if self.changed or whole else {},
            "not_run": self.not_run,
        }
        if whole and any(key not in self.used for table in tables.values() for key in table):
            tables = {name: {key: table[key] for key in table if key in self.used} for name, table in tables.items()}
            self.changed = True
        if self.changed:
            with suppress(StorageError), storage_errors(f"write {file}"):
                write_file(file, canonical_json({"made_by": _maker(), **tables}))

    def digest(self, path: Path) -> str:
        """SHA-256 of a file. Raises OSError."""
        # Both before the file is read: if it changes meanwhile, its stamp no longer fits, or it looks racy.
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
                if self._key_of(path, defines) != key:  # changed meanwhile: which content was read is unknown
                    return found
                self.specs[key] = found
                self.changed = True
        except OSError:
            return load_spec(path, defines)  # raises the error with its reason
        self.used.add(key)
        return self.specs[key]

    def _key_of(self, path: Path, defines: Mapping[str, str]) -> str:
        tuning = tuning_path(path)
        digests = [self.digest(path), self.digest(tuning) if tuning.exists() else ""]
        return sha256_bytes(canonical_json([str(path), *digests, dict(defines)]))

    def validation(self, digest: str, read: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """The targets that the validation with this SHA-256 did not run; `read` reads them."""
        if digest not in self.not_run:
            self.not_run[digest] = read()
            self.changed = True
        self.used.add(digest)
        return self.not_run[digest]


def cache_file(folders: Folders, state: Path) -> Path:
    """The cache of plans that are made with the state folder `state`."""
    return folders.data / "nightly" / f"{sha256_bytes(os.fsencode(state.resolve()))[:_DIGITS]}.json"


def _stamp(path: Path) -> Stamp:
    """Values that change with a file. Programs can set st_mtime back; only the kernel sets st_ctime."""
    status = os.stat(path)
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)


def _maker() -> str:
    """The code that made the content of the cache."""
    return code_digest("tfaot_pkg.spec.parse", __name__)
