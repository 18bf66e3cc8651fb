"""benchmarks/families.py: its table, and its networks beside real engines."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.made import LITERT, OURS, XLA, bench, cells, row
from tests.samples import REPOSITORY
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.process import run

PROGRAM = REPOSITORY / "benchmarks" / "families.py"


@pytest.mark.slow
def test_the_table_has_a_line_for_each_batch_size_and_says_what_is_missing(tmp_path: Path) -> None:
    found = bench(
        row(OURS, cells(1200, 3600), engine="engine: a program"), row(XLA, cells(1500, 3000)),
        row(LITERT, cells(2400, 9000)), row("openvino", {}, reason="no such operation"),
    )  # fmt: skip
    source = tmp_path / "families.json"
    source.write_text(json.dumps({"networks": [plain(found)]}))
    run([sys.executable, PROGRAM, "--from", source, "--folder", tmp_path], timeout=60)
    text = (tmp_path / "families.md").read_text()
    assert "| made | 1 | 1.00 | 1.20 | 1.50 | 2.40 | - | - | - | 0.80 | 0.80 |" in text
    assert "| made | 4 | 3.00 | 3.60 | 3.00 | 9.00 | - | - | - | 1.20 | 1.20 |" in text
    assert "First in 1 of 2 cells" in text and f"- behind: made, batch size 4: 1.20 times {XLA}" in text
    assert "openvino: not measured: no such operation" in text and f"{OURS}: engine: a program" in text


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(1200)
def test_peers_run_recurrent_networks_and_give_tensorflows_answers(shared_home: Path, tmp_path: Path) -> None:
    names = ("lstm", "gru_towers")
    words = ["--networks", ",".join(names), "--peers", "litert,onnxruntime,openvino", "--rounds", "1"]
    words += ["--batch-sizes", "1,4", "--work", str(tmp_path / "work"), "--folder", str(tmp_path)]
    run([sys.executable, PROGRAM, *words], env={**os.environ, "TFAOT_HOME": str(shared_home)}, timeout=1100)
    lstm, gru = json.loads((tmp_path / "families.json").read_text())["networks"]
    for network, missing in ((lstm, set()), (gru, {"litert"})):  # which has no GRU
        engines: dict[str, Any] = {engine["name"]: engine for engine in network["engines"]}
        assert {name for name, engine in engines.items() if engine["reason"]} == missing
        for engine in engines.values():
            assert all(cell["failures"] == 0 for cell in engine["cells"])
    assert "engine: a program" in lstm["engines"][0]["engine"]
