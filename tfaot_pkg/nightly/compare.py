"""A new build beside the one that was published before it: size, error, memory, answers and speed."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

from tfaot_pkg.errors import RegistryError, StorageError, TfaotError, ValidationError
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.cpu import Cpu
from tfaot_pkg.ground.documents import convert, iso, read_json, utc_now
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.ground.targets import TARGETS, runs_here
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.nightly.history import History
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.types import Comparison, Decision, Task, toolchain_in
from tfaot_pkg.registry.archive import unpack
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.files.layout import PREFIX
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import VALIDATION
from tfaot_pkg.spec.rules import package_name
from tfaot_pkg.verify.beside import beside
from tfaot_pkg.verify.latency import Timer, timer
from tfaot_pkg.verify.report import ValidationReport
from tfaot_pkg.verify.turns import PATIENCE, Turns, Unit, in_turns

Times = Callable[[Path, Path, Sequence[Unit]], Turns]
"""Takes turns of two shared libraries. Raises TfaotError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """A package: its index entry, its archive, and its validation report (None without one)."""

    entry: RegistryEntry
    archive: Path
    report: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparer:
    """Compares with what is in the registry in the folder `registry`. `cpu` is the CPU that `turns` are taken on; None
    if that is a timing worker's.

    Packages that did not change are timed again after `retime_days` (None: never), and on another kind of CPU, if it is
    known.
    """

    registry: Path
    turns: Times
    cpu: Cpu | None
    retime_days: int | None = None
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)

    def exact(self, decision: Decision, results: Results) -> Comparison | None:
        """The comparison without speeds; None if nothing was published before it.

        The build of `decision` is in `results`, or published. A part that cannot be compared says why. Raises
        RegistryError, TrustError, StorageError.
        """
        pair = self._pair(decision, results)
        if pair is None:
            return None
        before, now = pair
        with _libraries(before, now) as libraries:
            old, new = libraries
            comparison = Comparison(
                task=decision.task.id,
                release=now.entry.version,
                key=Key(now.entry.key),
                base=before.entry.version,
                base_key=Key(before.entry.key),
                size=(old.stat().st_size, new.stat().st_size),
                error=_errors(before, now),
                reasons=decision.reasons,
                time=utc_now(),
            )
            return _with_answers(comparison, before.entry, now.entry, old, new)

    def timed(self, comparison: Comparison, decision: Decision, results: Results) -> Comparison:
        """`comparison` with speeds, or with the reason why there are none. Takes seconds."""
        try:
            pair = self._pair(decision, results, base=comparison.base_key)
            if pair is None:
                return replace(comparison, not_timed=f"{comparison.base} is not in the registry any more")
            units = _units(pair[0].entry, pair[1].entry)
            if isinstance(units, str):
                return replace(comparison, not_timed=units)
            with _libraries(*pair) as (old, new):
                return replace(comparison, turns=self.turns(old, new, units), time=utc_now())
        except TfaotError as error:
            return replace(comparison, not_timed=error.message)

    def due(self, decisions: Sequence[Decision], history: History) -> Sequence[Decision]:
        """A night's share of `decisions` that were not timed on this kind of CPU for `retime_days`, the oldest first.

        So many that all have their turn in `retime_days` nights.
        """
        if self.retime_days is None:
            return ()
        timed, since = (
            history.timed(self.cpu.id if self.cpu is not None else ""),
            iso(self.now() - timedelta(days=self.retime_days)),
        )
        late = [one for one in decisions if timed.get(one.key, "") < since]
        share = -(-len(decisions) // self.retime_days)
        return sorted(late, key=lambda one: timed.get(one.key, ""))[:share]

    def _pair(self, decision: Decision, results: Results, base: Key | None = None) -> tuple[_Build, _Build] | None:
        registry = FolderRegistry.find(self.registry)
        if registry is None:
            return None
        entries = registry.entries(package_name(decision.task.model))
        now = _published(registry, entries, decision.key) or _stored(results, decision.key)
        if base is not None:
            before = _published(registry, entries, base)
        else:
            entry = base_of(decision.task, now.entry, entries)
            before = None if entry is None else _of(registry, entry)
        return None if before is None else (before, now)


def base_of(task: Task, new: RegistryEntry, entries: Sequence[RegistryEntry]) -> RegistryEntry | None:
    """What `new`, a build of `task`, is compared with: the build that its users had before. Pure.

    The newest older build with the same toolchain, of this version or an earlier one; else another toolchain's of this
    version.
    """
    older = [
        tree
        for entry in entries
        if (tree := entry.on(new.architecture)) is not None
        and tree.yanked is None
        and tree.key != new.key
        and toolchain_in(tree.version) is not None
    ]
    own = [one for one in older if toolchain_in(one.version) == task.toolchain and one.rank < new.rank]
    others = [one for one in older if one.version.startswith(f"{task.version}+") and one.rank < new.rank]
    return max(own or others, key=lambda one: one.rank, default=None)


def _of(registry: FolderRegistry, entry: RegistryEntry) -> _Build:
    report = entry.blobs.get(VALIDATION)
    return _Build(
        entry=entry,
        archive=registry.blob_file(entry.blobs[PREFIX]),
        report=registry.blob_file(report).read_bytes() if report is not None else None,
    )


def _published(registry: FolderRegistry, entries: Sequence[RegistryEntry], key: Key) -> _Build | None:
    found = next((tree for entry in entries for tree in entry.trees if tree.key == key), None)
    return None if found is None else _of(registry, found)


def _stored(results: Results, key: Key) -> _Build:
    release = results.release(key)
    archive, report = release.blobs[PREFIX], release.blobs.get(VALIDATION)
    assert isinstance(archive, Path)
    data = report.read_bytes() if isinstance(report, Path) else report
    return _Build(entry=release.entry, archive=archive, report=data)


@contextmanager
def _libraries(before: _Build, now: _Build) -> Iterator[tuple[Path, Path]]:
    """The shared libraries of both packages."""
    with temporary_folder(prefix="tfaot-compare-") as scratch:
        found = []
        for name, build in (("before", before), ("now", now)):
            folder = scratch / name
            folder.mkdir()
            with storage_errors(f"unpack {build.entry}"), build.archive.open("rb") as stream:
                unpack(stream, folder, what=str(build.entry), durable=False)
            library = folder / "lib" / f"lib{build.entry.name}.so"
            if not library.is_file():
                raise RegistryError(f"{build.entry} has no shared library", hint="publish it again")
            found.append(library)
        yield found[0], found[1]


def _errors(before: _Build, now: _Build) -> tuple[float, float] | None:
    found = [_error(each.report) for each in (before, now)]
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def _error(report: bytes | None) -> float | None:
    """The largest difference to the framework's answers in a report; None if it cannot be read."""
    try:
        return ValidationReport.from_dict(convert(dict[str, Any], read_json(report or b""))).max_absolute
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _with_answers(
    comparison: Comparison, before: RegistryEntry, now: RegistryEntry, old: Path, new: Path
) -> Comparison:
    target = _targets(before, now)[-1:]
    if not target:
        return replace(comparison, not_compared="this machine can run no target that both have")
    try:
        found = beside(old, new, target[0])
    except (ValidationError, StorageError) as error:
        return replace(comparison, not_compared=error.message)
    return replace(comparison, apart=found.apart, memory=found.memory)


def _targets(before: RegistryEntry, now: RegistryEntry) -> tuple[str, ...]:
    """Those that both have and that run here, the lowest first."""
    return tuple(name for name in now.targets if name in before.targets and runs_here(TARGETS[name]))


def _units(before: RegistryEntry, now: RegistryEntry) -> tuple[Unit, ...] | str:
    """What is timed, or why nothing is."""
    if (before.signature.inputs, before.signature.outputs) != (now.signature.inputs, now.signature.outputs):
        return "its inputs or outputs are others"
    sizes = [size for size in now.batch_sizes if size in before.batch_sizes]
    units = tuple((target, size) for target in _targets(before, now) for size in sizes)
    return units or "no target and batch size that both have runs here"


def turns_here(folders: Folders, progress: Progress, patience: float = PATIENCE) -> Times:
    """Turns on this machine, which needs a compiler for the first of them; `patience` as of `in_turns`."""

    @cache
    def clock() -> Timer:
        compiler = find_compiler(platform.machine(), log=folders.logs / "nightly-turns.log", output=progress.output)
        return timer(compiler, BuildCache(root=folders.builds))

    def take(before: Path, after: Path, units: Sequence[Unit]) -> Turns:
        return in_turns(before, after, clock(), units, patience=patience)

    return take
