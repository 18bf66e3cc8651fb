"""Packages of decision trees give the answers of the call that the model's author makes, not of the bare file."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import run_command
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.runtime.loader import load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_WORKER = Path(__file__).resolve().parents[2] / "tfaot_pkg" / "worker_program"


@pytest.fixture(scope="module")
def folder(shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["trees"])
    folder = tmp_path_factory.mktemp("calls")
    run([frontend.python, "-I", Path(__file__).with_name("tree_calls.py"), _WORKER, folder], timeout=500)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return results


def test_sums_and_the_oracle_are_those_of_the_authors_call(found: dict[str, Any]) -> None:
    assert found["off"]
    assert {case: rows for case, rows in found["off"].items() if any(rows.values())} == {}


def test_on_thresholds_roundings_excuse_no_difference(found: dict[str, Any]) -> None:
    assert found["spread"] == 0


def test_reports_say_what_is_computed(found: dict[str, Any]) -> None:
    described = found["described"]
    assert "iterations, up to the best" in described["wrapper"]
    assert "iterations" not in described["wrapper, all"]
    assert "2 of " in described["wrapper, two"]
    assert "-999 counts as missing" in described["missing in the file"]
    assert "x of float32" in described["on thresholds, floats"]
    assert "by their values: charge particle, categories by their positions: detector" in described["xgboost's frame"]


def test_notes_name_what_a_file_leaves_open(found: dict[str, Any]) -> None:
    notes = found["notes"]
    for case, parts in (
        ("wrapper", ["{missing: -999}"]),
        ("native", ["{iterations: best}", "{missing: -999}"]),
        ("native, best", ["{missing: -999}"]),
        ("missing", []),
        ("missing in the file", []),
        ("lightgbm", ["{iterations: N}"]),
        ("lightgbm, all", []),
        ("on thresholds", []),
        ("xgboost's other texts", ["{missing: -999}", "beyond ASCII"]),
    ):
        assert len(notes[case]) == len(parts), case
        assert all(part in note for part, note in zip(parts, notes[case], strict=True)), case


def test_packages_know_the_categories_and_the_iterations(found: dict[str, Any]) -> None:
    facts = found["facts"]
    values = facts["lightgbm's frame"]["categories"]
    assert [each["values"] for each in values[:3]] == [
        [-1, 2, 0],
        [11, 13, 22, 211, -211],
        ["barrel", "endcap", "forward"],
    ]
    assert [each["given"] for each in values] == ["values", "values", "positions", "values", "values"]
    assert {each["given"] for each in facts["lightgbm's codes"]["categories"]} == {"codes"}
    assert facts["lightgbm's codes"]["categories"][1]["values"] == [11, 13, 22, 211, -211]
    assert facts["wrapper"]["iterations"] < facts["wrapper"]["iterations_in_file"]
    assert (facts["missing"]["missing"], facts["nothing missing"]["missing"]) == ("-999.0", "nan")


def test_calls_that_a_library_does_not_have_are_refused(found: dict[str, Any]) -> None:
    refused = found["refused"]
    for case, part in (
        ("whose categories", "does not say which"),
        ("no best", "has no best iteration"),
        ("too many", "999 iterations"),
        ("no best of LightGBM", "best_iteration"),
        ("too many of LightGBM", "999 iterations"),
        ("missing of LightGBM", "trees.missing"),
        ("iterations of scikit-learn", "trees.iterations"),
        ("codes of scikit-learn", "trees.categories is codes"),
        ("no values", "no values of categories"),
        ("cut texts", "beyond ASCII"),
        ("best_of_another", "78 iterations"),
        ("best_is_no_number", "damaged"),
        ("no_settings", "damaged"),
    ):
        assert part in refused[case], case


@pytest.mark.sweep(night=["regressor*", "lightgbm's*"])
@pytest.mark.parametrize(
    ("case", "file", "trees"),
    [
        ("regressor", "regressor.json", {"missing": "nan"}),
        ("missing in the file", "old.json", {"missing": "-999.0", "iterations": 10}),
        ("xgboost's frame", "frame.ubj", {"columns": ["pt", "charge", "particle", "detector"]}),
        ("lightgbm's frame", "frame.txt", {"iterations": 8}),
        ("scikit-learn's frame", "frame.skops", {"columns": ["pt", "charge", "detector", "half"]}),
    ],
)
def test_packages_of_first_specs_give_the_authors_numbers(
    folder: Path, shared_home_folder: Path, tmp_path: Path, case: str, file: str, trees: dict[str, object]
) -> None:
    """With the spec that `init` writes, as it is."""
    shutil.copy(folder / file, tmp_path)
    variables = {**os.environ, "TFAOT_HOME": str(shared_home_folder)}
    begun = run_command(["init", file, "--name", "called"], cwd=tmp_path, env=variables)
    assert begun.returncode == 0
    # The spec has `missing: .nan`, which no later command questions.
    assert ("{missing: -999}" in begun.stdout) is (case in ("regressor", "xgboost's frame"))
    built = run_command(["build", "spec.yaml", "-o", "prefix", "--target", "x86-64-v3"], cwd=tmp_path, env=variables)
    assert built.returncode == 0, built.stderr
    assert "freeze: cached" in built.stderr  # `init` has frozen the model as its spec says
    info = json.loads((tmp_path / "prefix" / "share" / "tfaot-model-called" / "info.json").read_text())
    assert {name: info["trees"][name] for name in trees} == trees
    with np.load(folder / f"{case}.npz") as stored:
        x, right = stored["x"], stored["out"]
    found = load("called", prefix=tmp_path / "prefix")(x)
    ours = next(values for name, values in found.items() if name != "margin")
    np.testing.assert_allclose(ours.reshape(len(x), -1)[:, -1], right.reshape(len(x), -1)[:, -1], rtol=1e-6)
