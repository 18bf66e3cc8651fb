"""Write an ONNX file whose answers ONNX Runtime leaves open.

FRONTEND/bin/python open_results.py FILE NAME
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_RANDOM = np.random.default_rng(1)
_VOCABULARY, _WIDTH = 64, 64


def constant(name, values, dtype="float32"):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def tensor(name, dtype, *shape):
    return helper.make_tensor_value_info(name, dtype, ["N", *shape])


def tokens():
    """Layer normalization by E[x^2] - E[x]^2 of embeddings with a large mean: float32 loses four digits."""
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "ids"], ["gathered"]), node("MatMul", ["gathered", "mixing"], ["e"]),
        node("ReduceMean", ["e"], ["mean"], axes=[2]), node("Mul", ["e", "e"], ["squares"]),
        node("ReduceMean", ["squares"], ["of_squares"], axes=[2]), node("Mul", ["mean", "mean"], ["of_mean"]),
        node("Sub", ["of_squares", "of_mean"], ["variance"]), node("Max", ["variance", "zero"], ["positive"]),
        node("Add", ["positive", "epsilon"], ["more"]), node("Sqrt", ["more"], ["deviation"]),
        node("Sub", ["e", "mean"], ["centred"]), node("Div", ["centred", "deviation"], ["normal"]),
        node("MatMul", ["normal", "last"], ["scores"]), node("ReduceMean", ["scores"], ["y"], axes=[1], keepdims=0),
    ]  # fmt: skip
    mixing = np.ones((_WIDTH, _WIDTH)) / _WIDTH + 0.02 * _RANDOM.standard_normal((_WIDTH, _WIDTH)) / _WIDTH**0.5
    constants = [
        constant("table", 3 + 0.05 * _RANDOM.standard_normal((_VOCABULARY, _WIDTH))), constant("mixing", mixing),
        constant("last", _RANDOM.standard_normal((_WIDTH, 3)) / 8), constant("zero", 0), constant("epsilon", 1e-6),
    ]  # fmt: skip
    return nodes, [tensor("ids", TensorProto.INT32, 12)], [tensor("y", TensorProto.FLOAT, 3)], constants, 15


def largest_of_five():
    """Which columns hold NaN decides whether ONNX Runtime's maximum of five is NaN."""
    nodes = [helper.make_node("ReduceMax", ["x", "axes"], ["y"], keepdims=0)]
    return nodes, [tensor("x", TensorProto.FLOAT, 5)], [tensor("y", TensorProto.FLOAT)], [
        constant("axes", [1], "int64")
    ], 18  # fmt: skip


def squeezed():
    """Of one row, Squeeze without axes leaves out the axis of the rows, too."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["wide"]), helper.make_node("Squeeze", ["wide"], ["y"])]
    weights = [constant("w", _RANDOM.standard_normal((5, 3)))]
    return nodes, [tensor("x", TensorProto.FLOAT, 1, 5)], [tensor("y", TensorProto.FLOAT, 3)], weights, 18


def converted():
    nodes = [
        helper.make_node("Mul", ["x", "three"], ["scaled"]),
        helper.make_node("Cast", ["scaled"], ["y"], to=TensorProto.UINT32),
    ]
    return nodes, [tensor("x", TensorProto.FLOAT, 5)], [tensor("y", TensorProto.UINT32, 5)], [constant("three", 3)], 18


def quantized():
    """A network of 8-bit integers in the form of opset 13: each layer between QuantizeLinear and DequantizeLinear."""
    nodes, value, constants = [], "x", [constant("zero", 3, "int8"), constant("none", 0, "int8")]
    for layer, (rows, columns) in enumerate([(16, 64), (64, 64), (64, 8)]):
        weights = _RANDOM.standard_normal((rows, columns)) / rows**0.5
        scale = np.abs(weights).max() / 127
        constants += [
            constant(f"w{layer}", np.rint(weights / scale), "int8"), constant(f"s{layer}", scale),
            constant(f"q{layer}", 0.03),
        ]  # fmt: skip
        nodes += [
            helper.make_node("QuantizeLinear", [value, f"q{layer}", "zero"], [f"{layer}q"]),
            helper.make_node("DequantizeLinear", [f"{layer}q", f"q{layer}", "zero"], [f"{layer}d"]),
            helper.make_node("DequantizeLinear", [f"w{layer}", f"s{layer}", "none"], [f"{layer}w"]),
            helper.make_node("MatMul", [f"{layer}d", f"{layer}w"], [f"{layer}m"]),
            helper.make_node("Relu", [f"{layer}m"], [f"{layer}r"]),
        ]
        value = f"{layer}r"
    nodes.append(helper.make_node("QuantizeLinear", [value, "q0", "zero"], ["y"]))
    return nodes, [tensor("x", TensorProto.FLOAT, 16)], [tensor("y", TensorProto.INT8, 8)], constants, 13


def main(file, name):
    nodes, inputs, outputs, constants, opset = globals()[name]()
    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, file)


main(*sys.argv[1:])
