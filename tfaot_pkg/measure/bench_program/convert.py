"""Convert a model for other engines: one file per batch size, all shapes known.

    PYTHON convert.py < REQUEST.json       in a Python that has TensorFlow

The request is `messages.Conversion`. In the files the inputs are input_0, input_1, ... and the outputs output_0, ...,
in the order of the signature, if the form has names.

LiteRT's converter takes the model as it was saved: it knows an LSTM only by the functions that Keras 2 saves with it,
which a frozen graph no longer has. tf2onnx finds Keras 2's recurrent layers in a frozen graph as well.
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

    for size, file in request.files.items():
        inputs = [
            replace(tensor, shape=tuple(int(size) if axis is None else axis for axis in tensor.shape))
            for tensor in request.inputs
        ]
        Path(file).write_bytes(_KINDS[request.kind](tf, request, inputs))


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


def graph_of(tf, request: messages.Conversion, inputs: list):
    frozen = read(tf, request.graph) if request.graph else identity(tf)
    return at_batch_size(tf, frozen, inputs, request.outputs)


def specs_of(tf, inputs: list) -> list:
    return [tf.TensorSpec(each.shape, each.dtype, name=f"input_{i}") for i, each in enumerate(inputs)]


def saved_function(tf, request: messages.Conversion, inputs: list) -> tuple:
    """A concrete function of the signature, its arguments and results in their order; and what keeps it alive."""
    model = tf.saved_model.load(request.saved.folder, list(request.saved.tags))
    signature = model.signatures[request.saved.signature]
    # TensorFlow's loader knows the names that the model was exported with.
    feeds, fetches = (request.saved.names.get(kind, {}) for kind in ("inputs", "outputs"))

    @tf.function(input_signature=specs_of(tf, inputs), autograph=False)
    def run(*values):
        results = signature(
            **{feeds.get(tensor.name, tensor.name): value for tensor, value in zip(inputs, values, strict=True)}
        )
        return [results[fetches.get(tensor.name, tensor.name)] for tensor in request.outputs]

    return run.get_concrete_function(), model


def identity_function(tf, request: messages.Conversion, inputs: list) -> tuple:
    run = tf.function(lambda x: [tf.identity(x)], input_signature=specs_of(tf, inputs), autograph=False)
    return run.get_concrete_function(), tf.Module()


def to_graph(tf, request: messages.Conversion, inputs: list) -> bytes:
    return graph_of(tf, request, inputs).SerializeToString(deterministic=True)


def to_tflite(tf, request: messages.Conversion, inputs: list) -> bytes:
    function, model = (saved_function if request.saved else identity_function)(tf, request, inputs)
    return tf.lite.TFLiteConverter.from_concrete_functions([function], model).convert()


def to_onnx(tf, request: messages.Conversion, inputs: list) -> bytes:
    from tf2onnx import convert

    feeds = [f"input_{i}:0" for i in range(len(inputs))]
    fetches = [f"output_{i}:0" for i in range(len(request.outputs))]
    graph = graph_of(tf, request, inputs)
    model, _ = convert.from_graph_def(graph, input_names=feeds, output_names=fetches, opset=_OPSET)
    return model.SerializeToString(deterministic=True)


_KINDS = {"graph": to_graph, "tflite": to_tflite, "onnx": to_onnx}

if __name__ == "__main__":
    main()
