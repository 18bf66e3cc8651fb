"""The stages of a build that commands show: without validation and package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tfaot_pkg.frontends.frozen.model import FrozenModel, freeze
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.native.build import build_native
from tfaot_pkg.native.compiled.flags import require_flags
from tfaot_pkg.native.compiled.model import CompiledModel, compile_model
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.pipeline.pipeline import Pipeline, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """A frozen model, and methods for the later stages. All results come from the build cache if they are there."""

    plan: Plan
    frozen: FrozenModel
    pool: WorkerPool
    pipeline: Pipeline

    def compiled(self) -> CompiledModel:
        """Raises ModelError, SpecError, ToolchainError."""
        return compile_model(
            self.plan.spec, self.frozen,
            key=self.plan.keys.compiled, pool=self.pool, compiler=self.plan.compiler,
            cache=self.pipeline.cache, progress=self.pipeline.progress,
        )  # fmt: skip

    def library(self) -> NativeLibrary:
        """Not validated. Raises the errors of `compiled`, and CompilerError."""
        return build_native(
            self.plan.spec, self.frozen, self.compiled(),
            environment=self.pool.environment, compiler=self.plan.compiler,
            cache=self.pipeline.cache, progress=self.pipeline.progress,
        )  # fmt: skip


@contextmanager
def frozen_stages(plan: Plan, pipeline: Pipeline) -> Iterator[Stages]:
    """Freeze the model of `plan`. Raises ModelError, SourceError, SpecError, ToolchainError, StorageError."""
    environment = pipeline.environment_of(plan)
    with pipeline.workers(environment) as pool:
        # As in a build: an unknown flag is reported although a program needs none.
        require_flags(plan.spec, pool=pool, cache=pipeline.cache, progress=pipeline.progress)
        saved = SavedModel(plan.spec.model, plan.source, pool, plan.spec.compilation.variables)
        frozen = freeze(
            plan.spec, saved, key=plan.keys.frozen, pool=pool, cache=pipeline.cache, progress=pipeline.progress
        )
        yield Stages(plan=plan, frozen=frozen, pool=pool, pipeline=pipeline)
