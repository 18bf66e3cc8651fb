"""The tasks of a night and their reasons, from a definition, a registry and records of past nights. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import get_args

from tfaot_pkg.errors import SourceError, SpecError, TfaotError
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.nightly import reasons
from tfaot_pkg.nightly.depends import dependencies_of
from tfaot_pkg.nightly.models import Model, Models, Unreadable
from tfaot_pkg.nightly.state import Records
from tfaot_pkg.nightly.types import (
    TO_BUILD,
    Action,
    ChangedSource,
    Decision,
    KnownBroken,
    ModelEntry,
    NightlyDefinition,
    Reason,
    Task,
    toolchain_in,
)
from tfaot_pkg.pipeline.pipeline import Plan
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.spec.rules import package_name, version_fault

PlanAt = Callable[[str], Plan]
"""The keys of a task at a version. Raises TfaotError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The tasks to plan: a pattern for names, toolchains (none: all), and a filter of models that changed."""

    model: str = "*"
    toolchains: tuple[str, ...] = ()
    touched: Callable[[Model | Unreadable], bool] = lambda _: True
    is_whole: bool = True

    def takes(self, model: Model | Unreadable) -> bool:
        name = model.spec.model.name if isinstance(model, Model) else model.name
        return fnmatchcase(name, self.model) and self.touched(model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A task with the entry and number of its newest build in the registry, None and 0 if there is none.

    Then `sibling` is a build of the same version for another toolchain, if there is one. `yanked` are its older builds
    that were yanked.
    """

    task: Task
    model: Model
    published: RegistryEntry | None
    number: int
    broken: KnownBroken | None
    sibling: RegistryEntry | None = None
    yanked: tuple[RegistryEntry, ...] = ()


def candidates(
    definition: NightlyDefinition,
    models: Models,
    selection: Selection,
    entries: Callable[[str], Sequence[RegistryEntry]],
) -> tuple[Candidate, ...]:
    """All tasks in `selection`; `entries` gives a package's versions. Raises what `entries` raises."""
    found = []
    for model in filter(selection.takes, models.readable):
        versions = entries(package_name(model.spec.model.name))
        for task in model.tasks(definition):
            if not selection.toolchains or task.toolchain in selection.toolchains:
                entry, number = newest_build(task, versions)
                broken = model.entry.known_broken.get(task.toolchain)
                # Needed only for the first build with a toolchain: later ones are compared with the task's own.
                sibling = sibling_of(task, versions) if entry is None else None
                yanked = yanked_builds(task, versions)
                found.append(
                    Candidate(
                        task=task,
                        model=model,
                        published=entry,
                        number=number,
                        broken=broken,
                        sibling=sibling,
                        yanked=yanked,
                    )
                )
    return tuple(found)


def newest_build(task: Task, versions: Sequence[RegistryEntry]) -> tuple[RegistryEntry | None, int]:
    """The entry of the highest build number of `task` for its architecture, and the number before the next one.

    Pure. A build that is there for other architectures only is not the task's, but its number is the task's next one.
    """
    builds, machine = _builds(task, versions), _architecture(task)
    # Yanked builds count, because their numbers are taken; b10 is newer than b9.
    last, entry = max(builds, key=lambda one: one[0], default=(0, None))
    own = [(number, found) for number, one in builds if (found := one.on(machine)) is not None]
    newest = max(own, key=lambda one: one[0], default=(0, None))[1]
    lacks_this = entry is not None and entry.on(machine) is None and entry.yanked is None
    return newest, last - 1 if lacks_this else last


def _architecture(task: Task) -> str:
    """That of the targets of `task`; empty if they are not known."""
    return TARGETS[task.targets[0]].architecture if task.targets else ""


def yanked_builds(task: Task, versions: Sequence[RegistryEntry]) -> tuple[RegistryEntry, ...]:
    """The builds of `task` that were yanked. Pure."""
    here = (entry.on(_architecture(task)) for _, entry in _builds(task, versions))
    # What was retired is missing for its age alone.
    return tuple(one for one in here if one is not None and one.yanked is not None and not one.retired)


