"""Random quantized networks in QONNX have the bits of its executor, before and after all passes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.conftest import WORKER_PROGRAM
from tests.kept import REPOSITORY
from tests.onnx_lowering.graphs import arrays_of, model_in, valid
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes import pipeline as passes
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

_NETWORKS, _BY_DAY = 150, 25


def _drawn(home: Path, folder: Path, seed: int, count: int) -> dict[str, str]:
    """Networks in folders of `folder`; their operators, by the names of these."""
    folders = Folders(cache=home / "cache", data=home / "data")
    python = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["qonnx"]).python
    maker = REPOSITORY / "tests" / "fuzz" / "drawn_qonnx.py"
    run([python, "-I", maker, str(seed), str(count), folder, WORKER_PROGRAM], timeout=1500)
    found = json.loads((folder / "index.json").read_text())
    assert found["refused"] == found["broken"] == found["not_run"] == {}
    texts: dict[str, str] = found["texts"]
    assert len(texts) == count
    return texts


def _same(ours: np.ndarray, theirs: np.ndarray) -> bool:
    # Integers have one zero, the executor's floats have two.
    return ours.shape == theirs.shape and np.array_equal(ours, theirs, equal_nan=True)


@pytest.mark.sweep("0", night=["1"])
@pytest.mark.parametrize("seed", range(5))
def test_random_networks_have_the_executors_bits(shared_home_folder: Path, tmp_path: Path, seed: int) -> None:
    texts = _drawn(shared_home_folder, tmp_path, seed, _NETWORKS if seed else _BY_DAY)
    wrong = []
    for name, text in texts.items():
        model = model_in(tmp_path / name)
        program = valid(model)
        raised = passes.run(program)
        inputs, answers = arrays_of(tmp_path / name / "rows.npz")
        for which in (program, raised):
            with np.errstate(all="ignore"):
                found = interpret.run(which, len(inputs["x"]), [inputs["x"]])
            for output, ours in zip(model.outputs, map(np.asarray, found), strict=True):
                if not _same(ours, answers[output.name]):
                    wrong.append(text)
    assert wrong == []
