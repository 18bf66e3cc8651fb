"""Write ONNX files to a folder: networks with everything that exporters write.

FRONTEND/bin/python onnx_files.py FOLDER
"""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_RANDOM = np.random.default_rng(1)
MAKERS = {}


def network(function):
    MAKERS[function.__name__] = function
    return function


class Graph:
    """A graph that grows node by node; methods give names of values."""

    def __init__(self, *inputs, opset=17):
        self.inputs = [helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in inputs]
        self.opset, self.nodes, self.tensors = opset, [], []

    def weight(self, *shape, scale=None):
        scale = shape[-1] ** -0.5 if scale is None else scale
        return self.constant(_RANDOM.normal(size=shape, scale=scale).astype(np.float32))

    def constant(self, values):
        name = f"const/{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, op, *inputs, outputs=1, domain="", **attributes):
        names = [f"{op}/{len(self.nodes)}:{place}" for place in range(outputs)]
        node = helper.make_node(op, list(inputs), names, name=f"{op}_{len(self.nodes)}", domain=domain, **attributes)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def model(self, *, producer="by hand", as_inputs=False, **outputs):
        """`outputs` are (value, type, shape) by name."""
        made = []
        for name, (value, dtype, shape) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [name]))
            made.append(helper.make_tensor_value_info(name, dtype, shape))
        inputs = list(self.inputs)
        if as_inputs:
            inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in self.tensors]
        graph = helper.make_graph(self.nodes, "graph", inputs, made, self.tensors)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], producer_name=producer, producer_version="1.0",
            ir_version=3 if as_inputs else 8,
        )  # fmt: skip


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@network
def dense():
    graph = Graph(("x.1", FLOAT, ["N", 16]), opset=13)
    hidden = graph.add("Relu", graph.add("Gemm", "x.1", graph.weight(16, 64), graph.weight(64)))
    logits = graph.add("Gemm", hidden, graph.weight(5, 64), graph.weight(5), transB=1)
    return graph.model(score=(graph.add("Softmax", logits, axis=-1), FLOAT, ["N", 5]))


@network
def dense_of_keras2onnx():
    """Opset 9, weights that are listed as inputs, a product and a sum for each layer."""
    graph = Graph(("dense_1_input", FLOAT, ["N", 8]), opset=9)
    value = "dense_1_input"
    for rows, columns in ((8, 32), (32, 32), (32, 4)):
        value = graph.add("Add", graph.add("MatMul", value, graph.weight(rows, columns)), graph.weight(columns))
        value = graph.add("Elu", value, alpha=1.0) if columns > 4 else graph.add("Softmax", value)
    return graph.model(as_inputs=True, producer="keras2onnx", out=(value, FLOAT, ["N", 4]))


@network
def shapes_of_pytorch():
    """What `x.view(x.size(0), -1)` becomes, and sums over all but the batch."""
    graph = Graph(("input", FLOAT, ["batch", 6, 4]), opset=12)
    size = graph.add("Gather", graph.add("Shape", "input"), graph.constant(np.int64(0)), axis=0)
    rows = graph.add("Unsqueeze", size, axes=[0])
    shape = graph.add("Concat", rows, graph.constant(np.int64([-1])), axis=0)
    flat = graph.add("Reshape", "input", shape)
    mean = graph.add("ReduceMean", "input", axes=[1], keepdims=0)
    both = graph.add("Concat", flat, mean, axis=-1)
    return graph.model(producer="pytorch", y=(graph.add("Tanh", both), FLOAT, ["batch", 28]))


def main():
    (folder,) = sys.argv[1:]
    for name, make in MAKERS.items():
        model = make()
        onnx.checker.check_model(model)
        onnx.save(model, os.path.join(folder, f"{name}.onnx"))


if __name__ == "__main__":
    main()
