"""Make a SavedModel whose outputs have as many rows as values say, and what TensorFlow gives: below FOLDER.

TOOLCHAIN/bin/python counted_models.py FOLDER

In counted.npz: "SIGNATURE/inputs/NAME" and "SIGNATURE/outputs/NAME".
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

BATCH = tf.TensorSpec([None, 3], tf.float32, name="x")


class Counted(tf.Module):
    def __init__(self):
        self.kernel = tf.Variable(np.random.default_rng(0).standard_normal((3, 2), np.float32), name="kernel")

    @tf.function(input_signature=[tf.TensorSpec([8, 3], tf.float32, name="x")])
    def masked(self, x):
        keep = x[:, 0] > 0.25
        return {"rows": tf.nn.relu(tf.boolean_mask(x, keep) @ self.kernel) + 1.0, "places": tf.where(x > 0.0)}

    @tf.function(input_signature=[BATCH])
    def batch(self, x):
        return {"rows": tf.boolean_mask(x, x[:, 0] > 0.25)}

    @tf.function(input_signature=[tf.TensorSpec([12], tf.int32, name="k")])
    def kinds(self, k):
        values, index = tf.unique(tf.math.floormod(k, 5))
        return {"values": values, "index": index}

    @tf.function(input_signature=[BATCH])
    def mean(self, x):
        return {"y": tf.boolean_mask(x, x[:, 0] > 0.0) / tf.reduce_sum(tf.boolean_mask(x, x[:, 0] > 0.0), 0)}

    @tf.function(input_signature=[BATCH])
    def reversed(self, x):
        return {"y": tf.boolean_mask(x, x[:, 0] > 0.0)[::-1]}


module, folder = Counted(), sys.argv[1]
functions = {name: getattr(module, name) for name in ("masked", "batch", "kinds", "mean", "reversed")}
tf.saved_model.save(module, f"{folder}/counted", signatures=functions)
random = np.random.default_rng(1)
given = {
    "masked": {"x": random.standard_normal((8, 3), np.float32)},
    "batch": {"x": random.standard_normal((4, 3), np.float32)},
    "kinds": {"k": random.integers(0, 50, 12, np.int32)},
}
found = {}
for name, inputs in given.items():
    found |= {f"{name}/inputs/{key}": value for key, value in inputs.items()}
    found |= {f"{name}/outputs/{key}": value for key, value in functions[name](**inputs).items()}
np.savez(f"{folder}/counted.npz", **found)
