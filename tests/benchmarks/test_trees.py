"""benchmarks/trees.py: small boosted trees beside XGBoost, tl2cgen and ONNX Runtime."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.samples import REPOSITORY
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]


@pytest.mark.release
def test_peers_run_trees_and_give_xgboosts_answers(shared_home: Path, tmp_path: Path) -> None:
    words = ["--networks", "20x4", "--peers", "library,tl2cgen,onnxruntime,litert", "--rounds", "1"]
    words += ["--batch-sizes", "1,16", "--work", str(tmp_path / "work"), "--folder", str(tmp_path)]
    program = REPOSITORY / "benchmarks" / "trees.py"
    run([sys.executable, program, *words], env={**os.environ, "TFAOT_HOME": str(shared_home)}, timeout=1100)
    (model,) = json.loads((tmp_path / "trees.json").read_text())["models"]
    ours, litert, *peers = model["engines"]
    assert [each["title"] for each in peers] == ["ONNX Runtime (C)", "XGBoost (C)", "tl2cgen (C)"]
    assert litert["reason"] == "TensorFlow, from which its model is made, has no decision trees"
    for engine in (ours, *peers):
        assert engine["reason"] == "" and engine["version"] and engine["model_bytes"] > 1000
        assert [cell["failures"] for cell in engine["cells"]] == [0, 0]
        assert all(cell["max_absolute"] < 1e-6 and cell["median"] > 0 for cell in engine["cells"])
    assert peers[1]["cells"][1]["max_absolute"] == 0
    lines = (tmp_path / "trees.md").read_text().splitlines()
    assert [line.split("|")[1:3] for line in lines if line.startswith("| trees_")] == [
        [" trees_20x4 ", " 1 "],
        [" trees_20x4 ", " 16 "],
    ]
