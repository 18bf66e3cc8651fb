"""Files of the exporter for PyTorch that were changed afterwards, as the front-end reads them.

    FRONTEND/bin/python changed_exports.py WORKER_PROGRAM EXPORTER FOLDER

FOLDER/CHANGE/CHANGE.onnx are the files, and FOLDER/found.json an object: change -> [whether the digests of the exporter
and of the front-end are that of the export, framework of the answers, notes].
"""

import base64
import importlib
import io
import json
import logging
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

ROWS, INPUTS, OUTPUTS = 16, 24, 5
RANDOM = np.random.default_rng(4)
X = RANDOM.standard_normal((ROWS, INPUTS)).astype("f4")


class Rows(CalibrationDataReader):
    def __init__(self):
        self.left = [{"x": X}]

    def get_next(self):
        return self.left.pop() if self.left else None


def plain():
    weights = RANDOM.standard_normal((INPUTS, OUTPUTS)).astype("f4") / np.float32(5)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="first"),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("LeakyRelu", ["a"], ["l"], alpha=0.25),
        helper.make_node("Cast", ["l"], ["y"], to=TensorProto.FLOAT),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", n])
        for name, n in (("x", INPUTS), ("y", OUTPUTS))
    )
    typed = helper.make_tensor("b", TensorProto.FLOAT, [OUTPUTS], [0.5, -1.0, 2.0, 0.0, 3.0])
    short = helper.make_tensor("unused", TensorProto.BFLOAT16, [2], [1.5, -2.0])
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(weights, "w"), typed, short])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    sums = X @ weights + numpy_helper.to_array(typed)
    return model, np.where(sums < 0, sums * np.float32(0.25), sums)


def describe(model, answers, digest):
    file = io.BytesIO()
    np.savez_compressed(file, **{"in/x": X, "out/y": answers})
    about = {"framework": "PyTorch", "version": "2.13.0", "symbols": {}, **({"graph": digest} if digest else {})}
    for key, text in (
        ("tfaot.about", json.dumps(about)),
        ("tfaot.answers", base64.b64encode(file.getvalue()).decode()),
    ):
        model.metadata_props.add(key=key, value=text)


def untouched(model, _file):
    pass


def saved_again(model, _file):
    """By another tool: names, documentation, types of inner values, and elements as another field has them."""
    model.producer_name, model.ir_version = "other", 9
    for number, node in enumerate(model.graph.node):
        node.name, node.doc_string = f"node {number}", "text"
    model.graph.value_info.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, ["batch", OUTPUTS]))
    for tensor in model.graph.initializer:
        if tensor.name == "b":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), "b"))
        if tensor.name == "unused":
            tensor.raw_data = np.array(tensor.int32_data, "<u2").tobytes()
            del tensor.int32_data[:]


def weights_beside(model, file):
    onnx.save(model, file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return True


def other_weights(model, _file):
    (tensor,) = (each for each in model.graph.initializer if each.name == "w")
    values = numpy_helper.to_array(tensor).copy()
    values[3, 2] = np.nextafter(values[3, 2], np.float32(9))
    tensor.CopyFrom(numpy_helper.from_array(values, "w"))


def other_attribute(model, _file):
    model.graph.node[2].attribute[0].f = 0.125


def other_order(model, _file):
    model.graph.node[1].input[:] = ["b", "m"]


def quantized(model, file):
    source = f"{file}.float"
    onnx.save(model, source)
    quantize_static(source, file, Rows(), quant_format=QuantFormat.QDQ)
    os.remove(source)
    return True


CHANGES = (untouched, saved_again, weights_beside, other_weights, other_attribute, other_order, quantized)


def main():
    worker, exporter, folder = sys.argv[1:]
    logging.disable(logging.WARNING)
    sys.path.insert(0, exporter)
    digest_of = importlib.import_module("graph_digest").digest_of
    sys.path[0] = worker
    from from_onnx import graph_digest, reading
    from messages.sources import ReadOnnx

    exported, answers = plain()
    digest, found = digest_of(exported), {}
    for change in (*CHANGES, None):
        model = onnx.ModelProto()
        model.CopyFrom(exported)
        name = change.__name__ if change else "without_a_digest"
        place = os.path.join(folder, name)
        os.makedirs(place)
        file = os.path.join(place, f"{name}.onnx")
        describe(model, answers, digest if change else "")
        if not (change or other_weights)(model, file):
            onnx.save(model, file)
        made = reading.read(ReadOnnx(path=file, shapes={}, out=place, qonnx=False), None)
        read = onnx.load(file)
        digests = sorted({digest_of(read) == digest, graph_digest.digest_of(read) == digest})
        found[name] = [digests, made.answered_by, list(made.notes)]
    with open(os.path.join(folder, "found.json"), "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
