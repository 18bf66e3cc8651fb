"""Measuring what a run of each batch size costs on this machine, for the tuning file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfaot_pkg.errors import RunError
from tfaot_pkg.pipeline import Build, Pipeline
from tfaot_pkg.spec.types import ModelSpec, Tuning
from tfaot_pkg.verify import latency
from tfaot_pkg.verify.validate import runnable_targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What `measure_batch_costs` found.

    `measured` are the targets that were timed now; `kept` those whose costs `tuning` has from the file as it was,
    `dropped` those that the file had from another CPU; `not_run` are targets that this machine cannot run.
    """

    build: Build
    tuning: Tuning
    measured: tuple[str, ...]
    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    not_run: tuple[str, ...]


def measure_batch_costs(spec: ModelSpec, targets: Sequence[str], pipeline: Pipeline) -> Tuned:
    """Build `spec` and time `targets` of it (those that this machine can run, where none is named).

    Costs of other targets stay if they are from the same CPU: a file tells of one machine. Raises RunError where this
    machine cannot run what is asked for; all errors of a build.
    """
    runnable = runnable_targets(spec)
    chosen = tuple(name for name in spec.compilation.targets if name in (targets or runnable))
    refused = [name for name in chosen or spec.compilation.targets if name not in runnable]
    if refused:
        raise RunError(
            f"this machine ({latency.processor()}) cannot run code for {', '.join(refused)}",
            hint="measure on a machine that can; costs of targets that are not measured follow from the others or from "
            "an estimate",
        )
    build = pipeline.build(pipeline.plan(spec))
    with pipeline.progress.step("measure"):
        measurements = latency.measure(build.library.shared, build.plan.compiler, chosen)
    rows = {name: {m.batch_size: m.nanoseconds for m in measurements if m.target == name} for name in chosen}
    machine = {"cpu": latency.processor()}
    before = spec.tuning or Tuning(model=spec.model.name)
    others = {name: row for name, row in before.batch_costs.items() if name not in rows}
    same = before.machine == machine
    return Tuned(
        build=build,
        tuning=Tuning(model=spec.model.name, machine=machine, batch_costs={**(others if same else {}), **rows}),
        measured=chosen,
        kept=tuple(others) if same else (),
        dropped=() if same else tuple(others),
        not_run=tuple(name for name in spec.compilation.targets if name not in runnable),
    )
