"""Save models as files of Keras 2, with inputs and its answers to them beside each.

TOOLCHAIN/bin/python keras2_files.py FOLDER
"""

import json
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import h5py
import numpy as np
import tensorflow as tf
import tf_keras as keras
from tf_keras import layers


class Distance(keras.losses.Loss):
    """The author's own: inference does not need it."""

    def call(self, wanted, given):
        return tf.abs(wanted - given)


def recurrent():
    steps = keras.Input((6, 4), name="x")
    kept = layers.Masking(0.25)(steps)
    both = layers.Concatenate()(
        [
            layers.LSTM(5)(kept),
            layers.GRU(5, reset_after=False)(kept),
            layers.Bidirectional(layers.LSTM(3, recurrent_dropout=0.1))(steps),
            layers.SimpleRNN(4)(layers.SpatialDropout1D(0.1)(steps)),
            layers.RNN([layers.GRUCell(3), layers.LSTMCell(2)])(steps),
            layers.Flatten()(layers.TimeDistributed(layers.Dense(2))(layers.GRU(3, return_sequences=True)(steps))),
        ]
    )
    return keras.Model(steps, layers.Dense(2, name="score")(both))


def pictures():
    return chain(
        (9, 8, 3),
        layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"),
        layers.SeparableConv2D(4, 3),
        layers.Conv2DTranspose(3, 3, strides=2),
        layers.BatchNormalization(),
        layers.SpatialDropout2D(0.1),
        layers.UpSampling2D(2, interpolation="bilinear"),
        layers.LocallyConnected2D(2, 3),
        layers.GlobalMaxPooling2D(),
    )


def vectors():
    return chain(
        (6,),
        *(layers.Dense(8, activation="swish"), layers.PReLU(), layers.LeakyReLU(0.2), layers.ELU(0.7)),
        *(
            layers.ThresholdedReLU(0.1),
            layers.GaussianDropout(0.1),
            layers.GaussianNoise(0.1),
            layers.AlphaDropout(0.1),
        ),
        *(layers.Activation("hard_sigmoid"), layers.ActivityRegularization(0.1), layers.Softmax()),
    )


def attention():
    steps = keras.Input((6, 8), name="x")
    seen = layers.LayerNormalization()(steps + layers.MultiHeadAttention(2, 4)(steps, steps))
    seen = layers.AdditiveAttention()([seen, layers.Attention(use_scale=True)([seen, seen])])
    return keras.Model(steps, layers.Dense(2, name="score")(layers.GlobalAveragePooling1D()(seen)))


def calls():
    """Functions of TensorFlow between layers, which Keras 2 stores by name."""
    x = keras.Input((5, 4), name="x")
    both = tf.concat([x[:, 0, 1:], keras.backend.mean(x, axis=1), tf.reduce_max(x * 2.0 - 1.0, axis=1)], axis=-1)
    both = tf.where(both > 0.1, tf.nn.softplus(both), tf.clip_by_value(both, -0.5, 0.5)) / tf.constant([2.0] * 11)
    both = tf.linalg.matmul(tf.expand_dims(both, 1), tf.ones_like(both)[:, :, tf.newaxis])[:, 0]
    return keras.Model(x, layers.Dense(2, name="score", activation=tf.nn.gelu)(both))


def towers():
    first, second = keras.Input((4,), name="first"), keras.Input((3,), name="second")
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(3, kernel_constraint=keras.constraints.MaxNorm(2))])
    dot = layers.Dot(1)([inner(first), second])
    made = keras.Model(
        [first, second], [layers.Dense(2, name="score")(dot), layers.Dense(1, name="mass")(inner(first))]
    )
    made.compile("adam", Distance())
    return made


def counted():
    kind = keras.Input((3,), dtype="int64", name="x")
    found = layers.IntegerLookup(vocabulary=[0, 1, -1], output_mode="multi_hot")(kind)
    embedded = layers.Flatten()(layers.Embedding(5, 3)(layers.IntegerLookup(vocabulary=[0, 1, -1])(kind)))
    return keras.Model(kind, layers.Dense(2, name="score")(layers.Concatenate()([found, embedded])))


def chain(shape, *parts):
    return keras.Sequential([keras.Input(shape, name="x"), *parts, layers.Dense(2, name="score")])


def of_keras_1(file):
    """As Keras 1 wrote it: a list of layers, without versions. The input has the name of the first layer."""
    config = json.loads(file.attrs["model_config"])
    wrapped = [each for each in config["config"]["layers"] if each["class_name"] != "InputLayer"]
    file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": wrapped})
    del file.attrs["keras_version"]
    return {"x": "first_input"}


def of_tensorflow_1(file):
    """As tf.keras of TensorFlow 1.14 wrote it."""
    text = file.attrs["model_config"].replace('"BatchNormalization"', '"BatchNormalizationV1"')
    file.attrs["model_config"] = text.replace('"GlorotUniform"', '"GlorotUniformV2"')
    file.attrs["keras_version"] = "2.2.4-tf"
    return {}


MODELS = {
    "recurrent.h5": recurrent,
    "pictures.h5": pictures,
    "vectors.h5": vectors,
    "attention.h5": attention,
    "calls.h5": calls,
    "calls.keras": calls,
    "towers.h5": towers,
    "towers.keras": towers,
    "counted.keras": counted,
    "keras1.h5": lambda: chain((6,), layers.Dense(4, "tanh", input_shape=(6,), name="first")),
    "tensorflow1.h5": lambda: chain((6,), layers.Dense(4), layers.BatchNormalization()),
}
CHANGES = {"keras1.h5": of_keras_1, "tensorflow1.h5": of_tensorflow_1}


def main():
    folder = pathlib.Path(sys.argv[1])
    for number, (name, make) in enumerate(MODELS.items()):
        keras.utils.set_random_seed(number)
        model = make()
        random = np.random.default_rng(number)
        for weight in model.weights:  # biases and statistics too: zeros would hide faults
            if weight.dtype.is_floating:
                values = random.uniform(-0.5, 0.5, weight.shape)
                weight.assign(np.abs(values) + 0.5 if "variance" in weight.name else values)
        model.save(folder / name)
        feeds = {each.name: random.normal(size=(4, *each.shape[1:])).astype(each.dtype.name) for each in model.inputs}
        answers = model(feeds if len(feeds) > 1 else next(iter(feeds.values())), training=False)
        names = ["score", "mass"][: len(model.outputs)]
        if name in CHANGES:
            with h5py.File(folder / name, "r+") as file:
                renamed = CHANGES[name](file)
            feeds = {renamed.get(each, each): values for each, values in feeds.items()}
        np.savez(folder / f"{name}.inputs.npz", **feeds)
        answers = answers if isinstance(answers, list) else [answers]
        np.savez(folder / f"{name}.answers.npz", **dict(zip(names, answers, strict=True)))


if __name__ == "__main__":
    main()
