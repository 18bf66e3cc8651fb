"""ONNX operators at corner values, as the front-end reads them, beside ONNX Runtime's answers.

    FRONTEND/bin/python onnx_corners.py read WORKER_PROGRAM FOLDER STEP     writes graphs, inputs and ONNX Runtime's answers

Of the cases every STEP-th.
"""

import json
import os
import sys

import numpy as np

# Without subnormal numbers, which TensorFlow flushes to zero.
CORNERS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 3.4028235e38, -3.4028235e38, 1, -1, 0.5, -2.5, 88.5, -104.0, 1e5]  # fmt: skip
_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN "
    "LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh "
    "ThresholdedRelu"
).split()
_HUGE = frozenset(("Sin", "Cos", "Tan"))
"""Of 3.4e38 they depend on the last bit of a reduction by pi."""
_IMAGE = [1, 2, 5, 6]


def _cases() -> dict:
    """Name -> (operator, attributes, further constant inputs, input, number of outputs, opset)."""
    values, made = np.array([CORNERS], np.float32), {}
    for name in _UNARY:
        made[name] = (name, {}, [], values[:, np.abs(values[0]) < 1e30] if name in _HUGE else values, 1, 22)
    for exponent in (-2, -1, -0.5, 0, 0.5, 1, 2, 3, 2.5):
        made[f"Pow {exponent}"] = ("Pow", {}, [np.float32(exponent)], values, 1, 22)
    for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"):
        made[f"{name} by all"] = (name, {}, [np.array(CORNERS, np.float32)[:, None]], values, 1, 22)
    for name in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2",
                 "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"):  # fmt: skip
        for place, corner in (("NaN", np.nan), ("inf", np.inf), ("-inf", -np.inf), ("-0", -0.0)):
            row = np.array([[-0.0, corner, -0.0, -0.0]], np.float32)
            made[f"{name} {place}"] = (name, {"keepdims": 0}, [np.array([1])], row, 1, 22)
    for name in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            zeros = np.array([[0.0, -0.0, 0.0], [-0.0, 0.0, -0.0]], np.float32)
            made[f"{name} {last}"] = (name, {"axis": 1, "select_last_index": last}, [], zeros, 1, 22)
            numbers = np.array([[np.nan, 1, 1], [1, np.nan, 2], [2, 2, np.nan], [-2, np.nan, np.inf]], np.float32)
            made[f"{name} {last} NaN"] = (name, {"axis": 1, "select_last_index": last}, [], numbers, 1, 22)
    for reduction in ("max", "min"):
        inputs = [np.array([[1, 1, 2]]), np.array([[1, np.nan, np.nan]], np.float32)]
        row = np.array([[np.nan, 3, 3, -0.0]], np.float32)
        made[f"ScatterElements {reduction}"] = (
            "ScatterElements",
            {"axis": 1, "reduction": reduction},
            inputs,
            row,
            1,
            22,
        )
    for corner in (np.nan, np.inf):
        for place in ((2, 3), (0, 0), (4, 5)):
            made.update({f"{name} {corner} {place}": case for name, case in _with_one(corner, *place).items()})
    return made


