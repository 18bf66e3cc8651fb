"""The zoo's models, made once, and a builder that takes one from a SavedModel to a validated library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.kept import saved_models
from tests.zoo.cases import BY_NAME, Case
from tfaot_pkg.frontends.frozen.model import FrozenModel, freeze
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.build import build_native
from tfaot_pkg.native.compiled.model import CompiledModel, compile_model
from tfaot_pkg.native.cxx.compiler import Compiler, find_compiler
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.pipeline.pipeline import StageKeys, pinned_facts, stage_keys
from tfaot_pkg.spec.source.tree import SourceTree, source_tree
from tfaot_pkg.spec.types import (
    Compilation,
    Engine,
    FolderSource,
    ModelInfo,
    ModelSpec,
    SavedModelFiles,
    Validation,
    Weights,
)
from tfaot_pkg.verify.report import ValidationReport
from tfaot_pkg.verify.validate import inputs_document, validate, validation_key

ZOO = Path(__file__).resolve().parents[1] / "models" / "zoo.py"
# The models that tests of `make test` read. One process makes them; another one, at night, makes all others.
_DAILY = frozenset(
    ("complex_arithmetic", "conv3d", "conv_kinds", "counter", "dense", "dtypes", "half_inside", "identity_output",
     "lookup", "lstm", "mixed_batch_axes", "only_scalars", "python_function", "qr", "rewritten",
     "short_and_complex_borders", "unbatched_output_from_batch", "unknown_second_axis", "unused_weight",
     "version1_loop", "while_loop", "wide_output")
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A validated model."""

    frozen: FrozenModel
    compiled: CompiledModel
    library: NativeLibrary
    report: ValidationReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A frozen model, and what its next stages need."""

    spec: ModelSpec
    source: SourceTree
    saved: SavedModel
    frozen: FrozenModel
    keys: StageKeys
    inputs: Mapping[str, object]
    compiler: Compiler
    cache: BuildCache


Build = Callable[..., Built]
Freeze = Callable[..., FrozenModel]


def folder_with(name: str, home: Path, python: Path) -> Path:
    """The folder that holds, among others, the zoo's SavedModel `name`; made by a toolchain's `python`. Read only."""
    names = sorted(each for each in BY_NAME if (each in _DAILY) == (name in _DAILY))
    return saved_models(home, ZOO, python, names)


class Builder:
    """Builds models of the zoo with few processes of TensorFlow: one per toolchain, kept for all tests."""

    def __init__(self, folder_with: Callable[[str], Path], folders: Folders) -> None:
        self._folder_with, self._folders = folder_with, folders
        self._pools: dict[str, WorkerPool] = {}
        self._stack = ExitStack()

    def close(self) -> None:
        self._stack.close()

    def build(
        self,
        case: Case,
        *,
        tensorflow: str,
        engine: Engine = "xla",
        weights: Weights = "shared",
        targets: tuple[str, ...] = ("x86-64-v3",),
        batch_sizes: tuple[int, ...] = (1, 3),
        folders: Folders | None = None,
    ) -> Built:
        """Take `case` through all stages up to validation; any error of a build. `folders` holds the build cache."""
        compilation = Compilation(
            batch_sizes=batch_sizes, targets=targets, weights=weights, tensorflow=tensorflow, engine=engine
        )
        begun = self._begin(case, compilation, folders or self._folders)
        spec, frozen, compiler, cache = begun.spec, begun.frozen, begun.compiler, begun.cache
        pool, progress, compiled = self._pool(tensorflow), Silent(), self._compiled(begun)
        library = build_native(
            spec, frozen, compiled,
            environment=pool.environment, compiler=compiler, cache=cache, progress=progress,
        )  # fmt: skip
        key = validation_key(spec, begun.source, frozen.key, library.key, begun.inputs)
        report = validate(
            spec, begun.saved, frozen, library,
            engine=compiled.engine, key=key, inputs=begun.inputs, compiler=compiler, pool=pool, cache=cache, progress=progress,
        )  # fmt: skip
        return Built(frozen=frozen, compiled=compiled, library=library, report=report)

    def compile(self, case: Case, *, tensorflow: str, engine: Engine) -> CompiledModel:
        """The code of `case`, which is not linked."""
        compilation = Compilation(batch_sizes=(1, 3), targets=("x86-64-v3",), tensorflow=tensorflow, engine=engine)
        return self._compiled(self._begin(case, compilation, self._folders))

    def freeze(self, case: Case, *, tensorflow: str, weights: Weights = "shared") -> FrozenModel:
        """The frozen model of `case`, which nothing compiles."""
        compilation = Compilation(batch_sizes=(1, 3), targets=("x86-64-v3",), weights=weights, tensorflow=tensorflow)
        return self._begin(case, compilation, self._folders).frozen

    def spec(self, case: Case, compilation: Compilation) -> ModelSpec:
        folder = self._folder_with(case.name)
        return ModelSpec(
            path=folder / "spec.yaml",
            model=ModelInfo(name=case.name, version="1.0.0", files=SavedModelFiles(path=case.name), shapes=case.shapes),
            source=FolderSource(path=folder),
            compilation=compilation,
            validation=Validation(rtol=case.rtol, classes=case.classes),
        )

    def _compiled(self, begun: Begun) -> CompiledModel:
        return compile_model(
            begun.spec, begun.frozen,
            key=begun.keys.compiled, pool=self._pool(begun.spec.compilation.tensorflow), compiler=begun.compiler,
            cache=begun.cache, progress=Silent(),
        )  # fmt: skip

    def _begin(self, case: Case, compilation: Compilation, folders: Folders) -> Begun:
        spec, pool = self.spec(case, compilation), self._pool(compilation.tensorflow)
        cache = BuildCache(root=folders.builds)
        architecture = TARGETS[compilation.targets[0]].architecture
        compiler = find_compiler(architecture, log=folders.logs / f"{case.name}.log", output=lambda _: None)
        source = source_tree(self._folder_with(case.name), Path(case.name))
        inputs = inputs_document(spec)
        keys = stage_keys(spec, source, pinned_facts(spec), inputs=inputs)
        saved = SavedModel(spec.model, source, pool)
        frozen = freeze(spec, saved, key=keys.frozen, pool=pool, cache=cache, progress=Silent())
        return Begun(
            spec=spec,
            source=source,
            saved=saved,
            frozen=frozen,
            keys=keys,
            inputs=inputs,
            compiler=compiler,
            cache=cache,
        )

    def _pool(self, tensorflow: str) -> WorkerPool:
        if tensorflow not in self._pools:
            environment = ensure(tensorflow, folders=self._folders, progress=Silent())
            pool = WorkerPool(environment, scratch_root=self._folders.builds, logs=self._folders.logs)
            self._pools[tensorflow] = self._stack.enter_context(pool)
        return self._pools[tensorflow]


@pytest.fixture(scope="session")
def builder(shared_home_folder: Path, toolchain_python: Path) -> Iterator[Builder]:
    made = cache(lambda name: folder_with(name, shared_home_folder, toolchain_python))
    builder = Builder(made, Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data"))
    yield builder
    builder.close()


@pytest.fixture(scope="session")
def build(builder: Builder) -> Build:
    """`build(case, tensorflow="2.17.1")`: see Builder.build."""
    return builder.build


@pytest.fixture(scope="session")
def freeze_only(builder: Builder) -> Freeze:
    """`freeze_only(case, tensorflow="2.17.1")`: see Builder.freeze."""
    return builder.freeze
