"""What packages need of one another: `depends` of the definition, which the index has as `dependencies`.

A model's library needs no other library to run. Only the registry's maintainer knows what its users need with it, so
that is given in registry.yaml, and goes from there into the index line that is published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from tfaot_pkg.errors import RegistryError, SpecError
from tfaot_pkg.nightly.types import OWN, Decision, Task, goes_with, toolchain_in
from tfaot_pkg.package.name import model_of
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.reader import RegistryReader, Requirement
from tfaot_pkg.spec.rules import package_name

_TENSORFLOW = "tensorflow "
"""What the `toolchain` of an entry begins with if it is a release of TensorFlow."""


def _toolchain_of(entry: RegistryEntry) -> str:
    """The toolchain of the task that `entry` is the result of."""
    # Earlier versions named packages without TensorFlow by a release of it as well.
    if not entry.toolchain.startswith(_TENSORFLOW):
        return OWN
    return toolchain_in(entry.version) or entry.toolchain.removeprefix(_TENSORFLOW)


class Unserved(RegistryError):
    """A package that another one needs is not in the registry: installing would fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependent:
    """A model for a toolchain, and the models that it needs. `id` is a task's, or a published version's."""

    id: str
    model: str
    toolchain: str
    depends: tuple[str, ...]

    @classmethod
    def of_task(cls, task: Task) -> Dependent:
        return cls(id=task.id, model=task.model, toolchain=task.toolchain, depends=task.depends)

    @classmethod
    def of_entry(cls, entry: RegistryEntry) -> Dependent:
        """Raises RegistryError if a requirement of the entry cannot be read."""
        packages = [Requirement.parse(text).package for text in entry.dependencies]
        return cls(
            id=f"{entry.model}@{entry.version}",
            model=entry.model,
            toolchain=_toolchain_of(entry),
            depends=tuple(map(model_of, packages)),
        )


def dependencies_of(task: Task) -> tuple[str, ...]:
    """The requirements of `task`'s package in the index: any version of these packages, sorted."""
    return tuple(sorted(map(package_name, task.depends)))


def require_served(dependencies: Iterable[str], reader: RegistryReader | None, needed_by: str) -> None:
    """Raise Unserved if `reader` has no installable version of one of these packages."""
    for package in dependencies:
        if reader is None or all(entry.yanked is not None for entry in reader.entries(package)):
            raise Unserved(
                f"{needed_by} needs {model_of(package)}, of which nothing is published",
                hint="a night that builds it publishes both",
            )


def published_dependents(reader: RegistryReader) -> Iterator[Dependent]:
    """The newest version, for each toolchain, of all packages that need others. Raises RegistryError, TrustError.

    Also those that no definition names any more: they stay installable as long as their requirements are.
    """
    for name in reader.names():
        for entry in newest_by_toolchain(reader.entries(name)):
            if entry.dependencies:
                yield Dependent.of_entry(entry)


def newest_by_toolchain(entries: Sequence[RegistryEntry]) -> tuple[RegistryEntry, ...]:
    """The newest of `entries` for each toolchain that is not yanked. Pure."""
    found: dict[str, RegistryEntry] = {}
    for entry in sorted(entries, key=lambda one: one.rank):
        if entry.yanked is None:
            found[_toolchain_of(entry)] = entry
    return tuple(found.values())


Place = tuple[str, str]  # a model, and a toolchain


def by_place(decisions: Sequence[Decision]) -> dict[Place, Decision]:
    """Each decision by its model and toolchain."""
    return {(one.task.model, one.task.toolchain): one for one in decisions}


def needed(decision: Decision, places: Mapping[Place, Decision]) -> list[Decision]:
    """The dependencies of `decision` that it is used with: it is published only if none of them failed."""
    task = decision.task
    # Other dependencies have no task in this night: `require_served` looks for them in the registry.
    return [
        place
        for wanted in task.depends
        for (model, toolchain), place in places.items()
        if model == wanted and goes_with(toolchain, task.toolchain)
    ]


def in_order(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """`decisions`, each after its dependencies. Raises SpecError for a cycle."""
    places = by_place(decisions)
    by_id = {one.task.id: one for one in decisions}
    graph = {name: [need.task.id for need in needed(one, places)] for name, one in sorted(by_id.items())}
    try:
        return tuple(by_id[name] for name in TopologicalSorter(graph).static_order())
    except CycleError as error:
        # graphlib lists the circle backwards: each task before the one that needs it.
        circle = " -> ".join(reversed(error.args[1]))
        raise SpecError(f"models depend on one another in a circle: {circle}", hint="take one `depends` out") from error
