"""Write ONNX files to a folder: networks with everything that exporters write.

FRONTEND/bin/python onnx_files.py FOLDER
"""

import itertools
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

    def model(self, *, producer="by hand", as_inputs=False, opsets=None, **outputs):
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
            graph, opset_imports=[helper.make_opsetid(*each) for each in {"": self.opset, **(opsets or {})}.items()],
            producer_name=producer, producer_version="1.0",
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


def recurrent(graph, value, kind, inputs, units, *, directions=1, more=(), **attributes):
    """A layer of `kind` over [steps, batch, inputs]; gives all of its outputs."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    weights = (
        graph.weight(directions, gates * units, inputs),
        graph.weight(directions, gates * units, units),
        graph.weight(directions, 2 * gates * units, scale=0.1),
    )
    return graph.add(kind, value, *weights, *more, outputs=3 if kind == "LSTM" else 2, hidden_size=units, **attributes)


@network
def gru_tagger():
    """PyTorch's form: the batch first outside, steps first inside, states that are made of the batch's size."""
    graph = Graph(("tracks", FLOAT, ["batch", 12, 6]), ("jet", FLOAT, ["batch", 4]), opset=14)
    steps_first = graph.add("Transpose", "tracks", perm=[1, 0, 2])
    size = graph.add("Gather", graph.add("Shape", "tracks"), graph.constant(np.int64(0)), axis=0)
    size = graph.add("Unsqueeze", size, graph.constant(np.int64([0])))
    shape = graph.add("Concat", graph.constant(np.int64([2])), size, graph.constant(np.int64([16])), axis=0)
    start = graph.add("ConstantOfShape", shape, value=helper.make_tensor("v", FLOAT, [1], [0.0]))
    _, last = recurrent(
        graph, steps_first, "GRU", 6, 16, directions=2, more=("", start), direction="bidirectional",
        linear_before_reset=1,
    )  # fmt: skip
    parts = graph.add("Split", last, axis=0, outputs=2)
    parts = [graph.add("Squeeze", each, graph.constant(np.int64([0]))) for each in parts]
    hidden = graph.add("Concat", *parts, "jet", axis=1)
    logits = graph.add("Gemm", hidden, graph.weight(36, 3), graph.weight(3))
    return graph.model(producer="pytorch", p=(graph.add("Softmax", logits, axis=1), FLOAT, ["batch", 3]))


@network
def lstm_stack():
    """Two layers, of which the second goes through the output of the first, and Keras's way to the last state."""
    graph = Graph(("x", FLOAT, ["N", 10, 5]), opset=12)
    value = graph.add("Transpose", "x", perm=[1, 0, 2])
    for inputs, units in ((5, 12), (12, 8)):
        value, last, _ = recurrent(graph, value, "LSTM", inputs, units)
        value = graph.add("Squeeze", value, axes=[1])
    last = graph.add("Squeeze", last, axes=[0])
    return graph.model(
        producer="tf2onnx", y=(graph.add("Gemm", last, graph.weight(8, 2), graph.weight(2)), FLOAT, ["N", 2])
    )


@network
def recurrent_variants():
    """Lengths, states to begin with, other activations, clipping, coupled gates, reset before the product, peepholes."""
    graph = Graph(("rows", FLOAT, ["N", 7, 4]), ("lengths", TensorProto.INT32, ["N"]), opset=14)
    x = graph.add("Transpose", "rows", perm=[1, 0, 2])
    start = graph.constant(_RANDOM.normal(size=(1, 1, 6)).astype(np.float32))
    rows = graph.add("Slice", graph.add("Shape", x), *(graph.constant(np.int64([v])) for v in (1, 2)))
    one = graph.constant(np.int64([1]))
    shape = graph.add("Concat", one, rows, graph.constant(np.int64([6])), axis=0)
    state = graph.add("Expand", start, shape)
    results = [
        recurrent(graph, x, "LSTM", 4, 6, more=("lengths", state, state), direction="reverse")[0],
        recurrent(graph, x, "LSTM", 4, 6, input_forget=1, clip=0.5)[0],
        recurrent(graph, x, "GRU", 4, 6, more=("lengths", state))[0],
        recurrent(graph, x, "GRU", 4, 6, activations=["HardSigmoid", "Softsign"], activation_alpha=[0.3],
                  activation_beta=[0.4])[0],
        recurrent(graph, x, "RNN", 4, 6, activations=["Relu"], more=("lengths",))[0],
        recurrent(graph, x, "LSTM", 4, 6, more=("lengths", state, state, graph.weight(1, 18)))[0],
    ]  # fmt: skip
    rows_first = [graph.add("Transpose", each, perm=[2, 0, 1, 3]) for each in results]
    return graph.model(y=(graph.add("Concat", *rows_first, axis=3), FLOAT, ["N", 7, 1, 36]))


@network
def graph_of_any_size():
    """Nodes in rows and edges in columns, as PyTorch Geometric has them: no axis is a batch."""
    graph = Graph(("x", FLOAT, ["nodes", 4]), ("edges", INT64, [2, "count"]), opset=16)
    ends = [graph.add("Gather", "edges", graph.constant(np.int64(place)), axis=0) for place in (0, 1)]
    pairs = graph.add("Concat", *(graph.add("Gather", "x", each, axis=0) for each in ends), axis=1)
    messages = graph.add("Relu", graph.add("MatMul", pairs, graph.weight(8, 5)))
    places = graph.add("Unsqueeze", ends[1], graph.constant(np.int64([1])))
    places = graph.add("Expand", places, graph.add("Shape", messages))
    start = graph.add("MatMul", "x", graph.weight(4, 5))
    total = graph.add("ScatterElements", start, places, messages, axis=0, reduction="add")
    return graph.model(y=(graph.add("Sigmoid", graph.add("MatMul", total, graph.weight(5, 1))), FLOAT, ["nodes", 1]))


