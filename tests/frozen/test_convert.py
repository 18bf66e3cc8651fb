"""`tfaot-pkg convert`: another form of a model gives the same answers in TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bad_input.conftest import CommandLine
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

_MODEL = """
import sys
import tensorflow as tf

class Net(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.random.stateless_normal([4, 3], [1, 2]))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def __call__(self, x):
        return {"y": tf.nn.softmax(x @ self.weights)}

net = Net()
tf.saved_model.save(net, sys.argv[1], signatures=net.__call__)
"""

_COMPARE = """
import sys
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

saved, binary, text = sys.argv[1:]
one, other = graph_pb2.GraphDef(), graph_pb2.GraphDef()
one.ParseFromString(open(binary, "rb").read())
text_format.Parse(open(text).read(), other)
assert one == other and len(one.node) > 2
rows = np.random.default_rng(1).normal(size=(7, 4)).astype("f")
expected = tf.saved_model.load(saved).signatures["serving_default"](x=tf.constant(rows))["y"]
function = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(other, name=""), [])
(found,) = function.prune(["x:0"], ["y:0"])(tf.constant(rows))
np.testing.assert_array_equal(found, expected)
"""


_MODELS = """
import sys
import tensorflow as tf

class Models(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.random.stateless_normal([4, 3], [1, 2]))

    @tf.function(input_signature=[
        tf.TensorSpec([None, 4], tf.float32, name="x"), tf.TensorSpec([None], tf.bool, name="flag"),
        tf.TensorSpec([3], tf.float32, name="unused"),
    ])
    def layer(self, x, flag, unused):
        return {"größe": tf.where(flag[:, None], x @ self.weights, 0.0), "spectrum": tf.signal.rfft(x)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def loop(self, x):
        x, steps = tf.while_loop(lambda x, n: tf.reduce_any(x < 100.0), lambda x, n: (x * 1.5 + 1.0, n + 1), (x, 0))
        return {"x after": x, "steps": steps}

    @tf.function(input_signature=[tf.TensorSpec([3, 4], tf.float32, name="x")])
    def fixed(self, x):
        return {"y": x + 1.0}

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4], tf.float32, name="x")])
    def sums(self, x):
        return {"y": tf.reduce_sum(x, 1)}

models = Models()
tf.saved_model.save(models, sys.argv[1], {name: getattr(models, name) for name in ("layer", "loop", "fixed", "sums")})
"""

_COMPARE_FUNCTIONS = """
import sys
import numpy as np
import tensorflow as tf

saved, signature, written, *outputs = sys.argv[1:]
one = tf.saved_model.load(saved).signatures[signature]
other = tf.saved_model.load(written).signatures["serving_default"]
random = np.random.default_rng(1)
specs = one.structured_input_signature[1]
rows = {}
for name, spec in specs.items():
    values = random.normal(size=[5 if size is None else size for size in spec.shape])
    rows[name] = tf.constant(values > 0 if spec.dtype == tf.bool else values, spec.dtype)
expected, found = one(**rows), other(**rows)
assert sorted(found) == sorted(outputs), found
for key, name in zip(sorted(expected), sorted(outputs), strict=True):
    assert found[name].dtype == expected[key].dtype and found[name].shape == expected[key].shape
    np.testing.assert_allclose(found[name], expected[key], rtol=1e-6, atol=1e-6)
"""


@pytest.fixture(scope="module")
def signatures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel with the signatures `layer`, `loop`, `fixed` and `sums`."""
    folder = tmp_path_factory.mktemp("signatures") / "saved"
    run([ensure(DEFAULT_VERSION, folders=Folders.of_user(), progress=Silent()).python, "-c", _MODELS, folder])
    return folder


@pytest.mark.slow
@pytest.mark.needs_tensorflow
def test_stablehlo_has_the_names_and_the_answers_of_the_model(
    signatures: Path, tfaot: CommandLine, tmp_path: Path
) -> None:
    text, written = tmp_path / "layer.stablehlo", tmp_path / "written"
    tfaot.works("convert", signatures, text, "--signature", "layer", "--batch", "5")
    assert "tf." not in text.read_text()
    tfaot.works("convert", text, written)
    python = ensure(DEFAULT_VERSION, folders=Folders.of_user(), progress=Silent()).python
    run([python, "-c", _COMPARE_FUNCTIONS, signatures, "layer", written, "gr_e", "spectrum"])


@pytest.mark.nightly
@pytest.mark.needs_tensorflow
def test_stablehlo_of_a_loop_is_written_by_newer_releases(signatures: Path, tfaot: CommandLine, tmp_path: Path) -> None:
    text, written = tmp_path / "loop.stablehlo", tmp_path / "written"
    newer = ("--tensorflow", "2.21.0")
    tfaot.works("convert", signatures, text, "--signature", "loop", "--batch", "5", *newer)
    tfaot.works("convert", text, written, *newer)
    python = ensure("2.21.0", folders=Folders.of_user(), progress=Silent()).python
    run([python, "-c", _COMPARE_FUNCTIONS, signatures, "loop", written, "steps", "x_after"])


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.parametrize(
    ("signature", "arguments", "code", "said"),
    [
        ("layer", (), 12, "input flag: axis 0 has no fixed size"),
        ("sums", ("--batch", "5"), 12, "input x: axis 1 has no fixed size"),
        ("fixed", ("--batch", "5"), 12, "no input has an open first axis"),
        ("loop", ("--batch", "5"), 12, "sizes stay open in its branches or loops (tensor<?x4xf32>)"),
    ],
)
def test_stablehlo_of_open_sizes_is_refused_and_nothing_is_written(
    signatures: Path, tfaot: CommandLine, tmp_path: Path, signature: str, arguments: Sequence[str], code: int, said: str
) -> None:
    output = tmp_path / "written.stablehlo"
    tfaot.fails("convert", signatures, output, "--signature", signature, *arguments, code=code, says=(said,))
    assert not output.exists()


def test_only_stablehlo_has_a_batch_size(tfaot: CommandLine, tmp_path: Path) -> None:
    command = ("convert", tmp_path / "saved", tmp_path / "net.pb", "--batch", "5")
    tfaot.fails(*command, code=10, says=("only StableHLO has a batch size",))


@pytest.mark.slow
@pytest.mark.needs_tensorflow
def test_a_graph_is_written_as_binary_and_as_text_and_read_again(tfaot: CommandLine, tmp_path: Path) -> None:
    python = ensure(DEFAULT_VERSION, folders=Folders.of_user(), progress=Silent()).python
    run([python, "-c", _MODEL, tmp_path / "saved"])
    for name in ("net.pb", "net.pbtxt"):
        tfaot.works("convert", tmp_path / "saved", tmp_path / name)
    run([python, "-c", _COMPARE, tmp_path / "saved", tmp_path / "net.pb", tmp_path / "net.pbtxt"])
    for name in ("net.pb", "net.pbtxt"):
        tfaot.works("convert", tmp_path / name, tmp_path / f"{name}.mlir")
    written = (tmp_path / "net.pb.mlir").read_text()
    assert "tf.Softmax" in written and (tmp_path / "net.pbtxt.mlir").read_text() == written
