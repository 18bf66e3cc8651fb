"""Differences from earlier nights, and failures grouped by what they share. Pure.

Tasks are compared by id. If the plan has only one version of a model for a toolchain, the outcomes of earlier versions
count as its past too: often a new version fixes a failure.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tfaot_pkg.ground.wording import counted
from tfaot_pkg.nightly.depends import Dependent
from tfaot_pkg.nightly.types import FAILURES, Outcome, OutcomeKind, Task, goes_with

ChangeKind = Literal["newly failing", "still failing", "fixed", "new", "unchanged"]
Past = Sequence[tuple[str, OutcomeKind]]
"""A task's outcomes before tonight: (the night's name, kind), the oldest first."""

UNTRIED: frozenset[OutcomeKind] = frozenset({"skipped", "refused"})
"""Outcomes that do not show whether a model builds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How an outcome differs from the last one. `since` is the day of the first of the consecutive failures up to
    tonight, or up to the night before (`fixed`); `before` is the kind of the last outcome, None if the task is new.
    """

    kind: ChangeKind
    since: str = ""
    before: OutcomeKind | None = None


def day_of(night: str) -> str:
    return night.partition(".")[0]


def past_of(task: str, earlier: Iterable[tuple[str, str, OutcomeKind]], *, alone: bool) -> Past:
    """The past of `task` in `earlier` outcomes of its model and toolchain: night, task and kind, the oldest first.

    `alone`: tonight has no other version of them, so earlier versions count too.
    """
    found: dict[str, tuple[str, OutcomeKind]] = {}
    for night, other, kind in earlier:
        # Of two versions in one night, tonight's counts.
        if other == task or (alone and found.get(night, ("", ""))[0] != task):
            found[night] = (other, kind)
    return [(night, kind) for night, (_, kind) in found.items()]


def change_of(outcome: Outcome, night: str, past: Past) -> Change:
    """How `outcome`, of `night`, differs from `past`."""
    # A night that skipped the task does not end its failures.
    tried = [(name, kind) for name, kind in past if kind not in UNTRIED]
    before = past[-1][1] if past else None
    since = _first_of_last_failures(tried)
    if outcome.kind in FAILURES:
        failing: ChangeKind = "still failing" if since else "newly failing"
        return Change(kind=failing, since=since or day_of(night), before=before)
    if since and outcome.kind not in UNTRIED:
        return Change(kind="fixed", since=since, before=before)
    return Change(kind="unchanged" if past else "new", before=before)


def _first_of_last_failures(past: Past) -> str:
    """The day of the first of the failures at the end of `past`; empty if it does not end in a failure."""
    first = ""
    for name, kind in reversed(past):
        if kind not in FAILURES:
            break
        first = day_of(name)
    return first


def counts(outcomes: Iterable[Outcome]) -> Mapping[OutcomeKind, int]:
    """The number of outcomes of each kind that occurs, the worst kind first."""
    found = Counter(one.kind for one in outcomes)
    return {kind: found[kind] for kind in ORDER if found[kind]}


ORDER: tuple[OutcomeKind, ...] = get_args(OutcomeKind)


def natural(text: str) -> list[tuple[int, int, str]]:
    """The key by which people sort names with numbers: model_9 before model_10, 2.9 before 2.17."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", text) if part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Failures of one class; `models` has each once."""

    error_class: str
    tasks: tuple[str, ...]
    models: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.error_class}: {counted(len(self.models), 'model')}"


def groups_of(outcomes: Iterable[Outcome]) -> tuple[Group, ...]:
    """The failures by error class (by kind if they have none), those of most models first."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        if one.kind in FAILURES:
            found[one.error_class or one.kind].append(one)
    groups = [
        Group(
            error_class=name,
            tasks=tuple(one.task for one in members),
            models=tuple(sorted({one.model for one in members}, key=natural)),
        )
        for name, members in found.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-len(group.models), -len(group.tasks), group.error_class)))


def blast_radius(
    tasks: Iterable[Task], outcomes: Iterable[Outcome], published: Iterable[Dependent] = ()
) -> dict[str, tuple[str, ...]]:
    """For each failed task the ids of those that depend on it, directly or not, and are used with it: the nearest
    first. Excludes tasks without dependents, and those that failed only because a dependency did.

    `published` are packages of the registry: only those count for which the night has no task.
    """
    planned = [Dependent.of_task(task) for task in tasks]
    known = {(one.model, one.toolchain) for one in planned}
    others = [one for one in published if (one.model, one.toolchain) not in known]
    dependents: dict[str, list[Dependent]] = defaultdict(list)
    for one in (*planned, *others):
        for name in one.depends:
            dependents[name].append(one)
    radius = {}
    for outcome in outcomes:
        if outcome.kind in FAILURES - {"dependency failed"}:
            hit = _all_dependents(outcome.model, outcome.toolchain, dependents)
            if hit:
                radius[outcome.task] = hit
    return radius


def _all_dependents(model: str, toolchain: str, dependents: Mapping[str, list[Dependent]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    waiting = [(model, toolchain)]
    seen = {*waiting}
    while waiting:
        name, made_with = waiting.pop(0)
        for one in dependents.get(name, ()):
            place = (one.model, one.toolchain)
            if goes_with(one.toolchain, made_with):
                found.setdefault(one.id)
                if place not in seen:
                    seen.add(place)
                    waiting.append(place)
    return tuple(found)
