"""TensorFlow: a function of the frozen graph per batch size, called from Python as its users call it.

Also with XLA while it runs (`jit_compile=True`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf


class Engine:
    jit = False

    def __init__(self) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)

    def model(self, path: str, inputs: list, outputs: list) -> Model:
        return Model(path, inputs, outputs, jit=self.jit)


class JitEngine(Engine):
    jit = True


class Model:
    def __init__(self, path: str, inputs: list, outputs: list, *, jit: bool) -> None:
        graph_def = tf.compat.v1.GraphDef.FromString(Path(path).read_bytes())
        graph = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph_def, name=""), [])
        feeds = [graph.graph.get_tensor_by_name(f"input_{i}:0") for i in range(len(inputs))]
        fetches = [graph.graph.get_tensor_by_name(f"output_{i}:0") for i in range(len(outputs))]
        pruned = graph.prune(feeds, fetches)  # without the placeholders, which XLA does not know
        specs = [tf.TensorSpec(array.shape, array.dtype) for array in inputs]

        @tf.function(input_signature=specs, jit_compile=jit or None, autograph=False)
        def run(*values: tf.Tensor) -> list:
            return pruned(*values)

        values = [tf.constant(array) for array in inputs]
        function = run.get_concrete_function()

        def call() -> None:
            self._results = function(*values)

        self.call = call

    def results(self) -> list[np.ndarray]:
        return [tensor.numpy() for tensor in self._results]
