"""Write a signature as a graph or as functions of MLIR's TensorFlow dialect, its variables as constants."""

import json
import re

import signatures
from messages.convert import Convert
from messages.requests import ModelFault, Nothing, one_line

_ENTRY = re.compile(r"tf\.entry_function = \{[^{}]*\}")
_PIPELINE = "tf-standard-pipeline,inline,symbol-dce"
"""Graphs with control edges become functions of plain operations, calls what they call; constants are folded."""


def convert(request: Convert, report) -> Nothing:
    """Inputs and outputs have the names of the signature; ModelFault if TensorFlow cannot write it so."""
    import tensorflow as tf
    from tensorflow.python.framework import convert_to_constants

    signature = signatures.load_signature(request.folder, request.tags, request.signature)
    specs = [
        tf.TensorSpec(tensor.shape, tensor.dtype, name=name)
        for name, tensor in zip(signature.inputs, signature.function.inputs, strict=False)
    ]

    @tf.function(input_signature=specs, autograph=False)
    def serve(*values):
        results = signature(**dict(zip(signature.inputs, values, strict=True)))
        return [tf.identity(results[name], name=name) for name in signature.outputs]

    try:
        frozen = convert_to_constants.convert_variables_to_constants_v2(
            serve.get_concrete_function(), lower_control_flow=False
        )
        content = _mlir(frozen, signature) if request.form == "mlir" else _graph(frozen)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise ModelFault(f"TensorFlow cannot write the model as {request.form}: {one_line(error)}") from error
    with open(request.out, "wb") as file:
        file.write(content)
    return Nothing()


def _graph(frozen) -> bytes:
    return frozen.graph.as_graph_def().SerializeToString(deterministic=True)


def _mlir(frozen, signature) -> bytes:
    import tensorflow as tf

    text = tf.mlir.experimental.convert_function(frozen, pass_pipeline=_PIPELINE)
    # TensorFlow's importer reads names of inputs and outputs from this attribute.
    names = {"inputs": ",".join(signature.inputs), "outputs": ",".join(signature.outputs)}
    entry = ", ".join(f"{key} = {json.dumps(value)}" for key, value in names.items())
    # The first function is the model; TensorFlow names its outputs after nodes.
    return _ENTRY.sub(lambda _: f"tf.entry_function = {{{entry}}}", text, count=1).encode()
