"""Files of decision trees are read with the answers of the library that wrote them, and others are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfaot_pkg.process import run
from tfaot_pkg.progress import Silent
from tfaot_pkg.settings import Folders
from tfaot_pkg.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.toolchain.environment import ensure
from tfaot_pkg.toolchain.frontends import FRONTENDS, FrontendEnvironments

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]
_WORKER = Path(__file__).resolve().parents[2] / "tfaot_pkg" / "worker_program"
_SUMS = {"forest", "extra", "tree", "huber", "bagged", "ada.weights", "purity.weights", "bagged.weights"}
"""Of these no special function is computed behind the sums: they agree bit by bit."""


def test_models_give_their_librarys_answers_and_others_are_refused(shared_home_folder: Path, tmp_path: Path) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    toolchain = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["trees"], toolchain.python)
    program = Path(__file__).with_name("tree_files.py")
    for python, what in ((frontend.python, "write"), (toolchain.python, "run")):
        run([python, "-I", program, what, _WORKER, tmp_path], timeout=300)
    found = json.loads((tmp_path / "results.json").read_text())
    assert {name for name, (equal, all_) in found["exact"].items() if equal == all_} >= {
        f"{name}.{'xml' if name.endswith('weights') else 'skops'}" for name in _SUMS
    }
    assert max(found["off"].values()) < 5e-16
    refused = found["refused"]
    assert all(refused.values())
    for file, part in (
        ("forest.joblib", "is a pickle"),
        ("program.skops", "posix.system"),
        ("isolation.skops", "IsolationForest is not supported"),
        ("pipeline.skops", "Pipeline is not supported"),
        ("beyond.skops", "a node's feature is not below 4"),
        ("entities.xml", "declares a document type or entities"),
        ("outside.xml", "declares a document type or entities"),
        ("deep.xml", "nested more than 1000 deep"),
        ("fisher.xml", "Fisher"),
        ("transformed.xml", "Normalize"),
        ("median.xml", "AdaBoostR2"),
    ):
        assert part in refused[file]
