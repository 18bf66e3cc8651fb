"""Weights in one blob: the large constants of a graph."""

import math
import os

from messages.graph import Freeze, Weight
from tensorflow.python.framework import dtypes, tensor_shape, tensor_util

_ALIGNMENT = 64  # bytes: a vector of AVX-512, the widest of any target
_SHARED_DTYPES = frozenset("float32 float64 int8 uint8 int16 uint16 bool".split())
"""int32 and int64 stay constants: XLA may need their values (shapes, axes) while it compiles. float16 cannot be fed."""


def share(graph_def, used: set, request: Freeze) -> list:
    """Make placeholders of large constants, and write their values to weights.bin."""
    with open(os.path.join(request.out, "weights.bin"), "wb") as file:
        return _extract_weights(graph_def, used, _Blob(file), request.threshold)


class _Blob:
    """Arrays one after the other in a file, each aligned to 64 bytes."""

    def __init__(self, file) -> None:
        self._file = file

    def append(self, node: str, values) -> Weight:
        offset = -(-self._file.tell() // _ALIGNMENT) * _ALIGNMENT
        self._file.write(bytes(offset - self._file.tell()))
        self._file.write(values.tobytes())
        return Weight(node=node, dtype=values.dtype.name, shape=tuple(values.shape), offset=offset)


def values_of(blob: str, weight: Weight):
    """The values of a weight in the file `blob`, as an array."""
    import numpy as np

    dtype = dtypes.as_dtype(weight.dtype).as_numpy_dtype
    return np.fromfile(blob, dtype, math.prod(weight.shape), offset=weight.offset).reshape(weight.shape)


def _extract_weights(graph_def, used: set, blob: _Blob, threshold: int) -> list:
    """Turn constants of `threshold` bytes and more into placeholders, and append their values to `blob`."""
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
        # A small constant in code costs less than the address and the load of a shared one (decision 003).
        if values.nbytes < threshold:
            continue
        weights.append(blob.append(node.name, values))
        node.op = "Placeholder"
        del node.attr["value"]
        node.attr["shape"].shape.CopyFrom(tensor_shape.TensorShape(values.shape).as_proto())
    return weights
