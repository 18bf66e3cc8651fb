"""Networks in ONNX files, as the front-end reads them, with ONNX Runtime's answers at several batch sizes.

    FRONTEND/bin/python onnx_networks.py WORKER_PROGRAM FILES FOLDER

FOLDER/NAME has graph.json, tensors.npz, and ROWS.npz with "in/KEY" and "out/KEY" for each number of rows; FOLDER/NAME/fault
has the message about a file that the front-end rejects. Files are those in FILES, and those of MAKERS.
"""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BATCHES = (1, 2, 5)
SIZES = (7, 4)
"""Of further axes without one, at the first and at the other batch sizes."""
MAKERS = {}


def network(function):
    MAKERS[function.__name__] = function
    return function


def _constant(name, values, dtype="i8"):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def _model(nodes, inputs, outputs, tensors, opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


@network
def pruned():
    """Two layers nine tenths of whose weights are zeros, of both signs, as a mask leaves them."""
    random, nodes, tensors, name = np.random.default_rng(2), [], [], "x"
    for number, (inputs, outputs) in enumerate([(160, 192), (192, 160)]):
        mask = random.random((outputs, inputs)) >= 0.9
        weights, bias = random.standard_normal((outputs, inputs)) * mask / 4, random.standard_normal(outputs)
        for made, values in ((f"w{number}", weights), (f"b{number}", bias)):
            tensors.append(_constant(made, values, "f4"))
        nodes.append(helper.make_node("Gemm", [name, f"w{number}", f"b{number}"], [f"s{number}"], transB=1))
        nodes.append(helper.make_node("Relu", [f"s{number}"], [name := f"y{number}"]))
    return _model(nodes, [_value("x", ["n", 160])], [_value("y1", ["n", 160])], tensors)


@network
def class_token():
    """PyTorch's `token.expand(n, -1, -1)`, as its exporter writes it, attention over it, and `squeeze(1)`."""
    node, random = helper.make_node, np.random.default_rng(1)
    one = helper.make_graph([node("Squeeze", ["t", "one1"], ["s1"])], "a", [], [_value("s1", None)])
    other = helper.make_graph([node("Identity", ["t"], ["s2"])], "b", [], [_value("s2", None)])
    nodes = [
        node("Shape", ["x"], ["xs"]), node("Gather", ["xs", "zero"], ["b"]), node("Unsqueeze", ["b", "z1"], ["bu"]),
        node("Concat", ["bu", "m1", "m1"], ["want"], axis=0), node("Shape", ["want"], ["ws"]),
        node("ConstantOfShape", ["ws"], ["ones"], value=numpy_helper.from_array(np.array([1], "i8"))),
        node("Mul", ["ones", "m1s"], ["neg"]), node("Equal", ["want", "neg"], ["eq"]),
        node("Where", ["eq", "ones", "want"], ["es"]), node("Expand", ["cls", "es"], ["q"]),
        node("Transpose", ["x"], ["xt"], perm=[0, 2, 1]), node("MatMul", ["q", "xt"], ["a"]),
        node("Softmax", ["a"], ["p"], axis=-1), node("MatMul", ["p", "x"], ["t"]), node("Shape", ["t"], ["sh"]),
        node("Gather", ["sh", "one"], ["d1"]), node("Equal", ["d1", "one"], ["eq1"]),
        node("If", ["eq1"], ["sq"], then_branch=one, else_branch=other),
        node("ReduceMean", ["sq"], ["m"], axes=[-1]), node("Sub", ["sq", "m"], ["y"]),
    ]  # fmt: skip
    token = numpy_helper.from_array(random.standard_normal((1, 1, 8)).astype("f4"), "cls")
    tensors = [token, _constant("one", 1), _constant("one1", [1]), _constant("zero", 0), _constant("z1", [0])]
    tensors += [_constant("m1", [-1]), _constant("m1s", -1)]
    return _model(nodes, [_value("x", ["N", 5, 8])], [_value("y", ["N", "k"])], tensors, 14)


@network
def computed_sizes():
    """Windows of three times without padding, and products of all pairs of two inputs: outputs have computed sizes."""
    node, random = helper.make_node, np.random.default_rng(4)
    nodes = [
        node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["steps"]),
        node("ReduceSum", ["x", "one"], ["sums"], keepdims=1), node("Transpose", ["sums"], ["column"], perm=[0, 2, 1]),
        node("Unsqueeze", ["m", "one"], ["row"]), node("MatMul", ["column", "row"], ["products"]),
        node("Reshape", ["products", "flat"], ["pairs"]),
    ]  # fmt: skip
    tensors = [numpy_helper.from_array(random.standard_normal((4, 3, 3)).astype("f4"), "w")]
    tensors += [_constant("one", [1]), _constant("flat", [0, -1])]
    inputs = [_value("x", ["N", 3, "time"]), _value("m", ["N", "masses"])]
    return _model(nodes, inputs, [_value("steps", ["N", 4, "s"]), _value("pairs", ["N", "p"])], tensors)


