"""examples/fpga-emulator: from a file of hls4ml to numbers in C++, which are those of hls4ml's emulator."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.consumers.conftest import TOOLS, cmake_build
from tests.kept import REPOSITORY
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("g++") is None, reason="the emulator needs g++"),
]
_EXAMPLE = REPOSITORY / "examples" / "fpga-emulator"
_ORACLE = """
import json, sys, tempfile
import numpy as np
from hls4ml.utils.serialization import deserialize_model
model = deserialize_model(sys.argv[1], output_dir=tempfile.mkdtemp())
model.config.config["OutputDir"] = tempfile.mkdtemp()
model.compile()
jet = (np.float32(3.0) * np.sin(np.float32(0.7) * np.arange(32, dtype=np.float32))).reshape(2, 16)
print(json.dumps((4096 * model.predict(jet)).tolist()))
"""


def test_the_example_gives_the_emulators_numbers_in_cpp(shared_home_folder: Path, tmp_path: Path) -> None:
    prefix, variables = tmp_path / "prefix", {**os.environ, "TFAOT_HOME": str(shared_home_folder)}
    built = run([TOOLS / "tfaot-pkg", "build", _EXAMPLE / "spec.yaml", "-o", prefix], env=variables, timeout=1200)
    assert "verified against hls4ml 1.3.0, largest difference 0 (relative 0)" in built.stdout
    program = cmake_build(tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", source=_EXAMPLE) / "emulate"
    ours = [[float(word) for word in line.split()] for line in run([program]).stdout.splitlines()]
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["hls4ml"])
    printed = run([frontend.python, "-I", "-c", _ORACLE, _EXAMPLE / "tagger.fml"], timeout=600).stdout
    np.testing.assert_array_equal(ours, json.loads(printed.splitlines()[-1]))
