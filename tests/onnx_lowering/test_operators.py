"""ONNX's own tests of its operators, and corner values, lowered operator by operator and run by the interpreter."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.frozen.onnx_coverage import PAGE, page, results
from tests.onnx_lowering.graphs import (
    WORKER,
    answers_of,
    arrays_of,
    frontend,
    model_in,
    valid,
    with_sizes,
)
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]
_PROGRAMS = Path(__file__).resolve().parents[1] / "frozen"


@pytest.mark.parametrize(("which", "least"), [("one", 130), pytest.param("all", 1590, marks=pytest.mark.nightly)])
def test_no_test_of_an_operator_fails(which: str, least: int, shared_home_folder: Path, tmp_path: Path) -> None:
    found = results(shared_home_folder, tmp_path, which=which)
    verdicts = Counter(verdict for _, verdict, _ in found.values())
    assert {name: each for name, each in found.items() if each[1] == "failed"} == {}
    assert verdicts["passed"] >= least
    if which == "all":
        assert page(found) == PAGE.read_text(), "python -m tests.frozen.onnx_coverage"


@pytest.mark.sweep("9")
@pytest.mark.parametrize("step", [9, 1])
def test_operators_give_onnx_runtimes_answers_at_corner_values(
    step: int, shared_home_folder: Path, tmp_path: Path
) -> None:
    """Zeros of both signs, infinities, NaN and the largest numbers; only what uses a NaN or an infinity shows it."""
    program = _PROGRAMS / "onnx_corners.py"
    run([frontend(shared_home_folder), "-I", program, "read", WORKER, tmp_path, str(step)], timeout=600)
    index = json.loads((tmp_path / "index.json").read_text())
    found = {name: fault or _difference(tmp_path / str(number)) for name, (number, fault) in index.items()}
    assert len(found) > 350 // step
    assert {name: fault for name, fault in found.items() if fault} == {}


def _difference(folder: Path) -> str:
    inputs, theirs = arrays_of(folder / "data.npz")
    model = with_sizes(model_in(folder), inputs)
    for key, ours in answers_of(valid(model), model, inputs).items():
        if ours.shape != theirs[key].shape or not _are_close(ours, theirs[key]):
            return f"{ours}, and not {theirs[key]}"
    return ""


def _are_close(ours: Array, theirs: Array) -> bool:
    return np.allclose(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("count", [12, pytest.param(90, marks=pytest.mark.nightly)])
def test_random_trees_give_onnx_runtimes_answers(count: int, shared_home_folder: Path, tmp_path: Path) -> None:
    program = _PROGRAMS / "onnx_trees.py"
    run([frontend(shared_home_folder), "-I", program, "read", WORKER, tmp_path, str(count)], timeout=300)
    index = json.loads((tmp_path / "index.json").read_text())
    assert len(index) > count // 2
    for number, tags in index.items():
        with np.load(tmp_path / number / "data.npz") as file:
            theirs = dict(file)
        model, x = model_in(tmp_path / number), theirs.pop("x")
        ours = answers_of(valid(model), model, {"x": x}, len(x))
        for name, wanted in theirs.items():
            assert (ours[name].dtype, ours[name].shape) == (wanted.dtype, wanted.shape), tags
            assert np.allclose(ours[name], wanted, 2e-6, 1e-6, equal_nan=True), tags
