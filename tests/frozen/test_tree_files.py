"""Files of decision trees are read with the answers of the library that wrote them, and others are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.frontends.tree_lowering import lowered
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(600)]
_WORKER = Path(__file__).resolve().parents[2] / "tfaot_pkg" / "worker_program"
_SUMS = {"forest", "extra", "tree", "huber", "bagged", "ada.weights", "purity.weights", "bagged.weights"}
"""Of these no special function is computed behind the sums: they agree bit by bit."""


def _computed(parts: Path, x: Array) -> Array:
    """The first result of the program of `parts`, as NumPy computes it."""
    made = lowered(parts)
    program = verified(made.program, "lowering")
    results = dict(zip(made.outputs, interpret.run(program, len(x), [x]), strict=True))
    return next(results[name] for name in made.outputs if name != "margin")


def test_models_give_their_librarys_answers_and_others_are_refused(shared_home_folder: Path, tmp_path: Path) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["trees"])
    run([frontend.python, "-I", Path(__file__).with_name("tree_files.py"), _WORKER, tmp_path], timeout=300)
    inputs, answers = (read_arrays(tmp_path / name) for name in ("inputs.npz", "answers.npz"))
    for name, asked in inputs.items():
        ours, theirs = _computed(tmp_path / f"{name}.parts", asked), answers[name]
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, name
        if name.partition(".skops")[0] in _SUMS or name.partition(".xml")[0] in _SUMS:
            assert ours.tobytes() == theirs.tobytes(), name
        assert np.abs(ours - theirs).max() < 5e-16, name
    refused = json.loads((tmp_path / "refused.json").read_text())
    assert all(refused.values())
    for file, part in (
        ("forest.joblib", "is a pickle"),
        ("program.skops", "posix.system"),
        ("embedding.skops", "RandomTreesEmbedding is not supported"),
        ("beyond.skops", "a node's feature is not below 4"),
        ("entities.xml", "declares a document type or entities"),
        ("outside.xml", "declares a document type or entities"),
        ("deep.xml", "nested more than 1000 deep"),
        ("fisher.xml", "Fisher"),
        ("transformed.xml", "Normalize"),
        ("median.xml", "AdaBoostR2"),
    ):
        assert part in refused[file]
