"""Keras files become SavedModels with the author's names and Keras's own answers, and none of their code is run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfaot_pkg.folders import Folders
from tfaot_pkg.process import run
from tfaot_pkg.progress import Silent
from tfaot_pkg.toolchain.definition import TOOLCHAINS
from tfaot_pkg.toolchain.environment import ensure

_HERE = Path(__file__).resolve().parent
_PROGRAM = _HERE.parents[1] / "tfaot_pkg" / "worker_program"
_TOWERS = [["features", "hits"], ["kind", "mass"], 0.0]
_CHAIN = [["x"], ["score"], 0.0]
_CODE = "the Keras model has Python code in a Lambda layer 'twice', which is not run"


@pytest.mark.sweep("2.17.1")
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tensorflow", TOOLCHAINS)
def test_keras_files_give_kerass_answers_and_their_code_is_refused(
    tensorflow: str, shared_home_folder: Path, tmp_path: Path
) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    python = ensure(tensorflow, folders=folders, progress=Silent()).python
    run([python, "-I", "-B", _HERE / "keras_files.py", _PROGRAM, tmp_path], timeout=250)
    assert json.loads((tmp_path / "found.json").read_text()) == {
        "towers.keras": _TOWERS,
        "towers.h5": _TOWERS,
        "named.keras": [["first", "second"], ["all", "total"], 0.0],
        "chain.keras": _CHAIN,
        "chain.h5": _CHAIN,
        "code.keras": _CODE,
        "code.h5": _CODE,
        "own.keras": "the Keras model has a class of its author's, Doubled 'mine'",
    }
