"""Weights in one file: the large constants of a graph, each of them once.

The host reads the same arrays as constants of the program (hlo.py), and XLA as weights that its code shares.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, BinaryIO

from messages.graph import Weight
from tensorflow.python.framework import dtypes, tensor_shape, tensor_util

if TYPE_CHECKING:
    from framework_types import Array, GraphDef, NodeDef, TensorProto


_SHARED_DTYPES = frozenset("float32 float64 int8 uint8 int16 uint16 bool".split())
"""int32 and int64 stay constants: XLA may need their values (shapes, axes) while it compiles. float16 cannot be fed."""


class Blob:
    """Arrays as .npy, one after the other in a file, by the name of the constant."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._held: dict[str, Weight] = {}

    def append(self, node: str, values: Array) -> None:
        import numpy as np

        np.save(self._file, np.asarray(values, order="C"), allow_pickle=False)
        # The elements stand behind the header, the place of which depends on its length.
        offset = self._file.tell() - values.nbytes
        self._held[node] = Weight(node=node, dtype=values.dtype.name, shape=tuple(values.shape), offset=offset)

    def weight(self, node: NodeDef) -> Weight:
        """The place of a constant of the graph, which is appended if it is not there."""
        if node.name not in self._held:
            self.append(node.name, tensor_util.MakeNdarray(node.attr["value"].tensor))
        return self._held[node.name]


def values_of(blob: str, weight: Weight) -> Array:
    """The values of a weight in the file `blob`, as an array."""
    import numpy as np

    dtype = dtypes.as_dtype(weight.dtype).as_numpy_dtype
    return np.fromfile(blob, dtype, math.prod(weight.shape), offset=weight.offset).reshape(weight.shape)


def share(graph_def: GraphDef, used: set[str], blob: Blob, threshold: int) -> list[Weight]:
    """Turn constants of `threshold` bytes and more into placeholders, and put their values into `blob`."""
    weights = []
    # By name: the result must not depend on the order in which TensorFlow lists the nodes.
    for node in sorted(graph_def.node, key=lambda node: node.name):
        # A small constant in code costs less than the address and the load of a shared one (decision 003).
        if node.op != "Const" or node.name not in used or not _is_large(node.attr["value"].tensor, threshold):
            continue
        weights.append(blob.weight(node))
        node.op = "Placeholder"
        del node.attr["value"]
        node.attr["shape"].shape.CopyFrom(tensor_shape.TensorShape(weights[-1].shape).as_proto())
    return weights


def _is_large(tensor: TensorProto, threshold: int) -> bool:
    dtype = dtypes.as_dtype(tensor.dtype)
    elements = math.prod(dimension.size for dimension in tensor.tensor_shape.dim)
    return dtype.name in _SHARED_DTYPES and elements * dtype.size >= threshold
