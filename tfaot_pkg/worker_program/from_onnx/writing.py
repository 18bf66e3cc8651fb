"""Write a checked ONNX graph as JSON and arrays (graphs.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from from_onnx.exported import scopes
from messages.elements import write_arrays
from messages.requests import ModelFault, one_line

if TYPE_CHECKING:
    from framework_types import Array
    from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto


class Writer:
    """Writes graphs, and collects their tensors."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self.dtypes: dict[str, str] = {}

    def graph(self, graph: GraphProto) -> dict[str, Any]:
        initializers = {tensor.name: self._tensor(tensor) for tensor in graph.initializer}
        initializers.update({tensor.values.name: self._sparse(tensor) for tensor in graph.sparse_initializer})
        values = (*graph.input, *graph.value_info, *graph.output)
        return {
            "inputs": [value.name for value in graph.input if value.name not in initializers],
            "outputs": [value.name for value in graph.output],
            "tensors": initializers,
            "shapes": {value.name: sizes for value in values if (sizes := _sizes(value)) is not None},
            "nodes": [
                self._node(node, number, scope)
                for number, (node, scope) in enumerate(zip(graph.node, scopes(graph), strict=True))
            ],
        }

    def save(self, path: str) -> None:
        write_arrays(path, self._arrays)

    def _node(self, node: NodeProto, number: int, scope: str) -> dict[str, Any]:
        import onnx

        return {
            "op": node.op_type,
            "domain": node.domain or "ai.onnx",
            "name": (name := node.name or f"{node.op_type}_{number}"),
            "scope": scope or name,
            "inputs": list(node.input),
            "outputs": list(node.output),
            "attributes": {
                each.name: self._attribute(node, each)
                for each in node.attribute
                if each.type not in (onnx.AttributeProto.TYPE_PROTO, onnx.AttributeProto.TYPE_PROTOS)
            },
        }

    def _attribute(self, node: NodeProto, attribute: AttributeProto) -> Any:
        from onnx import AttributeProto, helper

        if attribute.type == AttributeProto.TENSOR:
            return {"tensor": self._tensor(attribute.t)}
        if attribute.type == AttributeProto.SPARSE_TENSOR:
            return {"tensor": self._sparse(attribute.sparse_tensor)}
        if attribute.type == AttributeProto.GRAPH:
            return {"graph": self.graph(attribute.g)}
        value = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, int | float):
            return value
        values = list(value)
        if values and isinstance(values[0], bytes):
            return [each.decode("utf-8", "replace") for each in values]
        if all(isinstance(each, int | float) for each in values):
            return values
        raise ModelFault(
            f"{node.op_type} (node {node.name!r}): its attribute {attribute.name!r} has a type that is not supported"
        )

    def _tensor(self, tensor: TensorProto) -> str:
        """The name of the array of the values of `tensor`."""
        from onnx import TensorProto, numpy_helper

        if tensor.data_type == TensorProto.STRING:
            values = np.array([each.decode("utf-8", "replace") for each in tensor.string_data], dtype=np.str_)
            return self._kept(values.reshape(tuple(tensor.dims)), "")
        try:
            values = numpy_helper.to_array(tensor)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFault(
                f"the values of the tensor {tensor.name!r} cannot be read: {one_line(error)}", "export the model again"
            ) from error
        # NumPy's files store of a type of ml_dtypes only its size.
        other = values.dtype.name if values.dtype.kind == "V" or values.dtype.name not in np.sctypeDict else ""
        return self._kept(values.view(f"u{values.dtype.itemsize}") if other else values, other)

    def _sparse(self, tensor: SparseTensorProto) -> str:
        from onnx import numpy_helper

        values, places = numpy_helper.to_array(tensor.values), numpy_helper.to_array(tensor.indices)
        # TensorFlow's operations of this table take dense arrays.
        dense = np.zeros(tuple(tensor.dims), values.dtype)
        if places.ndim == 1:
            dense.reshape(-1)[places] = values
        else:
            dense[tuple(places.T)] = values
        return self._kept(dense, "")

    def _kept(self, values: Array, dtype: str) -> str:
        name = f"t{len(self._arrays)}"
        self._arrays[name] = values
        if dtype:
            self.dtypes[name] = dtype
        return name


def _sizes(value: ValueInfoProto) -> list[int | None] | None:
    """The sizes of a value, None for unknown ones; None if the rank is not known."""
    if value.type.WhichOneof("value") != "tensor_type" or not value.type.tensor_type.HasField("shape"):
        return None
    return [
        axis.dim_value if axis.HasField("dim_value") and axis.dim_value >= 0 else None
        for axis in value.type.tensor_type.shape.dim
    ]