@network
def deep_sets():
    """Particles in any number: a layer for each, a masked sum over them, a layer for the sum over their number."""
    node, random = helper.make_node, np.random.default_rng(2)
    nodes = [
        node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["r"]), node("Mul", ["r", "mask"], ["masked"]),
        node("ReduceSum", ["masked", "axis"], ["total"], keepdims=0), node("Shape", ["x"], ["xs"]),
        node("Gather", ["xs", "one"], ["n"]), node("Cast", ["n"], ["count"], to=TensorProto.FLOAT),
        node("Div", ["total", "count"], ["mean"]), node("Gemm", ["mean", "v", "c"], ["y"], transB=1),
    ]  # fmt: skip
    tensors = [
        numpy_helper.from_array(random.standard_normal(shape).astype("f4"), name)
        for name, shape in (("w", (4, 6)), ("v", (3, 6)), ("c", (3,)))
    ]
    tensors += [_constant("axis", [1]), _constant("one", 1)]
    inputs = [_value("x", ["N", "particles", 4]), _value("mask", ["N", "particles", 1])]
    return _model(nodes, inputs, [_value("y", ["N", 3])], tensors)


@network
def sizes_as_values():
    """Sizes in arithmetic that is no shape's: positions, a slice from the middle, and twice the length of an axis."""
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["xs"]), node("Gather", ["xs", "one"], ["n"]), node("Range", ["zero", "n", "one"], ["at"]),
        node("Cast", ["at"], ["places"], to=TensorProto.FLOAT), node("Add", ["x", "places"], ["moved"]),
        node("Sub", ["n", "one"], ["last"]), node("Unsqueeze", ["last", "z1"], ["l1"]),
        node("Slice", ["moved", "o1", "l1", "o1"], ["inner"]), node("Concat", ["inner", "inner"], ["twice"], axis=1),
        node("Mul", ["n", "two"], ["double"]), node("Cast", ["double"], ["number"], to=TensorProto.FLOAT),
        node("Sqrt", ["number"], ["root"]), node("Div", ["twice", "root"], ["y"]),
    ]  # fmt: skip
    tensors = [
        _constant("zero", 0),
        _constant("one", 1),
        _constant("two", 2),
        _constant("z1", [0]),
        _constant("o1", [1]),
    ]
    return _model(nodes, [_value("x", ["N", "n"])], [_value("y", ["N", "m"])], tensors)


def _drawn(random, tensor, rows, size):
    axes = enumerate(tensor.shape or ())
    # A first axis without a name is the batch.
    shape = [each if isinstance(each, int) else size if each or place else rows for place, each in axes]
    if tensor.dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if tensor.dtype.startswith(("int", "uint")):
        return random.integers(0, 3, shape).astype(tensor.dtype)
    return random.normal(size=shape).astype(tensor.dtype)


def write(file, place):
    import onnxruntime
    from from_onnx import reading
    from from_onnx.borders import as_numbers
    from messages.requests import ModelFault
    from messages.sources import ReadOnnx

    os.makedirs(place)
    try:
        found = reading.read(ReadOnnx(path=file, shapes={}, out=place), None)
    except ModelFault as fault:
        with open(os.path.join(place, "fault"), "w", encoding="utf-8") as out:
            out.write(fault.message)
        return
    model = onnx.load(file)
    as_numbers(model)  # labels as numbers, as the front-end reads them
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    random = np.random.default_rng(3)
    for number, rows in enumerate(BATCHES):
        feeds = {each.key: _drawn(random, each, rows, SIZES[bool(number)]) for each in found.inputs}
        answers = session.run([each.key for each in found.outputs], feeds)
        arrays = {f"in/{key}": values for key, values in feeds.items()}
        arrays |= {f"out/{each.key}": values for each, values in zip(found.outputs, answers, strict=True)}
        np.savez(os.path.join(place, f"{rows}.npz"), **arrays)


def main():
    program, files, folder = sys.argv[1:]
    sys.path.insert(0, program)
    for name, make in MAKERS.items():
        onnx.save(make(), os.path.join(folder, f"{name}.onnx"))
        write(os.path.join(folder, f"{name}.onnx"), os.path.join(folder, name))
    for name in sorted(os.listdir(files)):
        if name.endswith(".onnx"):
            write(os.path.join(files, name), os.path.join(folder, name.removesuffix(".onnx")))


if __name__ == "__main__":
    main()
