"""benchmarks/precision.py: its tables, and one network in its three forms beside real engines."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.made import OURS, bench, cells, row
from tests.frozen.test_torch_files import python_with_pytorch
from tests.samples import REPOSITORY
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.process import run

PROGRAM = REPOSITORY / "benchmarks" / "precision.py"


@pytest.mark.slow
def test_the_tables_compare_forms_of_a_network_with_each_other_and_with_peers(tmp_path: Path) -> None:
    peers = row("openvino", cells(4000, 8000)), row("openvino_default", cells(2000, 8000)), row("onnxruntime", {})
    found = [
        replace(bench(row(OURS, cells(3000, 6000)), *peers), model="mlp"),
        replace(bench(row(OURS, cells(1500, 9000)), *peers), model="mlp_bfloat16"),
        replace(bench(row(OURS, cells(1000, 2000)), *peers), model="mlp_int8"),
    ]
    source = tmp_path / "precision.json"
    source.write_text(json.dumps({"networks": [plain(each) for each in found]}))
    run([sys.executable, PROGRAM, "--from", source, "--folder", tmp_path], timeout=60)
    text = (tmp_path / "precision.md").read_text()
    assert "| mlp | 1 | 3.00 | 1.50 | 4.00 | 2.00 | 0.75 | 0.50 | 0.75 | 1.0e-07 | 1.0e-07 |" in text
    assert "| mlp | 4 | 6.00 | 9.00 | 8.00 | 8.00 | 0.75 | 1.50 | 1.12 | 1.0e-07 | 1.0e-07 |" in text
    assert "- above 1.0: mlp, batch size 4: 1.12" in text
    assert "| mlp | 1 | 1.00 | 3.00 | - | 2.00 | 0.33 | 0.50 | 1.0e-07 | - | 1.0e-07 |" in text
    assert "above 1.1" not in text


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(3600)
def test_a_network_runs_in_float32_bfloat16_and_bytes_beside_peers(
    shared_home: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    words = ["--networks", "mlp_64,mlp_64_bfloat16,mlp_64_int8", "--rounds", "1", "--batch-sizes", "1,16"]
    words += ["--work", str(tmp_path / "work"), "--folder", str(tmp_path)]
    python = str(python_with_pytorch(shared_home_folder))
    variables = {**os.environ, "TFAOT_HOME": str(shared_home), "TFAOT_TEST_TORCH": python}
    run([sys.executable, PROGRAM, *words], env=variables, timeout=1100)
    floats, reduced, quantized = json.loads((tmp_path / "precision.json").read_text())["networks"]
    for network, most in ((floats, 1e-5), (reduced, 0.01), (quantized, 0.01)):
        for engine in network["engines"]:
            assert engine["reason"] == ""
            assert all(cell["max_absolute"] < most for cell in engine["cells"] if engine["name"].startswith("tfaot"))
    assert "bfloat16" not in floats["engines"][0]["engine"] and "bfloat16" in reduced["engines"][0]["engine"]
