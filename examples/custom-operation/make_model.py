"""Writes cone.onnx: a classifier of jets whose first operation is not one of ONNX, but the author's own.

pip install onnx numpy && python make_model.py
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

generator = np.random.default_rng(7)
hidden = generator.normal(size=(12, 16)).astype(np.float32)
last = generator.normal(size=(16, 3)).astype(np.float32)
nodes = [
    helper.make_node("ConeWeights", ["tracks", "axis"], ["weights"], domain="org.example.jets", cone=0.4),
    helper.make_node("MatMul", ["weights", "hidden"], ["sums"]),
    helper.make_node("Relu", ["sums"], ["active"]),
    helper.make_node("MatMul", ["active", "last"], ["scores"]),
    helper.make_node("Softmax", ["scores"], ["p"], axis=-1),
]
graph = helper.make_graph(
    nodes,
    "cone",
    [
        helper.make_tensor_value_info("tracks", TensorProto.FLOAT, ["batch", 12, 3]),
        helper.make_tensor_value_info("axis", TensorProto.FLOAT, ["batch", 2]),
    ],
    [helper.make_tensor_value_info("p", TensorProto.FLOAT, ["batch", 3])],
    [numpy_helper.from_array(hidden, "hidden"), numpy_helper.from_array(last, "last")],
)
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("org.example.jets", 1)]
onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="example"), "cone.onnx")
