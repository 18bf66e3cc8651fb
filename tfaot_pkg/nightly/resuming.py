"""Whether the stored plan of a night that was cut off is one that the definition gives. Pure.

Builders can write in the state folder. Whoever changes a plan there, say the path of a spec, must not have something
else signed than the definition asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfaot_pkg.nightly.types import Decision, Task

_NOT_PUBLISHED = "it is not published: the next night plans it anew"
_FIELDS = ("spec", "origin", "defines", "targets", "depends")


def not_planned(stored: Sequence[Decision], planned: Sequence[Decision]) -> dict[str, str]:
    """What of the plan `stored` may not be published because `planned`, made from the definition now, says otherwise.

    By task, with why. What is "up to date" by now was published before the night was cut off.
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
    if stored.action != "build":
        return ""
    if planned.action not in ("build", "up to date"):
        return f"asks for a build, the definition does not: {planned.action}"
    if (stored.release, stored.key) != (planned.release, planned.key):
        return f"is about another build ({stored.release}) than the definition, the spec and the model give now"
    return ""


def _of_tasks(stored: Task, planned: Task) -> str:
    for name in _FIELDS:
        if getattr(stored, name) != getattr(planned, name):
            return f"{name} is {getattr(stored, name)}, which should be {getattr(planned, name)}"
    return "it is another task"
