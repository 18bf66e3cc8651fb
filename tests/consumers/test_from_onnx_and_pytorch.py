"""examples/from-onnx, examples/from-pytorch: from a file to numbers in C++, which are the framework's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.consumers.conftest import cmake_build
from tests.kept import REPOSITORY
from tests.samples import tfaot
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]
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
    prefix = tmp_path / "prefix"
    built = tfaot(shared_home_folder, "build", _EXAMPLE / "spec.yaml", "-o", prefix)
    assert "verified against ONNX Runtime 1." in built
    assert "made from ONNX, opset 14, producer pytorch 1.0" in built
    # A recurrent layer must not fall out of the kernel library.
    assert "kernels: 5 of 5 products" in built
    info = json.loads((prefix / "share" / "tfaot-model-tagger" / "info.json").read_text())
    assert info["origin"] == "ONNX, opset 14, producer pytorch 1.0"
    program = cmake_build(tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", source=_EXAMPLE) / "tag"
    ours = [[float(word) for word in line.split()] for line in run([program]).stdout.splitlines()]
    np.testing.assert_allclose(ours, _right_answers(shared_home_folder), atol=2e-6)


_PYTORCH = REPOSITORY / "examples" / "from-pytorch"
_WRONG = """
import base64, io, sys
import numpy as np, onnx
model = onnx.load(sys.argv[1])
given = next(each for each in model.metadata_props if each.key == "tfaot.answers")
arrays = dict(np.load(io.BytesIO(base64.b64decode(given.value))))
arrays["out/output"][1, 2] += 0.01
file = io.BytesIO()
np.savez(file, **arrays)
given.value = base64.b64encode(file.getvalue()).decode()
onnx.save(model, sys.argv[2])
"""


@pytest.mark.release
def test_the_example_of_pytorch_gives_pytorchs_answers_in_cpp(shared_home_folder: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    built = tfaot(shared_home_folder, "build", _PYTORCH / "spec.yaml", "-o", prefix)
    assert "verified against PyTorch 2.13.0+cpu, largest" in built
    assert "kernels: 6 of 6 products" in built
    report = json.loads((prefix / "share" / "tfaot-model-constituents" / "validation.json").read_text())
    (own,) = [each for each in report["classes"] if each["name"] == "examples"]
    assert (own["rows"], own["not_run"], own["differences"]) == (16, "", [])
    program = cmake_build(tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", source=_PYTORCH) / "score"
    # What the module of train.py gives with PyTorch 2.13.
    np.testing.assert_allclose([float(each) for each in run([program]).stdout.split()], [0.991496, 0.994993], atol=2e-6)


@pytest.mark.release
def test_a_package_that_differs_from_pytorchs_answers_is_not_built(shared_home_folder: Path, tmp_path: Path) -> None:
    """The answers in the file decide, although ONNX Runtime agrees with the library."""
    python = onnx_runtime(shared_home_folder)
    linear = REPOSITORY / "tests" / "frozen" / "artifacts" / "torch" / "linear.onnx"
    run([python, "-I", "-c", _WRONG, linear, tmp_path / "wrong.onnx"], timeout=120)
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "model: {name: wrong, version: 1.0.0, torch: wrong.onnx}\n"
        "compilation: {batch_sizes: [1], targets: [x86-64-v2]}\nvalidation: {classes: []}\n"
    )
    with pytest.raises(CommandFailed) as failed:
        tfaot(shared_home_folder, "build", spec, "-o", tmp_path / "prefix")
    assert "15" in failed.value.reason
    assert "inputs of class PyTorch, x86-64-v2, output 'output', batch size 1: 1 element" in failed.value.output


def _right_answers(home: Path) -> list[list[float]]:
    text = run([onnx_runtime(home), "-I", "-c", _ORACLE, _EXAMPLE / "tagger.onnx"], timeout=120).stdout
    found: list[list[float]] = json.loads(text)
    return found


def onnx_runtime(home: Path) -> Path:
    """The Python of the front-end."""
    folders = Folders(cache=home / "cache", data=home / "data")
    toolchain = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    return FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"], toolchain.python).python
