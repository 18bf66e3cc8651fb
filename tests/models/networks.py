"""Networks of several families: the one of this NAME as the worker lists it, and TensorFlow's answers.

    TOOLCHAIN/bin/python networks.py FOLDER WORKER_PROGRAM NAME

Runs inside a toolchain's Python. FOLDER has `frozen.json` (the answer of `freeze`), `weights.bin`, and
`answers.npz`: inputs `in_NAME` and outputs `out_NAME` of 17 rows.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
ROWS = 17
NETWORKS = {}


def network(function):
    """Register what gives a Keras model, or (function of tensors, their specifications)."""
    NETWORKS[function.__name__] = function
    return function


def chain(shape, *parts):
    value = first = keras.Input(shape)
    for part in parts:
        value = part(value)
    return keras.Model(first, value)


def rows(*shape, name="x"):
    return tf.TensorSpec([None, *shape], tf.float32, name=name)


def served(model):
    return tf.function(lambda x: {"y": model(x, training=False)}, input_signature=[rows(*model.inputs[0].shape[1:])])


@network
def dense():
    return chain(
        (16,),
        layers.Dense(64, "relu"),
        layers.Dense(40, "tanh"),
        layers.BatchNormalization(),
        layers.Dense(5, "softmax"),
    )


@network
def wide():
    return chain((40,), *(layers.Dense(100, "elu") for _ in range(4)), layers.Dense(1, "sigmoid"))


@network
def residual():
    value = first = keras.Input((24,))
    for _ in range(3):
        value = layers.LayerNormalization()(value + layers.Dense(24)(layers.Dense(48, "swish")(value)))
    return keras.Model(first, layers.Dense(3)(value))


@network
def lstm():
    return chain((20, 8), layers.LSTM(24), layers.Dense(3, "softmax"))


@network
def towers():
    return chain(
        (12, 8), layers.Bidirectional(layers.GRU(16, return_sequences=True)), layers.LSTM(10, return_sequences=True),
        layers.GlobalAveragePooling1D(), layers.Dense(3),
    )  # fmt: skip


@network
def images():
    return chain(
        (16, 16, 3), layers.Conv2D(16, 3, padding="same", activation="relu"), layers.BatchNormalization(),
        layers.MaxPooling2D(), layers.DepthwiseConv2D(3), layers.Conv2D(8, 1, strides=2), layers.Flatten(),
        layers.Dense(4, "softmax"),
    )  # fmt: skip


@network
def attention():
    value = first = keras.Input((12, 32))
    value = layers.LayerNormalization()(value + layers.MultiHeadAttention(4, 8)(value, value))
    value = layers.LayerNormalization()(value + layers.Dense(32)(layers.Dense(64, "gelu")(value)))
    return keras.Model(first, layers.Dense(2)(layers.GlobalAveragePooling1D()(value)))


@network
def sets():
    random = np.random.default_rng(2)
    first, second = (tf.constant(random.normal(size=size).astype("f4")) for size in ((6, 48), (48, 5)))

    def serve(x, mask):
        shared = tf.nn.relu(tf.tensordot(x, first, 1)) * mask[:, :, None]
        mean = tf.reduce_sum(shared, 1) / (tf.reduce_sum(mask, 1, keepdims=True) + 1.0)
        return {"y": tf.sigmoid(mean @ second), "largest": tf.reduce_max(shared, [1, 2])}

    return serve, (rows(30, 6), rows(30, name="mask"))


@network
def neighbours():
    """EdgeConv over the five nearest of 24 points."""
    random = np.random.default_rng(3)
    weights = tf.constant((0.3 * random.normal(size=(12, 32))).astype("f4"))

    def serve(x):
        square = tf.reduce_sum(x * x, -1, keepdims=True)
        distance = square - 2.0 * tf.matmul(x, x, transpose_b=True) + tf.transpose(square, [0, 2, 1])
        near = tf.gather(x, tf.math.top_k(-distance, k=5).indices, batch_dims=1)
        own = tf.repeat(x[:, :, None], 5, 2)
        edges = tf.nn.relu(tf.tensordot(tf.concat([own, near - own], -1), weights, 1))
        return {"y": tf.reduce_mean(tf.reduce_max(edges, 2), 1)}

    return serve, (rows(24, 6),)


@network
def moved():
    """What moves and converts elements: integers, masks, slices, reversals, padding."""

    def serve(x, n):
        picked = tf.where(x[:, ::2, :] > 0.0, tf.reverse(x, [1])[:, ::2, :], tf.cast(n, tf.float32)[:, None, None])
        padded = tf.pad(picked, [[0, 0], [1, 2], [0, 1]], constant_values=0.5)
        count = tf.reduce_sum(tf.cast(x > 0.5, tf.float32), [1, 2])
        return {"y": tf.transpose(padded, [0, 2, 1]), "n": tf.cast(tf.floor(count), tf.int32) + n}

    return serve, (rows(6, 3), tf.TensorSpec([None], tf.int32, name="n"))


def main(folder, worker_program, name):
    sys.path.insert(0, worker_program)
    import freeze
    from messages import graph, wire

    keras.utils.set_random_seed(1)
    saved = os.path.join(folder, "model")
    module, made = tf.Module(), NETWORKS[name]()
    if isinstance(made, tuple):
        module.serve = tf.function(made[0], input_signature=made[1])
    else:
        module.net = made
        module.serve = served(made)
    tf.saved_model.save(module, saved, signatures=module.serve)
    chosen = graph.Chosen(folder=saved, tags=("serve",), signature="serving_default", shapes={}, inputs=(), outputs=())
    frozen = freeze.freeze(
        graph.Freeze(model=chosen, weights="shared", threshold=1024, out=folder, constants=True), lambda *_: None
    )
    with open(os.path.join(folder, "frozen.json"), "w") as file:
        file.write(wire.encoded(frozen))
    random, inputs = np.random.default_rng(5), {}
    for tensor in frozen.model.inputs:
        shape = [ROWS if size is None else size for size in tensor.shape]
        inputs[tensor.name] = (2 * random.normal(size=shape)).astype(tensor.dtype)
    answers = tf.saved_model.load(saved).signatures["serving_default"](
        **{key: tf.constant(value) for key, value in inputs.items()}
    )
    np.savez(
        os.path.join(folder, "answers.npz"), **{f"in_{key}": value for key, value in inputs.items()},
        **{f"out_{key}": value.numpy() for key, value in answers.items()},
    )  # fmt: skip


main(*sys.argv[1:])
