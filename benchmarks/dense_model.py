"""Write SavedModels of a dense network: five layers of 128 units on 128 inputs (330 KB of weights), from a fixed seed.

    PYTHON dense_model.py FOLDER [BATCH_SIZE...]     in a Python that has TensorFlow

FOLDER/any takes any batch size; FOLDER/bN, for each BATCH_SIZE N, takes exactly N rows, because
`saved_model_cli aot_compile_cpu` cannot choose one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

UNITS = 128
LAYERS = 5
SEED = 20240501


class Dense(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        random = np.random.default_rng(SEED)
        scale = np.sqrt(2 / UNITS)
        self.layers = [
            (
                tf.Variable(random.normal(0, scale, (UNITS, UNITS)).astype("float32")),
                tf.Variable(np.zeros(UNITS, "float32")),
            )
            for _ in range(LAYERS)
        ]

    @tf.function
    def __call__(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        for kernel, bias in self.layers:
            x = tf.nn.relu(tf.matmul(x, kernel) + bias)
        return {"y": x}


def main() -> None:
    folder, sizes = Path(sys.argv[1]), [int(word) for word in sys.argv[2:]]
    for name, size in [("any", None), *((f"b{size}", size) for size in sizes)]:
        model = Dense()  # anew: a trace for any size would be taken for all sizes
        signature = model.__call__.get_concrete_function(tf.TensorSpec((size, UNITS), tf.float32, name="x"))
        tf.saved_model.save(model, str(folder / name), signatures={"serving_default": signature})


if __name__ == "__main__":
    main()
