"""A deep quantized network, whose bytes differ where a rounding decides, passes; wrong constants in it do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.kept import kept
from tests.onnx_lowering.graphs import WORKER, frontend, model_in, valid
from tfaot_pkg.compiler import interpret
from tfaot_pkg.frontends.frozen.model import worker_program_digest
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.signature import DType, Tensor
from tfaot_pkg.verify.classes import answers_of
from tfaot_pkg.verify.judgement import Difference, differences
from tfaot_pkg.verify.oracle import Tried

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
_MAKER = Path(__file__).with_name("wrong_programs.py")
_SIZE = 16
_WRONG = [f"{kind}_{place}" for kind in ("scale", "zero_point", "bias") for place in (0.1, 0.5, 0.9)]


@pytest.fixture(scope="module")
def networks(shared_home_folder: Path) -> Path:
    python = frontend(shared_home_folder)
    parts = {
        "maker": sha256_file(_MAKER),
        "nets": sha256_file(_MAKER.with_name("quantized_networks.py")),
        "worker": worker_program_digest(),
    }
    return kept(
        shared_home_folder,
        "wrong_programs",
        parts,
        lambda folder: run([python, "-I", _MAKER, WORKER, folder], timeout=600),
    )


def _judged(ours: Array, folder: Path) -> list[Difference]:
    """As validation judges such answers on main inputs."""
    eager = read_arrays(folder / "answers.npz")
    tried = Tried(name="main", inputs=folder / "inputs.npz", rows=len(ours), sizes=(_SIZE,), eager=eager)
    operations = frozenset(
        {f"ai.onnx.{each}" for each in ("QuantizeLinear", "LayerNormalization", "MatMul", "Softmax")}
    )
    tensor = Tensor(name="y", dtype=DType.FLOAT32, shape=(None, *ours.shape[1:]))
    answers = answers_of(
        replace(tried, operations=operations), {f"{_SIZE}/y": ours}, {}, _SIZE, tensor, independent=True
    )
    return list(
        differences(
            answers, class_name="main", target="x86-64-v3", batch_size=_SIZE, output="y", rtol=1e-4, atol=1e-5,
            operations=operations,
        )
    )  # fmt: skip


def _answers(name: str, folder: Path) -> Array:
    x = read_arrays(folder / "inputs.npz")["x"]
    (made,) = interpret.run(valid(model_in(folder / name)), len(x), [x], {})
    return np.asarray(made)


def test_bytes_of_a_transformer_that_a_rounding_decides_are_no_fault(networks: Path) -> None:
    """One of them changes most of its row, by several steps."""
    found = _judged(_answers("right", networks), networks)
    assert found
    assert not any(each.is_fault for each in found), found


@pytest.mark.parametrize("name", _WRONG)
def test_a_wrong_constant_in_a_transformer_is_a_fault(name: str, networks: Path) -> None:
    assert any(each.is_fault for each in _judged(_answers(name, networks), networks))
