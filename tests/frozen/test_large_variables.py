"""Large variables keep their values while TensorFlow freezes a graph without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.compiler.conftest import WORKER_PROGRAM
from tests.kept import REPOSITORY
from tests.toolchains import VERSIONS
from tfaot_pkg.process import run
from tfaot_pkg.progress import Silent
from tfaot_pkg.settings import Folders
from tfaot_pkg.toolchain.environment import ensure


@pytest.mark.sweep("2.17.1")
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.parametrize("version", VERSIONS)
def test_tensorflow_freezes_no_values_and_the_graph_has_all(version: str, shared_home_folder: Path) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    python = ensure(version, folders=folders, progress=Silent()).python
    program = REPOSITORY / "tests" / "models" / "large_variables.py"
    done = run([python, "-I", program, WORKER_PROGRAM], timeout=300)
    without, filled, tensorflows = json.loads(done.stdout.splitlines()[-1])
    assert without < 40_000 and filled == tensorflows > 150_000
