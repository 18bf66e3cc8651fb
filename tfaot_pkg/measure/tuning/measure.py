"""Measure a model on this machine, for the tuning file: first XLA's flags, then the costs of batches with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.measure.tuning.choosing import FlagsFound, choose_flags
from tfaot_pkg.measure.tuning.variants import Workshop, tuned, workshop
from tfaot_pkg.pipeline.pipeline import Build, Pipeline
from tfaot_pkg.spec.tuning import tuning_path
from tfaot_pkg.spec.types import ModelSpec, TunedCode, Tuning
from tfaot_pkg.verify import latency
from tfaot_pkg.verify.latency import Timer
from tfaot_pkg.verify.runs import runnable_targets

# Times of the same code deviate by 0.5 to 2 % on an idle core, by 5 to 30 % beside other work (docs/decisions/025).
_MOST_SPREAD = 0.04
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to measure. `noise`: even if other work disturbs the machine."""

    xla_flags: bool = True
    batch_costs: bool = True
    noise: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The result of `tune`.

    `measured` are the targets that were measured now. Of the others, `kept` are those whose entries stay in the file,
    `dropped` those whose entries came from another CPU. `outdated` are targets whose costs were dropped because their
    code has changed. `not_run` are targets that this machine cannot run. `flags` is None if they were not requested, or
    if there is nothing to choose.
    """

    build: Build
    tuning: Tuning
    measured: tuple[str, ...]
    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    outdated: tuple[str, ...]
    not_run: tuple[str, ...]
    flags: FlagsFound | None


def tune(spec: ModelSpec, targets: Sequence[str], wanted: Wanted, pipeline: Pipeline) -> Tuned:
    """Measure what is `wanted` for `targets` of `spec` (those that this machine can run, if none is named), and build
    the model with the result, which validates it.

    Entries that are not measured again stay if they are from the same CPU: a file describes one machine. Raises
    RunError if this machine cannot run a requested target; all errors of a build.
    """
    measured = _measurable(spec, targets)
    before = _of_this_machine(spec, pipeline.progress)
    chosen = _Chosen(code=TunedCode(), flags=None, changed=())
    if wanted.xla_flags:
        with workshop(spec, pipeline) as shop:
            if shop.is_program:
                shop.progress.note("note: the model is a program: it has no flags of XLA to choose")
            else:
                chosen = _choose(shop, before, measured)
                before = _with_code(before, shop.toolchain.version, chosen)
    # Built before costs are measured, because costs are those of the chosen code.
    build = pipeline.build(pipeline.plan(replace(spec, tuning=before)))
    rows: dict[str, dict[int, float]] = {}
    if wanted.batch_costs:
        clock = latency.timer(build.plan.compiler, pipeline.cache)
        rows = measure_costs(build.library.shared, clock, measured, wanted, pipeline.progress)
    tuning = replace(before, batch_costs={**before.batch_costs, **rows})
    told, tells = _targets_of(spec.tuning), _targets_of(tuning)
    return Tuned(
        build=build,
        tuning=tuning,
        measured=measured,
        kept=tuple(name for name in told if name in tells and name not in measured),
        dropped=tuple(name for name in told if name not in tells),
        outdated=tuple(name for name in chosen.changed if name in _costs_of(spec.tuning) and name not in rows),
        not_run=tuple(name for name in spec.compilation.targets if name not in runnable_targets(spec)),
        flags=chosen.flags,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """`code` becomes the toolchain's entry in the file; `changed` are the targets whose entries differ from before."""

    code: TunedCode
    flags: FlagsFound | None
    changed: tuple[str, ...]


def _choose(shop: Workshop, before: Tuning, measured: Sequence[str]) -> _Chosen:
    old = before.toolchains.get(shop.toolchain.version, TunedCode())
    units = [(size, target) for target in measured for size in shop.spec.compilation.batch_sizes]
    flags = choose_flags(shop, units)
    # Targets that are not measured now keep their entries.
    others = {name: row for name, row in old.xla_flags.items() if name not in measured}
    code = TunedCode(xla_flags={**others, **tuned(flags.flags).xla_flags})
    return _Chosen(code=code, flags=flags, changed=_changed(old, code))


def _changed(old: TunedCode, new: TunedCode) -> tuple[str, ...]:
    return tuple(name for name in TARGETS if old.xla_flags.get(name, {}) != new.xla_flags.get(name, {}))


def _with_code(tuning: Tuning, version: str, chosen: _Chosen) -> Tuning:
    """`tuning` with the chosen code, without the costs of code that has changed."""
    others = {name: code for name, code in tuning.toolchains.items() if name != version}
    said = {version: chosen.code} if chosen.code != TunedCode() else {}
    costs = {name: row for name, row in tuning.batch_costs.items() if name not in chosen.changed}
    return replace(tuning, toolchains={**others, **said}, batch_costs=costs)


def measure_costs(
    library: Path, clock: Timer, targets: Sequence[str], wanted: Wanted, progress: Progress
) -> dict[str, dict[int, float]]:
    """The costs of a run by target and batch size. Raises RunError if other work disturbs this machine."""
    for attempt in range(_ATTEMPTS):
        with progress.step("batch costs" if attempt == 0 else "batch costs again, because times varied too much"):
            measurements = latency.measure(library, clock, targets)
        if wanted.noise or (spread := disturbance(measurements)) <= _MOST_SPREAD:
            break
    else:
        raise RunError(
            f"this machine is too busy for measurements: times of the same code differ by {spread:.0%} from round "
            f"to round, in {_ATTEMPTS} tries",
            hint="measure when nothing else runs here (a core of its own is enough: taskset), or accept the figures "
            "with --accept-noise",
        )
    return {name: {m.batch_size: m.nanoseconds for m in measurements if m.target == name} for name in targets}


def disturbance(measurements: Sequence[latency.Latency]) -> float:
    """How much times vary from round to round: the median of the measurements' relative deviations."""
    # The median, because a single interruption of one measurement says little about the others.
    return median(each.spread for each in measurements)


def _measurable(spec: ModelSpec, targets: Sequence[str]) -> tuple[str, ...]:
    """The targets to measure. Raises RunError if this machine cannot run one, or none of all."""
    runnable = runnable_targets(spec)
    chosen = tuple(name for name in spec.compilation.targets if name in (targets or runnable))
    if refused := [name for name in chosen or spec.compilation.targets if name not in runnable]:
        raise RunError(
            f"this machine ({latency.processor()}) cannot run code for {', '.join(refused)}",
            hint="measure on a machine that can; costs of targets that are not measured follow from the others or from "
            "an estimate",
        )
    return chosen


def _of_this_machine(spec: ModelSpec, progress: Progress) -> Tuning:
    """The tuning file's entries if it is from a CPU of the same name; otherwise none."""
    machine = {"cpu": latency.processor()}
    if spec.tuning is not None and spec.tuning.machine == machine:
        return spec.tuning
    if _targets_of(spec.tuning):
        progress.note(f"note: {tuning_path(spec.path).name} is from another CPU: its entries are dropped")
    return Tuning(model=spec.model.name, machine=machine)


def _targets_of(tuning: Tuning | None) -> tuple[str, ...]:
    """The targets that a file has entries for."""
    if tuning is None:
        return ()
    codes = tuning.toolchains.values()
    told = {*tuning.batch_costs, *(name for code in codes for name in code.xla_flags)}
    return tuple(name for name in TARGETS if name in told)


def _costs_of(tuning: Tuning | None) -> Mapping[str, Mapping[int, float]]:
    return tuning.batch_costs if tuning is not None else {}
