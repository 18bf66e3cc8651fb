"""examples/custom-operation: an ONNX file whose first node is the author's, from the file to numbers in C++."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.consumers.conftest import TOOLS, cmake_build
from tests.consumers.test_from_onnx_and_pytorch import onnx_runtime
from tests.coverage import verified
from tests.kept import REPOSITORY
from tests.samples import tfaot
from tests.wording import worded
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.ground.process import CommandFailed, run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]
_EXAMPLE = REPOSITORY / "examples" / "custom-operation"
# ONNX's own evaluator, which takes operators in Python: neither ONNX Runtime nor our way of cutting models for it.
_ORACLE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
import cone_weights
class ConeWeights(OpRun):
    op_domain = "org.example.jets"
    def _run(self, tracks, axis, cone=None):
        return (cone_weights.ConeWeights(tracks, axis, cone),)
tracks = np.float32(0.3) * np.sin(np.float32(0.7) * np.arange(2 * 12 * 3, dtype=np.float32)).reshape(2, 12, 3)
axis = np.float32(0.1) * np.cos(np.arange(2 * 2, dtype=np.float32)).reshape(2, 2)
found = ReferenceEvaluator(sys.argv[1] + "/cone.onnx", new_ops=[ConeWeights]).run(None, {"tracks": tracks, "axis": axis})
print(json.dumps(found[0].tolist()))
"""


