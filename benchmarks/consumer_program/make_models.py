"""Write the SavedModels of benchmarks/consumer.py, from a fixed seed.

    PYTHON make_models.py FOLDER     in a Python that has TensorFlow

FOLDER/dense: x [N, 4] -> y [N, 2], five times a dense layer of 128 units, tanh and batch normalization, then softmax.
FOLDER/identity: x [N, 4] -> y [N, 4], which computes nothing: what is left is the call.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

INPUTS = 4
UNITS = 128
LAYERS = 5
OUTPUTS = 2
SEED = 20240502

# Of bias, mean, variance, offset and scale: the least and the greatest value.
_NORMALIZATION = ((-0.1, 0.1), (-0.2, 0.2), (0.5, 1.5), (-0.1, 0.1), (0.8, 1.2))
_SIGNATURE = (tf.TensorSpec((None, INPUTS), tf.float32, name="x"),)


class Dense(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self._random = np.random.default_rng(SEED)
        widths = [INPUTS, *[UNITS] * LAYERS]
        self.layers = [
            (self._kernel(before, after), *(self._vector(after, low, high) for low, high in _NORMALIZATION))
            for before, after in itertools.pairwise(widths)
        ]
        self.last = self._kernel(UNITS, OUTPUTS)

    def _kernel(self, before: int, after: int) -> tf.Variable:
        return tf.Variable(self._random.normal(0, np.sqrt(1 / before), (before, after)).astype("float32"))

    def _vector(self, size: int, low: float, high: float) -> tf.Variable:
        return tf.Variable(self._random.uniform(low, high, size).astype("float32"))

    @tf.function(input_signature=_SIGNATURE)
    def __call__(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        for kernel, bias, mean, variance, offset, scale in self.layers:
            x = tf.tanh(tf.matmul(x, kernel) + bias)
            x = tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)
        return {"y": tf.nn.softmax(tf.matmul(x, self.last))}


class Identity(tf.Module):
    @tf.function(input_signature=_SIGNATURE)
    def __call__(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.identity(x)}


def main() -> None:
    folder = Path(sys.argv[1])
    for name, model in (("dense", Dense()), ("identity", Identity())):
        tf.saved_model.save(model, str(folder / name), signatures={"serving_default": model.__call__})


if __name__ == "__main__":
    main()
