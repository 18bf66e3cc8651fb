"""`tfaot-pkg convert`: another form of a model gives the same answers in TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.samples import tfaot
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


@pytest.mark.slow
@pytest.mark.needs_tensorflow
def test_a_graph_is_written_as_binary_and_as_text_and_read_again(shared_home: Path, tmp_path: Path) -> None:
    python = ensure(DEFAULT_VERSION, folders=Folders.of_user(), progress=Silent()).python
    run([python, "-c", _MODEL, tmp_path / "saved"])
    for name in ("net.pb", "net.pbtxt"):
        tfaot(shared_home, "convert", tmp_path / "saved", tmp_path / name)
    run([python, "-c", _COMPARE, tmp_path / "saved", tmp_path / "net.pb", tmp_path / "net.pbtxt"])
    for name in ("net.pb", "net.pbtxt"):
        tfaot(shared_home, "convert", tmp_path / name, tmp_path / f"{name}.mlir")
    written = (tmp_path / "net.pb.mlir").read_text()
    assert "tf.Softmax" in written and (tmp_path / "net.pbtxt.mlir").read_text() == written
