"""Libraries of one model with different flags for its units, built to be timed side by side and then deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tfaot_pkg.frontends.frozen.model import FrozenModel, freeze
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.toolchain.definition import Toolchain
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.progress import Progress, Silent
from tfaot_pkg.native.build import build_native
from tfaot_pkg.native.compiled.flags import Unit
from tfaot_pkg.native.compiled.model import CompiledModel, compile_model
from tfaot_pkg.native.compiled.program import engine_of
from tfaot_pkg.pipeline.pipeline import Pipeline, Plan
from tfaot_pkg.spec.row_files import digest_in
from tfaot_pkg.spec.types import CALIBRATION_KEY, FULL, ModelSpec, TunedCode, Tuning
from tfaot_pkg.verify.latency import TimedUnit, Timer, timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Flags of some units, in addition to the spec's."""

    flags: Mapping[Unit, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Builds variants of the model of `plan`."""

    plan: Plan
    frozen: FrozenModel
    pool: WorkerPool
    clock: Timer
    cache: BuildCache
    """The cache of the variants, in a folder that is deleted with the pool."""
    parts_cache: BuildCache
    progress: Progress

    @property
    def spec(self) -> ModelSpec:
        return self.plan.spec

    @property
    def toolchain(self) -> Toolchain:
        return self.pool.environment.toolchain

    @property
    def is_program(self) -> bool:
        """Whether the model is a program of our compiler, in which flags of XLA change nothing."""
        # In float32: precision does not decide it, and calibration takes time.
        full = replace(self.spec, compilation=replace(self.spec.compilation, precision=FULL))
        return engine_of(full, self.frozen, self.toolchain)[0].is_program

    def compiled(self, variant: Variant) -> CompiledModel:
        """Raises SpecError or ToolchainError if the toolchain rejects the flags."""
        spec = self._spec(variant)
        return compile_model(
            spec, self.frozen,
            key=self.plan.keys_for(spec).compiled,
            pool=self.pool, compiler=self.plan.compiler, cache=self.cache, progress=Silent(),
            calibration=digest_in(self.plan.inputs, CALIBRATION_KEY),
        )  # fmt: skip

    def library(self, variant: Variant) -> Path:
        """The shared library of `variant`, which may contain more units than `variant` names."""
        spec = self._spec(variant)
        made = build_native(
            spec, self.frozen, self.compiled(variant),
            environment=self.pool.environment, compiler=self.plan.compiler, cache=self.cache, progress=Silent(),
            parts_cache=self.parts_cache,
        )  # fmt: skip
        return made.shared

    def times(self, libraries: Mapping[Unit, Sequence[Path]]) -> dict[Unit, list[list[float]]]:
        """Nanoseconds of one run of each unit in each of its libraries, which alternate: one per round."""
        found = {}
        with self.progress.step("measure", total=len(libraries), unit="units") as step:
            for (size, target), paths in libraries.items():
                timed = [TimedUnit(library=path, target=target, batch_size=size) for path in paths]
                rounds = self.clock.rounds(timed)
                found[size, target] = [rounds[unit] for unit in timed]
                step.advance(note=f"{target}, batch size {size}")
        return found

    def _spec(self, variant: Variant) -> ModelSpec:
        """The spec with the units of `variant`, completed so that every target has every size."""
        compilation = replace(
            self.spec.compilation,
            batch_sizes=tuple(sorted({size for size, _ in variant.flags})),
            targets=tuple(name for name in self.spec.compilation.targets if any(name == t for _, t in variant.flags)),
        )
        tuning = Tuning(model=self.spec.model.name, toolchains={self.toolchain.version: tuned(variant.flags)})
        return replace(self.spec, compilation=compilation, tuning=tuning)


def tuned(flags: Mapping[Unit, tuple[str, ...]]) -> TunedCode:
    """`flags` in the form of a tuning file."""
    rows: dict[str, dict[int, tuple[str, ...]]] = {}
    for (size, target), each in sorted(flags.items()):
        if each:
            rows.setdefault(target, {})[size] = each
    return TunedCode(xla_flags=rows)


@contextmanager
def workshop(spec: ModelSpec, pipeline: Pipeline) -> Iterator[Workshop]:
    """A workshop for `spec`. Raises the errors of a build's first stages."""
    plan = pipeline.plan(spec)
    with pipeline.workers(pipeline.environment_of(plan)) as pool:
        yield Workshop(
            plan=plan,
            frozen=freeze(
                spec,
                SavedModel(plan.spec.model, plan.source, pool, plan.spec.compilation.variables),
                key=plan.keys.frozen,
                pool=pool,
                cache=pipeline.cache,
                progress=pipeline.progress,
            ),
            pool=pool,
            clock=timer(plan.compiler, pipeline.cache),
            cache=BuildCache(root=pool.given_folder("variants")),
            # Parts of XLA's runtime are the same in all variants, and in later builds.
            parts_cache=pipeline.cache,
            progress=pipeline.progress,
        )