@network
def normalized_by_element():
    """Batch normalization of opset 7 and 8 with statistics of their own for each element."""
    graph = Graph(("x", FLOAT, ["N", 3, 4]), opset=8)
    statistics = [
        graph.weight(3, 4),
        graph.weight(3, 4),
        graph.weight(3, 4),
        graph.constant(np.full((3, 4), 0.5, "f4")),
    ]
    return graph.model(y=(graph.add("BatchNormalization", "x", *statistics, spatial=0), FLOAT, ["N", 3, 4]))


@network
def residual_1d():
    """Convolutions over hits with normalization, strides, a bottleneck, and sums past them."""
    graph = Graph(("hits", FLOAT, ["N", 3, 32]), opset=11)

    def block(value, inputs, outputs, stride):
        part = value
        for place, (width, step) in enumerate(((3, stride), (3, 1))):
            part = graph.add(
                "Conv", part, graph.weight(outputs, inputs if place == 0 else outputs, width, scale=0.3), pads=[1, 1],
                strides=[step],
            )  # fmt: skip
            ones = np.abs(_RANDOM.normal(size=(4, outputs))).astype(np.float32) + 0.5
            part = graph.add("BatchNormalization", part, *(graph.constant(each) for each in ones), epsilon=1e-3)
            part = graph.add("Relu", part) if place == 0 else part
        if stride > 1 or inputs != outputs:
            value = graph.add("Conv", value, graph.weight(outputs, inputs, 1), graph.weight(outputs), strides=[stride])
        return graph.add("Relu", graph.add("Add", value, part))

    value = block(block("hits", 3, 8, 1), 8, 16, 2)
    value = graph.add("GlobalAveragePool", graph.add("MaxPool", value, kernel_shape=[2], strides=[2]))
    return graph.model(y=(graph.add("Gemm", graph.add("Flatten", value), graph.weight(16, 4)), FLOAT, ["N", 4]))


