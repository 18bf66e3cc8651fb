"""Quantized networks in QONNX, as the front-end reads them, with the answers of QONNX's executor.

    FRONTEND/bin/python qonnx_networks.py WORKER_PROGRAM FILES FOLDER ROWS

FOLDER/NAME has NAME.onnx, graph.json and tensors.npz, rows.npz with "in/x" and "out/KEY", and walked.npz with the answers
of ONNX's reference implementation to the first of them. Some of the rows lie on steps of the first quantizer, or at the
limits of float32. Networks are those of MAKERS, and the files in FILES:

- brevitas.onnx: `export_qonnx` of Brevitas 0.13.4 (PyTorch 2.14.1, opset 13) of a QuantIdentity of 8 bits, a QuantConv2d of
  4 bits, BatchNorm2d, a QuantReLU of 4 bits, MaxPool2d, and a QuantLinear of 4 bits, all with scales that are powers of 2.
"""

import os
import shutil
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DOMAIN = "qonnx.custom_op.general"
MAKERS = {}


def network(function):
    MAKERS[function.__name__] = function
    return function


class Net:
    """Nodes from x to the last value, with names and constants by their values."""

    def __init__(self, *sizes, domain=DOMAIN, version=1, seed=1):
        self.random, self.sizes = np.random.default_rng(seed), sizes
        self.nodes, self.tensors, self.domain, self.version = [], [], domain, version
        self.outputs = []

    def constant(self, values, dtype="f4"):
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def add(self, op, *inputs, domain="", **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"n{name}", domain=domain, **attributes))
        return name

    def own(self, op, *inputs, **attributes):
        return self.add(op, *inputs, domain=self.domain, **attributes)

    def quant(self, x, scale, bits, *, signed=1, narrow=0, zero=0.0, mode="ROUND"):
        parts = [self.constant(each) for each in (scale, zero, bits)]
        return self.own("Quant", x, *parts, signed=signed, narrow=narrow, rounding_mode=mode)

    def weights(self, *shape, bits=6, scale=2.0**-5):
        drawn = self.random.normal(size=shape) * (scale * 2.0 ** (bits - 2))
        return self.quant(self.constant(drawn), scale, bits, narrow=1)

    def model(self, *outputs):
        values = [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in outputs]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *self.sizes])
        graph = helper.make_graph(self.nodes, "g", [x], values, self.tensors)
        imports = [helper.make_opsetid("", 13), helper.make_opsetid(self.domain, self.version)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


def _dense(net, x, rows, columns, *, scale=2.0**-5, bits=6, bias=True):
    made = net.add("MatMul", x, net.weights(rows, columns, bits=bits, scale=scale))
    return net.add("Add", made, net.constant(net.random.integers(-60, 60, columns) * 2.0**-7)) if bias else made


@network
def dense():
    """As QKeras and hls4ml have it: scales are powers of 2."""
    net = Net(16)
    x = net.quant("x", 2.0**-4, 8)
    for width in (16, 64, 64):
        x = net.quant(net.add("Relu", _dense(net, x, width, 64)), 2.0**-3, 6, signed=0)
    return net.model(_dense(net, x, 64, 5))


@network
def learned_scales():
    """As Brevitas has it: scales of channels, which are no powers of 2, and a Gemm with turned weights."""
    net = Net(20)
    x = net.quant("x", 0.0437, 8)
    for width in (20, 32):
        scales = net.random.uniform(0.01, 0.03, (32, 1))
        weights = net.weights(32, width, bits=4, scale=scales)
        x = net.add("Gemm", x, weights, net.constant(net.random.normal(size=32)), transB=1)
        x = net.quant(net.add("Relu", x), 0.117, 4, signed=0)
    turned = net.add("Transpose", net.weights(3, 32, bits=8, scale=net.random.uniform(0.01, 0.03, (3, 1))), perm=[1, 0])
    return net.model(net.add("MatMul", x, turned))


@network
def bipolar():
    net = Net(24, domain="onnx.brevitas")
    one = net.constant(1.0)
    x = net.own("BipolarQuant", "x", net.constant(0.5))
    for width in (24, 40):
        weights = net.own("BipolarQuant", net.constant(net.random.normal(size=(width, 40))), net.constant(0.25))
        shift = net.constant(net.random.integers(-9, 9, 40) * 0.125)
        x = net.own("BipolarQuant", net.add("Add", net.add("MatMul", x, weights), shift), one)
    last = net.quant(net.constant(net.random.normal(size=(40, 4))), 0.5, 2, narrow=1)
    return net.model(net.add("MatMul", x, last))


@network
def conv1d():
    net = Net(3, 32, domain="finn.custom_op.general")
    x = net.quant("x", 2.0**-4, 8)
    scales = 2.0 ** net.random.integers(-6, -3, (12, 1, 1)).astype(float)
    x = net.add("Conv", x, net.weights(12, 3, 5, scale=scales), kernel_shape=[5], pads=[2, 2])
    x = net.quant(net.add("Relu", x), 2.0**-3, 6, signed=0)
    x = net.add("MaxPool", x, kernel_shape=[2], strides=[2])
    x = net.add("Conv", x, net.weights(8, 12, 3), net.constant(np.arange(8) / 64), kernel_shape=[3], strides=[2])
    x = net.quant(net.add("Relu", x), 2.0**-2, 5, signed=0)
    x = net.add("Flatten", net.add("Mul", net.add("AveragePool", x, kernel_shape=[7]), net.constant(7.0)))
    parts = [net.constant(each) for each in (2.0**-2, 0.0, 8.0, 5.0)]
    x = net.own("Trunc", x, *parts, rounding_mode="FLOOR")
    return net.model(_dense(net, x, 8, 4))


@network
def conv2d():
    """Residual addition, concatenation, groups of channels, and pools."""
    net = Net(3, 12, 12)
    x = net.quant("x", 2.0**-4, 6, zero=3.0)
    first = net.add("Conv", x, net.weights(8, 3, 3, 3, bits=8), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    x = first = net.quant(net.add("Relu", first), 2.0**-3, 8, signed=0)
    x = net.add("Conv", x, net.weights(8, 1, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=8)
    x = net.quant(x, 2.0**-2, 6)
    x = net.add("Conv", x, net.weights(8, 8, 1, 1), kernel_shape=[1, 1])
    x = net.quant(net.add("Add", net.quant(x, 2.0**-3, 8), first), 2.0**-3, 8)
    pool = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    other = net.add("Conv", x, net.weights(4, 8, 3, 3, bits=4), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = net.add("Concat", pool, net.quant(other, 2.0**-3, 8), axis=1)
    x = net.add("Conv", net.add("Relu", x), net.weights(6, 12, 3, 3), kernel_shape=[3, 3])
    x = net.add("ReduceSum", x, net.constant([2, 3], "i8"), keepdims=0)
    return net.model(_dense(net, net.quant(x, 2.0**-1, 8), 6, 3))


@network
def deep_sets():
    net = Net(12, 5)
    x = net.quant("x", 2.0**-5, 8)
    x = net.quant(net.add("Relu", _dense(net, x, 5, 24)), 2.0**-4, 7, signed=0)
    x = net.add("Relu", net.quant(_dense(net, x, 24, 16), 2.0**-4, 7))
    x = net.quant(net.add("ReduceSum", x, net.constant([1], "i8"), keepdims=0), 2.0**-2, 8, signed=0)
    return net.model(_dense(net, x, 16, 3))


@network
def wide():
    """16 bits: no bytes. Sums stay below 2**24 steps, so that float32 has them."""
    net = Net(8)
    x = net.quant("x", 2.0**-8, 14)
    x = net.quant(net.add("Relu", _dense(net, x, 8, 6, bits=7)), 2.0**-8, 14, signed=0)
    return net.model(_dense(net, x, 6, 4, bits=8))


@network
def operators():
    """All roundings and forms of quantizers, element by element."""
    net = Net(9, version=2)
    outputs, scales = [], net.random.uniform(0.05, 0.4, 9)
    for mode in ("ROUND", "half_even", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"):
        outputs.append(net.quant("x", 0.173, 5, mode=mode))
        outputs.append(net.quant("x", 0.25, 5, zero=-3.0, signed=0, narrow=1, mode=mode))
    for bits, signed, narrow, zero in (
        (1, 1, 1, 0),
        (1, 0, 0, 0),
        (2, 1, 0, 1),
        (12, 0, 0, 7),
        (8, 1, 1, 0.5),
        (3.5, 1, 0, 0),
    ):
        outputs.append(net.quant("x", scales, bits, signed=signed, narrow=narrow, zero=zero))
    outputs.append(net.own("BipolarQuant", "x", net.constant(scales)))
    for mode in ("ROUND", "FLOOR", "CEIL"):
        x = net.quant("x", 2.0**-3, 8)
        parts = [net.constant(each) for each in (2.0**-3, 0.0, 8.0, 2.0**-1, 4.0)]
        outputs.append(net.own("Trunc", x, *parts, rounding_mode=mode, signed=1, narrow=0))
    whole = net.quant("x", 1.0, 8, signed=0)
    parts = [net.constant(each) for each in (1.0, 0.0, 8.0, 4.0, 5.0)]
    outputs.append(net.own("Trunc", whole, *parts, rounding_mode="FLOOR", signed=0))
    return net.model(*outputs)


def drawn(random, rows, sizes):
    """Rows of inputs: normal ones, ones on steps of quantizers, and ones at the limits of float32."""
    x = random.normal(size=(rows, *sizes)).astype("f4") * np.float32(2)
    third = rows // 3
    steps = np.rint(random.normal(size=(third, *sizes)) * 40)
    x[:third] = steps * np.float32(2.0**-5)  # every second one lies between two steps of 2**-4
    special = np.array([0, -0.0, 1e-45, -1e-38, 1e38, -3e38, np.inf, -np.inf, 2.0**-5, -3 * 2.0**-5, 7.96875, -8.03125])
    mask = random.random(x.shape) < 0.05
    mask[third:-third] = False
    x[mask] = random.choice(special, np.count_nonzero(mask))
    return x.astype("f4")


def write(file, place, rows):
    from from_onnx import reading
    from from_onnx.executed import QonnxModel
    from messages.requests import Reference
    from messages.sources import ReadOnnx

    found = reading.read(ReadOnnx(path=file, shapes={}, out=place, qonnx=True), None)
    feeds = {each.name: each.key for each in found.inputs}
    model = QonnxModel(
        Reference(
            folder=file, tags=(), signature="", inputs="", out="", batch_sizes=(), batched=(), stacked=(),
            framework="qonnx", feeds=feeds, fetches={each.name: each.key for each in found.outputs},
        )
    )  # fmt: skip
    (x,) = found.inputs
    random, parts = np.random.default_rng(3), []
    at_once = 500
    wanted = rows if x.shape[0] is None else 1
    given = drawn(random, wanted, [each or 6 for each in x.shape[1:]])
    for start in range(0, wanted, at_once):
        parts.append(model.run({x.name: given[start : start + at_once]}))
    arrays = {f"out/{name}": np.concatenate([part[name] for part in parts]) for name in parts[0]}
    np.savez(os.path.join(place, "rows.npz"), **{f"in/{x.name}": given}, **arrays)
    walked = model.walk({x.name: given[:50]}, double=False, observe=None)
    np.savez(os.path.join(place, "walked.npz"), **walked)


def main():
    program, files, folder, rows = sys.argv[1:]
    sys.path.insert(0, program)
    for name, make in MAKERS.items():
        os.makedirs(os.path.join(folder, name))
        onnx.save(make(), os.path.join(folder, name, f"{name}.onnx"))
    for file in sorted(os.listdir(files)):
        name = file.removesuffix(".onnx")
        os.makedirs(os.path.join(folder, name))
        shutil.copy(os.path.join(files, file), os.path.join(folder, name))
    for name in sorted(os.listdir(folder)):
        write(os.path.join(folder, name, f"{name}.onnx"), os.path.join(folder, name), int(rows))


if __name__ == "__main__":
    main()
