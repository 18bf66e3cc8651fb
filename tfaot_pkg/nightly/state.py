"""The nightly's folder: results by key, nights, and the history.

    results/<key[:2]>/<key>/   one verified build: result.json, and what is to be published
                <key>.failed.json  how the last build that failed ended
    nights/<DATE>.<N>/         sequence, plan.json, outcomes.jsonl (grows), logs/, gate.json, night.json (at its end)
    inputs.jsonl               inputs of packages whose nights were removed (prune.py)
    history.sqlite             all builds, and how they compare with what was published before (history.py)
    scratch/                   of running builds; emptied when a night begins

A kill at any moment leaves whole files, and at most one incomplete line, which the next writer drops.

Nights are ordered by their sequence number, not by their dates: a clock that was wrong once must not make one night the
last one forever. Nights from before there were numbers come first, by name.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.documents import convert, plain, read, write, write_indented
from tfaot_pkg.ground.keys import Key, canonical_json
from tfaot_pkg.ground.storage import append_lines, locked, new_folder, remove_folder, storage_errors, write_file
from tfaot_pkg.nightly.history import MOST_NIGHTS, NIGHT, History, place_of
from tfaot_pkg.nightly.lines import damaged_line, read_lines
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.types import FAILURES, Decision, Outcome, OutcomeKind

_HINT = "move this night's folder away and run again"
_SEQUENCE = "sequence"
_LOCK_TIMEOUT = 1.0  # seconds: the holder works for hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a night may publish what it built with `toolchain`: of `built` tasks, `failed` failed, and at most a
    share of `limit` may.

    Only tasks count that succeeded when they were tried last: else a few broken models, or a toolchain that is new and
    does not build them, would withhold all others. Faults of machines do not count.
    """

    toolchain: str
    built: int
    failed: int
    limit: float

    @property
    def withheld(self) -> bool:
        return self.failed > self.limit * self.built

    def __str__(self) -> str:
        whose = f"{self.toolchain}: " if self.toolchain else ""
        return (
            f"{whose}{self.failed} of {self.built} builds newly failed, more than policy.max_failures "
            f"({self.limit:.0%})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The verdicts of a night, each about one toolchain: gate.json."""

    verdicts: tuple[Verdict, ...]
    format: int = 2

    def of(self, toolchain: str) -> Verdict | None:
        """The verdict about `toolchain`; None if nothing of it counted."""
        return next((one for one in self.verdicts if one.toolchain in ("", toolchain)), None)

    def withholds(self, toolchain: str) -> bool:
        found = self.of(toolchain)
        return found is not None and found.withheld

    @property
    def withheld(self) -> str:
        """Why something is not published; "" if all is that was verified."""
        return "; ".join(str(one) for one in self.verdicts if one.withheld)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OldGate:
    built: int
    failed: int
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """plan.json."""

    decisions: tuple[Decision, ...]
    format: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a night was made with: the `commit` of the repository with the definition ("" without one); `modified` if
    the definition or a spec is not as in that commit; the `tool` with its code's digest; the coordinator's `machine`.
    """

    commit: str = ""
    modified: bool = False
    tool: str = ""
    machine: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """night.json: how a night ended, for people who read its folder.

    `ended` is the time in UTC, `counts` the number of tasks by kind of outcome, `withheld` says why some were not
    published, "" if all were. `excluded` are workers that got no more builds, with the reason; `builders` those who
    built, in their own words, with the number of builds. Nights of older versions have no `made_with`.
    """

    night: str
    ended: str
    counts: Mapping[OutcomeKind, int]
    withheld: str
    exit_code: int
    excluded: Mapping[str, str] = field(default_factory=dict)
    builders: Mapping[str, int] = field(default_factory=dict)
    made_with: Record | None = None
    format: int = 1


_Document = TypeVar("_Document")


@dataclass(frozen=True, slots=True, kw_only=True)
class NightFolder:
    """One night on disk. Methods raise StorageError."""

    folder: Path

    @property
    def name(self) -> str:
        """`2026-11-21.1`: the day that it began, and its number among that day's."""
        return self.folder.name

    @property
    def sequence(self) -> int:
        """Its number among all nights, from 1 on; 0 if it was made before nights had one."""
        path = self.folder / _SEQUENCE
        with storage_errors(f"read {path}"):
            text = path.read_bytes() if path.exists() else b"0"
        try:
            if 0 <= (number := int(text)) < MOST_NIGHTS:
                return number
            raise ValueError("a number that no night has")
        except ValueError as error:
            raise StorageError(f"{path} is damaged: {error}", hint=_HINT) from error

    @property
    def order(self) -> int:
        """Sorts nights by when they began."""
        return place_of(self.sequence, self.name)

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def log(self, task: str) -> Path:
        """The output of a task's builds."""
        return self.logs / f"{task}.log"

    @property
    def is_over(self) -> bool:
        return self._summary.exists()

    def decisions(self) -> tuple[Decision, ...]:
        """The plan of the night."""
        return _read(_Plan, self.folder / "plan.json").decisions

    def plan_anew(self, decisions: Sequence[Decision]) -> None:
        """Replace the plan; keep only the failures of tasks whose decision stays the same."""
        # Verified builds need no outcome, because their results are found by key; the plan gives all other outcomes.
        same = {(one.task.id, one.release, one.key) for one in decisions}
        kept = [one for one in self.outcomes() if (one.task, one.release, one.key) in same and one.kind in FAILURES]
        with storage_errors(f"write {self.folder}"):
            write_file(self.folder / "plan.json", write_indented(_Plan(decisions=tuple(decisions))))
            # A kill before this write does no harm: without a verdict the night is planned once more.
            write_file(self._outcomes, b"".join(map(write, kept)))

    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes so far, in the order in which they were recorded."""
        return tuple(_outcome_of(line, self._outcomes, number) for number, line in read_lines(self._outcomes))

    def add(self, *outcomes: Outcome) -> None:
        """Append outcomes; they are on disk when this returns."""
        with storage_errors(f"write {self._outcomes}"):
            append_lines(self._outcomes, [canonical_json(plain(one)) for one in outcomes])

    def gate(self) -> Gate | None:
        """The verdicts of the gate; None before it was reached."""
        if not self._gate.exists():
            return None
        try:
            return _read(Gate, self._gate)
        except StorageError:
            # Before format 2 a night had one verdict about all.
            old = _read(_OldGate, self._gate)
            return Gate(verdicts=(Verdict(toolchain="", built=old.built, failed=old.failed, limit=old.limit),))

    def set_gate(self, gate: Gate) -> None:
        """Record the verdicts of the gate: they apply to this night, even if publishing is cut off."""
        with storage_errors(f"write {self._gate}"):
            write_file(self._gate, write(gate))

    def summary(self) -> Summary | None:
        """How the night ended; None before."""
        return _read(Summary, self._summary) if self.is_over else None

    def end(self, summary: Summary) -> None:
        """The night is over."""
        with storage_errors(f"write {self._summary}"):
            write_file(self._summary, write(summary))

    @property
    def _outcomes(self) -> Path:
        return self.folder / "outcomes.jsonl"

    @property
    def _gate(self) -> Path:
        return self.folder / "gate.json"

    @property
    def _summary(self) -> Path:
        return self.folder / "night.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state folder `root`, made by the first write. Methods raise StorageError."""

    root: Path

    @property
    def results(self) -> Results:
        return Results(root=self.root)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only coordinator; else StorageError names the other. Removes folders of killed builds."""
        with ExitStack() as held:
            with storage_errors(f"write {self.root}"):
                what = f"the nightly in {self.root}"
                held.enter_context(locked(self.root / "lock", what=what, timeout=_LOCK_TIMEOUT))
            self._drop_scratch()
            yield

    def _drop_scratch(self) -> None:
        """In one step: a build that outlives its coordinator must not report that some of its files are missing."""
        scratch = self.root / "scratch"
        if scratch.exists():
            with storage_errors(f"write {self.root}"):
                remove_folder(scratch)
        # What a kill during an earlier removal left (`remove_folder` hides a folder before it removes it).
        for left in self.root.glob(".scratch.*"):
            shutil.rmtree(left, ignore_errors=True)

    def nights(self) -> tuple[NightFolder, ...]:
        """All nights, the first one first."""
        root = self.root / "nights"
        paths = [path for path in (root.iterdir() if root.is_dir() else ()) if NIGHT.fullmatch(path.name)]
        return tuple(sorted((NightFolder(folder=path) for path in paths), key=lambda one: one.order))

    def new_night(self, decisions: Sequence[Decision], day: date) -> NightFolder:
        """Begin a night of `day` with its plan."""
        nights = self.nights()
        numbers = [int(one.name.partition(".")[2]) for one in nights if one.name.startswith(f"{day}.")]
        folder = self.root / "nights" / f"{day}.{max(numbers, default=0) + 1}"
        sequence = max((one.sequence for one in nights), default=0) + 1
        # In one step: a night without its plan could be neither resumed nor reported.
        with storage_errors(f"write {folder}"), new_folder(folder) as temporary:
            write_file(temporary / _SEQUENCE, f"{sequence}\n".encode())
            write_file(temporary / "plan.json", write_indented(_Plan(decisions=tuple(decisions))))
            (temporary / "logs").mkdir()
        return NightFolder(folder=folder)

    @property
    def history(self) -> History:
        return History(root=self.root)


def _read(kind: type[_Document], path: Path) -> _Document:
    with storage_errors(f"read {path}"):
        data = path.read_bytes()
    return read(kind, data, str(path), error=StorageError, hint=_HINT)


def _outcome_of(line: Mapping[str, Any], path: Path, number: int) -> Outcome:
    """The outcome in a line of a file. Raises StorageError."""
    try:
        return convert(Outcome, line)
    except ValueError as error:
        raise damaged_line(path, number, str(error)) from error


_NIGHTS = 60
"""The nights in which outcomes are searched: failed tasks are built every night, so mostly the last one has all."""
_DAYS = 7
"""The longest time from a build to its publication: a withheld result may be published by a later night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Components by the key of the package that was made from them; the last outcome by task."""

    components: Mapping[Key, Mapping[str, str]] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)


def read_records(state: State, keys: Mapping[Key, str], tasks: Collection[str]) -> Records:
    """The records of packages with these `keys` (with the time of their publication, ISO 8601) and of `tasks`.

    Nights with damaged files are skipped.
    """
    components = {key: one for key, one in _kept_inputs(state).items() if key in keys}
    outcomes: dict[str, Outcome] = {}
    missing, nights = set(tasks), state.nights()
    for age, night in enumerate(reversed(nights)):
        if missing and age < _NIGHTS:
            _add_outcomes(night, missing, outcomes)
        if wanted := {key for key, published in keys.items() if key not in components and _may_be_of(night, published)}:
            found = _components(night)
            components |= {key: found[key] for key in wanted & found.keys()}
    return Records(components=components, outcomes=outcomes)


def built_in(state: State, key: Key) -> NightFolder | None:
    """The last night that was to build the package of `key`; None if it was removed. Raises StorageError."""
    return next((night for night in reversed(state.nights()) if key in _components(night)), None)


def inputs_of(state: State, key: Key) -> Mapping[str, str]:
    """The inputs of the package of `key`, as some night recorded them; empty if none did."""
    night = built_in(state, key)
    return _components(night)[key] if night is not None else _kept_inputs(state).get(key, {})


def keep_inputs(state: State, nights: Sequence[NightFolder], keys: Collection[Key] | None) -> None:
    """Keep the inputs of packages with these `keys` (None: of all) from `nights`, which are about to be removed.

    Inputs that were kept before of other packages are dropped. Raises StorageError.
    """
    known = _kept_inputs(state)
    for night in nights:
        known |= _components(night)
    kept = {key: inputs for key, inputs in known.items() if keys is None or key in keys}
    lines = [canonical_json({"key": key, "inputs": dict(inputs)}) + b"\n" for key, inputs in sorted(kept.items())]
    path = _inputs_file(state)
    if lines or path.exists():
        with storage_errors(f"write {path}"):
            write_file(path, b"".join(lines))


def _kept_inputs(state: State) -> dict[Key, Mapping[str, str]]:
    """The inputs that earlier calls of `keep_inputs` kept; none if the file is damaged."""
    try:
        # Only explanations depend on it: without them a plan says that there is no record.
        return {line["key"]: line["inputs"] for _, line in read_lines(_inputs_file(state))}
    except (StorageError, KeyError, TypeError):
        return {}


def _inputs_file(state: State) -> Path:
    return state.root / "inputs.jsonl"


def _may_be_of(night: NightFolder, published: str) -> bool:
    """Whether a package that was published then may have been built in `night`, at most _DAYS earlier."""
    try:
        waited = date.fromisoformat(published[:10]) - date.fromisoformat(night.name[:10])
    except ValueError:
        return False
    # From -1, because the two dates may come from different clocks.
    return -1 <= waited.days <= _DAYS


def _add_outcomes(night: NightFolder, missing: set[str], outcomes: dict[str, Outcome]) -> None:
    try:
        found = {one.task: one for one in night.outcomes() if one.task in missing}
    except StorageError:
        return
    outcomes |= found
    missing.difference_update(found)


def _components(night: NightFolder) -> dict[Key, Mapping[str, str]]:
    try:
        return {one.key: one.inputs for one in night.decisions() if one.inputs}
    except (StorageError, KeyError, TypeError):
        return {}
