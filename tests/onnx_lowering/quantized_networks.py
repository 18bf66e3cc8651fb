"""Networks that ONNX Runtime's tools quantize, as the front-end reads them, with its answers.

    FRONTEND/bin/python quantized_networks.py WORKER_PROGRAM FOLDER

FOLDER/NAME_FORM has NAME_FORM.onnx, graph.json, tensors.npz and rows.npz with "x" and "y"; FORM is `qdq`, `operators`
(the quantized operators) or `dynamic`.
"""

import logging
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROWS = 12
MAKERS = {}


def network(*sizes):
    def add(function):
        MAKERS[function.__name__] = function, sizes
        return function

    return add


class Net:
    def __init__(self):
        self.random, self.nodes, self.tensors = np.random.default_rng(1), [], []

    def constant(self, values, dtype="f4"):
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weights(self, *shape, inputs):
        return self.constant(self.random.normal(size=shape) / inputs**0.5)

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"{op.lower()}{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x, channels, filters, size=3, group=1):
        taps = channels // group * size * size
        w, bias = self.weights(filters, channels // group, size, size, inputs=taps), self.weights(filters, inputs=100)
        return self.add("Conv", x, w, bias, kernel_shape=[size] * 2, pads=[size // 2] * 4, group=group)

    def gemm(self, x, inputs, outputs):
        w, bias = self.weights(outputs, inputs, inputs=inputs), self.weights(outputs, inputs=100)
        return self.add("Gemm", x, w, bias, transB=1)

    def relu(self, x):
        return self.add("Relu", x)

    def head(self, x, channels):
        return self.gemm(self.add("Flatten", self.add("GlobalAveragePool", x)), channels, 5)

    def model(self, result, sizes):
        self.nodes.append(helper.make_node("Identity", [result], ["y"], name="last"))
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *sizes])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [x], [y], self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


@network(32)
def dense(net):
    return net.gemm(net.relu(net.gemm(net.relu(net.gemm("x", 32, 48)), 48, 48)), 48, 5)


@network(3, 8, 8)
def inverted_residual(net):
    x = net.relu(net.conv("x", 3, 8))
    ends = net.constant(0), net.constant(6)
    inner = net.add("Clip", net.conv(x, 8, 24, 1), *ends)
    inner = net.add("Clip", net.conv(inner, 24, 24, group=24), *ends)
    x = net.add("Add", net.conv(inner, 24, 8, 1), x)
    return net.head(net.relu(net.conv(x, 8, 8, group=2)), 8)


@network(3, 8, 8)
def branches(net):
    x = net.relu(net.conv("x", 3, 8))
    pool = net.add("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
    mean = net.add("AveragePool", x, kernel_shape=[2, 2], pads=[0, 0, 1, 1], strides=[1, 1])
    x = net.add("Concat", net.relu(net.conv(x, 8, 8, 1)), pool, mean, axis=1)
    return net.head(net.relu(net.conv(x, 24, 8)), 8)


@network(3, 8, 8)
def decoder(net):
    """Quantized operators leave the weights of its ConvTranspose floats."""
    wide = net.relu(net.conv("x", 3, 8))
    deep = net.relu(net.conv(net.add("MaxPool", wide, kernel_shape=[2, 2], strides=[2, 2]), 8, 16))
    copied = net.add(
        "Resize", deep, "", net.constant([1, 1, 2, 2]), mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip
    grown = net.add("ConvTranspose", deep, net.weights(16, 8, 2, 2, inputs=16), kernel_shape=[2, 2], strides=[2, 2])
    return net.head(net.relu(net.conv(net.add("Concat", copied, wide, grown, axis=1), 32, 8)), 8)


@network(6, 16)
def attention(net):
    query, key, value = (net.add("MatMul", "x", net.weights(16, 16, inputs=16)) for _ in range(3))
    scores = net.add("MatMul", query, net.add("Transpose", key, perm=[0, 2, 1]))
    x = net.add("MatMul", net.add("Softmax", scores, axis=-1), value)
    return net.add("Add", x, net.add("MatMul", x, net.weights(16, 16, inputs=16)))


@network(7, 12)
def recurrent(net):
    x = net.add("Transpose", "x", perm=[1, 0, 2])
    w, r = net.weights(1, 32, 12, inputs=12), net.weights(1, 32, 8, inputs=8)
    _, last, _ = net.add("LSTM", x, w, r, net.weights(1, 64, inputs=64), outputs=3, hidden_size=8)
    return net.gemm(net.add("Squeeze", last, net.constant([0], "i8")), 8, 5)


class Rows:
    """For calibration."""

    def __init__(self, sizes):
        random = np.random.default_rng(5)
        self.rows = iter([{"x": random.normal(size=(8, *sizes)).astype("f4")} for _ in range(4)])

    def get_next(self):
        return next(self.rows, None)


def quantize(plain, made, form, sizes):
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

    if form == "dynamic":
        return quantize_dynamic(plain, made, weight_type=QuantType.QInt8)
    kind = QuantFormat.QDQ if form == "qdq" else QuantFormat.QOperator
    return quantize_static(
        plain, made, Rows(sizes), quant_format=kind, per_channel=form == "qdq", activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )  # fmt: skip


def write(folder, file, sizes):
    from from_onnx import reading
    from from_onnx.sessions import session
    from from_onnx.unsigned import make_unsigned
    from messages.sources import ReadOnnx

    found = reading.read(ReadOnnx(path=file, shapes={}, out=folder, qonnx=False), None)
    rows = np.random.default_rng(3).normal(size=(ROWS, *sizes)).astype("f4")
    model = onnx.load(file)
    make_unsigned(model)
    run = session(model.SerializeToString())
    parts = np.split(rows, ROWS) if found.by_row else [rows]
    np.savez(os.path.join(folder, "rows.npz"), x=rows, y=np.concatenate([run.run(["y"], {"x": x})[0] for x in parts]))


def main():
    program, folder = sys.argv[1:]
    sys.path.insert(0, program)
    logging.disable(logging.WARNING)
    for name, (make, sizes) in MAKERS.items():
        net, plain = Net(), os.path.join(folder, f"{name}.onnx")
        onnx.save(net.model(make(net), sizes), plain)
        for form in ("qdq", "operators", "dynamic"):
            place = os.path.join(folder, f"{name}_{form}")
            os.makedirs(place)
            file = os.path.join(place, f"{name}_{form}.onnx")
            quantize(plain, file, form, sizes)
            write(place, file, sizes)


if __name__ == "__main__":
    main()
