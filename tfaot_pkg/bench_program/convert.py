"""Convert a frozen graph for other engines: one file per batch size, all shapes known.

    PYTHON convert.py < REQUEST.json       in a Python that has TensorFlow

The request is `messages.Conversion`. In the files the inputs are input_0, input_1, ... and the outputs output_0, ...,
in the order of the signature, if the form has names.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the sandbox starts this file alone

import messages

_OPSET = 17


def main() -> None:
    request = messages.Conversion.of(json.load(sys.stdin))
    sys.path += request.paths
    import tensorflow as tf

    frozen = read(tf, request.graph) if request.graph else identity(tf)
    for size, file in request.files.items():
        inputs = [
            replace(tensor, shape=tuple(int(size) if axis is None else axis for axis in tensor.shape))
            for tensor in request.inputs
        ]
        graph = at_batch_size(tf, frozen, inputs, request.outputs)
        Path(file).write_bytes(_KINDS[request.kind](tf, graph, inputs, len(request.outputs)))


def read(tf, graph: str):
    return tf.compat.v1.GraphDef.FromString(Path(graph).read_bytes())


def identity(tf):
    """A model that returns its one input `x`, of one number: the time of a run is the cost of a call."""
    graph = tf.Graph()
    with graph.as_default():
        tf.identity(tf.compat.v1.placeholder(tf.float32, [1], name="x"), name="y")
    return graph.as_graph_def()


def at_batch_size(tf, frozen, inputs: list, outputs: tuple):
    """`frozen` between placeholders input_I of known shapes and identities output_I."""
    graph = tf.Graph()
    with graph.as_default():
        feeds = {}
        for i, tensor in enumerate(inputs):
            feeds[f"{tensor.node}:0"] = tf.compat.v1.placeholder(tensor.dtype, tensor.shape, name=f"input_{i}")
        fetches = [f"{tensor.node}:{tensor.index}" for tensor in outputs]
        results = tf.graph_util.import_graph_def(frozen, input_map=feeds, return_elements=fetches, name="model")
        for i, tensor in enumerate(results):
            tf.identity(tensor, name=f"output_{i}")
    return graph.as_graph_def()


def function_of(tf, graph, inputs: list, outputs: int):
    """A concrete function of the graph, its arguments and results in the order of the signature."""
    fetches = [f"output_{i}:0" for i in range(outputs)]
    specs = [tf.TensorSpec(each.shape, each.dtype, name=f"input_{i}") for i, each in enumerate(inputs)]

    @tf.function(input_signature=specs, autograph=False)
    def run(*values):
        feeds = {f"input_{i}:0": value for i, value in enumerate(values)}
        return tf.graph_util.import_graph_def(graph, input_map=feeds, return_elements=fetches, name="")

    return run.get_concrete_function()


def to_graph(tf, graph, inputs: list, outputs: int) -> bytes:
    return graph.SerializeToString(deterministic=True)


def to_tflite(tf, graph, inputs: list, outputs: int) -> bytes:
    return tf.lite.TFLiteConverter.from_concrete_functions([function_of(tf, graph, inputs, outputs)]).convert()


def to_onnx(tf, graph, inputs: list, outputs: int) -> bytes:
    from tf2onnx import convert

    feeds = [f"input_{i}:0" for i in range(len(inputs))]
    fetches = [f"output_{i}:0" for i in range(outputs)]
    model, _ = convert.from_graph_def(graph, input_names=feeds, output_names=fetches, opset=_OPSET)
    return model.SerializeToString(deterministic=True)


_KINDS = {"graph": to_graph, "tflite": to_tflite, "onnx": to_onnx}

if __name__ == "__main__":
    main()
