"""Networks quantized by ONNX Runtime's tools give its answers, and have layers of bytes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_command
from tests.homes import home_with_frontend
from tests.kept import kept
from tests.onnx_lowering.graphs import WORKER, frontend, model_in, valid
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes import pipeline as passes
from tfaot_pkg.frontends.frozen.model import worker_program_digest
from tfaot_pkg.ground.arrays import read_arrays
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
_MAKER = Path(__file__).with_name("quantized_networks.py")
_LAYERS = {
    "attention_dynamic": (4, 2),
    "attention_operators": (4, 2),
    "attention_qdq": (4, 2),
    "branches_dynamic": (4, 0),
    "branches_operators": (4, 0),
    "branches_qdq": (4, 0),
    "decoder_dynamic": (4, 1),
    "decoder_operators": (4, 1),
    "decoder_qdq": (4, 1),
    "dense_dynamic": (3, 0),
    "dense_operators": (3, 0),
    "dense_qdq": (3, 0),
    "inverted_residual_dynamic": (6, 0),
    "inverted_residual_operators": (6, 0),
    "inverted_residual_qdq": (6, 0),
    "recurrent_dynamic": (3, 0),
    "recurrent_operators": (1, 2),
    "recurrent_qdq": (1, 2),
}
"""How many layers sum bytes, and how many products are of floats."""
_OF_FLOATS = frozenset({"conv2d", "convolution", "dense", "dot"})


def _networks(home: Path) -> Path:
    python = frontend(home)
    parts = {"maker": sha256_file(_MAKER), "worker": worker_program_digest()}
    return kept(
        home, "quantized_networks", parts, lambda folder: run([python, "-I", _MAKER, WORKER, folder], timeout=600)
    )


def test_sums_of_the_largest_bytes_are_exact_on_every_cpu(shared_home_folder: Path, tmp_path: Path) -> None:
    """Those of ONNX Runtime saturate on x86-64 without VNNI."""
    run([frontend(shared_home_folder), "-I", _MAKER.with_name("largest_sums.py"), WORKER, tmp_path], timeout=600)
    found = read_arrays(tmp_path / "sums.npz")
    cases = {name.removesuffix("/made") for name in found if name.endswith("/made")}
    assert len(cases) == 13
    for case in cases:
        assert np.array_equal(found[f"{case}/made"], found[f"{case}/exact"]), case


@pytest.mark.parametrize("name", _LAYERS)
def test_networks_have_layers_of_bytes_and_onnx_runtimes_answers(name: str, shared_home_folder: Path) -> None:
    folder = _networks(shared_home_folder) / name
    program, rows = valid(model_in(folder)), read_arrays(folder / "rows.npz")
    raised, wanted = passes.run(program), rows["y"]
    opcodes = Counter(each.opcode for each in raised.entry.everything())
    of_bytes = sum(count for opcode, count in opcodes.items() if opcode.startswith("quantized_"))
    assert (of_bytes, sum(opcodes[each] for each in _OF_FLOATS)) == _LAYERS[name]
    for each in (program, raised):
        with np.errstate(all="ignore"):
            (made,) = interpret.run(each, len(wanted), [rows["x"]], {})
        # A sum that lies nearly between two steps may be the other byte.
        off = np.abs(np.asarray(made) - wanted) / np.ptp(wanted)
        assert off.max() < 4 / 255 and np.mean(off > 1e-5) < 0.05


@pytest.mark.sweep(night=["recurrent_dynamic"])
@pytest.mark.parametrize("name", _LAYERS)
def test_packages_are_verified_row_by_row_if_scales_are_those_of_calls(
    name: str, shared_home_folder: Path, tmp_path: Path
) -> None:
    home = home_with_frontend("onnx", shared_home_folder, tmp_path / "home")
    (tmp_path / f"{name}.onnx").write_bytes((_networks(shared_home_folder) / name / f"{name}.onnx").read_bytes())

    def tool(*words: str) -> str:
        done = run_command(words, cwd=tmp_path, env={**os.environ, "TFAOT_HOME": str(home)})
        assert done.returncode == 0, done.stderr
        return done.stdout

    tool("init", f"{name}.onnx", "-o", "spec.yaml")
    assert "shapes:" not in (tmp_path / "spec.yaml").read_text()
    told = tool("build", "spec.yaml", "-o", "prefix", "--target", "x86-64-v3", "--batch-size", "4")
    assert "verified against ONNX Runtime" in told and "for any number of rows" in told
