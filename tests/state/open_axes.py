"""Make a model whose steps take as many rows as a call brings, and what TensorFlow computes with it: below FOLDER.

    TOOLCHAIN/bin/python open_axes.py FOLDER

In gathered.npz, for each step NUMBER: "NUMBER/x", the input, "NUMBER/rows" and "NUMBER/mean", the outputs; "total" and
"count", the variables after the last step.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

ROWS = (4, 1, 16, 4, 7, 1, 13, 4)


class Gathered(tf.Module):
    """Running means, which are taken off the rows of each step."""

    def __init__(self):
        self.total = tf.Variable([1.0, 2.0, 3.0], name="total")
        self.count = tf.Variable(1.0, name="count")

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def step(self, x):
        self.total.assign_add(tf.reduce_sum(x, 0))
        self.count.assign_add(tf.cast(tf.shape(x)[0], tf.float32))
        mean = self.total / self.count
        return {"rows": tf.tanh(x - mean), "mean": mean}


class Adagrad(tf.Module):
    """An assignment that cannot be compiled with state."""

    def __init__(self):
        self.weight, self.sums = tf.Variable([1.0, 2.0], name="weight"), tf.Variable([0.1, 0.1], name="sums")

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="gradient")])
    def step(self, gradient):
        tf.raw_ops.ResourceApplyAdagrad(var=self.weight.handle, accum=self.sums.handle, lr=0.1, grad=gradient)
        return {"weight": self.weight.read_value()}


module, folder = Gathered(), sys.argv[1]
adagrad = Adagrad()
tf.saved_model.save(adagrad, f"{folder}/adagrad", signatures=adagrad.step)
tf.saved_model.save(module, f"{folder}/gathered", signatures=module.step)
random, found = np.random.default_rng(1), {}
for number, rows in enumerate(ROWS):
    x = random.standard_normal((rows, 3), np.float32)
    found |= {f"{number}/x": x, **{f"{number}/{name}": values for name, values in module.step(x).items()}}
np.savez(f"{folder}/gathered.npz", **found, total=module.total, count=module.count)
