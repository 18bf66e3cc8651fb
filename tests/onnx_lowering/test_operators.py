"""ONNX's own tests of its operators, and corner values, lowered operator by operator and run by the interpreter."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.frozen.onnx_node_tests import agree
from tests.onnx_lowering.graphs import (
    WORKER,
    answers_of,
    arrays_of,
    frontend,
    model_in,
    program_of_test,
    valid,
    with_sizes,
)
from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]
_PROGRAMS = Path(__file__).resolve().parents[1] / "frozen"


def _verdict(folder: Path, rtol: float, atol: float) -> str:
    """The word passed, or refused and why, or how the answers differ."""
    model, (inputs, theirs) = model_in(folder), arrays_of(folder / "data.npz")
    try:
        program, model = program_of_test(model, {each.key: inputs[each.key] for each in model.inputs})
    except Unsupported as error:
        return f"refused: {error}"
    ours = answers_of(program, model, inputs)
    for key, given in ours.items():
        is_half = theirs[key].dtype == np.float16 and given.dtype == np.uint16
        values = given.view(np.float16) if is_half else given
        if (values.dtype, values.shape) != (theirs[key].dtype, theirs[key].shape):
            return f"{values.dtype}{list(values.shape)}, and not {theirs[key].dtype}{list(theirs[key].shape)}"
        if not agree(values, theirs[key], rtol, atol):
            return f"other values in {key}"
    return "passed"


@pytest.mark.parametrize(("which", "least"), [("one", 130), pytest.param("all", 1590, marks=pytest.mark.nightly)])
def test_no_test_of_an_operator_fails(which: str, least: int, shared_home_folder: Path, tmp_path: Path) -> None:
    program = _PROGRAMS / "onnx_node_tests.py"
    run([frontend(shared_home_folder), "-I", program, "read", WORKER, tmp_path, which], timeout=600)
    index = json.loads((tmp_path / "index.json").read_text())
    found = {
        name: _verdict(tmp_path / name, rtol, atol) for name, (_, fault, rtol, atol, _) in index.items() if not fault
    }
    verdicts = Counter(each.partition(":")[0] for each in found.values())
    assert {name: each for name, each in found.items() if not each.startswith(("passed", "refused"))} == {}
    assert verdicts["passed"] >= least
    # A message names the operator and its node, or the input.
    refused = [each for each in found.values() if each.startswith("refused")]
    assert all("(node " in each or "the input" in each for each in refused)


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
