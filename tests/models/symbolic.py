"""Networks over a variable number of particles, each as the worker lists it, and TensorFlow's answers.

    TOOLCHAIN/bin/python symbolic.py FOLDER WORKER_PROGRAM

Runs inside a toolchain's Python. FOLDER/NAME has `frozen.json` (the answer of `freeze`), `weights.bin`, and
`answers.npz`: for each size `n` inputs `in_n_NAME` and outputs `out_n_NAME` of 5 rows.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
ROWS, FEATURES, MOST = 5, 4, 24
SIZES = (1, 2, 7, 24)
NETWORKS = {}
LEAST = {"neighbours": 4, "flat_neighbours": 4, "windowed": 3}
"""Of networks that need some particles."""


def network(function):
    """Register what gives a Keras model of an array [batch, n, FEATURES], or a function and its layers."""
    NETWORKS[function.__name__] = function
    return function


@network
def summed():
    return keras.Sequential(
        [keras.Input((None, FEATURES)), layers.Dense(8, "relu"), layers.Lambda(lambda x: tf.reduce_sum(x, 1))]
    )


@network
def sets():
    first, second, last = layers.Dense(20, "relu"), layers.Dense(12, "elu"), layers.Dense(3)

    def serve(x):
        mask = tf.cast(tf.reduce_any(x > 0.0, -1, keepdims=True), tf.float32)
        total = tf.reduce_sum(second(first(x)) * mask, 1)
        per_item = 1.0 / tf.cast(tf.shape(x)[1], tf.float32)
        total = total / tf.maximum(tf.reduce_sum(mask, 1), 1.0) + tf.reduce_sum(first(x), 1)[:, 8:] * per_item
        return last(total + tf.reduce_mean(first(x), 1)[:, :12])

    return serve, (first, second, last)


@network
def attention():
    norm, attend, wide, out = (
        layers.LayerNormalization(), layers.MultiHeadAttention(2, 8), layers.Dense(16, "gelu"), layers.Dense(FEATURES),
    )  # fmt: skip

    def serve(x):
        x = x + attend(norm(x), norm(x))
        return x + out(wide(x))

    return serve, (norm, attend, wide, out)


@network
def lstm():
    return keras.Sequential([keras.Input((None, FEATURES)), layers.LSTM(16), layers.Dense(2)])


@network
def convolved():
    return keras.Sequential(
        [
            keras.Input((None, FEATURES)),
            layers.Conv1D(12, 3, padding="same", activation="relu"),
            layers.Conv1D(8, 3, padding="same"),
            layers.GlobalMaxPooling1D(),
        ]
    )


@network
def neighbours():
    first, last = layers.Dense(16, "relu"), layers.Dense(2)

    def serve(x):
        difference = x[:, :, None, :] - x[:, None, :, :]
        nearest = tf.math.top_k(-tf.reduce_sum(difference**2, -1), k=4).indices
        around = tf.gather(x, nearest, batch_dims=1)
        centre = tf.repeat(x[:, :, None, :], 4, axis=2)
        return last(tf.reduce_mean(tf.reduce_max(first(tf.concat([centre, around - centre], -1)), 2), 1))

    return serve, (first, last)


@network
def flat_neighbours():
    """By places among the particles of all rows, as exporters of PyTorch write it."""
    first, last = layers.Dense(16, "relu"), layers.Dense(2)

    def serve(x):
        rows, n = tf.shape(x)[0], tf.shape(x)[1]
        difference = x[:, :, None, :] - x[:, None, :, :]
        nearest = tf.math.top_k(-tf.reduce_sum(difference**2, -1), k=4).indices
        places = tf.reshape(nearest + n * tf.range(rows)[:, None, None], [-1])
        around = tf.gather(tf.reshape(x, [-1, FEATURES]), tf.math.floormod(places, tf.reshape(rows * n, [1])))
        around = tf.reshape(around, [rows, n, 4, FEATURES])
        return last(tf.reduce_mean(tf.reduce_max(first(around), 2), 1))

    return serve, (first, last)


@network
def windowed():
    return keras.Sequential([keras.Input((None, FEATURES)), layers.Conv1D(6, 3, activation="relu")])


@network
def pairs():
    """The number of particles is not in an attribute: TensorFlow does not infer the size."""
    weights = tf.Variable(tf.random.normal((FEATURES, 3), seed=3))

    def serve(x):
        products = tf.einsum("bic,bjc->bij", x, x)
        return tf.reshape(tf.concat([products, x @ weights], 2), [tf.shape(x)[0], -1])

    return serve, (weights,)


def served(net):
    signature = [tf.TensorSpec([None, None, FEATURES], tf.float32, name="x")]
    return tf.function(lambda x: {"y": net(x)}, input_signature=signature)


def main(folder, worker_program):
    sys.path.insert(0, worker_program)
    import freeze
    from messages import graph, wire

    keras.utils.set_random_seed(1)
    random = np.random.default_rng(5)
    for name, make in NETWORKS.items():
        out, saved = os.path.join(folder, name), os.path.join(folder, name, "model")
        module = tf.Module()
        made = make()
        made, module.layers = made if isinstance(made, tuple) else (made, made)
        made(tf.zeros((2, 5, FEATURES)))  # makes the layers' weights
        module.serve = served(made)
        tf.saved_model.save(module, saved, signatures=module.serve)
        symbol = graph.Symbol(name="n", minimum=LEAST.get(name, 1), maximum=MOST)
        chosen = graph.Chosen(
            folder=saved, tags=("serve",), signature="serving_default", shapes={"x": (None, MOST, FEATURES)},
            inputs=(), outputs=(), axes={"x": ("", "n", "")}, symbols=(symbol,),
        )  # fmt: skip
        frozen = freeze.freeze(
            graph.Freeze(model=chosen, weights="shared", threshold=1024, out=out, constants=True), lambda *_: None
        )
        with open(os.path.join(out, "frozen.json"), "w") as file:
            file.write(wire.encoded(frozen))
        serve = tf.saved_model.load(saved).signatures["serving_default"]
        answers = {}
        for size in (max(size, symbol.minimum) for size in SIZES):
            x = random.normal(size=(ROWS, size, FEATURES)).astype(np.float32)
            answers |= {f"in_{size}_x": x, f"out_{size}_y": serve(x=tf.constant(x))["y"].numpy()}
        np.savez(os.path.join(out, "answers.npz"), **answers)


main(*sys.argv[1:])
