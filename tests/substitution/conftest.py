"""The models of tests/models/layered.py, frozen and built once, with TensorFlow's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.kept import saved_models
from tfaot_pkg.cache import BuildCache
from tfaot_pkg.compiled.model import CompiledModel, compile_model
from tfaot_pkg.cxx.compiler import find_compiler
from tfaot_pkg.folders import Folders
from tfaot_pkg.frozen.model import FrozenModel, freeze
from tfaot_pkg.native.build import build_native
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.pipeline import pinned_toolchain, stage_keys
from tfaot_pkg.progress import Silent
from tfaot_pkg.source.tree import Snapshot, source_tree
from tfaot_pkg.spec.types import (
    Compilation,
    FolderSource,
    Kernels,
    LayerChoice,
    ModelInfo,
    ModelSpec,
    TunedCode,
    Tuning,
    Weights,
)
from tfaot_pkg.targets import TARGETS
from tfaot_pkg.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.toolchain.environment import ensure
from tfaot_pkg.toolchain.worker import WorkerPool

MODELS = Path(__file__).resolve().parents[1] / "models" / "layered.py"
USUAL_TARGETS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
BATCH_SIZES = (1, 5)

Answers = Mapping[str, npt.NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A built model; `answers` are TensorFlow's, as layered.py writes them."""

    frozen: FrozenModel
    compiled: CompiledModel
    library: NativeLibrary
    answers: Answers


class Builder:
    """Builds models with one process of TensorFlow."""

    def __init__(self, models: Path, folders: Folders, pool: WorkerPool) -> None:
        self._models, self._folders, self._pool = models, folders, pool

    def build(
        self,
        name: str,
        *,
        kernels: Kernels = "auto",
        weights: Weights = "shared",
        targets: tuple[str, ...] = USUAL_TARGETS,
        only_first: bool = False,
    ) -> Model:
        """The model `name`, all of its layers in calls; with `only_first` at the first batch size alone."""
        sizes = BATCH_SIZES[:1] if only_first else BATCH_SIZES
        choices = {size: LayerChoice(others=size in sizes) for size in BATCH_SIZES}
        code = TunedCode(kernels=dict.fromkeys(targets, choices))
        spec = ModelSpec(
            path=self._models / "spec.yaml",
            model=ModelInfo(name=name, version="1.0.0", saved_model=name),
            source=FolderSource(path=self._models),
            compilation=Compilation(
                batch_sizes=BATCH_SIZES, targets=targets, kernels=kernels, weights=weights, engine="xla"
            ),
            tuning=Tuning(model=name, toolchains={DEFAULT_VERSION: code}),
        )
        pool, builds, progress = self._pool, BuildCache(root=self._folders.builds), Silent()
        architecture = TARGETS[targets[0]].architecture
        compiler = find_compiler(architecture, log=self._folders.logs / f"{name}.log", output=lambda _: None)
        source = source_tree(self._models, Path(name))
        keys = stage_keys(spec, source, pinned_toolchain(DEFAULT_VERSION), compiler, inputs={})
        snapshot = Snapshot(source, pool.new_folder)
        frozen = freeze(spec, snapshot, key=keys.frozen, pool=pool, cache=builds, progress=progress)
        compiled = compile_model(
            spec, frozen, key=keys.compiled, pool=pool, compiler=compiler, cache=builds, progress=progress
        )
        library = build_native(
            spec, frozen, compiled,
            key=keys.native, environment=pool.environment, compiler=compiler, cache=builds, progress=progress,
        )  # fmt: skip
        with np.load(self._models / name / "answers.npz") as answers:
            return Model(frozen=frozen, compiled=compiled, library=library, answers=dict(answers))


@pytest.fixture(scope="session")
def build(shared_home_folder: Path, toolchain_python: Path) -> Iterator[Callable[..., Model]]:
    """`build("dense", kernels="none")`: see Builder.build."""
    models = saved_models(shared_home_folder, MODELS, toolchain_python)
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    environment = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    with WorkerPool(environment, scratch_root=folders.builds, logs=folders.logs) as pool:
        yield cache(Builder(models, folders, pool).build)
