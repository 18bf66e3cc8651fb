"""Write ONNX files whose axes, inputs and values a first spec must settle.

FRONTEND/bin/python open_files.py FOLDER
"""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_RANDOM = np.random.default_rng(1)
_FLOAT, _INT, _BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def _model(name, nodes, inputs, outputs, constants=(), opset=17):
    """`inputs` and `outputs` are (name, type, shape); `constants` arrays by name."""
    border = [[helper.make_tensor_value_info(*each) for each in given] for given in (inputs, outputs)]
    tensors = [numpy_helper.from_array(values, each) for each, values in dict(constants).items()]
    graph = helper.make_graph(nodes, name, *border, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _weights(*shape):
    return _RANDOM.normal(size=shape).astype(np.float32)


def minus_one():
    """Open axes as -1, as paddle2onnx writes them."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    inputs, outputs = [("x", _FLOAT, [-1, None, 8])], [("y", _FLOAT, [-1, None, 4])]
    return _model("minus_one", nodes, inputs, outputs, {"w": _weights(8, 4)})


def neighbours():
    """The 17 nearest of n points: fewer than 17 have none."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "t"], ["d"]),
        helper.make_node("TopK", ["d", "k"], ["y", "i"]),
    ]
    inputs, outputs = [("x", _FLOAT, ["batch", "n", 3])], [("y", _FLOAT, ["batch", "n", 17])]
    return _model("neighbours", nodes, inputs, outputs, {"k": np.array([17], np.int64)})


def image():
    """A network of convolutions that leaves height and width open."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    inputs, outputs = [("x", _FLOAT, ["N", 3, "H", "W"])], [("y", _FLOAT, ["N", 8])]
    return _model("image", nodes, inputs, outputs, {"w": _weights(8, 3, 3, 3)})


def patches():
    """Height and width must be multiples of 4."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[4, 4]),
        helper.make_node("ConvTranspose", ["c", "v"], ["u"], strides=[4, 4]),
        helper.make_node("Add", ["x", "u"], ["y"]),
    ]
    inputs, outputs = [("x", _FLOAT, ["N", 3, "H", "W"])], [("y", _FLOAT, ["N", 3, "H", "W"])]
    return _model("patches", nodes, inputs, outputs, {"w": _weights(5, 3, 4, 4), "v": _weights(5, 3, 4, 4)})


def windowed():
    """Windows of five times, without padding: the output is shorter."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
    inputs, outputs = [("x", _FLOAT, ["N", 3, "time"])], [("y", _FLOAT, ["N", 4, "steps"])]
    return _model("windowed", nodes, inputs, outputs, {"w": _weights(4, 3, 5)})


def music():
    """Frames of music: windows run over the first axis, which is no batch."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Unsqueeze", ["t", "first"], ["signal"]),
        helper.make_node("Conv", ["signal", "w"], ["c"]),
        helper.make_node("Squeeze", ["c", "first"], ["s"]),
        helper.make_node("Transpose", ["s"], ["y"], perm=[1, 0]),
    ]
    inputs, outputs = [("x", _FLOAT, ["frames", 8])], [("y", _FLOAT, ["steps", 4])]
    return _model("music", nodes, inputs, outputs, {"w": _weights(4, 8, 5), "first": np.array([0], np.int64)})


def times_first():
    """A result with times before rows."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Transpose", ["p"], ["y"], perm=[1, 0, 2]),
    ]
    inputs, outputs = [("x", _FLOAT, ["N", "time", 6])], [("y", _FLOAT, ["time", "N", 4])]
    return _model("times_first", nodes, inputs, outputs, {"w": _weights(6, 4)})


def switched():
    """A scalar that chooses a branch, whose results have different shapes."""
    then, other = (
        helper.make_graph([node], name, [], [helper.make_tensor_value_info(f"{name}_y", _FLOAT, None)])
        for name, node in (
            ("then", helper.make_node("Identity", ["x"], ["then_y"])),
            ("else", helper.make_node("Concat", ["x", "x"], ["else_y"], axis=1)),
        )
    )
    nodes = [helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other)]
    inputs = [("x", _FLOAT, ["N", 3]), ("flag", _BOOL, [])]
    return _model("switched", nodes, inputs, [("y", _FLOAT, ["N", None])])


def unbatched():
    """No axis is a batch."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return _model("unbatched", nodes, [("x", _FLOAT, [5, 8])], [("y", _FLOAT, [5, 4])], {"w": _weights(8, 4)})


def graph_network():
    """Messages along the edges, of v nodes and e edges."""
    nodes = [
        helper.make_node("Gather", ["edges", "zero"], ["source"], axis=0),
        helper.make_node("Gather", ["edges", "one"], ["target"], axis=0),
        helper.make_node("Gather", ["nodes", "source"], ["messages"], axis=0),
        helper.make_node("Unsqueeze", ["target", "last"], ["column"]),
        helper.make_node("Expand", ["column", "four"], ["places"]),
        helper.make_node("ScatterElements", ["nodes", "places", "messages"], ["sums"], axis=0, reduction="add"),
        helper.make_node("MatMul", ["sums", "w"], ["output"]),
    ]
    constants = {
        "zero": np.array(0), "one": np.array(1), "last": np.array([1]), "four": np.array([1, 4]), "w": _weights(4, 4),
    }  # fmt: skip
    inputs = [("nodes", _FLOAT, ["v", 4]), ("edges", _INT, [2, "e"])]
    return _model("graph_network", nodes, inputs, [("output", _FLOAT, ["v", 4])], constants)


def edge_list():
    """Messages along edges that are rows, with features of their own: no axis has a name."""
    nodes = [
        helper.make_node("Gather", ["edges", "zero"], ["source"], axis=1),
        helper.make_node("Slice", ["edges", "first", "second", "first"], ["target"]),
        helper.make_node("Gather", ["nodes", "source"], ["values"], axis=0),
        helper.make_node("Mul", ["values", "features"], ["messages"]),
        helper.make_node("ScatterND", ["nodes", "target", "messages"], ["sums"], reduction="add"),
        helper.make_node("MatMul", ["sums", "w"], ["output"]),
    ]
    constants = {"zero": np.array(0), "first": np.array([1]), "second": np.array([2]), "w": _weights(4, 4)}
    inputs = [("nodes", _FLOAT, [None, 4]), ("edges", _INT, [None, 2]), ("features", _FLOAT, [None, 4])]
    return _model("edge_list", nodes, inputs, [("output", _FLOAT, [None, 4])], constants)


def ends():
    """Values from one place to another, which calls give: the shape depends on them."""
    nodes = [helper.make_node("Slice", ["x", "first", "last"], ["y"])]
    inputs = [("x", _FLOAT, ["N", 8]), ("first", _INT, [1]), ("last", _INT, [1])]
    return _model("ends", nodes, inputs, [("y", _FLOAT, [None, 8])])


def main(folder):
    for make in (
        minus_one, neighbours, image, patches, windowed, music, times_first, switched, unbatched, graph_network, edge_list,
        ends,
    ):  # fmt: skip
        model = make()
        onnx.save(model, os.path.join(folder, f"{make.__name__}.onnx"))


main(sys.argv[1])
