"""Answers in a file belong to the graph that PyTorch exported: no other graph is compared with them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.homes import home_with_frontend
from tests.onnx_lowering.graphs import WORKER, frontend
from tfaot_pkg import export
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
_MAKER = Path(__file__).with_name("changed_exports.py")
_SAME = {"untouched", "saved_again", "weights_beside"}
_NOTE = "the file was changed after PyTorch exported it"


def _read(home: Path, folder: Path) -> dict[str, tuple[list[bool], str, list[str]]]:
    run([frontend(home), "-I", _MAKER, WORKER, Path(export.__file__).parent, folder], timeout=600)
    found: dict[str, tuple[list[bool], str, list[str]]] = json.loads((folder / "found.json").read_text())
    return found


def test_answers_are_left_out_of_files_whose_graph_is_another_one(shared_home_folder: Path, tmp_path: Path) -> None:
    found = _read(shared_home_folder, tmp_path)
    assert len(found) == 8
    for name, (is_digest, answered_by, notes) in found.items():
        # Files of older exporters have no digest, and are taken as they are.
        answered = name in _SAME or name == "without_a_digest"
        assert is_digest == [name in _SAME], name
        assert answered_by == ("PyTorch 2.13.0" if answered else ""), name
        assert [_NOTE in each for each in notes] == ([] if answered else [True]), name


def test_an_export_that_was_quantized_is_compared_with_onnx_runtime_alone(
    shared_home_folder: Path, tmp_path: Path
) -> None:
    _read(shared_home_folder, tmp_path / "files")
    home = home_with_frontend("onnx", shared_home_folder, tmp_path / "home")
    for name in ("untouched", "quantized"):
        file = tmp_path / "files" / name / f"{name}.onnx"
        (tmp_path / f"{name}.onnx").write_bytes(file.read_bytes())
        (tmp_path / "spec.yaml").write_text(
            f"model: {{name: {name}, version: '1.0.0', onnx: {name}.onnx, description: layer}}\n"
            "compilation: {batch_sizes: [4], targets: [x86-64-v3]}\n"
        )
        words = ["build", "spec.yaml", "-o", f"prefix-{name}"]
        done = run_command(words, cwd=tmp_path, env={**os.environ, "TFAOT_HOME": str(home)})
        assert done.returncode == 0, done.stderr
        assert ("PyTorch 2.13.0 and ONNX Runtime" in done.stdout) == (name == "untouched")
        assert (_NOTE in done.stdout + done.stderr) == (name == "quantized")
