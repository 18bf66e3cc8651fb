"""Freeze a function with large variables as the worker does, and compare its answers with TensorFlow's.

    TOOLCHAIN/bin/python large_variables.py WORKER_PROGRAM

Prints as JSON the bytes of the frozen graph without the values, of the graph with them, and of TensorFlow's own.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, sys.argv[1])

import freeze
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants

NUMBERS = (
    "float64 float32 bfloat16 float16 int8 uint8 int16 uint16 int32 uint32 int64 uint64 complex64 complex128".split()
)


class Signature:
    """What the worker has of a signature (signatures.LoadedSignature)."""

    def __init__(self, function) -> None:
        self.function, self.inputs = function, ["x"]


def main() -> None:
    values = np.random.default_rng(0).uniform(0, 100, (40, 50))
    module = tf.Module()
    module.kept = [tf.Variable(tf.cast(values, dtype)) for dtype in NUMBERS]
    module.kept += [tf.Variable(values > 50), tf.Variable([["text"] * 50] * 40)]

    @tf.function(input_signature=[tf.TensorSpec((None, 40), tf.float32)])
    def serve(x):
        count = 0
        while tf.less(count, 3):
            x, count = x + tf.reduce_sum(module.kept[1]), count + 1
        return [x, tf.gather(module.kept[0], [1, 2]), *(tf.identity(each) for each in module.kept)]

    signature = Signature(serve.get_concrete_function())
    frozen = freeze.frozen_function("serve", signature)
    graph_def = frozen.graph.as_graph_def()
    light = graph_def.ByteSize()
    freeze.fill(graph_def, signature)

    def imported(x):
        feeds, fetches = {frozen.inputs[0].op.name: x}, [tensor.name for tensor in frozen.outputs]
        return tf.graph_util.import_graph_def(graph_def, feeds, fetches)

    x = tf.ones((2, 40))
    given = tf.compat.v1.wrap_function(imported, [tf.TensorSpec((None, 40), tf.float32)])(x)
    for one, other in zip(given, signature.function(x), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one.numpy(), other.numpy()), one.dtype
    own = convert_to_constants.convert_variables_to_constants_v2(signature.function, lower_control_flow=False)
    sys.stdout.write(json.dumps([light, graph_def.ByteSize(), own.graph.as_graph_def().ByteSize()]))


if __name__ == "__main__":
    main()
