"""Builds and runs of programs that use the published sample models, as people outside of this project do it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.kept import kept
from tests.samples import Published, Sample, assert_agrees, recipe, tfaot
from tfaot_pkg.ground.process import run

PROJECT = Path(__file__).parent / "project"
TOOLS = Path(sys.executable).parent
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def environment(**more: str) -> dict[str, str]:
    """A consumer's: CMake and Ninja from PyPI, the system's compilers, and nothing of Python, TensorFlow or this tool."""
    return {"PATH": f"{TOOLS}{os.pathsep}/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C", **more}


@pytest.fixture(scope="session")
def moved(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix that `install` made, moved to a path with blanks."""
    root = tmp_path_factory.mktemp("a path with blanks (1)")
    shutil.copytree(published.prefix, root / "installed", symlinks=True)
    return (root / "installed").rename(root / "moved prefix")


@pytest.fixture(scope="session")
def built(published: Published) -> Path:
    """A prefix that `build -o` filled with both models. Read only."""

    def build(folder: Path) -> None:
        for name in ("digits", "wine"):
            tfaot(published.home, "build", recipe(name) / "spec.yaml", "-o", folder / "prefix")

    return kept(published.home, "built", [], build) / "prefix"


Check = Callable[..., None]


@pytest.fixture(scope="session")
def check(samples: Mapping[str, Sample]) -> Check:
    """`check(command)`: the consumer, started so, prints TensorFlow's answers for all held-out data of both models."""

    def run_and_compare(command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        tables = [recipe(name) / "data" / "held-out.csv" for name in ("digits", "wine")]
        printed = run([*command, *tables], env=env or environment(), timeout=120).stdout
        for name, sample in samples.items():
            rows = [line.split()[1:] for line in printed.splitlines() if line.startswith(f"{name} ")]
            theirs = sample.answers["probability"]
            assert_agrees(np.array(rows, np.float32), theirs)
            right = re.search(rf"^{name}-right (\d+)$", printed, re.MULTILINE)
            assert right and int(right[1]) == np.count_nonzero(theirs.argmax(axis=1) == sample.labels)
            assert int(right[1]) > 0.95 * len(sample.labels)

    return run_and_compare


def cmake_build(
    build: Path, *options: str | Path, env: Mapping[str, str] | None = None, source: Path = PROJECT
) -> Path:
    """Configure and build the project in `source`; return the folder `build`."""
    variables = env or environment()
    run([TOOLS / "cmake", "-S", source, "-B", build, "-GNinja", *options], env=variables, timeout=300)
    run([TOOLS / "cmake", "--build", build, "-j", "2"], env=variables, timeout=600)
    return build
