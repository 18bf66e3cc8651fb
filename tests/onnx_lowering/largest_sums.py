"""Sums of the largest bytes by ONNX Runtime, as the front-end asks for them, and by NumPy in int64.

    FRONTEND/bin/python largest_sums.py WORKER_PROGRAM FOLDER

FOLDER/sums.npz has CASE/made and CASE/exact.
"""

import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROWS, INPUTS, COLUMNS = 3, 70, 5
STEP = 2.0**-7
KINDS = {"i1": TensorProto.INT8, "u1": TensorProto.UINT8, "i4": TensorProto.INT32}


def drawn(random, dtype, *shape):
    """Bytes that are mostly at the ends of their range."""
    ends = np.iinfo(dtype)
    return np.where(random.random(shape) < 0.8, random.choice([ends.min, ends.max], shape), 7).astype(dtype)


def model(nodes, x, result, tensors):
    values = [helper.make_tensor_value_info(name, KINDS[kind], None) for name, kind in (("x", x), ("y", result))]
    made = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def integer(random, x, w, *, zeros, within):
    weights = drawn(random, w, INPUTS, COLUMNS)
    zero = {"a": np.array(3, x), "b": random.integers(-5 if w == "i1" else 0, 6, COLUMNS).astype(w)} if zeros else {}
    node = helper.make_node("MatMulInteger", ["x", "w", *zero], ["y"])
    values = drawn(random, x, ROWS, INPUTS)
    exact = (values.astype(int) - zero.get("a", 0)) @ (weights.astype(int) - zero.get("b", np.zeros(1)).astype(int))
    nodes, tensors = [node], {"w": weights, **zero}
    if within:
        branches = [
            helper.make_graph([helper.make_node("MatMulInteger", ["x", "w", *zero], [name])], name, [], [result])
            for name in ("then", "else")
            for result in [helper.make_tensor_value_info(name, TensorProto.INT32, None)]
        ]
        nodes = [helper.make_node("If", ["choice"], ["y"], then_branch=branches[0], else_branch=branches[1])]
        tensors["choice"] = np.array(True)
    return model(nodes, x, "i4", tensors), values, exact


def linear(random, x, w, *, convolution):
    shape = (COLUMNS, INPUTS, 1, 1) if convolution else (INPUTS, COLUMNS)
    weights, values = drawn(random, w, *shape), drawn(random, x, ROWS, INPUTS, *([1, 1] if convolution else []))
    middle = np.array(-1 if x == "i1" else 127, x)
    tensors = {
        "xs": np.float32(STEP), "xz": middle, "w": weights, "ws": np.float32(STEP), "wz": np.array(2, w),
        "ys": np.float32(1.0), "yz": middle,
    }  # fmt: skip
    tensors = {name: np.asarray(value) for name, value in tensors.items()}
    node = helper.make_node("QLinearConv" if convolution else "QLinearMatMul", ["x", *tensors], ["y"])
    flat = weights.reshape(COLUMNS, INPUTS).T if convolution else weights
    sums = (values.reshape(ROWS, INPUTS).astype(int) - int(middle)) @ (flat.astype(int) - 2)
    ends = np.iinfo(x)
    exact = np.clip(np.rint(sums * STEP * STEP) + int(middle), ends.min, ends.max)
    return model([node], x, x, tensors), values, exact.reshape(ROWS, COLUMNS, *([1, 1] if convolution else []))


def cases(random):
    for x, w in (("u1", "i1"), ("i1", "i1"), ("u1", "u1")):
        for zeros in (False, True):
            yield f"{x}-{w}-{zeros}", integer(random, x, w, zeros=zeros, within=False)
        for convolution in (False, True):
            yield f"{x}-{w}-linear-{convolution}", linear(random, x, w, convolution=convolution)
    yield "within", integer(random, "u1", "i1", zeros=True, within=True)


def main():
    program, folder = sys.argv[1:]
    sys.path.insert(0, program)
    from from_onnx.sessions import session
    from from_onnx.unsigned import make_unsigned

    found = {}
    for name, (made, x, exact) in cases(np.random.default_rng(7)):
        make_unsigned(made)
        (found[f"{name}/made"],) = session(made.SerializeToString()).run(["y"], {"x": x})
        found[f"{name}/exact"] = exact
    np.savez(os.path.join(folder, "sums.npz"), **found)


if __name__ == "__main__":
    main()
