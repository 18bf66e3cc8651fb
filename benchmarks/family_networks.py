"""Write the networks that benchmarks/families.py measures, each as a SavedModel with its spec.

    PYTHON family_networks.py KERAS2 FOLDER [NAME...]     in a Python that has TensorFlow and Keras

One small network of each family that this tool's own benchmarks and kernels were not made for. KERAS2 is a folder with
`tf_keras`: recurrent networks are written with it, because only its LSTM and GRU are those that the converters of other
engines know as such (tf2onnx 1.17 and LiteRT's make loops of Keras 3's, or fail). Weights come from fixed seeds.
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
sys.path.append(sys.argv[1])

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from keras import layers as k

SPEC = """\
model:
  name: {name}
  version: "1.0.0"
  saved_model: saved_model
  description: {description}
compilation:
  batch_sizes: [1, 4, 16, 64]
  targets: [x86-64-v2, x86-64-v3, x86-64-v4]
validation:
  rtol: 1e-3
  atol: 1e-5
"""


def autoencoder() -> Any:
    x = y = keras.Input((32,))
    for units in (24, 12, 6, 12, 24):
        y = k.Dense(units, activation="relu")(y)
    return keras.Model(x, k.Dense(32)(y))


def wide() -> Any:
    x = y = keras.Input((64,))
    for _ in range(4):
        y = k.Dense(1024, activation="relu")(y)
    return keras.Model(x, k.Dense(4, activation="softmax")(y))


def lstm() -> Any:
    r = tf_keras.layers
    x = tf_keras.Input((60, 16))
    return tf_keras.Model(x, r.Dense(3, activation="softmax")(r.LSTM(64)(x)))


def gru_towers() -> Any:
    r = tf_keras.layers
    tracks, hits = tf_keras.Input((20, 8)), tf_keras.Input((10, 12))
    y = r.Concatenate()([r.GRU(32)(tracks), r.GRU(32)(hits)])
    return tf_keras.Model([tracks, hits], r.Dense(3)(r.Dense(32, activation="relu")(y)))


def deep_jet() -> Any:
    """1 x 1 convolutions over 25 candidates, an LSTM over them, dense layers with 15 more values."""
    r = tf_keras.layers
    candidates, more = tf_keras.Input((25, 16)), tf_keras.Input((15,))
    y = candidates
    for filters in (64, 32, 32, 8):
        y = r.Conv1D(filters, 1, activation="relu")(y)
    y = r.Concatenate()([r.LSTM(50)(y), more])
    for units in (200, 100, 100):
        y = r.Dense(units, activation="relu")(y)
    return tf_keras.Model([candidates, more], r.Dense(6, activation="softmax")(y))


def transformer() -> Any:
    x = keras.Input((64, 16))
    y = k.Dense(64)(x)
    for _ in range(2):
        y = k.LayerNormalization()(k.Add()([y, k.MultiHeadAttention(4, 16)(y, y)]))
        y = k.LayerNormalization()(k.Add()([y, k.Dense(64)(k.Dense(128, activation="gelu")(y))]))
    return keras.Model(x, k.Dense(3)(k.GlobalAveragePooling1D()(y)))


class EdgeConvolutions(tf.Module):
    """Two edge convolutions over the 8 nearest neighbours of each of 64 points (Qu, Gouskos, PRD 101, 2020)."""

    inputs = (tf.TensorSpec([None, 64, 8], tf.float32, name="points"),)

    def __init__(self) -> None:
        super().__init__()
        shapes = (8, 16), (32, 32), (32, 32), (16, 32), (64, 64), (64, 64), (32, 64), (64, 3)
        self.weights = [tf.Variable(tf.zeros(shape), name=f"kernel_{i}") for i, shape in enumerate(shapes)]

    def __call__(self, points: Any, *, training: bool) -> Any:
        first, *blocks, last = self.weights
        values, places = tf.nn.relu(tf.tensordot(points, first, 1)), points[:, :, :2]
        for one, two, straight in (blocks[:3], blocks[3:]):
            near = self._nearest(places, values)
            own = tf.repeat(values[:, :, None], 8, axis=2)
            edges = tf.concat([own, near - own], -1)
            for weights in (one, two):
                edges = tf.nn.relu(tf.tensordot(edges, weights, 1))
            values = places = tf.nn.relu(tf.reduce_mean(edges, 2) + tf.tensordot(values, straight, 1))
        return tf.nn.softmax(tf.tensordot(tf.reduce_mean(values, 1), last, 1))

    @staticmethod
    def _nearest(places: Any, values: Any) -> Any:
        squares = tf.reduce_sum(places * places, -1, keepdims=True)
        distances = squares - 2 * tf.matmul(places, places, transpose_b=True) + tf.transpose(squares, [0, 2, 1])
        return tf.gather(values, tf.math.top_k(-distances, k=8).indices, batch_dims=1)


def deep_sets() -> Any:
    """The sum over 40 items, some of them masked."""
    items, mask = keras.Input((40, 6)), keras.Input((40,))
    y = items
    for _ in range(3):
        y = k.Dense(64, activation="relu")(y)
    y = keras.ops.sum(y * mask[:, :, None], 1)
    for _ in range(2):
        y = k.Dense(64, activation="relu")(y)
    return keras.Model([items, mask], k.Dense(1, activation="sigmoid")(y))


def convolved(x: Any, filters: int, size: int = 3, strides: int = 1, activation: str = "relu") -> Any:
    """A convolution with batch normalization."""
    x = k.BatchNormalization()(k.Conv2D(filters, size, strides, padding="same", use_bias=False)(x))
    return k.Activation(activation)(x)


def residual() -> Any:
    x = keras.Input((32, 32, 3))
    y = convolved(x, 16)
    for filters, strides in ((16, 1), (32, 2), (64, 2)):
        straight = y if strides == 1 else convolved(y, filters, 1, strides, "linear")
        inner = convolved(convolved(y, filters, 3, strides), filters, activation="linear")
        y = k.Activation("relu")(k.Add()([straight, inner]))
    return keras.Model(x, k.Dense(10, activation="softmax")(k.GlobalAveragePooling2D()(y)))


def mobile() -> Any:
    x = keras.Input((32, 32, 3))
    y = convolved(x, 16, 3, 2, "relu6")
    for filters, strides in ((24, 1), (32, 2), (32, 1), (64, 2)):
        y = k.BatchNormalization()(k.DepthwiseConv2D(3, strides, padding="same", use_bias=False)(y))
        y = convolved(k.ReLU(6.0)(y), filters, 1, 1, "relu6")
    return keras.Model(x, k.Dense(10, activation="softmax")(k.GlobalAveragePooling2D()(y)))


def u_net() -> Any:
    x = keras.Input((32, 32, 1))
    fine = convolved(convolved(x, 16), 16)
    middle = convolved(convolved(k.MaxPooling2D()(fine), 32), 32)
    coarse = convolved(k.MaxPooling2D()(middle), 64)
    y = convolved(k.Concatenate()([k.UpSampling2D()(coarse), middle]), 32)
    y = convolved(k.Concatenate()([k.Conv2DTranspose(16, 2, 2)(y), fine]), 16)
    return keras.Model(x, k.Conv2D(1, 1, activation="sigmoid")(y))


NETWORKS: dict[str, tuple[str, Callable[[], Any]]] = {
    "autoencoder": ("tiny autoencoder: 32, 24, 12, 6, 12, 24, 32", autoencoder),
    "wide": ("4 dense layers of 1024 relu", wide),
    "lstm": ("an LSTM of 64 over 60 steps of 16 values", lstm),
    "gru_towers": ("2 towers of a GRU of 32, over 20 and 10 steps", gru_towers),
    "deep_jet": ("4 convolutions of 1, an LSTM of 50 over 25 steps, 3 dense layers", deep_jet),
    "transformer": ("2 blocks of attention with 4 heads over 64 items of 64 values", transformer),
    "edge_conv": ("2 edge convolutions over the 8 nearest of 64 points", EdgeConvolutions),
    "deep_sets": ("a masked sum over 40 items between dense layers of 64", deep_sets),
    "residual": ("3 residual blocks on 32 x 32 x 3 pixels", residual),
    "mobile": ("4 depthwise separable convolutions on 32 x 32 x 3 pixels", mobile),
    "u_net": ("a U-Net of 3 levels on 32 x 32 pixels", u_net),
}


def set_weights(variables: list[Any], seed: int) -> None:
    """Kernels scaled by their fan-in, so that values neither vanish nor grow; no bias is zero."""
    random = np.random.default_rng(seed)
    ranges = {"gamma": (0.5, 1.5), "beta": (-0.2, 0.2), "moving_mean": (-0.2, 0.2), "moving_variance": (0.5, 1.2)}
    for variable in variables:
        name, shape = variable.name.rpartition("/")[2].partition(":")[0], tuple(variable.shape)
        if name in ranges:
            values = random.uniform(*ranges[name], shape)
        elif len(shape) > 1:
            depthwise = len(shape) == 4 and shape[3] == 1
            values = random.normal(0, 1.2 / np.sqrt(np.prod(shape[: 2 if depthwise else -1])), shape)
        else:
            values = random.normal(0, 0.1, shape)
        variable.assign(values.astype(np.float32))


def write(name: str, folder: Path) -> None:
    """The network `name` into `folder`, which is made."""
    description, make = NETWORKS[name]
    model = make()
    set_weights(model.weights, seed=zlib.crc32(name.encode()))
    specs = [
        tf.TensorSpec([None, *tensor.shape[1:]], tf.float32, name=f"x{i}") for i, tensor in enumerate(model.inputs)
    ]

    @tf.function(input_signature=specs)
    def serve(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": model(values[0] if len(values) == 1 else list(values), training=False)}

    module = tf.Module()
    module.model = model
    module.variables_of_model = model.weights  # tf.Module does not look into Keras's layers
    module.serve = serve
    tf.saved_model.save(module, str(folder / "saved_model"), signatures=serve)
    (folder / "spec.yaml").write_text(SPEC.format(name=name, description=f'"{description}"'))


def main() -> None:
    folder, names = Path(sys.argv[2]), sys.argv[3:]
    if unknown := [name for name in names if name not in NETWORKS]:
        sys.exit(f"no such network: {', '.join(unknown)}; known: {', '.join(NETWORKS)}")
    for name in names or NETWORKS:
        write(name, folder / name)
        print(name)


if __name__ == "__main__":
    main()
