"""The examples that begin in other frameworks print what these frameworks compute."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.consumers.conftest import WARNINGS, cmake_build, environment
from tests.samples import REPOSITORY, tfaot
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]


def _program(example: Path, specs: list[str], name: str, home: Path) -> str:
    """What the program of `example` prints, whose models are built first."""
    for spec in specs:
        tfaot(home, "build", example / spec, "-o", example / "prefix")
    options = [f"-DCMAKE_PREFIX_PATH={example / 'prefix'}", f"-DCMAKE_CXX_FLAGS=-std=c++17 {' '.join(WARNINGS)}"]
    return run([cmake_build(example / "build", *options, source=example) / name], env=environment()).stdout


def test_the_example_of_jax_prints_the_scores_of_jax(
    shared_home_folder: Path, toolchain_python: Path, tmp_path: Path
) -> None:
    example = Path(shutil.copytree(REPOSITORY / "examples" / "from-jax", tmp_path / "from-jax"))
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    jax = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["jax"], toolchain_python)
    exporting: list[str | Path] = [jax.python, "-I", example / "export.py", example / "ring.jax"]
    scores = run(exporting, env={**os.environ, "JAX_PLATFORMS": "cpu"}, timeout=300).stdout
    assert len(scores.splitlines()) == 5
    assert _program(example, ["spec.yaml"], "ring-scores", shared_home_folder) == scores


@pytest.mark.release
def test_the_example_of_mlir_prints_what_its_modules_say(shared_home_folder: Path, tmp_path: Path) -> None:
    example = Path(shutil.copytree(REPOSITORY / "examples" / "mlir", tmp_path / "mlir"))
    printed = _program(example, ["distance.yaml", "line.yaml"], "lines", shared_home_folder)
    assert printed == "distances: 5.00 12.00\nheight 2.00, positive\nheight -5.00\nheight 0.00\n"
