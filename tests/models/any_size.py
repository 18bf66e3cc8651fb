"""A SavedModel that becomes a program, with tensors of several types and some without a batch axis: FOLDER/mixture.

    TOOLCHAIN/bin/python any_size.py FOLDER

Runs inside a toolchain's Python. FOLDER/answers.npz has inputs `in_NAME` of ROWS rows, and TensorFlow's outputs
`out_NAME`.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

ROWS = 1000


def main(folder):
    random = np.random.default_rng(7)
    first, second = (tf.constant(random.normal(size=size).astype("f4")) for size in ((10, 33), (33, 3)))

    def serve(n, on, shift, x):
        hidden = tf.tanh(tf.reshape(x, [-1, 10]) @ first)
        y = tf.nn.softmax(hidden @ second + shift)
        return {
            "y": y,
            "half": tf.cast(n, tf.float64) * 0.5,
            "flag": tf.logical_and(on, y[:, 0] > 0.4),
            "near": n + tf.cast(x[:, 0, 0] > 0.0, tf.int64),
            "twice": 2.0 * shift,
        }

    specs = [
        tf.TensorSpec([None], tf.int64, name="n"),
        tf.TensorSpec([None], tf.bool, name="on"),
        tf.TensorSpec([3], tf.float32, name="shift"),
        tf.TensorSpec([None, 5, 2], tf.float32, name="x"),
    ]
    module = tf.Module()
    module.serve = tf.function(serve, input_signature=specs)
    tf.saved_model.save(module, os.path.join(folder, "mixture"), signatures=module.serve)
    inputs = {
        "n": random.integers(-100, 100, ROWS),
        "on": random.random(ROWS) < 0.5,
        "shift": random.normal(size=3).astype("f4"),
        "x": random.normal(size=(ROWS, 5, 2)).astype("f4"),
    }
    answers = module.serve(**{name: tf.constant(values) for name, values in inputs.items()})
    np.savez(
        os.path.join(folder, "answers.npz"),
        **{f"in_{name}": values for name, values in inputs.items()},
        **{f"out_{name}": tensor.numpy() for name, tensor in answers.items()},
    )


main(*sys.argv[1:])
