"""The nightly's folder: results by key, nights, and the history.

    results/<key[:2]>/<key>/   one verified build: result.json, and what is to be published
                <key>.failed.json  how the last build that failed ended
    nights/<DATE>.<N>/         sequence, plan.json, outcomes.jsonl (grows), logs/, gate.json, night.json (at its end)
    inputs.jsonl               what packages were made from whose nights are gone (prune.py)
    history.jsonl              one line per build, this month's; older ones in history-<MONTH>.jsonl
    scratch/                   of running builds; emptied when a night begins

Whatever is killed at whatever moment leaves whole files, a line that is cut off at most, which the next writer drops.

Nights are ordered by their sequence number, not by their dates: a clock that was wrong once must not make one night the
last one for ever. Nights and lines of the history that were written before there were numbers come first, by name.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from tfaot_pkg.documents import read_json
from tfaot_pkg.errors import StorageError
from tfaot_pkg.keys import Key, canonical_json
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.types import (
    FAILURES,
    Decision,
    Outcome,
    decision_document,
    decision_of,
    outcome_document,
    outcome_of,
)
from tfaot_pkg.storage import append_lines, locked, new_folder, remove_folder, storage_errors, write_file

_FORMAT = 1
_NIGHT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.([0-9]+)")
_SEQUENCE = "sequence"
_LOCK_TIMEOUT = 1.0  # seconds: the holder works for hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a night may publish: `failed` of the `built` tasks failed, and a share of `limit` may.

    What had failed before, and does again, is not counted: else a few models that stay broken would stop all others.
    """

    built: int
    failed: int
    limit: float

    @property
    def withheld(self) -> bool:
        """Where nothing was verified, there is nothing to withhold."""
        return self.built > self.failed > self.limit * self.built

    def __str__(self) -> str:
        return f"{self.failed} of {self.built} builds newly failed, and policy.max_failures allows {self.limit:.0%}"


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
            return int(text)
        except ValueError as error:
            raise _damaged(path, str(error)) from error

    @property
    def order(self) -> tuple[int, str, int]:
        """Sorts nights by when they began."""
        return _order(self.sequence, self.name)

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def log(self, task: str) -> Path:
        """What the builds of a task printed."""
        return self.logs / f"{task}.log"

    @property
    def is_over(self) -> bool:
        return self._summary.exists()

    def decisions(self) -> tuple[Decision, ...]:
        """The plan that it works on."""
        path = self.folder / "plan.json"
        listed = _read_json(path).get("decisions")
        if not isinstance(listed, list):
            raise _damaged(path, "it lists no decisions")
        return tuple(decision_of(one, str(path)) for one in listed)

    def plan_anew(self, decisions: Sequence[Decision]) -> None:
        """Replace the plan; outcomes of tasks about which is decided otherwise now are forgotten."""
        same = {(one.task.id, one.release, one.key) for one in decisions}
        kept = [one for one in self.outcomes() if (one.task, one.release, one.key) in same and one.kind in FAILURES]
        with storage_errors(f"write {self.folder}"):
            write_file(self.folder / "plan.json", _plan_document(decisions))
            write_file(self._outcomes, b"".join(canonical_json(outcome_document(one)) + b"\n" for one in kept))

    def outcomes(self) -> tuple[Outcome, ...]:
        """What is known so far, in the order in which it came."""
        return tuple(outcome_of(one, str(self._outcomes)) for one in read_lines(self._outcomes))

    def add(self, *outcomes: Outcome) -> None:
        """Record outcomes, for good."""
        with storage_errors(f"write {self._outcomes}"):
            append_lines(self._outcomes, [canonical_json(outcome_document(one)) for one in outcomes])

    def verdict(self) -> Verdict | None:
        """What the gate said; None where it was not asked yet."""
        if not self._gate.exists():
            return None
        document = _read_json(self._gate)
        built, failed, limit = (document.get(name) for name in ("built", "failed", "limit"))
        if not isinstance(built, int) or not isinstance(failed, int) or not isinstance(limit, int | float):
            raise _damaged(self._gate, "it lacks built, failed or limit")
        return Verdict(built=built, failed=failed, limit=float(limit))

    def set_verdict(self, verdict: Verdict) -> None:
        """Record what the gate said: it holds for this night, whatever happens while publishing."""
        document = {"format": _FORMAT, "built": verdict.built, "failed": verdict.failed, "limit": verdict.limit}
        with storage_errors(f"write {self._gate}"):
            write_file(self._gate, canonical_json(document) + b"\n")

    def summary(self) -> Mapping[str, Any]:
        """What `end` was given; empty while the night is not over."""
        return _read_json(self._summary) if self.is_over else {}

    def end(self, summary: Mapping[str, Any]) -> None:
        """The night is over."""
        with storage_errors(f"write {self._summary}"):
            write_file(self._summary, canonical_json({"format": _FORMAT, **summary}) + b"\n")

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
    """The nightly's folder `root`, made when something is first written. Methods raise StorageError."""

    root: Path

    @property
    def results(self) -> Results:
        return Results(root=self.root)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the one coordinator, or StorageError, which names the one that is. Scratch of killed builds goes."""
        with ExitStack() as held:
            with storage_errors(f"write {self.root}"):
                what = f"the nightly in {self.root}"
                held.enter_context(locked(self.root / "lock", what=what, timeout=_LOCK_TIMEOUT))
            self._drop_scratch()
            yield

    def _drop_scratch(self) -> None:
        """All of it at once: a build whose coordinator is gone must not fail for want of some file, and say why."""
        scratch = self.root / "scratch"
        if scratch.exists():
            with storage_errors(f"write {self.root}"):
                remove_folder(scratch)
        for left in self.root.glob(".scratch.*"):
            shutil.rmtree(left, ignore_errors=True)

    def nights(self) -> tuple[NightFolder, ...]:
        """All nights, the first one first."""
        root = self.root / "nights"
        paths = [path for path in (root.iterdir() if root.is_dir() else ()) if _NIGHT.fullmatch(path.name)]
        return tuple(sorted((NightFolder(folder=path) for path in paths), key=lambda one: one.order))

    def new_night(self, decisions: Sequence[Decision], day: date) -> NightFolder:
        """Begin a night of `day` with its plan."""
        nights = self.nights()
        numbers = [int(one.name.partition(".")[2]) for one in nights if one.name.startswith(f"{day}.")]
        folder = self.root / "nights" / f"{day}.{max(numbers, default=0) + 1}"
        sequence = max((one.sequence for one in nights), default=0) + 1
        with storage_errors(f"write {folder}"), new_folder(folder) as temporary:
            write_file(temporary / _SEQUENCE, f"{sequence}\n".encode())
            write_file(temporary / "plan.json", _plan_document(decisions))
            (temporary / "logs").mkdir()
        return NightFolder(folder=folder)

    def history(self, *, before: NightFolder | None = None) -> Iterator[tuple[str, Outcome]]:
        """Every build of every night, or of those before one: (the night's name, outcome), the first night first.

        None comes twice.
        """
        lines = {
            (line["night"], line["task"]): (line, path)
            for path in (self._history, *sorted(self.root.glob("history-*.jsonl")))
            for line in _builds(path)
        }
        found = [(_order(line.get(_SEQUENCE, 0), line["night"]), line, path) for line, path in lines.values()]
        end = before.order if before is not None else None
        for order, line, path in sorted(found, key=lambda one: one[0]):
            if end is None or order < end:
                yield line["night"], outcome_of(line, str(path))

    def failing(self) -> frozenset[tuple[str, str]]:
        """(model, toolchain) of what failed when it was last tried.

        A night that was withheld does not count: what broke in it is news until it is mended or let through.
        """
        lines = list(self.history())
        withheld = {night for night, one in lines if one.kind == "withheld"}
        last = {(one.model, one.toolchain): one.kind for night, one in lines if night not in withheld}
        return frozenset(place for place, kind in last.items() if kind in FAILURES)

    def add_history(self, night: NightFolder, outcomes: Iterable[Outcome]) -> None:
        """Record the builds of `night`; those that are recorded already are not again. Older months are moved away."""
        known = {line["task"] for line in _builds(self._history) if line["night"] == night.name}
        new = [one for one in outcomes if one.task not in known]
        head = {"night": night.name, _SEQUENCE: night.sequence}
        lines = [canonical_json({**head, **outcome_document(one)}) for one in new]
        with storage_errors(f"write {self._history}"):
            if lines:
                append_lines(self._history, lines)
            self._compact(_month(night.name))

    def _compact(self, month: str) -> None:
        """Move the lines of months before `month` into files of their own.

        Copied before they are removed: a kill in between leaves lines twice, which readers and the next call drop.
        """
        lines = list(_builds(self._history))
        for old in sorted({_month(line["night"]) for line in lines} - {month}):
            if old > month:
                continue
            path = self.root / f"history-{old}.jsonl"
            merged = {(one["night"], one["task"]): one for one in (*_builds(path), *lines)}
            kept = [one for one in merged.values() if _month(one["night"]) == old]
            write_file(path, b"".join(canonical_json(one) + b"\n" for one in kept))
        present = [one for one in lines if _month(one["night"]) >= month]
        if len(present) != len(lines):
            write_file(self._history, b"".join(canonical_json(one) + b"\n" for one in present))

    @property
    def _history(self) -> Path:
        return self.root / "history.jsonl"


def _plan_document(decisions: Sequence[Decision]) -> bytes:
    return json.dumps(
        {"format": _FORMAT, "decisions": [decision_document(one) for one in decisions]}, indent=1
    ).encode()


def _order(sequence: int, name: str) -> tuple[int, str, int]:
    day, _, number = name.partition(".")
    return sequence, day, int(number)


def _month(night: str) -> str:
    return night[:7]


def _read_json(path: Path) -> Mapping[str, Any]:
    with storage_errors(f"read {path}"):
        text = path.read_bytes()
    try:
        document = read_json(text)
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(document, dict):
        raise _damaged(path, "not an object")
    return document


def _damaged(path: Path, why: str) -> StorageError:
    return StorageError(f"{path} is damaged: {why}", hint="move this night's folder away and run again")


def _builds(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of the history, of which each says of which night and task it is."""
    for number, line in enumerate(read_lines(path), 1):
        night, task, sequence = line.get("night"), line.get("task"), line.get(_SEQUENCE, 0)
        named = isinstance(night, str) and _NIGHT.fullmatch(night) and isinstance(task, str)
        if not named or not isinstance(sequence, int):
            raise _damaged_line(path, number, "it is of no night and task")
        yield line


def _damaged_line(path: Path, number: int, why: str) -> StorageError:
    hint = "delete this line: what it told is lost, nothing else"
    return StorageError(f"{path}:{number} is damaged: {why}", hint=hint)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines; none where it is missing. The last line counts only with its end."""
    with storage_errors(f"read {path}"):
        data = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            value = read_json(line)
        except ValueError as error:
            raise _damaged_line(path, number, str(error)) from error
        if not isinstance(value, dict):
            raise _damaged_line(path, number, "not an object")
        yield value


_NIGHTS = 60
"""How many nights are looked at for outcomes: what failed is tried every night, so the last one mostly says all."""
_DAYS = 7
"""From a build to its publication at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Components by the key of the package that was made from them; the last outcome by task."""

    components: Mapping[Key, Mapping[str, str]] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)


def read_records(state: State, keys: Mapping[Key, str], tasks: Collection[str]) -> Records:
    """What is known of packages with these `keys` (by the time of their publication, ISO 8601) and of `tasks`.

    A night whose files are damaged says nothing.
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


def keep_inputs(state: State, nights: Sequence[NightFolder], keys: Collection[Key] | None) -> None:
    """Keep what is known of packages with these `keys` (None: of all) from `nights`, which are about to be removed.

    What was kept before of other packages is dropped. Raises StorageError.
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
    """What earlier calls of `keep_inputs` kept; nothing where the file is damaged."""
    try:
        return {line["key"]: line["inputs"] for line in read_lines(_inputs_file(state))}
    except (StorageError, KeyError, TypeError):
        return {}


def _inputs_file(state: State) -> Path:
    return state.root / "inputs.jsonl"


def _may_be_of(night: NightFolder, published: str) -> bool:
    """Whether what was published then may have been built in `night`: in that one, or in one that was withheld."""
    try:
        waited = date.fromisoformat(published[:10]) - date.fromisoformat(night.name[:10])
    except ValueError:
        return False
    return -1 <= waited.days <= _DAYS  # nights have the local date


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
