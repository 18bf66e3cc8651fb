"""Packages of PyTorch's files: from the file to the library, without TensorFlow, PyTorch or ONNX Runtime."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.aten_lowering.aten_files import ARTIFACTS, changed, with_array
from tests.commands import run_command
from tests.homes import home_with_frontend
from tfaot_pkg.frontends.frozen.aten_file import read_answers, read_document
from tfaot_pkg.runtime.loader import load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
Tool = Callable[..., str]
_ANSWERED = ARTIFACTS / "answered"
_FEWER = ("--target", "x86-64-v3", "--batch-size", "1", "--batch-size", "4")


@pytest.fixture
def tool(shared_home_folder: Path, tmp_path: Path) -> Tool:
    """Runs a command with a home that has NumPy's environment alone; no other one can be installed."""
    home = home_with_frontend("aten", shared_home_folder, tmp_path / "home")
    env = {**os.environ, "TFAOT_HOME": str(home), "https_proxy": "http://127.0.0.1:9"}

    def run(*words: str | Path, code: int = 0) -> str:
        done = run_command(words, cwd=tmp_path, env=env)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout + done.stderr

    return run


@pytest.mark.sweep("graph", night=["projected_lstm", "stable_order"])
@pytest.mark.parametrize("path", [pytest.param(each, id=each.stem) for each in sorted(_ANSWERED.glob("*.aten"))])
def test_a_package_is_verified_against_pytorch_alone(path: Path, tool: Tool, tmp_path: Path) -> None:
    (tmp_path / path.name).write_bytes(path.read_bytes())
    tool("init", path.name, "-o", "spec.yaml")
    text = (tmp_path / "spec.yaml").read_text()
    assert f"aten: {path.name}" in text and "tensorflow" not in text and "To fill in" not in text
    assert "the model can be compiled" in tool("check", "spec.yaml")
    assert "verified against PyTorch 2.13" in tool("build", "spec.yaml", "-o", "prefix", *_FEWER)
    (report,) = (tmp_path / "prefix").glob("share/*/validation.json")
    tried = {each["name"]: each["not_run"] for each in json.loads(report.read_text())["classes"]}
    assert {"main", "examples"} < {name for name, not_run in tried.items() if not not_run}
    # PyTorch rejects indices out of range, and a graph without a batch as a whole.
    assert not any(not_run for name, not_run in tried.items() if name != "arranged" and "integers" not in name)
    answers, model = read_answers(path), load(tmp_path / "prefix")
    ours = model(**{each.name: answers[f"in/{each.name}"] for each in read_document(path).inputs})
    for each in model.signature.outputs:
        assert np.allclose(ours[each.name], answers[f"out/{each.name}"], 1e-5, 1e-5), each.name


def _spec(tmp_path: Path, path: Path, more: str = "") -> Path:
    (tmp_path / "model.aten").write_bytes(path.read_bytes())
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "model: {name: model, version: '1.0.0', aten: model.aten}\n"
        f"compilation: {{batch_sizes: [1], targets: [x86-64-v3]}}\n{more}"
    )
    return spec


def test_a_program_that_does_not_give_the_stored_answers_is_not_built(tool: Tool, tmp_path: Path) -> None:
    """Here a weight was changed after the module gave its answers."""
    path = with_array(
        _ANSWERED / "learned_latents.aten",
        tmp_path / "wrong.aten",
        lambda document: int(next(iter(document["weights"].values()))),
        lambda array: array + np.float32(0.1),
    )
    spec = _spec(tmp_path, path)
    spec.write_text(
        spec.read_text().replace("model.aten", 'model.aten, shapes: {particles: [batch, "2 <= n <= 32", 5]}')
    )
    assert "answers in the model's file are not those of its program" in tool("build", spec, "-o", "prefix", code=12)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("validation: {seed: 3}", "validation.seed: PyTorch's answers are stored in the model's file"),
        ("validation: {ranges: {x: [0, 1]}}", "validation.ranges: PyTorch's answers are stored"),
        ("validation: {samples: 500}", "validation.samples: PyTorch's answers are stored"),
    ],
)
def test_inputs_without_stored_answers_are_an_error(asked: str, why: str, tool: Tool, tmp_path: Path) -> None:
    spec = _spec(tmp_path, _ANSWERED / "stable_order.aten", asked)
    assert why in tool("build", spec, "-o", "prefix", code=10)


def test_sizes_and_files_without_answers_are_an_error(tool: Tool, tmp_path: Path) -> None:
    spec = _spec(tmp_path, _ANSWERED / "learned_latents.aten")
    spec.write_text(spec.read_text().replace("model.aten", "model.aten, shapes: {particles: [batch, 2 <= n <= 16, 5]}"))
    said = tool("build", spec, "-o", "prefix", code=12)
    assert "for other sizes than the largest of the spec" in said and '"n <= 32"' in said
    bare = changed(_ANSWERED / "stable_order.aten", tmp_path / "bare.aten", lambda document: document.pop("classes"))
    said = tool("build", _spec(tmp_path, bare), "-o", "prefix", code=12)
    assert "has no answers of PyTorch to compare with" in said
