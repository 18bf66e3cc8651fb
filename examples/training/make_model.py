"""Make the model of this example: a network for handwritten digits, and one step of its training.

    TOOLCHAIN/bin/python make_model.py FOLDER [DATA.csv]

Writes the SavedModel FOLDER/digits_net with two signatures: `step` changes weights, moving averages and the moments of
the optimizer, `predict` reads the weights. With DATA.csv (64 pixels and a digit in each line) it also trains in
TensorFlow, on the rows that main.cpp takes in the same order, and prints the accuracy.
"""

import sys

import numpy as np
import tensorflow as tf

BATCH, EPOCHS, HELD_OUT = 32, 40, 72
layers = tf.keras.layers


class Training(tf.Module):
    def __init__(self):
        # No bias before the normalization, which would remove it again.
        pixels = layers.Input((64,))
        hidden = layers.BatchNormalization(name="norm")(layers.Dense(48, use_bias=False, name="first")(pixels))
        self.network = tf.keras.Model(pixels, layers.Dense(10, name="second")(layers.ReLU()(hidden)))
        self.optimizer = tf.keras.optimizers.Adam(0.002)
        self.optimizer.build(self.network.trainable_variables)
        self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.kept = [each.value for each in [*self.network.variables, *self.optimizer.variables]]

    @tf.function(
        input_signature=[
            tf.TensorSpec([BATCH, 64], tf.float32, name="pixels"),
            tf.TensorSpec([BATCH], tf.int32, name="digits"),
        ]
    )
    def step(self, pixels, digits):
        with tf.GradientTape() as tape:
            loss = self.loss(digits, self.network(pixels / 16.0, training=True))
        weights = self.network.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}

    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32, name="pixels")])
    def predict(self, pixels):
        return {"digit": tf.argmax(self.network(pixels / 16.0, training=False), -1, tf.int32)}


def main(folder, data=None):
    tf.keras.utils.set_random_seed(3)
    training = Training()
    signatures = {"step": training.step, "predict": training.predict}
    tf.saved_model.save(training, f"{folder}/digits_net", signatures=signatures)
    if data is None:
        return
    table = np.loadtxt(data, np.float32, delimiter=",")
    pixels, digits = table[:, :64], table[:, 64].astype(np.int32)
    rows = len(table) - HELD_OUT
    for _ in range(EPOCHS):
        for start in range(0, rows - BATCH + 1, BATCH):
            training.step(pixels[start : start + BATCH], digits[start : start + BATCH])
    right = np.mean(training.predict(pixels[rows:])["digit"].numpy() == digits[rows:])
    sys.stdout.write(f"accuracy on {HELD_OUT} held-out images: {100 * right:.1f} %\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
