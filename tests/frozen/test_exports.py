"""Honest models of many exporters load as they did with TensorFlow's own loader, and give the same answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.toolchains import VERSIONS
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

_HERE = Path(__file__).resolve().parent
_PROGRAM = _HERE.parents[1] / "tfaot_pkg" / "worker_program"


@pytest.mark.sweep(night=["2.21.0"])
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tensorflow", VERSIONS)
def test_what_exporters_write_is_loaded_with_the_same_answers(
    tensorflow: str, shared_home_folder: Path, tmp_path: Path
) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    python = ensure(tensorflow, folders=folders, progress=Silent()).python
    run([python, "-I", "-B", _HERE / "exports.py", _PROGRAM, tmp_path], timeout=500)
    found = json.loads((tmp_path / "differences.json").read_text())
    assert found
    assert {name: told for name, told in found.items() if not isinstance(told, float) or told > 1e-6} == {}
