"""Models of XGBoost and LightGBM are read to the bit, and damaged ones refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_WORKER = Path(__file__).resolve().parents[2] / "tfaot_pkg" / "worker_program"


def test_sums_are_those_of_the_library_and_damaged_files_are_refused(shared_home_folder: Path, tmp_path: Path) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["trees"])

    run([frontend.python, "-I", Path(__file__).with_name("boosted_files.py"), _WORKER, tmp_path], timeout=500)

    found = json.loads((tmp_path / "results.json").read_text())
    assert {name.rpartition(".")[2] for name in found["off"]} == {"json", "ubj", "txt"}
    assert {name: rows for name, rows in found["off"].items() if rows} == {}
    refused = found["refused"]
    assert [name for name, why in refused.items() if not why] == []
    for name, part in (
        ("cycle.json", "damaged"),
        ("outside.json", "damaged"),
        ("linear.json", "XGBoost"),
        ("cut.json", "is damaged"),
        ("cut.txt", "ends before its trees do"),
        ("child.txt", "left_child has"),
        ("cycle.txt", "reached in two ways"),
        ("nan.txt", "threshold"),
        ("linear.txt", "linear trees are not supported"),
    ):
        assert part in refused[name], refused[name]