def _with_one(corner: float, row: int, column: int) -> dict:
    """Operators of which each result uses some of the elements, with one that is no number."""
    image = np.random.default_rng(0).normal(size=_IMAGE).astype(np.float32)
    image[0, 0, row, column] = corner
    made = {}
    for mode in ("nearest", "linear", "cubic"):
        for place in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
            for name, size in (("larger", [1, 2, 9, 13]), ("smaller", [1, 2, 3, 4])):
                attributes = {"mode": mode, "coordinate_transformation_mode": place}
                inputs = [np.zeros(0, np.float32), np.zeros(0, np.float32), np.array(size)]
                made[f"Resize {mode} {place} {name}"] = ("Resize", attributes, inputs, image, 1, 19)
    for antialias in ("linear", "cubic"):
        inputs = [np.zeros(0, np.float32), np.zeros(0, np.float32), np.array([1, 2, 3, 4])]
        made[f"Resize antialias {antialias}"] = ("Resize", {"mode": antialias, "antialias": 1}, inputs, image, 1, 19)
    grid = np.random.default_rng(1).uniform(-1.2, 1.2, (1, 4, 5, 2)).astype(np.float32)
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            attributes = {"mode": mode, "padding_mode": padding}
            made[f"GridSample {mode} {padding}"] = ("GridSample", attributes, [grid], image, 1, 20)
    for name in ("AveragePool", "LpPool", "MaxPool"):
        attributes = {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1], "strides": [2, 1]}
        made[name] = (name, attributes, [], image, 1, 22)
    for exclusive in (0, 1):
        for reverse in (0, 1):
            attributes = {"exclusive": exclusive, "reverse": reverse}
            made[f"CumSum {exclusive} {reverse}"] = ("CumSum", attributes, [np.array(3)], image, 1, 22)
    made["Trilu"] = ("Trilu", {"upper": 0}, [], image, 1, 22)
    made["GatherElements"] = ("GatherElements", {"axis": 3}, [np.zeros([1, 2, 5, 6], np.int64)], image, 1, 22)
    made["ScatterND"] = ("ScatterND", {"reduction": "add"}, [np.array([[0, 0, 1, 1]]), np.float32([1])], image, 1, 22)
    made["Pad"] = ("Pad", {"mode": "reflect"}, [np.array([0, 0, 1, 1, 0, 0, 1, 1])], image, 1, 22)
    made["LRN"] = ("LRN", {"size": 1}, [], image, 1, 22)
    made["DepthToSpace"] = ("Transpose", {"perm": [0, 1, 3, 2]}, [], image, 1, 22)
    made["Softmax"] = ("Softmax", {"axis": 3}, [], image, 1, 22)
    made["Hardmax"] = ("Hardmax", {"axis": 3}, [], image, 1, 22)
    made["LayerNormalization"] = ("LayerNormalization", {"axis": 3}, [np.ones(6, np.float32)], image, 1, 22)
    made["InstanceNormalization"] = (
        "InstanceNormalization", {}, [np.ones(2, np.float32), np.zeros(2, np.float32)], image, 1, 22,
    )  # fmt: skip
    return made


_OF_THE_RUNTIME = ("Hardmax", "LRN", "MaxPool", "ReduceMax NaN", "ReduceMin NaN")
"""What ONNX Runtime gives for NaN depends on its place, or (LRN) it reaches channels that do not use it."""
_OF_ROUNDING = ("Resize antialias linear inf", "Resize antialias cubic inf")
"""A weight that is 0, or a rounding error of either sign."""
_OF_TENSORFLOW = ("Softmax",)
"""TensorFlow's own kernel gives 0 beside NaN, compiled code NaN."""


def read(folder: str, step: int) -> None:
    import onnx
    import onnxruntime
    from from_onnx import reading
    from messages.requests import ModelFault
    from messages.sources import ReadOnnx
    from onnx import helper, numpy_helper

    index = {}
    left_out = (*_OF_THE_RUNTIME, *_OF_ROUNDING, *_OF_TENSORFLOW)
    cases = [each for each in _cases().items() if not each[0].startswith(left_out)][::step]
    for number, (name, (operator, attributes, constants, x, outputs, opset)) in enumerate(cases):
        given = [numpy_helper.from_array(np.asarray(each), f"c{i}") for i, each in enumerate(constants)]
        names = ["x", *(each.name for each in given)]
        results = [f"y{i}" for i in range(outputs)]
        graph = helper.make_graph(
            [helper.make_node(operator, names, results, **attributes)], "g",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, list(x.shape))],
            [onnx.ValueInfoProto(name=each) for each in results], given,
        )  # fmt: skip
        model = onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        )
        place = os.path.join(folder, str(number))
        os.makedirs(place)
        onnx.save(model, os.path.join(place, "model.onnx"))
        try:
            answers = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
            found = reading.read(ReadOnnx(path=os.path.join(place, "model.onnx"), shapes={}, out=place), None)
        except (ModelFault, RuntimeError, onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented) as error:
            index[name] = [number, str(error)]
            continue
        arrays = {"in/x": x} | {f"out/{key}": value for key, value in zip(results, answers, strict=True)}
        np.savez(os.path.join(place, "data.npz"), **arrays)
        index[name] = [number, ""] if [each.key for each in found.inputs] == ["x"] else [number, "other inputs"]
    with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as file:
        json.dump(index, file)


def main() -> None:
    what, program, folder, step = sys.argv[1:]
    sys.path.insert(0, program)
    assert what == "read"
    read(folder, int(step))


if __name__ == "__main__":
    main()