@network
def images_2d():
    """Groups, dilations, one filter for each channel, transposed convolution, pooling with ceil_mode, resizing."""
    graph = Graph(("image", FLOAT, ["N", 4, 9, 9]), opset=13)
    value = graph.add("Conv", "image", graph.weight(8, 2, 3, 3), graph.weight(8), group=2, auto_pad="SAME_UPPER")
    value = graph.add("LeakyRelu", value, alpha=0.2)
    value = graph.add("Conv", value, graph.weight(8, 1, 3, 3), group=8, dilations=[2, 2], pads=[2, 2, 2, 2])
    value = graph.add("Clip", value, graph.constant(np.float32(0)), graph.constant(np.float32(6)))
    small = graph.add("AveragePool", value, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    large = graph.add("ConvTranspose", small, graph.weight(8, 4, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
    resized = graph.add(
        "Resize", small, "", graph.constant(np.float32([1, 1, 1.875, 1.875])), mode="linear",
        coordinate_transformation_mode="half_pixel",
    )  # fmt: skip
    both = graph.add("Concat", large, resized, axis=1)
    return graph.model(y=(graph.add("ReduceMean", both, axes=[2, 3], keepdims=0), FLOAT, ["N", 12]))


@network
def image_classes():
    """A convolution, a pool and two dense layers, as most classifiers of images have, with an input of typical size."""
    graph = Graph(("image", FLOAT, ["N", 8, 10, 10]), opset=13)
    value = graph.add("Conv", "image", graph.weight(24, 8, 3, 3, scale=0.12), graph.weight(24), pads=[1, 1, 1, 1])
    value = graph.add("MaxPool", graph.add("Relu", value), kernel_shape=[2, 2], strides=[2, 2])
    value = graph.add("Flatten", value)
    value = graph.add("Gemm", value, graph.weight(600, 70, scale=0.05), graph.weight(70))
    value = graph.add("Gemm", graph.add("Tanh", value), graph.weight(70, 10), graph.weight(10))
    return graph.model(logits=(value, FLOAT, ["N", 10]))


@network
def edge_convolution():
    """The nearest neighbours of each of a number of particles that varies, and features of the pairs."""
    graph = Graph(("points", FLOAT, ["batch", "n", 2]), ("features", FLOAT, ["batch", "n", 6]), opset=13)
    shown = lambda *values: graph.constant(np.int64(values))  # noqa: E731
    products = graph.add("MatMul", "points", graph.add("Transpose", "points", perm=[0, 2, 1]))
    squares = graph.add("ReduceSum", graph.add("Mul", "points", "points"), shown(2), keepdims=1)
    double = graph.add("Mul", products, graph.constant(np.float32(2)))
    near = graph.add("Sub", graph.add("Sub", double, squares), graph.add("Transpose", squares, perm=[0, 2, 1]))
    _, places = graph.add("TopK", near, shown(4), axis=-1, outputs=2)
    neighbours = graph.add("Slice", places, shown(1), shown(4), shown(2))
    # Gathered as exporters do: one long list of all particles of the batch.
    shape = graph.add("Shape", "features")
    batch, count = (graph.add("Gather", shape, graph.constant(np.int64(place))) for place in (0, 1))
    starts = graph.add(
        "Mul", graph.add("Range", graph.constant(np.int64(0)), batch, graph.constant(np.int64(1))), count
    )
    flat_places = graph.add("Add", neighbours, graph.add("Reshape", starts, shown(-1, 1, 1)))
    taken = graph.add("Gather", graph.add("Reshape", "features", shown(-1, 6)), flat_places)
    own = graph.add("Unsqueeze", "features", shown(2))
    wanted = graph.add("Concat", shape, shown(3), axis=0)
    order = graph.add("Gather", wanted, shown(0, 1, 3, 2))
    own = graph.add("Expand", own, order)
    pairs = graph.add("Concat", own, graph.add("Sub", taken, own), axis=3)
    hidden = graph.add("Relu", graph.add("Add", graph.add("MatMul", pairs, graph.weight(12, 16)), graph.weight(16)))
    pooled = graph.add("ReduceMean", graph.add("ReduceMean", hidden, axes=[2], keepdims=0), axes=[1], keepdims=0)
    return graph.model(y=(graph.add("Gemm", pooled, graph.weight(16, 2)), FLOAT, ["batch", 2]))


@network
def interaction_network():
    """Sums of messages over fixed pairs of particles, which a ScatterElements puts together."""
    graph = Graph(("x", FLOAT, ["N", 5, 4]), opset=16)
    pairs = np.array([(i, j) for i in range(5) for j in range(5) if i != j])
    send, receive = (graph.add("Gather", "x", graph.constant(pairs[:, place]), axis=1) for place in (0, 1))
    message = graph.add("MatMul", graph.add("Concat", send, receive, axis=2), graph.weight(8, 6))
    message = graph.add("Elu", message)
    rows = graph.add("Slice", graph.add("Shape", "x"), *(graph.constant(np.int64([v])) for v in (0, 1)))
    one = graph.add("Concat", rows, graph.constant(np.int64([5, 6])), axis=0)
    empty = graph.add("ConstantOfShape", one)
    many = graph.add("Concat", rows, graph.constant(np.int64([20, 6])), axis=0)
    places = graph.add("Expand", graph.constant(pairs[:, 1].reshape(1, 20, 1)), many)
    total = graph.add("ScatterElements", empty, places, message, axis=1, reduction="add")
    both = graph.add("Concat", "x", total, axis=2)
    hidden = graph.add("Relu", graph.add("MatMul", both, graph.weight(10, 8)))
    summed = graph.add("ReduceSum", hidden, graph.constant(np.int64([1])), keepdims=0)
    return graph.model(y=(graph.add("Gemm", summed, graph.weight(8, 3)), FLOAT, ["N", 3]))


@network
def transformer():
    """Attention of several heads with a mask, normalization, GELU written out, an Einsum, a triangle."""
    graph = Graph(("x", FLOAT, ["batch", 6, 16]), ("mask", TensorProto.BOOL, ["batch", 6]), opset=17)
    shown = lambda *values: graph.constant(np.int64(values))  # noqa: E731
    normed = graph.add("LayerNormalization", "x", graph.weight(16), graph.weight(16), axis=-1)
    heads = []
    for _ in range(3):
        value = graph.add("Add", graph.add("MatMul", normed, graph.weight(16, 16)), graph.weight(16))
        heads.append(graph.add("Transpose", graph.add("Reshape", value, shown(0, 0, 4, 4)), perm=[0, 2, 1, 3]))
    scores = graph.add("Einsum", heads[0], heads[1], equation="bhqd,bhkd->bhqk")
    scores = graph.add("Div", scores, graph.constant(np.float32(2)))
    hidden = graph.add("Unsqueeze", graph.add("Not", "mask"), shown(1, 2))
    scores = graph.add("Where", hidden, graph.constant(np.float32(-1e4)), scores)
    triangle = graph.add(
        "Trilu", graph.constant(np.full((6, 6), -1e4, np.float32)), graph.constant(np.int64(1)), upper=1
    )
    weights = graph.add("Softmax", graph.add("Add", scores, triangle), axis=-1)
    value = graph.add("Transpose", graph.add("MatMul", weights, heads[2]), perm=[0, 2, 1, 3])
    value = graph.add(
        "Add", "x", graph.add("MatMul", graph.add("Reshape", value, shown(0, 0, 16)), graph.weight(16, 16))
    )
    wide = graph.add("MatMul", value, graph.weight(16, 32))
    erf = graph.add("Erf", graph.add("Div", wide, graph.constant(np.float32(2**0.5))))
    half = graph.add("Mul", wide, graph.constant(np.float32(0.5)))
    gelu = graph.add("Mul", half, graph.add("Add", erf, graph.constant(np.float32(1))))
    value = graph.add("Add", value, graph.add("MatMul", gelu, graph.weight(32, 16)))
    return graph.model(y=(graph.add("ReduceMean", value, axes=[1], keepdims=0), FLOAT, ["batch", 16]))


@network
def attention_of_opset_23():
    graph = Graph(("x", FLOAT, ["batch", 6, 8]), opset=23)
    parts = [graph.add("MatMul", "x", graph.weight(8, 8)) for _ in range(3)]
    value = graph.add("Attention", *parts, q_num_heads=2, kv_num_heads=2)
    value = graph.add("RMSNormalization", value, graph.weight(8), axis=-1)
    return graph.model(y=(graph.add("Gelu", value, approximate="tanh"), FLOAT, ["batch", 6, 8]))


@network
def quantized_in_float():
    """What quantization leaves of a dense layer: QuantizeLinear and DequantizeLinear around it."""
    graph = Graph(("x", FLOAT, ["N", 8]), opset=13)

    def passed(value, scale):
        scale, zero = graph.constant(np.float32(scale)), graph.constant(np.int8(3))
        return graph.add("DequantizeLinear", graph.add("QuantizeLinear", value, scale, zero), scale, zero)

    weights = graph.constant(_RANDOM.integers(-127, 127, (8, 6)).astype(np.int8))
    scales = graph.constant(np.linspace(0.01, 0.02, 6, dtype=np.float32))
    weights = graph.add("DequantizeLinear", weights, scales, graph.constant(np.zeros(6, np.int8)), axis=1)
    value = graph.add("MatMul", passed("x", 0.03), weights)
    return graph.model(y=(passed(graph.add("Relu", value), 0.05), FLOAT, ["N", 6]))


@network
def embedded_words():
    """Integers as inputs, an embedding, a conditional with a constant condition, a Scan of sums."""
    graph = Graph(("ids", INT64, ["N", 5]), opset=13)
    value = graph.add("Gather", graph.weight(3, 4), "ids")
    scanned = graph.add("Transpose", value, perm=[1, 0, 2])
    body = helper.make_graph(
        [helper.make_node("Add", ["sum_in", "next"], ["sum_out"]), helper.make_node("Tanh", ["sum_out"], ["shown"])],
        "body",
        [helper.make_tensor_value_info(name, FLOAT, None) for name in ("sum_in", "next")],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in ("sum_out", "shown")],
    )
    zero = graph.add("Mul", graph.add("ReduceMax", value, axes=[1], keepdims=0), graph.constant(np.float32(0)))
    _, shown = graph.add("Scan", zero, scanned, outputs=2, body=body, num_scan_inputs=1)
    branches = {
        name: helper.make_graph(
            [helper.make_node(op, [shown], [f"{name}/out"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}/out", FLOAT, None)],
        )
        for name, op in (("then_branch", "Neg"), ("else_branch", "Exp"))
    }
    chosen = graph.add("If", graph.constant(np.array(True)), **branches)
    return graph.model(y=(graph.add("Transpose", chosen, perm=[1, 0, 2]), FLOAT, ["N", 5, 4]))


def inner(name, nodes, inputs, outputs):
    """A graph inside of an operator: its inputs and outputs are (name, type)."""
    made = (
        [helper.make_tensor_value_info(each, dtype, None if dtype == FLOAT else []) for each, dtype in values]
        for values in (inputs, outputs)
    )
    return helper.make_graph([helper.make_node(*each[:3], **dict(each[3:])) for each in nodes], name, *made)


@network
def images_sampled():
    """Images that are read between their elements, regions of them, and pooling that is undone."""
    graph = Graph(("x", FLOAT, ["N", 4, 6, 5]), ("grid", FLOAT, ["N", 3, 4, 2]), opset=20)
    parts = [
        graph.add("GridSample", "x", "grid", mode=mode, padding_mode=padding, align_corners=aligned)
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for aligned in (0, 1)
    ]
    offset = graph.add("Conv", "x", graph.weight(36, 4, 3, 3, scale=0.1), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    moved = graph.add("DeformConv", "x", graph.weight(6, 2, 3, 3), offset, graph.weight(6), group=2, offset_group=2,
                      kernel_shape=[3, 3], pads=[1, 1, 1, 1])  # fmt: skip
    largest, places = graph.add("MaxPool", "x", outputs=2, kernel_shape=[2, 1], strides=[2, 1])
    back = graph.add("MaxUnpool", largest, places, kernel_shape=[2, 1], strides=[2, 1])
    blocks = graph.constant(np.int64([3, 2]))
    columns = graph.add("Reshape", moved, graph.constant(np.int64([0, 6, 30])))
    image = graph.add("Col2Im", columns, graph.constant(np.int64([7, 7])), blocks, pads=[0, 0, 0, 0])
    size = graph.add("Shape", "x", end=1)
    rows = graph.add("Range", *(graph.constant(np.int64(0)), graph.add("Squeeze", size), graph.constant(np.int64(1))))
    shape = graph.add("Concat", size, graph.constant(np.int64([4])), axis=0)
    regions = graph.add("Expand", graph.constant(np.float32([[0.5, 1, 4, 5.5]])), shape)
    regions = [
        graph.add("RoiAlign", "x", regions, rows, output_height=2, output_width=3, sampling_ratio=2, mode=mode)
        for mode in ("avg", "max")
    ]
    flat = [graph.add("Flatten", each) for each in (*parts, moved, back, image, *regions)]
    return graph.model(y=(graph.add("Concat", *flat, axis=1), FLOAT, ["N", None]))


@network
def sounds():
    """What a waveform goes through before a network: frames, windows, a transform, bands; and transforms of any axis."""
    graph = Graph(("wave", FLOAT, ["N", 64]), opset=20)
    scalar = lambda value: graph.constant(np.int64(value))  # noqa: E731
    window = graph.add("HannWindow", scalar(16), periodic=1)
    spectrum = graph.add("STFT", "wave", scalar(8), window, scalar(16), onesided=1)
    power = graph.add("ReduceSumSquare", spectrum, graph.constant(np.int64([-1])), keepdims=0)
    limits = (graph.constant(np.float32(20)), graph.constant(np.float32(4000)))
    bands = graph.add("MelWeightMatrix", scalar(5), scalar(16), scalar(16000), *limits)
    mel = graph.add("Log", graph.add("Add", graph.add("MatMul", power, bands), graph.constant(np.float32(1e-3))))
    signal = graph.add("Reshape", "wave", graph.constant(np.int64([0, 8, 8, 1])))
    whole = graph.add("DFT", signal, "", scalar(-3))
    back = graph.add("DFT", whole, scalar(10), scalar(1), inverse=1)
    half = graph.add("DFT", signal, scalar(6), scalar(2), onesided=1)
    flat = [graph.add("Flatten", each) for each in (mel, back, half)]
    return graph.model(y=(graph.add("Concat", *flat, axis=1), FLOAT, ["N", None]))


@network
def long_loops():
    """A loop of 40 steps that shows each of them, and one that ends when its inputs say so."""
    graph = Graph(("x", FLOAT, ["N", 3]), opset=17)
    step = inner(
        "step",
        [("Mul", ["s", "x"], ["m"]), ("Tanh", ["m"], ["t"]), ("Add", ["t", "x"], ["next"]), ("Identity", ["c"], ["on"]),
         ("ReduceSum", ["next"], ["shown"])],
        [("i", INT64), ("c", TensorProto.BOOL), ("s", FLOAT)],
        [("on", TensorProto.BOOL), ("next", FLOAT), ("shown", FLOAT)],
    )  # fmt: skip
    step.node[-1].attribute.append(helper.make_attribute("keepdims", 0))
    last, shown = graph.add("Loop", graph.constant(np.int64(40)), "", "x", outputs=2, body=step)
    graph.tensors.append(numpy_helper.from_array(np.float32(100), "limit"))
    again = inner(
        "again",
        [("Add", ["s", "s"], ["next"]), ("Abs", ["next"], ["a"]), ("ReduceSum", ["a"], ["total"]),
         ("Less", ["total", "limit"], ["on"])],
        [("i", INT64), ("c", TensorProto.BOOL), ("s", FLOAT)],
        [("on", TensorProto.BOOL), ("next", FLOAT)],
    )  # fmt: skip
    again.node[2].attribute.append(helper.make_attribute("keepdims", 0))
    doubled = graph.add("Loop", "", graph.constant(np.array(True)), "x", body=again)
    total = graph.add("Add", graph.add("Add", last, doubled), graph.add("ReduceMax", shown, keepdims=0))
    return graph.model(y=(total, FLOAT, ["N", 3]))


@network
def sizes_of_tf2onnx():
    """Sizes that are picked out of a shape, cast and cut; loops whose condition compares them with the step, as of Keras.

    One loop has 40 steps, the other 6.
    """
    graph = Graph(("x", FLOAT, ["N", 40, 6]), opset=13)
    int32, axis = TensorProto.INT32, graph.constant(np.int64([0]))
    picked = graph.add("Gather", graph.add("Shape", "x"), graph.constant(np.int64([1, 2, 0])))
    shape = graph.add("Cast", picked, to=int32)
    found = []
    for place, perm in ((0, [1, 2, 0]), (1, [2, 1, 0])):
        ends = [graph.constant(np.int64([place + each])) for each in (0, 1)]
        length = graph.add("Squeeze", graph.add("Slice", shape, *ends, axis), axis)
        series = graph.add("Transpose", "x", perm=perm)
        graph.tensors.append(numpy_helper.from_array(np.int32(1), f"one{place}"))
        body = inner(
            f"step{place}",
            [("Add", ["n", f"one{place}"], ["next"]), ("Gather", [series, "n"], ["now"]), ("Mul", ["s", "now"], ["m"]),
             ("Tanh", ["m"], ["after"]), ("Identity", ["after"], ["shown"]), ("Less", ["next", length], ["on"])],
            [("i", INT64), ("c", TensorProto.BOOL), ("n", int32), ("s", FLOAT)],
            [("on", TensorProto.BOOL), ("next", int32), ("after", FLOAT), ("shown", FLOAT)],
        )  # fmt: skip
        zero = graph.constant(np.int32(0))
        first = graph.add("Cast", graph.add("Gather", series, zero), to=FLOAT)
        going = graph.add("Less", zero, length)
        found += graph.add("Loop", "", going, zero, first, body=body, outputs=3)[1:]
    # The same sizes as those of a reshaped tensor: Resize has to know those that it changes.
    image = graph.add("Reshape", graph.add("Transpose", "x", perm=[1, 2, 0]), graph.add("Cast", shape, to=INT64))
    image = graph.add("Unsqueeze", graph.add("Transpose", image, perm=[2, 0, 1]), graph.constant(np.int64([1])))
    image = graph.add("Resize", image, "", graph.constant(np.float32([1, 1, 2, 1])), mode="nearest")
    names = ("last_of_40", "all_of_40", "last_of_6", "all_of_6")
    shapes = ([6, "N"], [40, 6, "N"], [40, "N"], [6, 40, "N"])
    outputs = {
        name: (graph.add("Transpose", value, perm=[len(shape) - 1, *range(len(shape) - 1)]), FLOAT, ["N", *shape[:-1]])
        for name, value, shape in zip(names, found, shapes, strict=True)
    }
    return graph.model(image=(image, FLOAT, ["N", 1, 80, 6]), **outputs)


@network
def unsorted():
    """Nodes in any order, as ONNX Runtime's converter to float16 leaves them."""
    model = dense()
    for node in reversed(list(model.graph.node)):
        model.graph.node.append(node)
        model.graph.node.remove(node)
    return model


@network
def lists():
    """Sequences inside of the graph, as exporters write lists of tensors."""
    graph = Graph(("x", FLOAT, ["N", 6, 4]), opset=17)
    parts = graph.add("SplitToSequence", "x", graph.constant(np.int64(2)), axis=1)
    parts = graph.add("SequenceInsert", parts, graph.add("SequenceAt", parts, graph.constant(np.int64(-1))))
    parts = graph.add("SequenceErase", parts, graph.constant(np.int64(1)))
    body = inner("body", [("Tanh", ["item"], ["made"])], [("item", FLOAT)], [("made", FLOAT)])
    graph.add("SequenceMap", parts, body=body)
    stacked = graph.add("ConcatFromSequence", graph.nodes[-1].output[0], axis=2, new_axis=1)
    graph.add("SequenceLength", parts)
    length = graph.add("Cast", graph.nodes[-1].output[0], to=FLOAT)
    return graph.model(y=(graph.add("Add", stacked, length), FLOAT, ["N", 2, 3, 4]))


@network
def settings_as_inputs():
    """What a spec makes constants: axes, and a number; names that C++ and Python lack; an output without a shape."""
    graph = Graph(("in", FLOAT, ["N", 4, 3]), ("axes:0", INT64, [1]), ("scale/in", FLOAT, []), opset=18)
    mean = graph.add("ReduceMean", "in", "axes:0", keepdims=0)
    return graph.model(y=(graph.add("Mul", mean, "scale/in"), FLOAT, None))


MICROSOFT = "com.microsoft"


@network
def quantized_by_tools():
    """A bias with a scale of one element and no axis, bytes that end in a sum of floats, and operators on bytes."""
    graph = Graph(("x", FLOAT, ["N", 8]), opset=13)
    scale, zero = graph.constant(np.float32(0.05)), graph.constant(np.int8(3))
    one = [graph.constant(np.float32([0.01])), graph.constant(np.int32([0]))]
    bias = graph.add("DequantizeLinear", graph.constant(_RANDOM.integers(-90, 90, 6).astype(np.int32)), *one)
    given = graph.add("QuantizeLinear", "x", scale, zero)
    value = graph.add("MatMul", graph.add("DequantizeLinear", given, scale, zero), graph.weight(8, 6))
    first = graph.add("QuantizeLinear", graph.add("Add", value, bias), scale, zero)
    total = graph.add("ReduceMean", graph.add("DequantizeLinear", first, scale, zero), axes=[1])
    weights = graph.constant(_RANDOM.integers(-9, 9, (6, 6)).astype(np.int8))
    second = graph.add("QGemm", first, scale, zero, weights, scale, zero, "", scale, zero, domain=MICROSOFT)
    both = graph.add("QLinearAdd", first, scale, zero, second, scale, zero, scale, zero, domain=MICROSOFT)
    both = graph.add("QLinearSigmoid", both, scale, zero, scale, zero, domain=MICROSOFT)
    given, *found = graph.add("DynamicQuantizeLinear", "x", outputs=3)
    wide = graph.add(
        "MatMulInteger", given, graph.constant(_RANDOM.integers(-99, 99, (8, 6)).astype(np.int8)), found[1]
    )
    wide = graph.add("Mul", graph.add("Cast", wide, to=FLOAT), found[0])
    parts = (graph.add("DequantizeLinear", both, scale, zero), total, wide)
    return graph.model(y=(graph.add("Concat", *parts, axis=1), FLOAT, ["N", 13]), opsets={MICROSOFT: 1})


@network
def optimized():
    """What ONNX Runtime writes for layers when it saves an optimized file, and weights of four bits."""
    graph = Graph(("x", FLOAT, ["N", 6, 16]), opset=17)
    add = lambda op, *inputs, **more: graph.add(op, *inputs, domain=MICROSOFT, **more)  # noqa: E731
    normed = add("SkipLayerNormalization", "x", graph.weight(6, 16), graph.weight(16), graph.weight(16), epsilon=1e-5)
    value = add("Attention", normed, graph.weight(16, 48), graph.weight(48), num_heads=4, unidirectional=1)
    value = add("MultiHeadAttention", value, normed, value, graph.weight(48), num_heads=2)
    value = add("FusedMatMul", value, graph.weight(24, 16), transB=1, alpha=0.5)
    packed = graph.constant(_RANDOM.integers(0, 255, (16, 2, 8)).astype(np.uint8))
    few = add("MatMulNBits", value, packed, graph.weight(16, 2, scale=0.1), K=24, N=16, bits=4, block_size=16)
    few = add("BiasGelu", few, graph.weight(16))
    conv = {"kernel_shape": [3], "pads": [1, 1], "activation": "Relu"}
    few = add("FusedConv", few, graph.weight(6, 6, 3), graph.weight(6), **conv)
    last = graph.add("Reshape", few, graph.constant(np.int64([0, 96])))
    return graph.model(
        y=(add("FusedGemm", last, graph.weight(3, 96), graph.weight(3), transB=1, activation="Tanh"), FLOAT, ["N", 3]),
        opsets={MICROSOFT: 1},
    )


@network
def encoded():
    """Numbers as classes, and support vectors, of ai.onnx.ml."""
    graph = Graph(("x", FLOAT, ["N", 4]), ("kind", INT64, ["N", 1]), opset=15)
    add = lambda op, *inputs, **more: graph.add(op, *inputs, domain="ai.onnx.ml", **more)  # noqa: E731
    label = add("LabelEncoder", "kind", keys_int64s=[0, 2], values_floats=[0.5, -1.5], default_float=7.0)
    flags = graph.add("Reshape", add("OneHotEncoder", "kind", cats_int64s=[2, 0, 5]), graph.constant(np.int64([0, 3])))
    vectors = _RANDOM.normal(size=20).astype(np.float32).tolist()
    machines = [
        add("SVMRegressor", "x", kernel_type=kind, kernel_params=[0.3, 0.1, 2.0], support_vectors=vectors, n_supports=5,
            coefficients=[0.5, -1.0, 2.0, 0.25, -0.75], rho=[0.125])
        for kind in ("RBF", "POLY", "SIGMOID", "LINEAR")
    ]  # fmt: skip
    scaled = add("Normalizer", "x", norm="MAX")
    # Of a vector this operator gives one row, as scikit-learn's labels are chosen.
    largest = graph.add("ArgMax", "x", axis=1, keepdims=0)
    chosen = add("ArrayFeatureExtractor", graph.constant(np.float32([3.5, -1.0, 2.0, 0.5])), largest)
    chosen = graph.add("Transpose", chosen, perm=[1, 0])
    made = add("FeatureVectorizer", "x", label, flags, *machines, scaled, chosen,
               inputdimensions=[4, 1, 3, 1, 1, 1, 1, 4, 1])  # fmt: skip
    return graph.model(y=(made, FLOAT, ["N", 17]), opsets={"ai.onnx.ml": 3})


@network
def counted_masks():
    """Embeddings that count what a mask shows, and attention that reads this number, as ONNX Runtime writes for BERT."""
    names = ("words", "segments", "shown")
    graph = Graph(*((name, TensorProto.INT32, ["N", 7]) for name in names), opset=17)
    add = lambda op, *inputs, **more: graph.add(op, *inputs, domain=MICROSOFT, **more)  # noqa: E731
    tables = (graph.weight(5, 16), graph.weight(7, 16), graph.weight(3, 16))
    value, count = add("EmbedLayerNormalization", "words", "segments", *tables, graph.weight(16), graph.weight(16),
                       graph.add("Min", "shown", graph.constant(np.int32(1))), outputs=2)  # fmt: skip
    value = add("Attention", value, graph.weight(16, 48), graph.weight(48), count, num_heads=4)
    value = add("MultiHeadAttention", value, value, value, "", count, num_heads=2)
    return graph.model(y=(value, FLOAT, ["N", 7, 16]), opsets={MICROSOFT: 1})


@network
def classifiers_of_two_things():
    """Labels that are texts, and a list of scores, as of MultiOutputClassifier; labels by place, as of AdaBoost."""
    graph = Graph(("x", FLOAT, ["N", 4]), opset=15)
    add = lambda op, *inputs, **more: graph.add(op, *inputs, domain="ai.onnx.ml", **more)  # noqa: E731
    made = [
        add("LinearClassifier", "x", outputs=2, coefficients=_RANDOM.normal(size=12).astype(np.float32).tolist(),
            intercepts=[0.5, -0.25, 0.0], classlabels_strings=labels, post_transform="SOFTMAX")
        for labels in (("a", "b", "c"), ("low", "middle", "high"))
    ]  # fmt: skip
    place = graph.add("ArgMax", made[1][1], axis=1, keepdims=0)
    text = graph.constant(np.array(["low", "middle", "high"], object))
    first = graph.add("Reshape", made[0][0], graph.constant(np.int64([-1, 1])))
    both = graph.add("Concat", first, graph.add("Transpose", add("ArrayFeatureExtractor", text, place)), axis=1)
    outputs = {"label": (both, TensorProto.STRING, ["N", 2]), "scores": (made[0][1], FLOAT, None)}
    model = graph.model(**outputs, opsets={"ai.onnx.ml": 3})
    model.graph.node[-1].CopyFrom(helper.make_node("SequenceConstruct", [each[1] for each in made], ["scores"]))
    model.graph.output[-1].CopyFrom(helper.make_tensor_sequence_value_info("scores", FLOAT, None))
    return model


@network
def classes_by_support_vectors():
    """Machines of two to four classes, with and without probabilities, and three of liblinear's form."""
    nodes, columns = [helper.make_node("Constant", [], ["column"], value_ints=[-1, 1])], []
    cases = [
        (2, "RBF", "NONE", True), (2, "LINEAR", "NONE", False), (2, "POLY", "LOGISTIC", False), (2, "RBF", "SOFTMAX", False),
        (3, "SIGMOID", "NONE", True), (3, "RBF", "NONE", False), (4, "RBF", "SOFTMAX", True), (4, "RBF", "LOGISTIC", False),
    ]  # fmt: skip
    numbers = lambda *sizes: _RANDOM.normal(size=sizes).astype(np.float32).ravel().tolist()  # noqa: E731
    for place, (classes, kernel, transform, probable) in enumerate(cases):
        owned, pairs = [3, 2, 4, 3][:classes], classes * (classes - 1) // 2
        factors = {"prob_a": [-1.5] * pairs, "prob_b": numbers(pairs)} if probable else {}
        label, scores, made = f"label_{place}", f"scores_{place}", f"made_{place}"
        nodes += [
            helper.make_node(
                "SVMClassifier", ["x"], [label, scores], domain="ai.onnx.ml", kernel_type=kernel,
                kernel_params=[0.3, 0.1, 2.0], post_transform=transform, vectors_per_class=owned,
                support_vectors=numbers(sum(owned), 4), coefficients=numbers(classes - 1, sum(owned)), rho=numbers(pairs),
                classlabels_ints=[3 * each + 1 for each in range(classes)], **factors,
            ),
            helper.make_node("Reshape", [label, "column"], [f"row_{place}"]),
            helper.make_node("Cast", [f"row_{place}"], [made], to=FLOAT),
        ]  # fmt: skip
        columns += [made, scores]
    for classes, sign, transform in ((2, 1, "LOGISTIC"), (2, 0, "NONE"), (3, 0, "SOFTMAX")):
        weights = np.abs(numbers(classes, 4)).tolist() if sign else numbers(classes, 4)
        label, scores, made = (f"linear_{each}_{classes}{sign}" for each in ("label", "scores", "made"))
        nodes += [
            helper.make_node(
                "SVMClassifier", ["x"], [label, scores], domain="ai.onnx.ml", kernel_params=[0.0, 0.0, 0.0], rho=[0.1],
                coefficients=weights, post_transform=transform, classlabels_ints=list(range(classes)),
            ),
            helper.make_node("Reshape", [label, "column"], [f"row_{label}"]),
            helper.make_node("Cast", [f"row_{label}"], [made], to=FLOAT),
        ]  # fmt: skip
        columns += [made, scores]
    nodes.append(helper.make_node("Concat", columns, ["y"], axis=1))
    inputs = [helper.make_tensor_value_info("x", FLOAT, ["N", 4])]
    outputs = [helper.make_tensor_value_info("y", FLOAT, ["N", 42])]
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(helper.make_graph(nodes, "graph", inputs, outputs), opset_imports=opsets, ir_version=8)


@network
def classifier_of_catboost():
    """A file without ONNX's own domain, whose scores are maps."""
    weights = _RANDOM.normal(size=8).astype(np.float32).tolist()
    ml = {"domain": "ai.onnx.ml"}
    nodes = [
        helper.make_node(
            "LinearClassifier", ["features"], ["label", "scores"], coefficients=weights, intercepts=[0.1, -0.2],
            classlabels_ints=[0, 1], post_transform="SOFTMAX", **ml,
        ),
        helper.make_node("ZipMap", ["scores"], ["probabilities"], classlabels_int64s=[0, 1], **ml),
    ]  # fmt: skip
    inputs = [helper.make_tensor_value_info("features", FLOAT, ["N", 4])]
    outputs = [
        helper.make_tensor_value_info("label", INT64, ["N"]),
        helper.make_value_info(
            "probabilities",
            helper.make_sequence_type_proto(
                helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))
            ),
        ),
    ]
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 2)], ir_version=8)


