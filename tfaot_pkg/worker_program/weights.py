"""Weights in one blob: large constants of a graph, and the parameters of what the kernel library can compute."""

import hashlib
import os

import graph_view
import layers
import specialize
from messages.graph import FoundLayer, Freeze, Weight

_ALIGNMENT = 64  # bytes: a vector of AVX-512, the widest of any target
_SHARED_DTYPES = frozenset("float32 float64 int8 uint8 int16 uint16 bool".split())
"""int32 and int64 stay constants: XLA may need their values (shapes, axes) while it compiles. float16 cannot be fed."""


def share(graph_def, used: set, inputs, outputs, request: Freeze) -> tuple:
    """(weights, layers): large constants become placeholders, and their values go to weights.bin.

    Behind them go the parameters of the layers that the kernel library can compute, in its order: what is needed of
    both is decided later. Equal parameters are one, as those of a cell that an unrolled loop repeats.
    """
    # Before constants become placeholders: finding layers needs their values.
    try:
        view = graph_view.GraphView(graph_def, inputs, outputs, specialize.PROBES)
        found = layers.find(view)
    except ValueError:  # the model does not fit these batch sizes: shapes cannot be told
        found = []
    with open(os.path.join(request.out, "weights.bin"), "wb") as file:
        blob = _Blob(file)
        weights = _extract_weights(graph_def, used, blob, request.threshold)
        described = _described(found, view, inputs, blob)
    return weights, described


class _Blob:
    """Arrays one after the other in a file, each aligned to 64 bytes."""

    def __init__(self, file) -> None:
        self._file = file

    def append(self, node: str, values) -> Weight:
        offset = -(-self._file.tell() // _ALIGNMENT) * _ALIGNMENT
        self._file.write(bytes(offset - self._file.tell()))
        self._file.write(values.tobytes())
        return Weight(node=node, dtype=values.dtype.name, shape=tuple(values.shape), offset=offset)


def _described(found: list, view, inputs, blob: _Blob) -> list:
    written: dict = {}
    described = []
    for layer in found:
        parameters = None
        if layer.parameters is not None:
            digest = hashlib.sha256(layer.parameters.tobytes()).digest()
            if digest not in written:
                written[digest] = blob.append(f"{layer.name}/{layers.PARAMETERS}", layer.parameters)
            parameters = written[digest]
        _, shape = view.row_shape(layer.gives)
        described.append(
            FoundLayer(
                name=layer.name,
                operation=layer.operation,
                reads=tuple(layer.reads),
                after=layer.after.name if layer.after else "",
                adds=layer.adds.name if layer.adds else "",
                reads_input=[layer.reads] == [(tensor.node, 0) for tensor in inputs],
                gives_output=[view.reshaped(layer.gives)] == view.outputs,
                input_size=view.row_size(layer.reads),
                output_size=view.row_size(layer.gives),
                output_shape=tuple(shape),
                parameters=parameters,
            )
        )
    return described


def _extract_weights(graph_def, used: set, blob: _Blob, threshold: int) -> list:
    """Turn constants of `threshold` bytes and more into placeholders, and append their values to `blob`."""
    from tensorflow.python.framework import dtypes, tensor_shape, tensor_util

    weights = []
    # By name: the blob must not depend on the order in which TensorFlow lists the nodes.
    for node in sorted(graph_def.node, key=lambda node: node.name):
        if (
            node.op != "Const"
            or node.name not in used
            or dtypes.as_dtype(node.attr["dtype"].type).name not in _SHARED_DTYPES
        ):
            continue
        values = tensor_util.MakeNdarray(node.attr["value"].tensor)
        if values.nbytes < threshold:
            continue
        weights.append(blob.append(node.name, values))
        node.op = "Placeholder"
        del node.attr["value"]
        node.attr["shape"].shape.CopyFrom(tensor_shape.TensorShape(values.shape).as_proto())
    return weights
