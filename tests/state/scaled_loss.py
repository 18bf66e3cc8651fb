"""Make a step of training whose optimizer scales the loss, and what TensorFlow computes with it: below FOLDER.

    TOOLCHAIN/bin/python scaled_loss.py FOLDER

In scaled_loss.npz: "x" and "y", the inputs of all steps, "loss", the outputs, and "state/NAME", the variables after the
last step. One gradient is infinite, so that both sides of the optimizer's conditionals are taken; these return nothing.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

STEPS, ROWS = 8, 16


class Step(tf.Module):
    def __init__(self):
        self.network = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(3)])
        inner = tf.keras.optimizers.SGD(0.1)
        self.optimizer = tf.keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**10, dynamic_growth_steps=3)
        self.optimizer.build(self.network.trainable_variables)
        self.kept = [each.value for each in [*self.network.variables, *self.optimizer.variables]]

    @tf.function(input_signature=[tf.TensorSpec([ROWS, 4], name="x"), tf.TensorSpec([ROWS, 3], name="y")])
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.network(x) - y))
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, self.network.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_variables, strict=True))
        return {"loss": loss}


tf.keras.utils.set_random_seed(1)
module, folder = Step(), sys.argv[1]
tf.saved_model.save(module, f"{folder}/scaled_loss", signatures=module.step)
random = np.random.default_rng(1)
x, y = (random.standard_normal((STEPS, ROWS, columns), np.float32) for columns in (4, 3))
y[4] *= 1e25
losses = [module.step(*each)["loss"].numpy() for each in zip(x, y, strict=True)]
state = {f"state/{each.path}": each.numpy() for each in [*module.network.variables, *module.optimizer.variables]}
np.savez(f"{folder}/scaled_loss.npz", x=x, y=y, loss=np.array(losses), **state)
