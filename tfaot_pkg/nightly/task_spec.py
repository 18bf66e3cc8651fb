"""The spec that a task builds: its model's, at the version that is published, for the task's toolchain and targets."""

from __future__ import annotations

from dataclasses import replace

from tfaot_pkg.errors import StorageError
from tfaot_pkg.nightly.types import Task
from tfaot_pkg.spec import load_spec
from tfaot_pkg.spec.override import override
from tfaot_pkg.spec.types import ModelSpec


def spec_for(task: Task, release: str) -> ModelSpec:
    """The spec of `task`, read now, that gives the version `release`.

    Raises SpecError, StorageError if it is not of the model and the version that were planned: what planning remembers
    lies in the state folder.
    """
    spec = load_spec(task.spec, task.defines)
    if (spec.model.name, spec.model.version) != (task.model, task.version):
        raise StorageError(
            f"{task.spec} is the spec of {spec.model.name}@{spec.model.version}: "
            f"{task.model}@{task.version} was planned",
            hint="the next night builds it as it is then",
        )
    return at_release(spec, task, release)


def at_release(spec: ModelSpec, task: Task, release: str) -> ModelSpec:
    """`spec`, which is the one of `task`, at `release`. Pure. Raises SpecError (targets that do not go together)."""
    spec = override(spec, targets=task.targets, tensorflow=task.toolchain)
    return replace(spec, model=replace(spec.model, version=release))
