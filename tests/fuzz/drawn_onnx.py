"""Random graphs of ONNX, of opset 13 to 21: files of several, with ONNX Runtime's answers.

    FRONTEND/bin/python drawn_onnx.py SEED COUNT FOLDER WORKER_PROGRAM

FOLDER/onnx/N has the graph as the front-end reads it, and `data.npz` with answers as of draws.py, but in float32, and
`exact_OUTPUT`, what ONNX's own evaluator gives in float64; FOLDER/index.json names the models of each.
"""

import json
import os
import sys
import traceback

import numpy as np

TOGETHER = 25
ROWS = 17
LARGEST = 400
_NEAR = 1e-2
"""How far ONNX's evaluator may be from ONNX Runtime to show how large the roundings of that are."""
UNARY = (
    "Abs Atan Ceil Cos Elu Erf Exp Floor HardSigmoid HardSwish Identity LeakyRelu Neg Relu Round Selu Sigmoid Sign Sin "
    "Softplus Softsign Tanh ThresholdedRelu"
).split()
BINARY = "Add Sub Mul Div Max Min".split()
REDUCE = "ReduceMax ReduceMin ReduceMean ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSumExp ReduceProd".split()


def inputs(random, rows):
    shapes = {"x": (6,), "z": (4, 3), "m": (3, 6, 5)}
    given = {name: random.normal(size=(rows, *shape)).astype(np.float32) for name, shape in shapes.items()}
    for values in given.values():
        values[-1].reshape(-1)[:4] = [0.0, -0.0, 1e4, 1e-30]
    given["i"] = random.integers(-9, 10, (rows, 5))
    return given


