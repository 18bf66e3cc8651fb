"""Save models as Keras files, with inputs and Keras's answers to them beside each.

TOOLCHAIN/bin/python keras_files.py FOLDER
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import numpy as np
from keras import layers


@keras.saving.register_keras_serializable()
class Doubled(layers.Layer):
    def call(self, values):
        return values * 2


def towers():
    features, hits = keras.Input((8,), name="features"), keras.Input((4, 3), name="hits")
    both = layers.Concatenate()([layers.Dense(16, activation="relu")(features), layers.LSTM(8)(hits)])
    both = layers.Dropout(0.5)(layers.BatchNormalization()(both))
    made = keras.Model([features, hits], [layers.Dense(3, name="kind")(both), layers.Dense(1, name="mass")(both)])
    made.compile("adam", "mse")
    return made


def named():
    # Neither is a name of an argument in Python.
    first, second = keras.Input((3,), name="class"), keras.Input((2,), name="in-put")
    both = layers.Concatenate()([first, second])
    return keras.Model(
        {"in-put": second, "class": first}, {"total": layers.Dense(1)(both), "all": layers.Dense(5)(both)}
    )


def looked_up():
    kind = keras.Input((3,), dtype="int64", name="x")
    found = layers.IntegerLookup(vocabulary=[0, 1, -1], output_mode="multi_hot")(kind)
    return keras.Model(kind, layers.Dense(2, name="score")(found))


def chain(*parts):
    return keras.Sequential([keras.Input((6,), name="x"), *parts, layers.Dense(2, name="score")])


def nested():
    """A layer that an inner model shares with the outer one, whose weights Keras 3 does not find in its own .keras file."""
    shared = layers.Dense(6, name="shared")
    first, second = keras.Input((6,), name="first"), keras.Input((6,), name="second")
    inner = keras.Input((6,))
    inner = keras.Model(inner, shared(shared(inner)), name="inner")
    return keras.Model(
        [first, second], layers.Dense(2, name="score")(layers.Add()([inner(first), inner(second), shared(first)]))
    )


def binned():
    """Keras 3.6 rounds what it sorts into bins to integers, but only in a graph."""
    bins = layers.Discretization([-1.5, 0.25, 0.5], name="bins")
    return chain(bins, layers.Embedding(4, 3), layers.Flatten())


MODELS = {
    "binned.keras": binned,
    "towers.keras": towers,
    "towers.h5": towers,
    "named.keras": named,
    "lookup.keras": looked_up,
    "chain.keras": lambda: chain(layers.Dense(4, activation="tanh")),
    "chain.h5": lambda: chain(layers.Dense(4, activation="tanh")),
    "code.keras": lambda: chain(layers.Lambda(lambda values: values * 2, name="twice")),
    "code.h5": lambda: chain(layers.Lambda(lambda values: values * 2, name="twice")),
    "nested.keras": nested,
    "nested.h5": nested,
    "own.keras": lambda: chain(Doubled(name="mine")),
}


def main():
    folder = sys.argv[1]
    for name, make in MODELS.items():
        model = make()
        model.save(os.path.join(folder, name))
        random = np.random.default_rng(1)
        feeds = {each.name: random.normal(size=(4, *each.shape[1:])).astype(each.dtype) for each in model.inputs}
        answers = model(feeds if len(feeds) > 1 else next(iter(feeds.values())), training=False)
        if not isinstance(answers, dict):
            names = [layer.name for layer in model.layers][-len(model.outputs) :]
            answers = dict(zip(names, answers if isinstance(answers, list) else [answers], strict=True))
        np.savez(os.path.join(folder, f"{name}.inputs.npz"), **feeds)
        np.savez(os.path.join(folder, f"{name}.answers.npz"), **answers)
        if make is binned:
            np.savez(os.path.join(folder, f"{name}.predicted.npz"), score=model.predict(feeds["x"], verbose=0))


if __name__ == "__main__":
    main()
