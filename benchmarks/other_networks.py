"""Write networks of many kinds and shapes, each as a SavedModel with its spec, for benchmarks/substitution.py.

    PYTHON other_networks.py FOLDER [NAME...]     in a Python that has TensorFlow and Keras

FOLDER/NAME/ gets `saved_model` and `spec.yaml`. They are not those that engines are compared on (networks.py): what
serves those must not slow down these. Weights come from fixed seeds.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np
import tensorflow as tf
from keras import layers as k

SPEC = """\
model:
  name: {name}
  version: "1.0.0"
  saved_model: saved_model
compilation:
  batch_sizes: [1, 2, 4, 16, 64]
  targets: [x86-64-v2, x86-64-v3, x86-64-v4]
validation:
  rtol: 1e-3
  atol: 1e-5
"""


def dense(inputs: int, *units: int, activation: Any = "relu", last: Any = None) -> keras.Model:
    """Dense layers of so many `units`, all but the last with `activation`."""
    parts = [keras.Input((inputs,)), *(k.Dense(count, activation=activation) for count in units[:-1])]
    return keras.Sequential([*parts, k.Dense(units[-1], activation=last)])


def functional(shape: tuple[int, ...], body: Callable[[Any], Any]) -> keras.Model:
    x = keras.Input(shape)
    return keras.Model(x, body(x))


def convolutional(shape: tuple[int, ...], *parts: Any) -> keras.Model:
    return keras.Sequential([keras.Input(shape), *parts])


def mobile(x: Any) -> Any:
    """Depthwise separable convolutions with batch normalization and ReLU (or its clipped form), as MobileNet has."""
    for filters, strides in ((16, 1), (32, 2), (64, 2)):
        x = k.DepthwiseConv2D(3, strides=strides, padding="same", use_bias=False)(x)
        x = k.ReLU()(k.BatchNormalization()(x))
        x = k.ReLU(6.0)(k.BatchNormalization()(k.Conv2D(filters, 1, use_bias=False)(x)))
    return k.Dense(10, activation="softmax")(k.GlobalAveragePooling2D()(x))


def residual(x: Any) -> Any:
    x = k.Conv2D(16, 3, padding="same", activation="relu")(x)
    for _ in range(2):
        inner = k.ReLU()(k.BatchNormalization()(k.Conv2D(16, 3, padding="same", use_bias=False)(x)))
        inner = k.BatchNormalization()(k.Conv2D(16, 3, padding="same", use_bias=False)(inner))
        x = k.ReLU()(k.Add()([x, inner]))
    return k.Dense(5)(k.GlobalAveragePooling2D()(x))


def transformer(x: Any) -> Any:
    """A block over 16 items of 32 values: attention of 4 heads, then two dense layers, each behind a normalization."""
    attended = k.MultiHeadAttention(4, 8)(k.LayerNormalization()(x), k.LayerNormalization()(x))
    x = k.Add()([x, attended])
    inner = k.Dense(32)(k.Dense(64, activation="gelu")(k.LayerNormalization()(x)))
    return k.Dense(3)(k.GlobalAveragePooling1D()(k.Add()([x, inner])))


def deep_sets(x: Any) -> Any:
    x = k.Dense(64, activation="relu")(k.Dense(64, activation="relu")(x))
    return k.Dense(4, activation="softmax")(k.Dense(64, activation="relu")(keras.ops.sum(x, axis=1)))


def residual_dense(x: Any) -> Any:
    x = k.Dense(128, activation="relu")(x)
    for _ in range(4):
        x = k.Add()([x, k.Dense(128)(k.Dense(128, activation="relu")(x))])
    return k.Dense(4)(x)


def attention(x: Any) -> Any:
    """Blocks over 32 items of 128 values, wide enough that their projections are worth a call."""
    x = k.Dense(128)(x)
    for _ in range(2):
        normal = k.LayerNormalization()(x)
        x = k.Add()([x, k.MultiHeadAttention(8, 16)(normal, normal)])
        x = k.Add()([x, k.Dense(128)(k.Dense(256, activation="relu")(k.LayerNormalization()(x)))])
    return k.Dense(3)(k.GlobalAveragePooling1D()(x))


def contracted(product: Callable[[Any, np.ndarray[Any, Any]], Any]) -> keras.Model:
    """Three layers over 20 items of 64 values, whose products `product` writes."""
    random = np.random.default_rng(3)
    x = inputs = keras.Input((20, 64))
    for _ in range(3):
        weights = random.normal(0, 0.15, (64, 64)).astype(np.float32)
        x = k.Lambda(lambda y, weights=weights: tf.nn.relu(product(y, weights) + 0.1))(x)
    return keras.Model(inputs, k.Dense(2)(k.Flatten()(x)))


def clipped(x: Any) -> Any:
    return k.ReLU(4.0)(k.Dense(128)(x))


def residual_norm(x: Any) -> Any:
    """Residual blocks of one product each, with an activation behind the sum."""
    x = k.Dense(96, activation="relu")(x)
    for _ in range(6):
        x = k.ReLU()(k.Add()([k.BatchNormalization()(k.Dense(96)(x)), x]))
    return k.Dense(4, activation="softmax")(x)


def several_inputs() -> keras.Model:
    jets, tracks, whole = keras.Input((20, 8)), keras.Input((10, 4)), keras.Input((15,))
    parts = [k.Flatten()(k.Dense(8, activation="relu")(k.Dense(32, activation="relu")(x))) for x in (jets, tracks)]
    x = k.Concatenate()([*parts, whole])
    return keras.Model([jets, tracks, whole], k.Dense(3, activation="softmax")(k.Dense(100, activation="relu")(x)))


def embedding() -> keras.Model:
    indices = keras.Input((12,), dtype="int32")
    x = k.Flatten()(k.Embedding(500, 16)(indices))
    return keras.Model(indices, k.Dense(1, activation="sigmoid")(k.Dense(64, activation="relu")(x)))


def branches(x: Any) -> Any:
    return k.Concatenate()([k.Dense(2, name=f"head{i}")(k.Dense(64, activation="elu")(x)) for i in range(3)])


NETWORKS: dict[str, Callable[[], keras.Model]] = {
    "tiny_4_8_1": lambda: dense(4, 8, 1, last="sigmoid"),
    "tiny_10x16": lambda: dense(16, *[16] * 10, 1),
    "tiny_3x32": lambda: dense(10, 32, 32, 32, 2, last="softmax"),
    "odd_5x33": lambda: dense(33, *[33] * 5, 7),
    "mlp_3x64_tanh": lambda: dense(20, 64, 64, 64, 3, activation="tanh"),
    "mlp_4x100": lambda: dense(50, *[100] * 4, 5, last="softmax"),
    "wide_3x1024": lambda: dense(64, 1024, 1024, 1024, 8),
    "single_2000x1000": lambda: dense(2000, 1000),
    "single_1000x1": lambda: dense(1000, 1, last="sigmoid"),
    "expand_4x2000": lambda: dense(4, 2000, 4),
    "autoencoder": lambda: dense(784, 128, 32, 128, 784, last="sigmoid"),
    "swish_3x128": lambda: dense(32, 128, 128, 128, 2, activation="silu"),
    "gelu_3x128": lambda: dense(32, 128, 128, 128, 2, activation="gelu"),
    "gelu_tanh_3x128": lambda: dense(32, 128, 128, 128, 2, activation=lambda x: keras.ops.gelu(x, approximate=True)),
    "selu_3x128": lambda: dense(32, 128, 128, 128, 2, activation="selu"),
    "sigmoid_3x128": lambda: dense(32, 128, 128, 128, 2, activation="sigmoid"),
    "softplus_3x128": lambda: dense(32, 128, 128, 128, 2, activation="softplus"),
    "leaky_3x128": lambda: dense(32, 128, 128, 128, 2, activation="leaky_relu"),
    "relu6_3x64": lambda: dense(32, 64, 64, 64, 2, activation="relu6"),
    "relu_max_3x128": lambda: functional((32,), lambda x: k.Dense(2)(clipped(clipped(clipped(x))))),
    "hard_sigmoid_3x128": lambda: dense(32, 128, 128, 128, 2, activation="hard_sigmoid"),
    "hard_swish_3x128": lambda: dense(32, 128, 128, 128, 2, activation="hard_silu"),
    "normalized_3x64": lambda: convolutional(
        (20,), k.BatchNormalization(),
        *[part for _ in range(3) for part in (k.Dense(64), k.BatchNormalization(), k.ReLU())], k.Dense(2),
    ),
    "residual_dense": lambda: functional((40,), residual_dense),
    "residual_norm": lambda: functional((40,), residual_norm),
    "branches": lambda: functional((30,), branches),
    "several_inputs": several_inputs,
    "embedding": embedding,
    "deep_sets": lambda: functional((30, 6), deep_sets),
    "transformer": lambda: functional((16, 32), transformer),
    "attention": lambda: functional((32, 16), attention),
    "einsum": lambda: contracted(lambda x, weights: tf.einsum("...i,ij->...j", x, weights)),
    "tensordot": lambda: contracted(lambda x, weights: tf.tensordot(x, weights, 1)),
    "lstm": lambda: convolutional((10, 6), k.LSTM(32), k.Dense(16, activation="relu"), k.Dense(1)),
    "gru_unrolled": lambda: convolutional((6, 8), k.GRU(24, unroll=True), k.Dense(1)),
    "conv1d": lambda: convolutional(
        (100, 4), k.Conv1D(32, 5, activation="relu"), k.MaxPooling1D(2), k.Conv1D(32, 3, activation="relu"),
        k.GlobalAveragePooling1D(), k.Dense(3),
    ),
    "conv_5x5": lambda: convolutional(
        (28, 28, 1), k.Conv2D(16, 5, activation="relu"), k.AveragePooling2D(2), k.Conv2D(32, 5, activation="relu"),
        k.AveragePooling2D(2), k.Flatten(), k.Dense(64, activation="relu"), k.Dense(10, activation="softmax"),
    ),
    "conv_7x7_strides": lambda: convolutional(
        (56, 56, 3), k.ZeroPadding2D(3), k.Conv2D(32, 7, strides=2), k.BatchNormalization(), k.ReLU(),
        k.MaxPooling2D(3, 2, padding="same"), k.GlobalAveragePooling2D(), k.Dense(5),
    ),
    "conv_same": lambda: convolutional(
        (16, 16, 8), *[k.Conv2D(24, 3, padding="same", activation="relu") for _ in range(3)], k.Flatten(), k.Dense(4),
    ),
    "conv_relu_norm": lambda: convolutional(
        (16, 16, 3),
        *[part for _ in range(3) for part in (k.Conv2D(16, 3, activation="relu"), k.BatchNormalization())],
        k.Flatten(), k.Dense(4),
    ),
    "conv_1x1": lambda: convolutional((12, 12, 16), k.Conv2D(32, 1, activation="elu"), k.Conv2D(8, 1), k.Flatten()),
    "conv_tiny": lambda: convolutional((6, 6, 1), k.Conv2D(4, 3, activation="relu"), k.Flatten(), k.Dense(1)),
    "conv_leaky": lambda: convolutional(
        (24, 24, 3), *[part for _ in range(3) for part in (k.Conv2D(24, 3), k.LeakyReLU(), k.MaxPooling2D(2))][:-1],
        k.Flatten(), k.Dense(4),
    ),
    "conv_hard_swish": lambda: convolutional(
        (16, 16, 3), *[k.Conv2D(16, 3, activation="hard_silu") for _ in range(3)], k.Flatten(), k.Dense(4),
    ),
    "mobile": lambda: functional((32, 32, 3), mobile),
    "residual_conv": lambda: functional((16, 16, 3), residual),
}  # fmt: skip


def set_weights(model: keras.Model, seed: int) -> None:
    """No bias is zero, and batch normalization shifts and scales, as in networks that were trained."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        if "seed" in weight.path:
            continue
        name, shape = weight.path.rpartition("/")[2], tuple(weight.shape)
        if name in ("gamma", "moving_variance"):
            values = random.uniform(0.5, 1.5, shape)
        elif len(shape) < 2:
            values = random.normal(0, 0.1, shape)
        else:
            values = random.normal(0, np.sqrt(1.5 / np.prod(shape[:-1])), shape)
        weight.assign(values.astype(np.float32))


def write(name: str, folder: Path) -> None:
    """The network `name` into `folder`, which is made."""
    model = NETWORKS[name]()
    set_weights(model, seed=zlib.crc32(name.encode()))
    model.export(str(folder / "saved_model"), verbose=False)
    (folder / "spec.yaml").write_text(SPEC.format(name=name))


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    if unknown := [name for name in names if name not in NETWORKS]:
        sys.exit(f"no such network: {', '.join(unknown)}; known: {', '.join(NETWORKS)}")
    for name in names or NETWORKS:
        tf.keras.utils.set_random_seed(1)
        write(name, folder / name)


if __name__ == "__main__":
    main()
