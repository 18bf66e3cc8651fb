"""The spec that a task builds: its model's, at the version that is published, for the task's toolchain and targets."""

from __future__ import annotations

from dataclasses import replace

from tfaot_pkg.nightly.types import Task
from tfaot_pkg.spec import load_spec
from tfaot_pkg.spec.override import override
from tfaot_pkg.spec.types import ModelSpec


def spec_for(task: Task, release: str) -> ModelSpec:
    """The spec of `task`, read now, that gives the version `release`. Raises SpecError."""
    return at_release(load_spec(task.spec, task.defines), task, release)


def at_release(spec: ModelSpec, task: Task, release: str) -> ModelSpec:
    """`spec`, which is the one of `task`, at `release`. Pure. Raises SpecError (targets that do not go together)."""
    spec = override(spec, targets=task.targets, tensorflow=task.toolchain)
    return replace(spec, model=replace(spec.model, version=release))
