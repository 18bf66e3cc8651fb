"""A whole build: what it reads is what was planned, and all code that runs is in the keys."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

from tests.wording import reported
from tfaot_pkg.errors import SourceError
from tfaot_pkg.ground.code import modules_of
from tfaot_pkg.ground.progress import Progress, Silent, Step
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.pipeline.package_key import STAGES
from tfaot_pkg.pipeline.pipeline import Build, Pipeline
from tfaot_pkg.runtime.loader import load
from tfaot_pkg.spec.parse import load_spec

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

SPEC = """
model: {name: dense, version: 1.0.0, saved_model: saved_model}
compilation: {batch_sizes: [2], targets: [x86-64-v3]}
validation: {samples: 4}
"""
WITH_TOOLS = SPEC + "package: {tools: true}\n"
WITH_FILE = SPEC.replace("{samples: 4}", "{inputs: inputs.npz}")
ROWS = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCache(Folders):
    """The toolchains of all tests, a build cache of this one."""

    own: Path

    @property
    def builds(self) -> Path:
        return self.own


class Hooked(Silent):
    """Calls `act` with the names of the steps, when they begin."""

    def __init__(self, act: Callable[[str], None]) -> None:
        self._act = act

    @contextmanager
    def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
        self._act(name)
        with super().step(name, total=total, unit=unit) as step:
            yield step


class Line:
    """A user's spec and model, and a pipeline that can be disturbed."""

    def __init__(self, folder: Path, models: Mapping[str, Path], home: Path) -> None:
        self._models, self._home, self._folder = models, home, folder
        self.spec, self.cache = folder / "spec.yaml", folder / "cache"
        self.export("dense")
        self.spec.write_text(SPEC)

    def export(self, name: str) -> None:
        """Write another model where the spec's is, as a training job would."""
        shutil.copytree(self._models[name], self._folder / "saved_model", dirs_exist_ok=True)

    def inputs(self, rows: int) -> None:
        np.savez(self._folder / "inputs.npz", x=np.ones((rows, 4), np.float32))

    def build(self, act: Callable[[str], None] = lambda _: None) -> Build:
        return self.build_with(Hooked(act))

    def build_with(self, progress: Progress, during: AbstractContextManager[None] | None = None) -> Build:
        folders = OwnCache(cache=self._home / "cache", data=self._home / "data", own=self.cache)
        pipeline = Pipeline(folders=folders, progress=progress)
        plan = pipeline.plan(load_spec(self.spec))
        with during or nullcontext():
            return pipeline.build(plan)

    def kept(self, stage: str) -> list[Path]:
        return sorted(path for path in self.cache.glob(f"{stage}/*/*") if path.is_dir())


@pytest.fixture
def line(models: Mapping[str, Path], shared_home_folder: Path, tmp_path: Path) -> Line:
    (tmp_path / "user").mkdir()
    return Line(tmp_path / "user", models, shared_home_folder)


def answer(build: Build) -> list[float]:
    values: list[float] = load(build.library.shared).run(2, {"x": ROWS})["y"].ravel().tolist()
    return values


def at(step: str, act: Callable[[], None]) -> Callable[[str], None]:
    return lambda name: act() if name == step else None


def test_a_model_that_is_exported_again_before_it_is_read_is_an_error_and_nothing_is_kept(line: Line) -> None:
    with reported(SourceError):
        line.build(at("freeze", lambda: line.export("dense_retrained")))
    assert not line.kept("frozen")
    retrained = line.build()
    line.export("dense")
    first = line.build()
    assert not retrained.report.failed and not first.report.failed
    assert retrained.plan.keys.frozen != first.plan.keys.frozen and answer(retrained) != answer(first)


@pytest.mark.nightly
def test_a_model_that_is_exported_again_after_it_was_read_changes_nothing(line: Line) -> None:
    disturbed = line.build(at("compile", lambda: line.export("dense_retrained")))
    line.export("dense")
    again = line.build(lambda _: None)
    assert again.plan.key == disturbed.plan.key and answer(again) == answer(disturbed)
    (line.cache / "validation").rename(line.cache / "old")
    with reported(SourceError):
        line.build(at("validate", lambda: line.export("dense_retrained")))
    assert not line.kept("validation")


@pytest.mark.nightly
def test_validation_inputs_that_change_before_they_are_read_are_an_error(line: Line) -> None:
    line.spec.write_text(WITH_FILE)
    line.inputs(4)
    with reported(SourceError):
        line.build(at("validate", lambda: line.inputs(6)))
    assert not line.kept("validation")
    assert line.build().report.inputs == line.build().plan.inputs


def test_all_code_that_runs_in_a_stage_is_in_its_digest(line: Line) -> None:
    """Of functions that are called in this process, by the step in which they are."""
    line.spec.write_text(WITH_TOOLS)
    ran: dict[str, set[str]] = defaultdict(set)
    current = [""]

    def trace(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("tfaot_pkg"):
            ran[current[0]].add(name)

    class Stages(Hooked):
        @contextmanager
        def step(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Step]:
            with super().step(name, total=total, unit=unit) as step:
                current[0] = name
                try:
                    yield step
                finally:
                    current[0] = ""

    @contextmanager
    def traced() -> Iterator[None]:
        threading.setprofile(trace)
        sys.setprofile(trace)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    line.build_with(Stages(lambda _: None), traced())
    assert set(STAGES) - set(ran) == {"runtime parts"}
    for step, modules in ran.items():
        assert modules <= modules_of(STAGES[step or "package"]), step


def test_all_that_the_program_of_validation_imports_is_in_its_digest() -> None:
    program = "import json, sys, tfaot_pkg.verify.runner; print(json.dumps([*sys.modules]))"
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    ours = {name for name in json.loads(printed) if name.startswith("tfaot_pkg")}
    # The package's own `__init__` imports its version, which the provenance holds.
    assert ours - {"tfaot_pkg._version"} <= modules_of(STAGES["validate"])
