"""Make SavedModels that draw random numbers with a state, and what TensorFlow draws: below FOLDER.

TOOLCHAIN/bin/python random_models.py FOLDER

In drawn.npz: "fixed/NAME", the first call of a function whose operations have seeds; "free/NAME", DRAWS calls of one
whose operations have none; "kept/NAME", four calls of one with generators that keep a state; the input is ones.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

DRAWS = 4000
X = tf.TensorSpec([None, 4], tf.float32, name="x")


class Noise(tf.Module):
    def __init__(self):
        self.generator = tf.random.Generator.from_seed(7)
        # A counter whose lower half is full after some numbers.
        self.generator.reset([-600, 5, 7])
        self.dropout = tf.keras.layers.Dropout(0.5, seed=3)
        self.kept = [self.dropout.seed_generator.state.value]

    @tf.function(input_signature=[tf.TensorSpec([6], tf.float32, name="x")])
    def kept_state(self, x):
        return {"drawn": x + self.generator.normal([6]), "dropped": self.dropout(x, training=True)}

    @tf.function(input_signature=[X])
    def free(self, x):
        return {
            "normal": x + 2.0 * tf.random.normal([4]),
            "uniform": x * tf.random.uniform([4], -1.0, 3.0),
            "integer": tf.cast(x, tf.int32) * tf.random.uniform([4], 0, 10, tf.int32),
            "dropped": x * tf.nn.dropout(tf.ones([4]), 0.25),
        }

    @tf.function(input_signature=[X])
    def fixed(self, x):
        return {
            "normal": x + tf.random.normal([4], seed=7),
            "uniform": x * tf.random.uniform([4], seed=3),
            "integer": tf.cast(x, tf.int32) * tf.random.uniform([4], 0, 1000, tf.int32, seed=5),
        }

    @tf.function(input_signature=[X])
    def looped(self, x):
        for _ in tf.range(3):
            x += tf.random.normal([4])
        return {"y": x}


module, folder = Noise(), sys.argv[1]
tf.saved_model.save(
    module,
    f"{folder}/noise",
    signatures={"free": module.free, "fixed": module.fixed, "looped": module.looped, "kept": module.kept_state},
)
loaded = tf.saved_model.load(f"{folder}/noise")
x = tf.ones([1, 4])
drawn = {f"fixed/{name}": value for name, value in loaded.signatures["fixed"](x=x).items()}
steps = [loaded.signatures["kept"](x=tf.ones([6])) for _ in range(4)]
drawn |= {f"kept/{name}": np.stack([each[name] for each in steps]) for name in steps[0]}
draws = [loaded.signatures["free"](x=x) for _ in range(DRAWS)]
drawn |= {f"free/{name}": np.stack([each[name][0] for each in draws]) for name in draws[0]}
np.savez(f"{folder}/drawn.npz", **drawn)
