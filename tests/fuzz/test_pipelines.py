"""Random pipelines of scikit-learn have its answers, or are refused for a known reason."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.conftest import WORKER_PROGRAM
from tests.kept import REPOSITORY
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.frontends.frozen.lowered import of_trees
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.arrays import read_arrays
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(900)]

_PIPELINES = 60
_REFUSED = re.compile(
    "SVC with probability=True is not supported"
    "|.* has types that are not supported: sklearn.calibration._TemperatureScaling"
    "|sklearn.preprocessing._data.QuantileTransformer as transformer of a target is not supported"
    "|QuantileTransformer of sparse matrices is not supported"
    "|SVC that was trained on a sparse matrix is not supported"
    "|.* has types that are not supported: scipy.sparse._csr.csr_matrix"
)


def _off(folder: Path) -> float:
    """The largest error, in 1e-9 of the largest answer, of what a rounding of x does not change."""
    case = read_arrays(folder / "case.npz")
    program = verified(of_trees(folder).program, "lowering")
    with np.errstate(all="ignore"):
        (ours,) = interpret.run(program, len(case["x"]), [case["x"]])
        right, moved = case["right"], case["moved"]
        assert ours.shape == right.shape
        assert np.array_equal(np.isnan(ours), np.isnan(right))
        is_number = np.isfinite(right)
        scale = np.abs(right[is_number]).max(initial=1.0)
        # Of rows at the thresholds of trees, and of what scikit-learn itself loses.
        usual = 1e-9 * scale + 100 * np.nan_to_num(np.abs(moved - right), posinf=np.inf)
        return float((np.abs(ours - right)[is_number] / usual[is_number]).max(initial=0.0))


@pytest.mark.sweep(night=["0"])
@pytest.mark.parametrize("seed", range(4))
def test_random_pipelines_have_scikit_learns_answers(shared_home_folder: Path, tmp_path: Path, seed: int) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    python = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["trees"]).python
    maker = REPOSITORY / "tests" / "fuzz" / "drawn_pipelines.py"
    one = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    run([python, "-I", maker, str(seed), str(_PIPELINES), tmp_path, WORKER_PROGRAM], timeout=800, env=one)
    found = json.loads((tmp_path / "index.json").read_text())
    assert found["broken"] == {}
    assert {text: why for text, why in found["refused"].items() if not _REFUSED.match(why)} == {}
    assert len(found["texts"]) > 0.75 * _PIPELINES
    off = {text: _off(tmp_path / f"{number}.parts") for number, text in found["texts"].items()}
    assert {text: each for text, each in off.items() if each > 1} == {}
