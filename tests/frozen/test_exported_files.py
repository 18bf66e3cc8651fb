"""Files that exporters and ONNX Runtime's tools write now give ONNX Runtime's answers, element by element."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.frozen.judged_files import judged
from tests.kept import kept
from tests.onnx_lowering.graphs import answers_of, arrays_of, frontend, model_in, valid
from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.nightly, pytest.mark.timeout(3600)]
_HERE = Path(__file__).parent
_WORKER = _HERE.parents[1] / "tfaot_pkg" / "worker_program"
_TREES = (
    "catboost==1.2.10",
    "lightgbm==4.7.0",
    "onnxmltools==1.16.0",
    "pandas",
    "scikit-learn==1.9.1",
    "skl2onnx==1.20.0",
    "xgboost==3.2.0",
)
_NETWORKS = ("onnx==1.17.0", "onnxruntime==1.32.0", "tensorflow-cpu==2.15.1", "tf2onnx==1.17.0")
"""TensorFlow 2.15 is the last one with Keras 2, whose models tf2onnx reads; it has wheels for Python 3.9 to 3.11."""


@pytest.mark.release
def test_networks_of_keras_by_tf2onnx_agree(shared_home_folder: Path, tmp_path: Path) -> None:
    python = _environment(shared_home_folder, _NETWORKS)
    run([python, "-I", _HERE / "exported_networks.py", tmp_path], timeout=1800)
    found = _judged(shared_home_folder, tmp_path)
    assert found.keys() == {path.stem for path in tmp_path.glob("*.onnx")} != set()
    assert {name: verdict for name, verdict in found.items() if not _agrees(verdict, 1e-5)} == {}


def test_trees_of_scikit_learn_and_boosters_agree(shared_home_folder: Path, tmp_path: Path) -> None:
    python = _environment(shared_home_folder, _TREES)
    run([python, "-I", "-W", "ignore", _HERE / "exported_trees.py", tmp_path], timeout=900)
    found = _judged(shared_home_folder, tmp_path)
    assert found.keys() == {path.stem for path in tmp_path.glob("*.onnx")} != set()
    assert {name: verdict for name, verdict in found.items() if not _agrees(verdict, 1e-6)} == {}


def _agrees(verdict: Mapping[str, Any], tolerance: float) -> bool:
    """Labels may differ where two scores are equal but for rounding."""
    return "off" in verdict and verdict["off"] <= tolerance and verdict["labels"] == verdict["ties"]


def _environment(home: Path, packages: tuple[str, ...]) -> Path:
    """A Python with `packages`, made once."""

    def make(folder: Path) -> None:
        run([sys.executable, "-m", "venv", folder], timeout=300)
        run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages], timeout=3000)

    return kept(home, "exporters", {"packages": list(packages)}, make) / "bin" / "python"


def _judged(home: Path, folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """The verdicts of judged_files.py on the files in `folder`."""
    run([frontend(home), "-I", _HERE / "judged_files.py", "read", _WORKER, folder], timeout=1500)
    found: dict[str, Mapping[str, Any]] = json.loads((folder / "results.json").read_text())
    for place in sorted(path.parent for path in folder.glob("*.read/data.npz")):
        model, (inputs, theirs) = model_in(place), arrays_of(place / "data.npz")
        rows = len(inputs[model.inputs[0].key])
        try:
            ours = answers_of(valid(model), model, inputs, rows)
        except Unsupported as error:
            found[place.stem] = {"refused": str(error)}
            continue
        found[place.stem] = judged(ours, {f"out/{key}": values for key, values in theirs.items()})
    return found
