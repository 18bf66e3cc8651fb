"""Train the wine model and write what is committed beside this file: saved_model/ and data/held-out.csv.

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
from sklearn.datasets import load_wine

HERE = Path(__file__).resolve().parent
SEED = 7
HELD_OUT = 60
COLOUR = [9, 10]  # colour intensity and hue; the other columns are chemistry


def split():
    """Chemistry (11 columns), colour (2 columns) and cultivar, for training and held out."""
    wine = load_wine()
    order = np.random.default_rng(SEED).permutation(len(wine.data))
    values, cultivar = wine.data[order].astype("float32"), wine.target[order]
    parts = np.delete(values, COLOUR, axis=1), values[:, COLOUR], cultivar
    return [part[HELD_OUT:] for part in parts], [part[:HELD_OUT] for part in parts]


def network(chemistry, colour):
    """From both inputs, in their own units, to three probabilities."""
    inputs = {"chemistry": keras.Input((11,), name="chemistry"), "colour": keras.Input((2,), name="colour")}
    scaled = []
    for tensor, values in zip(inputs.values(), (chemistry, colour), strict=True):
        layer = keras.layers.Normalization(mean=values.mean(axis=0), variance=values.var(axis=0))
        scaled.append(layer(tensor))
    x = keras.layers.Concatenate()(scaled)
    x = keras.layers.Dense(24, activation="tanh")(x)
    x = keras.layers.Dense(24, activation="tanh")(x)
    return keras.Model(inputs, keras.layers.Dense(3, activation="softmax")(x))


class Wine(tf.Module):
    """What is saved: the weights that inference reads (no optimizer state) and one signature."""

    def __init__(self, net):
        super().__init__(name="wine")
        self.weights = [weight.value for weight in net.weights]
        self.net = lambda inputs: net(inputs, training=False)

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, 11), tf.float32, name="chemistry"),
            tf.TensorSpec((None, 2), tf.float32, name="colour"),
        ]
    )
    def serve(self, chemistry, colour):
        return {"probability": self.net({"chemistry": chemistry, "colour": colour})}


def main():
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    (chemistry, colour, cultivar), held_out = split()
    net = network(chemistry, colour)
    net.compile(keras.optimizers.Adam(5e-3), "sparse_categorical_crossentropy")
    net.fit({"chemistry": chemistry, "colour": colour}, cultivar, epochs=40, batch_size=16, verbose=0)

    model = Wine(net)
    shutil.rmtree(HERE / "saved_model", ignore_errors=True)
    tf.saved_model.save(model, str(HERE / "saved_model"), signatures={"serving_default": model.serve})

    (HERE / "data").mkdir(exist_ok=True)
    answers = held_out[2]
    np.savetxt(HERE / "data" / "held-out.csv", np.column_stack(held_out), fmt="%.6g", delimiter=",")
    correct = int((model.serve(*held_out[:2])["probability"].numpy().argmax(axis=1) == answers).sum())
    print(f"held-out accuracy: {correct}/{len(answers)} = {correct / len(answers):.4f}")


if __name__ == "__main__":
    main()
