"""What the builds of a plan cost, by what the same ones took and gave the last time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tfaot_pkg.nightly.depends import Dependent
from tfaot_pkg.nightly.types import Decision, Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of `builds`: `seconds` of machines, one build on each at a time, and `size` in bytes of the libraries.

    `guessed` are the tasks whose model was never built: they count as the median of all; nothing, if nothing was built
    yet. `dependents` are models that are not built themselves, and whose packages need one that is, also by others.
    """

    builds: int
    seconds: float
    size: int
    guessed: tuple[str, ...]
    dependents: tuple[str, ...]


def cost_of(
    decisions: Sequence[Decision], last: Mapping[tuple[str, str], Figures], published: Iterable[Dependent]
) -> Cost:
    """The cost of those `decisions` that build. `last`: the last figures by model and toolchain. Pure."""
    built = [one.task for one in decisions if one.action == "build"]
    by_model: dict[str, list[Figures]] = {}
    for (model, _), figures in last.items():
        by_model.setdefault(model, []).append(figures)
    every = list(last.values())
    same = (last.get((one.model, one.toolchain)) for one in built)
    found = [[figures] if figures else by_model.get(one.model, []) for one, figures in zip(built, same, strict=True)]
    counted = [each or every for each in found]
    return Cost(
        builds=len(built),
        seconds=sum(median(one.build_time for one in each) for each in counted if each),
        size=round(sum(median(one.library_size for one in each) for each in counted if each)),
        guessed=tuple(one.id for one, each in zip(built, found, strict=True) if not each),
        dependents=_dependents({one.model for one in built}, published),
    )


def _dependents(built: set[str], published: Iterable[Dependent]) -> tuple[str, ...]:
    needs: dict[str, set[str]] = {}
    for one in published:
        needs.setdefault(one.model, set()).update(one.depends)
    reached = built
    while more := {model for model, needed in needs.items() if model not in reached and needed & reached}:
        reached = reached | more
    return tuple(sorted(reached - built))
