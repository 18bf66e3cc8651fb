"""Make a SavedModel with a gradient through a loop whose number of turns values decide: below FOLDER.

TOOLCHAIN/bin/python loop_models.py FOLDER
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf


class Halved(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([2, 3], tf.float32, name="x")])
    def step(self, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            while tf.reduce_max(tf.abs(y)) > 0.1:
                y = tf.sin(y) * 0.5
            loss = tf.reduce_sum(y * y)
        return {"gradient": tape.gradient(loss, x), "y": y}


module = Halved()
tf.saved_model.save(module, f"{sys.argv[1]}/halved", signatures=module.step)
