"""The content of a night's report, as one value; and reading it from the state folder."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.nightly.depends import Dependent
from tfaot_pkg.nightly.history import History, Measured
from tfaot_pkg.nightly.outcome import settled
from tfaot_pkg.nightly.regression import Worse, told_of, worse_in
from tfaot_pkg.nightly.report.comparison import (
    ORDER,
    Change,
    Group,
    blast_radius,
    change_of,
    counts,
    groups_of,
    natural,
    past_of,
)
from tfaot_pkg.nightly.report.log import Excerpt, excerpt
from tfaot_pkg.nightly.report.trends import LONGEST, Trend, figures_between, trends_of
from tfaot_pkg.nightly.run import FAILED, INFRASTRUCTURE, WITHHELD, exit_code_of
from tfaot_pkg.nightly.state import NightFolder, Record, State, Summary
from tfaot_pkg.nightly.types import FAILURES, Comparison, Decision, Outcome, OutcomeKind, Reason

UNFINISHED = 27
EXIT_CODES = {
    0: "nothing failed",
    FAILED: "models failed, and what depends on them; all others are published",
    WITHHELD: "with a toolchain nothing was published, because too many builds failed (policy.max_failures)",
    INFRASTRUCTURE: "machines failed, not models: some models' state is unknown",
    UNFINISHED: "the night is not over: tasks have no outcome yet",
}
"""Exit codes of `nightly report`: UNFINISHED, else the exit code of the night's run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """One task: its outcome, and what the report shows with it. `hits` are the ids of the tasks and published versions
    that depend on it, if it failed. `owners` are mail addresses. `comparison` is with the release that was published
    before, None if there is none, or nothing was built or timed.
    """

    outcome: Outcome
    reasons: tuple[Reason, ...]
    change: Change
    trends: tuple[Trend, ...]
    hits: tuple[str, ...] = ()
    log: Excerpt | None = None
    owners: tuple[str, ...] = ()
    comparison: Comparison | None = None

    @property
    def unlike(self) -> str:
        """The release of this version before it, if its answers to the pinned inputs have other bits; else ""."""
        known = self.comparison
        return known.base if known is not None and known.apart is not None and known.is_of_one_version else ""

    @property
    def failed(self) -> bool:
        return self.outcome.kind in FAILURES

    @property
    def happened(self) -> str:
        """What became of it: the error, or what was built, with the reasons."""
        if self.outcome.error:
            return self.outcome.error
        why = "; ".join(map(str, self.reasons))
        if self.outcome.kind != "published":
            return why
        return f"published as {self.outcome.release}" + (f" ({why})" if why else "")

    @property
    def regressions(self) -> tuple[Worse, ...]:
        return worse_in(self.comparison) if self.comparison is not None else ()

    @property
    def bisection(self) -> str:
        """The command that names what made it worse, or answer otherwise, than the release before; else ""."""
        known = self.comparison
        if known is None or not (self.regressions or self.unlike):
            return ""
        return f"tfaot-pkg nightly bisect {shlex.join((self.outcome.task, known.base, known.release))}"

    @property
    def has_news(self) -> bool:
        """Whether something happened: only then the task has a page of its own."""
        return bool(self.outcome.kind not in _QUIET or self.change.kind == "fixed" or self.regressions or self.unlike)


_QUIET = frozenset({"up to date", "skipped"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A model in the grid of a night: its tasks by toolchain, in the order of `Report.toolchains`."""

    model: str
    cells: tuple[tuple[TaskReport, ...], ...]

    @property
    def kinds(self) -> tuple[OutcomeKind, ...]:
        return tuple(sorted({one.outcome.kind for cell in self.cells for one in cell}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A night. `before` is the name of the one before it, empty for the first; `pending` are tasks without outcome,
    `gone` tasks of the night before that are no longer planned; `withheld` says why some were not published, if so.
    `excluded` are workers that got no more builds, with the reason; `builders` and `made_with` as in night.json.
    """

    night: str
    before: str
    tasks: tuple[TaskReport, ...]
    groups: tuple[Group, ...]
    pending: tuple[str, ...]
    gone: tuple[str, ...]
    withheld: str = ""
    excluded: Mapping[str, str] = field(default_factory=dict)
    builders: Mapping[str, int] = field(default_factory=dict)
    made_with: Record | None = None

    @property
    def counts(self) -> Mapping[OutcomeKind, int]:
        """The number of tasks of each kind of outcome that occurs, the worst kind first."""
        return counts(one.outcome for one in self.tasks)

    @property
    def failed(self) -> tuple[TaskReport, ...]:
        return tuple(one for one in self.tasks if one.failed)

    @property
    def toolchains(self) -> tuple[str, ...]:
        return tuple(sorted({one.outcome.toolchain for one in self.tasks}, key=natural))

    @property
    def grid(self) -> tuple[Line, ...]:
        """All models with their tasks by toolchain."""
        found: dict[str, dict[str, list[TaskReport]]] = {}
        for one in self.tasks:
            found.setdefault(one.outcome.model, {}).setdefault(one.outcome.toolchain, []).append(one)
        return tuple(
            Line(model=model, cells=tuple(tuple(found[model].get(name, ())) for name in self.toolchains))
            for model in sorted(found, key=natural)
        )

    def changed(self, kind: str) -> tuple[TaskReport, ...]:
        """The tasks whose change is of this kind."""
        return tuple(one for one in self.tasks if one.change.kind == kind)

    @property
    def regressed(self) -> tuple[TaskReport, ...]:
        return tuple(one for one in self.tasks if one.regressions)

    @property
    def answering_otherwise(self) -> tuple[TaskReport, ...]:
        """The tasks whose answers have other bits than those of the release before."""
        return tuple(one for one in self.tasks if one.unlike)

    @property
    def exit_code(self) -> int:
        """One of EXIT_CODES."""
        return UNFINISHED if self.pending else exit_code_of(self.counts, withheld=bool(self.withheld))

    @property
    def headline(self) -> str:
        """The night in one sentence: "12 tasks: 2 build failed, 9 published, 1 up to date; 1 newly failing"."""
        total = len(self.tasks) + len(self.pending)
        if not total:
            return "Nothing was planned."
        parts = [f"{count:,} {kind}" for kind, count in self.counts.items()]
        if self.pending:
            parts.append(f"{len(self.pending):,} without an outcome")
        first = f"{counted(total, 'task')}: {', '.join(parts)}"
        return f"{'; '.join(filter(None, (first, self.news)))}."

    @property
    def news(self) -> str:
        """What differs from the night before: "1 newly failing, 1 with a figure that got worse"."""
        changes = [(len(self.changed(kind)), kind) for kind in ("newly failing", "still failing", "fixed")]
        told = [f"{count:,} {kind}" for count, kind in changes if count]
        if self.regressed:
            told.append(f"{len(self.regressed):,} with a figure that got worse")
        if self.answering_otherwise:
            told.append(f"{len(self.answering_otherwise):,} with other answers")
        return ", ".join(told)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightChange:
    """A task that differs between two nights: outcome and release ("" for a night without it), and figures."""

    task: str
    before: str
    after: str
    figures: tuple[str, ...] = ()

    def __str__(self) -> str:
        ends = [self.before or "not planned"]
        if self.after != self.before:
            ends.append(self.after or "not planned")
        return "; ".join([f"{self.task}: {' -> '.join(ends)}", *self.figures])


def changes_between(before: Report, after: Report) -> tuple[NightChange, ...]:
    """What differs from one night to another one, by task as people sort."""
    old, new = (
        {one.outcome.task: f"{one.outcome.kind} {one.outcome.release}".strip() for one in report.tasks}
        for report in (before, after)
    )
    first, last = ({one.outcome.task: one for one in report.tasks} for report in (before, after))
    changes = [
        NightChange(
            task=task,
            before=old.get(task, ""),
            after=new.get(task, ""),
            figures=_figures_between(first.get(task), last.get(task)),
        )
        for task in sorted(old.keys() | new.keys(), key=natural)
    ]
    return tuple(one for one in changes if one.before != one.after or one.figures)


def _figures_between(before: TaskReport | None, after: TaskReport | None) -> tuple[str, ...]:
    """Figures of two nights, and what the later one measured beside the release before it."""
    if after is None:
        return ()
    old = before.outcome.figures if before is not None else None
    found = figures_between(old, after.outcome.figures)
    return (
        (*found, *(f"beside {after.comparison.base}: {each}" for each in told_of(after.comparison)))
        if (after.comparison is not None)
        else found
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What nights before one built: `outcomes` of a model with a toolchain (night, task, kind), the oldest first;
    `measured` figures of it, or of one task of it. `comparisons` are those of this night, by task.
    """

    outcomes: Callable[[str, str], Sequence[tuple[str, str, OutcomeKind]]]
    measured: Callable[[str, str, str], Sequence[Measured]]
    comparisons: Mapping[str, Comparison]

    @classmethod
    def of(cls, history: History, night: NightFolder) -> Earlier:
        order = night.order
        return cls(
            outcomes=lambda model, toolchain: history.of(model, toolchain, before=order),
            measured=lambda model, toolchain, task: history.measured(
                model, toolchain, task=task, before=order, most=LONGEST
            ),
            comparisons=history.comparisons(night.name),
        )


def make_report(
    night: str,
    decisions: Sequence[Decision],
    outcomes: Iterable[Outcome],
    *,
    before: tuple[str, Sequence[Outcome]],
    earlier: Earlier,
    log_of: Callable[[Outcome], Excerpt | None],
    published: Callable[[], Iterable[Dependent]] = tuple,
    withheld: str = "",
    summary: Summary | None = None,
) -> Report:
    """The report of `night`, given its plan and outcomes, those of the night `before` it (its name and its outcomes,
    empty for the first), and what `earlier` nights built. `log_of` gives what to show of a failed task's log,
    `published` the registry's packages that need others: it is called only if something failed.
    """
    known = {one.task: one for one in outcomes}
    by_id = {one.task.id: one for one in decisions}
    tonight = [known.get(task) or _untouched(decision) for task, decision in by_id.items()]
    there = [one for one in tonight if one is not None]
    versions = Counter((one.model, one.toolchain) for one in there)
    last = defaultdict[tuple[str, str], list[tuple[str, str, OutcomeKind]]](list)
    for one in before[1]:
        last[one.model, one.toolchain].append((before[0], one.task, one.kind))
    has_failed = any(one.kind in FAILURES for one in there)
    hit = blast_radius((one.task for one in decisions), there, published()) if has_failed else {}

    def told(outcome: Outcome) -> TaskReport:
        place = (outcome.model, outcome.toolchain)
        alone = versions[place] == 1
        # The history has builds only; the night before adds its outcomes without a build.
        past = past_of(outcome.task, [*earlier.outcomes(*place), *last[place]], alone=alone)
        return TaskReport(
            outcome=outcome,
            reasons=outcome.reasons or by_id[outcome.task].reasons,
            change=change_of(outcome, night, past),
            trends=_trends(outcome, night, earlier, alone=alone) if outcome.kind not in _QUIET else (),
            hits=hit.get(outcome.task, ()),
            log=log_of(outcome) if outcome.kind in FAILURES else None,
            owners=by_id[outcome.task].task.owners,
            comparison=earlier.comparisons.get(outcome.task),
        )

    return Report(
        night=night,
        before=before[0],
        tasks=tuple(
            sorted(map(told, there), key=lambda one: (ORDER.index(one.outcome.kind), natural(one.outcome.task)))
        ),
        groups=groups_of(there),
        pending=tuple(task for task, one in zip(by_id, tonight, strict=True) if one is None),
        gone=tuple(sorted({one.task for one in before[1]} - by_id.keys(), key=natural)),
        withheld=withheld,
        excluded=summary.excluded if summary is not None else {},
        builders=summary.builders if summary is not None else {},
        made_with=summary.made_with if summary is not None else None,
    )


def _trends(outcome: Outcome, night: str, earlier: Earlier, *, alone: bool) -> tuple[Trend, ...]:
    """The figures of a task up to `outcome`; a result that an earlier night measured is not measured twice."""
    builds = earlier.measured(outcome.model, outcome.toolchain, "" if alone else outcome.task)
    if outcome.figures is not None and all(one.key != outcome.key for one in builds):
        own = Measured(night=night, release=outcome.release, key=outcome.key, figures=outcome.figures)
        builds = [*builds, own]
    return trends_of(builds)


def _untouched(decision: Decision) -> Outcome | None:
    """The outcome of a task that needed no build; None for others."""
    return settled(decision) if decision.action in ("up to date", "skip") else None


_LARGEST_HALF = 1 << 20
"""Bytes that are read of a log's beginning, and of its end: it may have policy.output bytes."""


def find_night(state: State, name: str = "") -> NightFolder:
    """The night of this name, or the last one. Raises StorageError if there is none."""
    nights = state.nights()
    if not nights:
        raise StorageError(
            f"no night was run in {state.root}",
            hint="start one with tfaot-pkg nightly run, or name its folder: --state",
        )
    if not name:
        return nights[-1]
    for night in nights:
        if night.name == name:
            return night
    last = ", ".join(night.name for night in nights[-5:])
    raise StorageError(f"there is no night {name} in {state.root}", hint=f"the last ones are {last}")


def read_report(state: State, night: NightFolder, published: Callable[[], Iterable[Dependent]] = tuple) -> Report:
    """The report of `night`, finished or not; `published` is as for `make_report`. Raises StorageError."""
    nights = state.nights()
    place = nights.index(night)
    before = nights[place - 1] if place else None
    gate, summary = night.gate(), night.summary()
    return make_report(
        night.name,
        night.decisions(),
        night.outcomes(),
        before=(before.name, before.outcomes()) if before else ("", ()),
        earlier=Earlier.of(state.history, night),
        log_of=lambda outcome: _log(night, outcome),
        published=published,
        withheld=gate.withheld if gate is not None else "",
        summary=summary,
    )


def _log(night: NightFolder, outcome: Outcome) -> Excerpt | None:
    path = night.folder / outcome.log
    # Builders can write into the state folder: an outcome could name a file anywhere.
    if not outcome.log or not path.resolve().is_relative_to(night.folder.resolve()) or not path.is_file():
        return None
    return excerpt(_content(path), outcome.log, outcome.error)


def _content(path: Path) -> str:
    """The log as text; the middle of a very long one is left out."""
    with storage_errors(f"read {path}"), path.open("rb") as file:
        data = file.read(_LARGEST_HALF)
        size = path.stat().st_size
        if size > 2 * _LARGEST_HALF:
            file.seek(size - _LARGEST_HALF)
            data += f"\n[{size - 2 * _LARGEST_HALF:,} bytes are left out]\n".encode()
        data += file.read(_LARGEST_HALF)
    return data.decode("utf-8", "replace")
