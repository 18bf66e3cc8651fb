"""benchmarks/onnx_networks.py: a network that PyTorch exports, beside ONNX Runtime."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.frozen.test_torch_files import python_with_pytorch
from tests.samples import REPOSITORY
from tfaot_pkg.ground.process import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.release,
    pytest.mark.needs_tensorflow,
    pytest.mark.timeout(3600),
]


def test_a_network_of_pytorch_runs_beside_onnx_runtime_and_gives_its_answers(
    shared_home: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    words = ["--networks", "gru_both_ways", "--rounds", "1", "--batch-sizes", "1,4"]
    words += ["--work", str(tmp_path / "work"), "--folder", str(tmp_path)]
    python = str(python_with_pytorch(shared_home_folder))
    variables = {**os.environ, "TFAOT_HOME": str(shared_home), "TFAOT_TEST_TORCH": python}
    run([sys.executable, REPOSITORY / "benchmarks" / "onnx_networks.py", *words], env=variables, timeout=1100)
    (network,) = json.loads((tmp_path / "onnx.json").read_text())["networks"]
    for engine in network["engines"]:
        assert engine["reason"] == ""
        assert [cell["failures"] for cell in engine["cells"]] == [0, 0]
    lines = (tmp_path / "onnx.md").read_text().splitlines()
    assert [line.split("|")[1:3] for line in lines if line.startswith("| gru")] == [
        [" gru_both_ways ", " 1 "],
        [" gru_both_ways ", " 4 "],
    ]
