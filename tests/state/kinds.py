"""Make a model whose variables have all types that state may have, and what TensorFlow computes with it: below FOLDER.

    TOOLCHAIN/bin/python kinds.py FOLDER

In kinds.npz: "x", the inputs of all steps, and "TYPE", the variable of each type after the last one (bfloat16: bits).
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

FLOATS = ("bfloat16", "float16", "float32", "float64", "complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


class Kinds(tf.Module):
    def __init__(self):
        self.floats = [tf.Variable(tf.cast([1.5, -2.25, 0.125], t), name=f"v_{t}") for t in FLOATS]
        self.integers = [tf.Variable(tf.cast([1, 2, 100], t), name=f"v_{t}") for t in INTEGERS]
        self.truth = tf.Variable([True, False, True], name="v_bool")

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name="x")])
    def step(self, x):
        for each in self.floats:
            each.assign(each * tf.cast(0.5, each.dtype) + tf.cast(x, each.dtype))
        for each in self.integers:
            each.assign_add(tf.cast(tf.abs(x) * 3, each.dtype))
        self.truth.assign(tf.math.logical_xor(self.truth, x > 0))
        return {"sum": tf.reduce_sum(self.floats[2])}


module, folder = Kinds(), sys.argv[1]
tf.saved_model.save(module, f"{folder}/kinds", signatures=module.step)
# Eighths: short floats hold them and their halves for some steps.
given = np.random.default_rng(1).integers(-16, 16, (6, 3)).astype(np.float32) / 8
for each in given:
    module.step(each)
found = {each.name[2:-2]: each.numpy() for each in module.variables}
np.savez(f"{folder}/kinds.npz", x=given, **{**found, "bfloat16": found["bfloat16"].view(np.uint16)})
