"""examples/in-tree: built as its README page says, it agrees with TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.cmake.conftest import REPOSITORY, TOOLS
from tests.consumers.conftest import WARNINGS, cmake_build, environment
from tests.samples import Sample, recipe
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run


@pytest.mark.sweep(night=["g++"])
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_the_in_tree_example_counts_wines_as_tensorflow_does(
    compiler: str,
    samples: Mapping[str, Sample],
    shared_home_folder: Path,
    require_program: Callable[[str], str],
    tmp_path: Path,
) -> None:
    env = environment(TFAOT_HOME=str(shared_home_folder), PYTHONPATH=str(REPOSITORY))
    options = [
        f"-Dtfaot-pkg_DIR={resources.cmake_package()}",
        f"-DTFAOT_PKG_COMMAND={TOOLS}/python;-m;tfaot_pkg",
        f"-DCMAKE_CXX_COMPILER={require_program(compiler)}",
        f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS)}",
    ]
    build = cmake_build(tmp_path / "build", *options, env=env, source=REPOSITORY / "examples" / "in-tree")
    counts = np.bincount(samples["wine"].answers["probability"].argmax(axis=1), minlength=3)
    said = run([build / "cultivars", recipe("wine") / "data" / "held-out.csv"], env=env).stdout
    assert said == f"60 wines: {counts[0]}, {counts[1]} and {counts[2]} of the three cultivars\n"
    assert "100% tests passed" in run([TOOLS / "ctest", "--test-dir", build], env=env).stdout