def _builds(task: Task, versions: Sequence[RegistryEntry]) -> list[tuple[int, RegistryEntry]]:
    wanted = re.compile(re.escape(task.builds) + "([1-9][0-9]*)")
    return [(int(found[1]), entry) for entry in versions if (found := wanted.fullmatch(entry.version))]


def sibling_of(task: Task, versions: Sequence[RegistryEntry]) -> RegistryEntry | None:
    """The newest build of the version of `task` for any toolchain, among those that are not yanked. Pure."""
    found = [
        entry
        for entry in versions
        if entry.yanked is None and entry.version.startswith(f"{task.version}+") and toolchain_in(entry.version)
    ]
    return max(found, key=lambda entry: entry.rank, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Facts about published packages that the index does not have.

    `unverified` gives the reasons why a package counts as unverified, `source` the digest of the model's files from
    which it was built, None if that is unknown. Neither raises.
    """

    unverified: Callable[[RegistryEntry], tuple[Reason, ...]]
    source: Callable[[RegistryEntry], str | None]


def decide(
    candidate: Candidate, plan_at: PlanAt, known: Published, changed_source: ChangedSource = "refuse"
) -> Decision:
    """The decision; a build's reasons are those that need no records (`explained` adds the others).

    With `changed_source` "refuse", a version whose model changed is refused instead of becoming the next build of that
    version, or its first one for another toolchain: users of the version expect the same model.
    """
    task, published = candidate.task, candidate.published
    doubts: tuple[Reason, ...] = ()
    try:
        _require_version(task)
        if published is not None:
            plan = plan_at(published.version)
            if plan.key == published.key and not published.retired:
                _require_not_yanked(published)
                doubts = (*_depends(published, task), *known.unverified(published))
                if candidate.broken is None and not doubts:
                    return _decision(task, "up to date", (), published.version, plan.key)
            elif changed_source == "refuse":
                _require_same_source(task, published, plan, known)
        # Inputs may come back that gave an older build, which was yanked: its next build would be as wrong.
        for entry in candidate.yanked:
            if plan_at(entry.version).key == entry.key:
                _require_not_yanked(entry)
        # The key includes the version, so the next build has another plan than the published one.
        release = task.release(candidate.number + 1)
        plan = plan_at(release)
        if candidate.sibling is not None and changed_source == "refuse":
            _require_same_source(task, candidate.sibling, plan, known)
    except TfaotError as error:
        # If a model is known to be broken, an error of its planning is no news.
        if candidate.broken is None:
            return failed(task, error)
        return _decision(task, "skip", (reasons.known_broken(candidate.broken),), task.release(1), Key(""))
    if candidate.broken is not None:
        return _decision(task, "skip", (reasons.known_broken(candidate.broken),), release, plan.key)
    decision = _decision(task, "build", doubts, release, plan.key)
    return replace(decision, inputs=plan.components)


def explained(decision: Decision, candidate: Candidate, records: Records, where: reasons.Where) -> Decision:
    """`decision` with all reasons if it is a build, else unchanged. Pure."""
    if decision.action != "build":
        return decision
    found = (*reasons.last_outcome(records.outcomes.get(decision.task.id)), *decision.reasons)
    published = candidate.published
    # A decision with reasons is a doubt about the package (yanked, unverified): its inputs are the same.
    if published is not None and not decision.reasons:
        before = records.components.get(published.key)
        tensorflow = decision.task.tensorflow
        found += (
            (reasons.NO_RECORD,)
            if before is None
            else reasons.changes(before, decision.inputs, tensorflow=tensorflow, where=where)
        )
    return replace(decision, reasons=found or (reasons.NEVER_BUILT,))


def failed(task: Task, error: TfaotError) -> Decision:
    """The decision about a task that cannot be planned."""
    reason = Reason(what=error.kind, detail=error.message)
    action = "refuse" if isinstance(error, _Refused) else "fail"
    return _decision(task, action, (reason,), task.release(1) if task.version else "", Key(""))


def unreadable(one: Unreadable, definition: NightlyDefinition, selection: Selection) -> Iterator[Decision]:
    """The decisions about a spec that cannot be read: one per toolchain, if that does not depend on the spec."""
    for task in one.entry.tasks(definition, one.name, one.version, one.path, toolchain="", targets=()):
        if task.toolchain in (selection.toolchains or (task.toolchain,)):
            yield failed(task, one.error)


def targets_place(definition: NightlyDefinition, entry: ModelEntry, number: int) -> tuple[str | int, ...]:
    """The path of the targets of an entry's models in the definition; () if their specs give them."""
    if entry.targets:
        return ("models", number, "targets")
    return ("targets",) if definition.targets else ()


def _decision(task: Task, action: str, why: tuple[Reason, ...], release: str, key: Key) -> Decision:
    return Decision(task=task, action=action, reasons=why, release=release, key=key)  # type: ignore[arg-type]


class _Refused(SourceError):
    """What would be built is not what users of the version expect."""


def _require_not_yanked(published: RegistryEntry) -> None:
    """Raise _Refused if `published`, which the same inputs gave, was yanked: they would give the same package."""
    if published.yanked is not None:
        raise _Refused(
            f"{published.version} was yanked{f': {published.yanked}' if published.yanked else ''}; its inputs are the "
            "same as now, and not built again"
        )


def _require_same_source(task: Task, published: RegistryEntry, plan: Plan, known: Published) -> None:
    before = known.source(published)
    if before is not None and before != plan.source.digest:
        raise _Refused(
            f"the model's files differ from those that {published.version} was built from, but model.version is still "
            f"{task.version}: raise model.version in {task.spec}, or set policy.changed_source to build"
        )


def _depends(published: RegistryEntry, task: Task) -> tuple[Reason, ...]:
    """The reason if `published` needs other packages in the index than in the definition now."""
    before, now = set(published.dependencies), set(dependencies_of(task))
    return () if before == now else (reasons.depends(before, now),)


def _require_version(task: Task) -> None:
    """Raise SpecError for a version to which no build number can be appended."""
    if fault := version_fault(task.release(1)):
        raise SpecError(
            f"{task.spec}: model.version: {task.version} cannot get a build number ({task.release(1)}): {fault}",
            hint="give a version without a local part ('+...')",
        )


def summary(decisions: Sequence[Decision]) -> Mapping[str, int]:
    """The number of decisions per action."""
    counts = dict.fromkeys(get_args(Action), 0)
    for decision in decisions:
        counts[decision.action] += 1
    return counts


_NOT_PUBLISHED = "it is not published: the next night plans it anew"
# The fields of a task that are not in its id: tasks with the same id may still differ in these.
_FIELDS = ("spec", "origin", "defines", "targets", "depends")


def not_planned(stored: Sequence[Decision], planned: Sequence[Decision]) -> dict[str, str]:
    """The tasks of the plan `stored` that may not be published, with the reason: `planned`, made now, says otherwise.

    Builders can write into the state folder, and must not be able to have something signed that the definition does
    not ask for. A task that is "up to date" by now was published before the night was cut off.
    """
    now = {one.task.id: one for one in planned}
    refused = {}
    for one in stored:
        why = _difference(one, now.get(one.task.id))
        if why:
            refused[one.task.id] = f"the plan of this night, in the state folder, {why}; {_NOT_PUBLISHED}"
    return refused


def _difference(stored: Decision, planned: Decision | None) -> str:
    if planned is None:
        return "names a task that the definition does not have"
    if stored.task != planned.task:
        return f"differs from the definition: {_of_tasks(stored.task, planned.task)}"
    # Only builds are signed; the outcome of any other action publishes nothing.
    if stored.action not in TO_BUILD:
        return ""
    if planned.action not in (*TO_BUILD, "up to date"):
        return f"asks for a build, the definition does not: {planned.action}"
    if (stored.release, stored.key) != (planned.release, planned.key):
        return f"is about another build ({stored.release}) than the definition, the spec and the model give now"
    return ""


def _of_tasks(stored: Task, planned: Task) -> str:
    for name in _FIELDS:
        if getattr(stored, name) != getattr(planned, name):
            return f"{name} is {getattr(stored, name)}, which should be {getattr(planned, name)}"
    return "it is another task"
