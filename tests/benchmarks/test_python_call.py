"""benchmarks/python_call.py: calls from Python beside C and ONNX Runtime, on both networks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.samples import REPOSITORY
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]


def test_calls_of_both_networks_are_measured(shared_home: Path, tmp_path: Path) -> None:
    file, program = tmp_path / "calls.json", REPOSITORY / "benchmarks" / "python_call.py"
    printed = run([sys.executable, program, "--rounds", "5", "--calls", "50", "--json", file], timeout=500).stdout
    found = json.loads(file.read_text())
    assert found.keys() == {"dense", "tagger"}
    # Not how long: the machine is shared. The program itself compares the answers with ONNX Runtime's.
    for times in found.values():
        assert all(
            times[name] > 0 for name in ("C", "model(x)", "model(name=x)", "model(x, out=array)", "ONNX Runtime")
        )
        assert times["model(x)"] < times["ONNX Runtime"], "a twentieth of it, in CPU time"
    assert printed.splitlines()[-5].startswith("| C | ") and "| over C |" in printed
