"""Which task needs which, and the order in which they are published. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from tfaot_pkg.errors import SpecError
from tfaot_pkg.nightly.types import Decision

Place = tuple[str, str]  # a model, and a toolchain


def by_place(decisions: Sequence[Decision]) -> dict[Place, Decision]:
    """Each decision by its model and toolchain."""
    return {(one.task.model, one.task.toolchain): one for one in decisions}


def needed(decision: Decision, places: Mapping[Place, Decision]) -> list[Decision]:
    """What must not have failed for `decision` to be published: its dependencies, for the same toolchain."""
    wanted = [(model, decision.task.toolchain) for model in decision.task.depends]
    return [places[place] for place in wanted if place in places]


def in_order(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """`decisions` with each one's dependencies before it. Raises SpecError where there is a circle."""
    places = by_place(decisions)
    by_id = {one.task.id: one for one in decisions}
    graph = {name: [need.task.id for need in needed(one, places)] for name, one in sorted(by_id.items())}
    try:
        return tuple(by_id[name] for name in TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise SpecError(f"models depend on one another in a circle: {circle}", hint="take one `depends` out") from error
