"""Train the digits model and write what is committed beside this file: saved_model/ and data/held-out.csv.

Publishing never runs this. To run it again:

    pip install tensorflow-cpu==2.17.1 keras==3.6.0 scikit-learn && python train.py
"""

import os
import shutil
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

HERE = Path(__file__).resolve().parent
SEED = 7
HELD_OUT = 360


def split():
    """Pixels (0 to 16, 8 x 8 row by row) and labels, for training and held out."""
    digits = load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.data))
    pixels, labels = digits.data[order].astype("float32"), digits.target[order]
    return (pixels[HELD_OUT:], labels[HELD_OUT:]), (pixels[:HELD_OUT], labels[:HELD_OUT])


def network():
    """From 64 pixels to 10 probabilities."""
    image = keras.Input((64,), name="image")
    x = keras.layers.Rescaling(1 / 16)(image)
    x = keras.layers.Reshape((8, 8, 1))(x)
    x = keras.layers.Conv2D(16, 3, padding="same", activation="elu")(x)
    x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dense(64, activation="elu")(x)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Dropout(0.4)(x)
    return keras.Model(image, keras.layers.Dense(10, activation="softmax")(x))


class Digits(tf.Module):
    """What is saved: the weights that inference reads (no optimizer state) and one signature."""

    def __init__(self, net):
        super().__init__(name="digits")
        self.weights = [weight.value for weight in net.weights]
        self.net = lambda image: net(image, training=False)

    @tf.function(input_signature=[tf.TensorSpec((None, 64), tf.float32, name="image")])
    def serve(self, image):
        probability = self.net(image)
        return {"probability": probability, "digit": tf.argmax(probability, axis=-1)}


def main():
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    (pixels, labels), (held_out, answers) = split()
    net = network()
    net.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy")
    net.fit(pixels, labels, epochs=60, batch_size=32, verbose=0)

    model = Digits(net)
    shutil.rmtree(HERE / "saved_model", ignore_errors=True)
    tf.saved_model.save(model, str(HERE / "saved_model"), signatures={"serving_default": model.serve})

    (HERE / "data").mkdir(exist_ok=True)
    rows = np.column_stack([held_out, answers]).astype(int)
    np.savetxt(HERE / "data" / "held-out.csv", rows, fmt="%d", delimiter=",")
    correct = int((model.serve(held_out)["digit"].numpy() == answers).sum())
    print(f"held-out accuracy: {correct}/{len(answers)} = {correct / len(answers):.4f}")


if __name__ == "__main__":
    main()
