"""examples/from-onnx: from an ONNX file to numbers in C++, which are ONNX Runtime's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.consumers.conftest import TOOLS, cmake_build
from tests.kept import REPOSITORY
from tfaot_pkg.folders import Folders
from tfaot_pkg.process import run
from tfaot_pkg.progress import Silent
from tfaot_pkg.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.toolchain.environment import ensure
from tfaot_pkg.toolchain.frontends import FRONTENDS, FrontendEnvironments

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]
_EXAMPLE = REPOSITORY / "examples" / "from-onnx"
_ORACLE = """
import json, sys
import numpy as np, onnxruntime
tracks = np.sin(np.float32(0.1) * np.arange(2 * 12 * 6, dtype=np.float32)).reshape(2, 12, 6)
jet = np.cos(np.float32(0.1) * np.arange(2 * 4, dtype=np.float32)).reshape(2, 4)
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
print(json.dumps(session.run(["p"], {"tracks": tracks, "jet": jet})[0].tolist()))
"""


def test_the_example_gives_onnx_runtimes_answers_in_cpp(shared_home_folder: Path, tmp_path: Path) -> None:
    prefix, variables = tmp_path / "prefix", {**os.environ, "TFAOT_HOME": str(shared_home_folder)}
    built = run([TOOLS / "tfaot-pkg", "build", _EXAMPLE / "spec.yaml", "-o", prefix], env=variables, timeout=600)
    assert "verified against ONNX Runtime 1." in built.stdout
    assert "made from ONNX, opset 14, producer pytorch 1.0" in built.stdout
    # A recurrent layer must not fall out of the kernel library.
    assert "kernels: 5 of 5 products" in built.stdout
    info = json.loads((prefix / "share" / "tfaot-model-tagger" / "info.json").read_text())
    assert info["origin"] == "ONNX, opset 14, producer pytorch 1.0"
    program = cmake_build(tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", source=_EXAMPLE) / "tag"
    ours = [[float(word) for word in line.split()] for line in run([program]).stdout.splitlines()]
    np.testing.assert_allclose(ours, _right_answers(shared_home_folder), atol=2e-6)


def _right_answers(home: Path) -> list[list[float]]:
    folders = Folders(cache=home / "cache", data=home / "data")
    toolchain = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"], toolchain.python)
    text = run([frontend.python, "-I", "-c", _ORACLE, _EXAMPLE / "tagger.onnx"], timeout=120).stdout
    found: list[list[float]] = json.loads(text)
    return found
