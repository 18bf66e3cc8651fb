"""examples/from-xgboost: from a file of XGBoost to numbers in C++, which are XGBoost's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.consumers.conftest import TOOLS, cmake_build
from tests.coverage import verified
from tests.kept import REPOSITORY
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [
    pytest.mark.coverage,
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
_EXAMPLE = REPOSITORY / "examples" / "from-xgboost"
_ORACLE = """
import json, sys
import numpy as np, xgboost
x = np.array([[0.5, 1.2, 0.3, -0.1], [-0.7, 0.9, 0.8, 0.4], [np.nan, -0.3, np.nan, 1.5]], np.float32)
print(json.dumps(xgboost.Booster(model_file=sys.argv[1]).inplace_predict(x).tolist()))
"""


def test_the_example_gives_xgboosts_answers_in_cpp(shared_home_folder: Path, tmp_path: Path) -> None:
    prefix, variables = tmp_path / "prefix", {**os.environ, "TFAOT_HOME": str(shared_home_folder)}
    with verified("trees: XGBoost", version=DEFAULT_VERSION, engine="program"):
        built = run([TOOLS / "tfaot-pkg", "build", _EXAMPLE / "spec.yaml", "-o", prefix], env=variables, timeout=600)
    assert "verified against XGBoost 3." in built.stdout
    program = cmake_build(tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", source=_EXAMPLE) / "classify"
    ours = [float(line) for line in run([program]).stdout.splitlines()]
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["trees"])
    right = json.loads(run([frontend.python, "-I", "-c", _ORACLE, _EXAMPLE / "model.json"], timeout=120).stdout)
    np.testing.assert_allclose(ours, right, rtol=3e-7)