@network
def hard_choices_of_opset_9():
    """All axes from the given one on count as one."""
    graph = Graph(("x", FLOAT, ["N", 3, 4]), opset=9)
    return graph.model(y=(graph.add("Hardmax", "x", axis=1), FLOAT, ["N", 3, 4]))


def rejected():
    """Files that nothing can be made of, by name."""

    def dense(*, opset=17, **fields):
        graph = Graph(("x", FLOAT, ["N", 4]), opset=opset)
        model = graph.model(y=(graph.add("MatMul", "x", graph.weight(4, 3)), FLOAT, ["N", 3]))
        for name, value in fields.items():
            setattr(model.graph.initializer[0], name, value)
        return model

    outside = dense(data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "rejected.bin"), ("offset", "some")):
        outside.graph.initializer[0].external_data.add(key=key, value=value)
    graph = Graph(("x", FLOAT, ["N", 4]))
    sampled = graph.model(y=(graph.add("Sampling", "x", domain=MICROSOFT), FLOAT, ["N", 4]), opsets={MICROSOFT: 1})
    graph = Graph(("x", FLOAT, ["N", 4]))
    short = graph.add("Cast", "x", to=TensorProto.BFLOAT16)
    short = graph.add("MatMul", short, graph.add("Cast", graph.weight(4, 3), to=TensorProto.BFLOAT16))
    unknown = graph.model(y=(graph.add("Cast", short, to=FLOAT), FLOAT, ["N", 3]))
    files = {"newer": dense(opset=99), "typeless": dense(data_type=77), "outside": outside, "sampled": sampled}
    graph = Graph(("x", FLOAT, ["N", 4]))
    named = graph.model(y=(graph.add("Tanh", graph.add("Tanh", "x")), FLOAT, ["N", 4]))
    for node in named.graph.node:
        node.name = "same"
    graph = Graph(("x", FLOAT, ["N", 4]))
    summed = graph.model(y=(graph.add("Add", "x", graph.add("Cast", "x", to=TensorProto.INT64)), FLOAT, ["N", 4]))
    graph = Graph(("x", FLOAT, ["N", 64]))
    frames = graph.model(y=(graph.add("STFT", "x", graph.constant(np.int64(8))), FLOAT, None))
    called = {"bomb": calling(40, 2), "chain": calling(300, 1), "loop": calling(2, 1, last="f0")}
    return {**files, **called, "bfloat16": unknown, "named": named, "summed": summed, "frames": frames}


def calling(count, times, *, last="Tanh"):
    """A model of functions: each calls the next one so often, and the last one calls `last`."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for number in range(count):
        called = f"f{number + 1}" if number + 1 < count else last
        values = ["x", *(f"v{each}" for each in range(times - 1)), "y"]
        domain = "own" if called.startswith("f") else ""
        nodes = [helper.make_node(called, [a], [b], domain=domain) for a, b in itertools.pairwise(values)]
        functions.append(helper.make_function("own", f"f{number}", ["x"], ["y"], nodes, opsets))
    x, y = (helper.make_tensor_value_info(name, FLOAT, ["N", 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("f0", ["x"], ["y"], domain="own")], "graph", [x], [y])
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=8)


def main():
    (folder,) = sys.argv[1:]
    for name, make in MAKERS.items():
        onnx.save(make(), os.path.join(folder, f"{name}.onnx"))
    os.makedirs(inside := os.path.join(folder, "rejected"))
    for name, model in rejected().items():
        with open(os.path.join(inside, f"{name}.onnx"), "wb") as file:
            file.write(model.SerializeToString())
    with open(os.path.join(inside, "rejected.bin"), "wb") as file:
        file.write(bytes(48))


if __name__ == "__main__":
    main()