class Graph:
    """Nodes that are added one by one, of which ONNX Runtime computes each at once, so that shapes are known."""

    def __init__(self, random, number, opset, sample):
        self.random, self.number, self.opset = random, number, opset
        self.nodes, self.tensors, self.values = [], [], dict(sample)
        names = list(sample)
        self.usable = [names[each] for each in random.permutation(len(names))[: random.integers(1, 5)]]
        length, tries = random.integers(2, 8), 0
        while (len(self.nodes) < length or self.usable[-1] in sample) and tries < 80:
            tries += 1
            self._step()
        self.result = self.usable[-1]
        self.text = " ".join(node.op_type for node in self.nodes) + f" ({number}, opset {opset})"

    def few(self, *choices):
        return choices[self.random.integers(len(choices))]

    def any(self, dtype=np.float32, *ranks):
        fits = [each for each in self.usable if self.values[each].dtype == dtype
                and (not ranks or self.values[each].ndim - 1 in ranks)]  # fmt: skip
        return fits[-1 - min(int(self.random.exponential(1.5)), len(fits) - 1)] if fits else None

    def weights(self, *shape):
        return self.constant((self.random.normal(size=shape) / 2).astype(np.float32))

    def constant(self, values):
        return np.asarray(values)

    def add(self, op, *operands, outputs=1, **attributes):
        from onnx import helper, numpy_helper

        if any(each is None for each in operands):  # no value of this type yet
            return
        names, tensors = [], []
        for each in operands:
            if isinstance(each, np.ndarray):
                tensors.append(numpy_helper.from_array(each, f"c{self.number}_{len(self.tensors) + len(tensors)}"))
                names.append(tensors[-1].name)
            else:
                names.append(each)
        made = [f"v{self.number}_{len(self.nodes)}_{place}" for place in range(outputs)]
        node = helper.make_node(op, names, made, **attributes)
        given = {name: self.values[name] for name in names if name in self.values}
        try:
            values = _session(given, [node], tensors, made, self.opset).run(None, given)
        except Exception:  # noqa: BLE001
            return
        fit = all(v.ndim > 1 and v.shape[0] == 3 and 0 < v[0].size <= LARGEST for v in values)
        if not fit or any(v.dtype not in (np.float32, np.int64, np.bool_) for v in values):
            return
        self.nodes.append(node)
        self.tensors += tensors
        for name, value in zip(made, values, strict=True):
            self.values[name] = value
            self.usable.append(name)

    def _step(self):
        x = self.any()
        kinds = [self.integers, self.truth]
        if x is not None:
            kinds += [self.unary, self.binary, self.reduced, self.normalized, self.product, self.window, self.moved,
                      self.shaped, self.cut, self.placed, self.selected, self.compared]  # fmt: skip
        value = self.values.get(x)
        axis = int(self.random.integers(1, value.ndim)) if x and value.ndim > 1 else 1
        self.few(*kinds)(x, value, axis)

    def like(self, x):
        """A value whose type and shape are those of `x`."""
        value = self.values[x]
        return self.few(*(each for each in self.usable if self.values[each].dtype == value.dtype
                          and self.values[each].shape == value.shape))  # fmt: skip

    def integers(self, *_):
        i, op = self.any(np.int64), self.few("Add", "Sub", "Mul", "Mod", "Div", "Cast")
        if op == "Cast":
            self.add(op, i, to=1)
        else:
            self.add(op, i, np.array(int(self.few(1, 2, 3, 7)), np.int64))

    def truth(self, x, *_):
        b = self.any(np.bool_)
        self.add("Not", b)
        if b and x and self.values[b].shape == self.values[x].shape:
            self.add("Where", b, x, self.like(x))

    def unary(self, x, *_):
        self.add(self.few(*UNARY), x)

    def binary(self, x, value, _):
        self.add(self.few(*BINARY), x, self.few(self.like(x), self.weights(value.shape[-1])))

    def reduced(self, x, _, axis):
        op, keep = self.few(*REDUCE, "ReduceSum"), int(self.few(0, 1))
        if op == "ReduceSum" or self.opset >= 18:
            self.add(op, x, np.array([axis], np.int64), keepdims=keep)
        else:
            self.add(op, x, axes=[axis], keepdims=keep)

    def normalized(self, x, value, axis):
        op = self.few("Softmax", "LogSoftmax", "LpNormalization", "LayerNormalization", "InstanceNormalization")
        size = value.shape[1 if op == "InstanceNormalization" else -1]
        if op == "LayerNormalization" and self.opset >= 17:
            self.add(op, x, self.weights(size), self.weights(size), axis=-1)
        elif op == "InstanceNormalization":
            self.add(op, x, self.weights(size), self.weights(size))
        elif op != "LayerNormalization":
            self.add(op, x, axis=self.few(axis, -1))

    def product(self, x, value, _):
        units = int(self.few(1, 3, 6))
        if value.ndim == 2 and self.random.random() < 0.5:
            self.add("Gemm", x, self.weights(units, value.shape[1]), self.weights(units), transB=1, alpha=0.5)
        else:
            self.add("MatMul", x, self.weights(value.shape[-1], units))

    def window(self, x, value, _):
        rank = value.ndim - 2
        if rank < 1:
            return
        shape, strides = [min(int(self.few(1, 2, 3)), each) for each in value.shape[2:]], [int(self.few(1, 2))] * rank
        pads = [int(self.few(0, 1))] * 2 * rank
        op = self.few("Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
        if op == "Conv":
            self.add(op, x, self.weights(4, value.shape[1], *shape), self.weights(4), strides=strides, pads=pads)
        elif op == "ConvTranspose":
            self.add(op, x, self.weights(value.shape[1], 2, *shape), strides=strides)
        elif op.startswith("Global"):
            self.add(op, x)
        else:
            pads = [min(each, min(shape) - 1) for each in pads]
            self.add(op, x, kernel_shape=shape, strides=strides, pads=pads)

    def moved(self, x, value, axis):
        if self.random.random() < 0.5:
            self.add("Transpose", x, perm=[0, *(int(each) + 1 for each in self.random.permutation(value.ndim - 1))])
            return
        pads = [0] * 2 * value.ndim
        pads[axis % value.ndim], pads[(value.ndim + axis) % len(pads)] = int(self.few(0, 1)), int(self.few(0, 1))
        self.add("Pad", x, np.array(pads, np.int64), mode=self.few("constant", "reflect", "edge"))

    def shaped(self, x, value, axis):
        times = [2 if place == axis else 1 for place in range(value.ndim)]
        op, to = self.few(("Reshape", [0, -1]), ("Unsqueeze", [-1]), ("Tile", times), ("Expand", [1] * value.ndim))
        self.add(op, x, np.array(to, np.int64))

    def cut(self, x, _, axis):
        start, end, step = self.few((0, 99, 2), (1, 99, 1), (0, -1, 1), (-1, -99, -1))
        self.add("Slice", x, *(np.array([each], np.int64) for each in (start, end, axis, step)))

    def placed(self, x, value, axis):
        op, last = self.few("Concat", "Gather", "CumSum"), int(self.few(0, 1))
        if op == "Concat":
            self.add(op, x, self.like(x), axis=axis)
        elif op == "CumSum":
            self.add(op, x, np.array(axis), reverse=last, exclusive=int(self.few(0, 1)))
        elif value.ndim > 1:
            self.add(op, x, self.random.integers(0, value.shape[axis], 3), axis=axis)

    def selected(self, x, value, axis):
        op = self.few("TopK", "ArgMax", "Trilu", "Clip")
        if op == "TopK" and value.ndim > 1:
            count = np.array([min(2, value.shape[axis])])
            self.add(op, x, count, axis=axis, outputs=2, largest=int(self.few(0, 1)))
        elif op == "ArgMax":
            self.add(op, x, axis=axis, keepdims=int(value.ndim == 2))
        elif op == "Trilu" and self.opset >= 14 and value.ndim > 2:
            self.add(op, x, upper=int(self.few(0, 1)))
        elif op == "Clip":
            self.add(op, x, np.array(-1, np.float32), np.array(1.5, np.float32))

    def compared(self, x, *_):
        self.add(self.few("Less", "Greater", "Equal", "LessOrEqual"), x, self.like(x))


def _session(given, nodes, tensors, results, opset, *, plain=False):
    import onnxruntime

    model = _model(given, nodes, tensors, results, opset)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def _model(given, nodes, tensors, results, opset):
    import onnx
    from onnx import helper

    feeds = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), ["N", *v.shape[1:]])
        for name, v in given.items()
    ]
    outputs = [onnx.ValueInfoProto(name=each) for each in results]
    graph = helper.make_graph(nodes, "g", feeds, outputs, tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def _moved(value):
    """Floats that differ by a rounding."""
    signs = np.where(np.random.default_rng(5).random(value.shape) < 0.5, -1, 1)
    return (value * (1 + signs * 2.0**-22)).astype(np.float32) if value.dtype == np.float32 else value


def _in_float64(given, model, got):
    """What ONNX's own evaluator gives in float64; `got` if it fails."""
    from onnx import TensorProto, numpy_helper
    from onnx.reference import ReferenceEvaluator

    exact = _model(given, model.nodes, model.tensors, [model.result], model.opset)
    for tensor in exact.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for each in exact.graph.input:
        if each.type.tensor_type.elem_type == TensorProto.FLOAT:
            each.type.tensor_type.elem_type = TensorProto.DOUBLE
    for attribute in (each for node in exact.graph.node if node.op_type == "Cast" for each in node.attribute):
        attribute.i = TensorProto.DOUBLE if attribute.i == TensorProto.FLOAT else attribute.i
    feeds = {name: each.astype(np.float64) if each.dtype == np.float32 else each for name, each in given.items()}
    with np.errstate(all="ignore"):
        try:
            (real,) = ReferenceEvaluator(exact).run(None, feeds)
        except Exception:  # noqa: BLE001 (it lacks some cases of some operators)
            return got
    return real if real.shape == got.shape else got


def main(seed, count, folder, worker_program):
    sys.path.insert(0, worker_program)
    import onnx
    from from_onnx import reading
    from messages.requests import ModelFault
    from messages.sources import ReadOnnx

    random, index = np.random.default_rng(int(seed)), {"groups": [], "refused": {}, "broken": {}}
    given = inputs(random, ROWS)
    sample = {name: each[:3] for name, each in given.items()}
    moved = {name: _moved(each) for name, each in given.items()}

    def write(models):
        """`models` as one file, or as several: a file of which something fails is halved, to know which model it was."""
        place = os.path.join(folder, "onnx", f"{models[0].number}-{models[-1].number}")
        os.makedirs(place)
        path = os.path.join(place, "model.onnx")
        parts = ([node for m in models for node in m.nodes], [t for m in models for t in m.tensors], [m.result for m in models], models[0].opset)  # fmt: skip
        onnx.save(_model(given, *parts), path)
        try:
            reading.read(ReadOnnx(path=path, shapes={}, out=place), None)
        except Exception as error:  # noqa: BLE001 (whatever it is, the test reports it)
            half = len(models) // 2
            if half:
                write(models[:half])
                write(models[half:])
            elif isinstance(error, ModelFault):
                index["refused"][models[0].text] = error.message
            else:
                index["broken"][models[0].text] = traceback.format_exc()[-2000:]
            return
        usual, plain = (_session(given, *parts, plain=each) for each in (False, True))
        arrays = {f"in_{name}": each for name, each in given.items()}
        runs = zip(models, *(session.run(None, feed) for session, feed in ((usual, given), (plain, given), (usual, moved))), strict=True)  # fmt: skip
        for model, got, again, apart in runs:
            exact = _in_float64(given, model, got)
            with np.errstate(all="ignore"):
                real = np.where(np.isclose(exact, again, _NEAR, _NEAR), exact, again)
            answers = {"got": got, "real": real, "moved": apart, "exact": exact}
            arrays.update({f"{kind}_{model.result}": value for kind, value in answers.items()})
        np.savez(os.path.join(place, "data.npz"), **arrays)
        index["groups"].append([place, {m.result: m.text for m in models}])

    for start in range(0, int(count), TOGETHER):
        opset = 13 + (start // TOGETHER) % 9
        write([Graph(random, number, opset, sample) for number in range(start, min(start + TOGETHER, int(count)))])
    with open(os.path.join(folder, "index.json"), "w") as file:
        json.dump(index, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
