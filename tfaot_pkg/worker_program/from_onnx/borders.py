"""Classifiers of ONNX files give maps and texts; libraries give tensors of numbers: scores, and places of labels."""

import numpy as np
from from_onnx.graphs import OLDEST
from from_onnx.table import ML


def as_numbers(model) -> list:
    """Change `model` so that ZipMap gives the tensor that it maps, and labels that are texts are places from 0 on.

    Returns the labels by place; [] if it has numbers only, and is as it was.
    """
    sequences = {value.name: value for value in model.graph.output if value.type.WhichOneof("value") == "sequence_type"}
    labels: list = []
    for node in model.graph.node:
        if node.op_type == "ZipMap" and node.domain == ML:
            _unmap(node, sequences.get(node.output[0]))
            _know_identity(model)
        elif node.domain == ML:
            labels = _texts(node) or labels
    labels = labels or _constants(model)
    if labels:
        _give_types(model)
    return labels


def _unmap(node, value) -> None:
    """Make a ZipMap an Identity, and the graph's output a tensor."""
    import onnx

    count = sum(len(each.strings) or len(each.ints) for each in node.attribute if each.name.startswith("classlabels"))
    node.op_type, node.domain = "Identity", ""
    del node.attribute[:]
    if value is not None:
        made = onnx.helper.make_tensor_value_info(value.name, onnx.TensorProto.FLOAT, [None, count])
        value.type.CopyFrom(made.type)


def _know_identity(model) -> None:
    """Let the file import an opset of ONNX's own domain: those of CatBoost have `ai.onnx.ml` alone."""
    import onnx

    if not any(each.domain in ("", "ai.onnx") for each in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("", OLDEST))


def _texts(node) -> list:
    """The labels of a classifier that has texts, which become numbers."""
    for attribute in node.attribute:
        if attribute.name == "classlabels_strings" and attribute.strings:
            labels = [each.decode("utf-8", "replace") for each in attribute.strings]
            # The operators have different names for the same attribute.
            attribute.name = "classlabels_int64s" if node.op_type.startswith("Tree") else "classlabels_ints"
            attribute.type = attribute.INTS
            del attribute.strings[:]
            attribute.ints.extend(range(len(labels)))
            return labels
    return []


def _constants(model) -> list:
    """The labels that a graph picks out of a constant of texts, which becomes one of numbers."""
    from onnx import TensorProto, numpy_helper

    texts = {each.name: each for each in model.graph.initializer if each.data_type == TensorProto.STRING}
    for node in model.graph.node:
        if node.op_type == "ArrayFeatureExtractor" and node.input[0] in texts:
            tensor = texts[node.input[0]]
            labels = [each.decode("utf-8", "replace") for each in tensor.string_data]
            places = np.arange(len(labels), dtype=np.int64).reshape(tuple(tensor.dims))
            tensor.CopyFrom(numpy_helper.from_array(places, tensor.name))
            return labels
    return []


def _give_types(model) -> None:
    """Labels are int64 wherever they were texts."""
    from onnx import TensorProto

    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.STRING:
                attribute.i = TensorProto.INT64
    for value in model.graph.output:
        if value.type.tensor_type.elem_type == TensorProto.STRING:
            value.type.tensor_type.elem_type = TensorProto.INT64