@pytest.mark.nightly
@pytest.mark.coverage
def test_the_example_computes_its_own_operation_in_cpp(shared_home_folder: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    with verified("models: an operation of the author", version=DEFAULT_VERSION, engine="program"):
        printed = tfaot(shared_home_folder, "build", _EXAMPLE / "spec.yaml", "-o", prefix)
        assert "verified against ONNX Runtime 1." in printed
    assert "operations of the model's author: ConeWeights" in printed
    info = json.loads((prefix / "share" / "tfaot-model-cone" / "info.json").read_text())
    assert info["custom_operations"] == ["ConeWeights"]
    _jets_are_right(shared_home_folder, prefix)


@pytest.mark.release
def test_so_does_the_library_that_the_source_form_becomes(shared_home_folder: Path, tmp_path: Path) -> None:
    tfaot(shared_home_folder, "build", _EXAMPLE / "spec.yaml", "-o", tmp_path / "prefix")
    built = cmake_build(tmp_path / "again", source=tmp_path / "prefix" / "share" / "tfaot-model-cone" / "source")
    run([TOOLS / "cmake", "--install", built, "--prefix", tmp_path / "installed"], timeout=60)
    _jets_are_right(shared_home_folder, tmp_path / "installed")


def _jets_are_right(home: Path, prefix: Path) -> None:
    expected = run([onnx_runtime(home), "-IB", "-c", _ORACLE, _EXAMPLE], timeout=120).stdout
    program = cmake_build(prefix.parent / "program", f"-DCMAKE_PREFIX_PATH={prefix}", source=_EXAMPLE) / "jets"
    ours = [[float(word) for word in line.split()] for line in run([program]).stdout.splitlines()]
    np.testing.assert_allclose(ours, json.loads(expected), atol=2e-6)


_SAVED_MODEL = """
import sys
import numpy as np, tensorflow as tf
@tf.function(experimental_implements='tfaot.operation:smooth {"slope": 0.5}', autograph=False)
def smooth(x, w):
    return x / (1 + 0.5 * tf.abs(x)) * w
class Model(tf.Module):
    def __init__(self):
        generator = np.random.default_rng(1)
        self.weights = [tf.Variable(generator.normal(size=size).astype(np.float32)) for size in ((5, 8), (8,), (8, 3), (3,))]
    @tf.function(input_signature=[tf.TensorSpec([None, 5], tf.float32, name="x")], autograph=False)
    def serve(self, x):
        a, b, c, d = self.weights
        return {"y": smooth(tf.matmul(smooth(tf.matmul(x, a), b), c), d)}
model = Model()
tf.saved_model.save(model, sys.argv[1], signatures=model.serve)
"""
_SMOOTH = """
#include <cmath>
#include "tfaot/operation.h"
template <typename T>
void smooth(tfaot::operation::Input<T> x, tfaot::operation::Input<T> w, tfaot::operation::Output<T> y,
            const tfaot::operation::Attributes& attributes) {
  const T slope = T(attributes.number("slope", 1));
  for (std::int64_t i = 0; i < y.size(); ++i) y[i] = x[i] / (1 + slope * std::abs(x[i])) * w[i];
}
"""
_SPEC = """
model: {name: smoothed, version: "1.0.0"}
compilation:
  batch_sizes: [1, 4]
  targets: [x86-64-v2, x86-64-v3]
  operations: {smooth: {source: smooth.cpp, reference: smooth.py}}
"""


@pytest.mark.nightly
def test_a_function_of_tensorflow_is_such_an_operation(
    toolchain_python: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    """Its body gives TensorFlow's answers; two calls of it have arrays of other sizes. Without a spec it is refused."""
    run([toolchain_python, "-c", _SAVED_MODEL, tmp_path / "saved_model"], timeout=120)
    (tmp_path / "smooth.cpp").write_text(_SMOOTH)
    (tmp_path / "smooth.py").write_text("def smooth(x, w, slope):\n    return x / (1 + slope * abs(x)) * w\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text(_SPEC)
    printed = tfaot(shared_home_folder, "build", spec, "-o", tmp_path / "prefix")
    assert "verified against tensorflow" in printed
    assert "kernels: 2 of 2 products" in printed
    spec.write_text("".join(line for line in _SPEC.splitlines(keepends=True) if "operations" not in line))
    with pytest.raises(CommandFailed) as caught:
        tfaot(shared_home_folder, "build", spec, "-o", tmp_path / "other")
    worded(caught.value.output[caught.value.output.index("error: ") :], varies=r"worker-\d+-\d+")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        pytest.param("cone_weights.cpp", "part < 0 ?", "part < 0.5f ?", id="another-result"),
        pytest.param("cone_weights.cpp", "track < weights.size()", "track < weights.size() - 1", id="not-all"),
        pytest.param("cone_weights.cpp", "track < weights.size()", "track <= weights.size()", id="behind-the-end"),
        pytest.param(
            "cone_weights.cpp", "    float phi", "    const_cast<float&>(axis[0]) = 0;\n    float phi", id="inputs"
        ),
        pytest.param("cone_weights.cpp", "++track", "track += cone > 1 ? 1 : 0", id="without-end"),
        pytest.param("cone_weights.py", "    pi =", "    raise KeyError('pi')\n    pi =", id="reference-fails"),
        pytest.param("cone_weights.py", "return np.where", "return np.zeros(3), np.where", id="two-results"),
        pytest.param("cone_weights.py", "def ConeWeights", "def Cone", id="no-reference"),
        pytest.param("spec.yaml", "    ConeWeights:", "    Other:", id="another-name"),
        pytest.param(
            "spec.yaml",
            "    ConeWeights:",
            "    Other: {source: cone_weights.cpp, reference: cone_weights.py}\n    ConeWeights:",
            id="unused",
        ),
        pytest.param("spec.yaml", "reference: cone_weights.py", "reference: no.py", id="no-file"),
    ],
)
@pytest.mark.sweep(night=["another-name", "another-result", "no-reference", "reference-fails", "not-all", "no-file"])
def test_what_is_wrong_with_an_operation_is_told(
    file: str, old: str, new: str, shared_home_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(_EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "example" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    spec = tmp_path / "example" / "spec.yaml"
    spec.write_text(spec.read_text().replace("[x86-64-v2, x86-64-v3]", "[x86-64-v2]"))  # it is wrong on each alike
    with pytest.raises(CommandFailed) as caught:
        tfaot(shared_home_folder, "build", spec, "-o", tmp_path / "prefix")
    assert "Traceback" not in caught.value.output
    assert not (tmp_path / "prefix").exists()
    worded(caught.value.output[caught.value.output.index("error: ") :], varies=r"worker-\d+-\d+")
