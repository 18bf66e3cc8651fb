"""Write the seven networks that benchmarks/engines.py measures, each as a SavedModel with its spec.

    PYTHON networks.py FOLDER [NAME...]     in a Python that has TensorFlow and Keras

FOLDER/NAME/ gets `saved_model` and `spec.yaml`. Weights come from fixed seeds, by NumPy: they are the same with every
release of TensorFlow. As in trained networks no bias is zero, and batch normalization shifts and scales.

Names: dnn_LAYERSxUNITS_ACTIVATION; cnn_iNcCvVlLuUNITS takes N x N pixels of C channels as one row, V convolutions
(each 32 filters of 3 x 3, ELU, the maximum of 2 x 2) and L dense layers of UNITS.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FILTERS = 32
SPEC = """\
model:
  name: {name}
  version: "1.0.0"
  saved_model: saved_model
  description: {description}
compilation:
  batch_sizes: [1, 2, 4, 8, 16, 64, 256]
  targets: [x86-64-v2, x86-64-v3]
"""


def dense(depth: int, units: int, activation: str, *, inputs: int, outputs: int, norm: bool = False) -> keras.Model:
    """`depth` dense layers, each with batch normalization behind it where `norm` says so, and a softmax."""
    parts = [keras.Input((inputs,), name="x")]
    for _ in range(depth):
        parts.append(layers.Dense(units, activation=activation))
        parts += [layers.BatchNormalization()] if norm else []
    return keras.Sequential([*parts, layers.Dense(outputs, activation="softmax", name="y")])


def convolutional(size: int, channels: int, convolutions: int, depth: int, units: int = 128) -> keras.Model:
    parts = [keras.Input((size * size * channels,), name="x"), layers.Reshape((size, size, channels))]
    for _ in range(convolutions):
        parts += [layers.Conv2D(FILTERS, 3, activation="elu"), layers.MaxPooling2D(2)]
    parts.append(layers.Flatten())
    parts += [layers.Dense(units, activation="elu") for _ in range(depth)]
    return keras.Sequential([*parts, layers.Dense(8, activation="softmax", name="y")])


NETWORKS: dict[str, tuple[str, Callable[[], keras.Model]]] = {
    "dnn_5x128_tanh": (
        "5 dense layers of 128 tanh with batch normalization",
        lambda: dense(5, 128, "tanh", inputs=4, outputs=2, norm=True),
    ),
    **{
        f"dnn_{depth}x{units}_elu": (
            f"{depth} dense layers of {units} elu",
            lambda depth=depth, units=units: dense(depth, units, "elu", inputs=64, outputs=8),
        )
        for depth, units in ((10, 128), (10, 256), (20, 256))
    },
    **{
        f"cnn_i{n}c{c}v{v}l{depth}u128": (
            f"{n} x {n} pixels of {c} channels, {v} convolutions, {depth} dense layers of 128 elu",
            lambda n=n, c=c, v=v, depth=depth: convolutional(n, c, v, depth),
        )
        for n, c, v, depth in ((32, 1, 1, 10), (32, 1, 3, 10), (64, 3, 4, 20))
    },
}


def set_weights(model: keras.Model, seed: int) -> None:
    """Kernels by the rule of He et al. (2015) for their fan-in, so that values neither vanish nor grow with depth."""
    random = np.random.default_rng(seed)
    for layer in model.layers:
        shapes = {variable.name: tuple(variable.shape) for variable in layer.weights}
        draws = {
            "kernel": lambda shape: random.normal(0, np.sqrt(1.5 / np.prod(shape[:-1])), shape),
            "bias": lambda shape: random.normal(0, 0.1, shape),
            "gamma": lambda shape: random.uniform(0.5, 1.5, shape),
            "beta": lambda shape: random.normal(0, 0.2, shape),
            "moving_mean": lambda shape: random.normal(0, 0.3, shape),
            "moving_variance": lambda shape: random.uniform(0.3, 1.2, shape),
        }
        layer.set_weights([draws[name](shape).astype(np.float32) for name, shape in shapes.items()])


def write(name: str, folder: Path) -> None:
    """The network `name` into `folder`, which is made."""
    description, make = NETWORKS[name]
    model = make()
    set_weights(model, seed=zlib.crc32(name.encode()))
    width = model.inputs[0].shape[1]

    @tf.function(input_signature=[tf.TensorSpec([None, width], tf.float32, name="x")])
    def serve(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": model(x, training=False)}

    module = tf.Module()
    module.model = model
    module.variables_of_model = model.variables  # tf.Module does not look into Keras's layers
    module.serve = serve
    tf.saved_model.save(module, str(folder / "saved_model"), signatures=serve)
    (folder / "spec.yaml").write_text(SPEC.format(name=name, description=description))


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    if unknown := [name for name in names if name not in NETWORKS]:
        sys.exit(f"no such network: {', '.join(unknown)}; known: {', '.join(NETWORKS)}")
    for name in names or NETWORKS:
        write(name, folder / name)
        print(name)


if __name__ == "__main__":
    main()
