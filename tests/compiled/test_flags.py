"""Flags that a toolchain does not take are refused before anything is built, whoever computes the model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.progress import Silent, Step
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.native.compiled.flags import STAGE, require_flags
from tfaot_pkg.pipeline.check import check_model
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.parse import load_spec
from tfaot_pkg.spec.types import ModelSpec, Validation

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

SPEC = """
model: {name: dense, version: 1.0.0, license: Apache 2.0}
compilation: {batch_sizes: [2], targets: [x86-64-v3], engine: program}
"""


class Told(Silent):
    """Keeps the names of the steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    @contextmanager
    def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
        self.steps.append(name)
        with super().step(name, total=total, unit=unit) as step:
            yield step


@pytest.fixture
def spec(models: Mapping[str, Path], tmp_path: Path) -> ModelSpec:
    """A model that becomes a program: XLA compiles nothing of it."""
    shutil.copytree(models["dense"], tmp_path / "saved_model")
    (tmp_path / "spec.yaml").write_text(SPEC)
    return load_spec(tmp_path / "spec.yaml")


@pytest.fixture
def folders(shared_home_folder: Path) -> Folders:
    return Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")


def with_flags(spec: ModelSpec, *xla: str, tf: tuple[str, ...] = ()) -> ModelSpec:
    return replace(spec, compilation=replace(spec.compilation, xla_flags=xla, tf_xla_flags=tf))


def built(spec: ModelSpec, folders: Folders) -> object:
    pipeline = Pipeline(folders=folders, progress=Silent())
    return pipeline.build(pipeline.plan(spec))


def checked(spec: ModelSpec, folders: Folders) -> object:
    return check_model(spec, Pipeline(folders=folders, progress=Silent()), table=False)


@pytest.mark.sweep("checked")
@pytest.mark.parametrize("ask", [built, checked])
def test_an_unknown_flag_is_refused_where_xla_compiles_nothing(
    ask: Callable[[ModelSpec, Folders], object], spec: ModelSpec, folders: Folders
) -> None:
    with reported(SpecError):
        ask(with_flags(spec, "--xla_none=1"), folders)


@pytest.mark.sweep(night=["2.21.0"])
@pytest.mark.parametrize("version", ["2.17.1", "2.21.0"])
def test_what_a_toolchain_does_not_take_is_named_and_what_it_takes_is_tried_once(
    version: str, spec: ModelSpec, folders: Folders, tmp_path: Path
) -> None:
    cache, told = BuildCache(root=tmp_path / "builds"), Told()
    environment = ensure(version, folders=folders, progress=Silent())

    def refused(wrong: ModelSpec) -> str:
        with WorkerPool(environment, scratch_root=cache.root, logs=tmp_path / "logs") as pool:
            with pytest.raises(SpecError) as caught:
                require_flags(wrong, pool=pool, cache=cache, progress=told)
        return caught.value.message

    assert "--xla_none" in refused(with_flags(spec, "--xla_none"))
    assert "value 'maybe' for the flag --xla_cpu_enable_fast_math" in refused(
        with_flags(spec, "--xla_cpu_enable_fast_math=maybe")
    )
    assert "compilation.tf_xla_flags: the toolchain does not know" in refused(with_flags(spec, tf=("--tf_xla_none=1",)))
    assert not list(cache.root.glob(f"{STAGE}/*/*"))
    right = with_flags(spec, "--xla_cpu_enable_fast_math=false", tf=("--tf_xla_min_cluster_size=2",))
    told.steps.clear()
    for _ in range(2):
        with WorkerPool(environment, scratch_root=cache.root, logs=tmp_path / "logs") as pool:
            require_flags(right, pool=pool, cache=cache, progress=told)
            require_flags(spec, pool=pool, cache=cache, progress=told)  # without flags there is nothing to try
    assert told.steps == ["flags"]


@pytest.mark.nightly
def test_check_tells_of_tolerances_of_0_and_of_licences(spec: ModelSpec, folders: Folders) -> None:
    pipeline = Pipeline(folders=folders, progress=Silent())

    def notes(*, rtol: float, atol: float) -> str:
        asked = replace(spec, validation=Validation(rtol=rtol, atol=atol))
        return "\n".join(check_model(asked, pipeline, table=False).warnings)

    exact = notes(rtol=0.0, atol=0.0)
    assert "validation.rtol and validation.atol are 0" in exact and "did you mean Apache-2.0?" in exact
    assert "validation.atol is 0: where" in notes(rtol=1e-3, atol=0.0)
    assert "validation." not in notes(rtol=0.0, atol=1e-3)
