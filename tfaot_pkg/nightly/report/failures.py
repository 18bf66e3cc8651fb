"""Failures by what they have in common, and what else they hit. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tfaot_pkg.nightly.depends import Dependent
from tfaot_pkg.nightly.types import FAILURES, Outcome, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Failures of one class; `models` has each once."""

    error_class: str
    tasks: tuple[str, ...]
    models: tuple[str, ...]

    def __str__(self) -> str:
        count = len(self.models)
        return f"{self.error_class}: {count} model{'' if count == 1 else 's'}"


def groups_of(outcomes: Iterable[Outcome]) -> tuple[Group, ...]:
    """The failures by error class (by kind where they have none), what hits most models first."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        if one.kind in FAILURES:
            found[one.error_class or one.kind].append(one)
    groups = [
        Group(
            error_class=name,
            tasks=tuple(one.task for one in members),
            models=tuple(sorted({one.model for one in members})),
        )
        for name, members in found.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-len(group.models), -len(group.tasks), group.error_class)))


def blast_radius(
    tasks: Iterable[Task], outcomes: Iterable[Outcome], published: Iterable[Dependent] = ()
) -> dict[str, tuple[str, ...]]:
    """For each failed task the ids of those that depend on it, directly or not, with the same toolchain: the nearest
    first. Tasks on which nothing depends are left out, and those that failed for a dependency's sake alone.

    `published` are packages of the registry: those count of which the night has no task, which says it better.
    """
    planned = [Dependent.of_task(task) for task in tasks]
    known = {(one.model, one.toolchain) for one in planned}
    others = [one for one in published if (one.model, one.toolchain) not in known]
    dependents: dict[tuple[str, str], list[Dependent]] = defaultdict(list)
    for one in (*planned, *others):
        for name in one.depends:
            dependents[name, one.toolchain].append(one)
    radius = {}
    for outcome in outcomes:
        if outcome.kind in FAILURES - {"dependency failed"}:
            hit = _all_dependents(outcome.model, outcome.toolchain, dependents)
            if hit:
                radius[outcome.task] = hit
    return radius


def _all_dependents(model: str, toolchain: str, dependents: dict[tuple[str, str], list[Dependent]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    waiting, seen = [model], {model}
    while waiting:
        for one in dependents.get((waiting.pop(0), toolchain), ()):
            found.setdefault(one.id)
            if one.model not in seen:
                seen.add(one.model)
                waiting.append(one.model)
    return tuple(found)
