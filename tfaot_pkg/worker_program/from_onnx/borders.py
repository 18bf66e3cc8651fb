"""Classifiers of ONNX files return maps, strings and lists; libraries return numbers: scores, positions of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from from_onnx.graphs import OLDEST

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto

ML = "ai.onnx.ml"


def as_numbers(model: ModelProto) -> list[list[str]]:
    """Change `model` so that its outputs are tensors of numbers.

    A ZipMap passes its tensor on, a list of tensors becomes an output for each (NAME_0, NAME_1 ...), and labels that
    are strings become numbers from 0 on.

    Returns the lists of such labels in this order, each once; [] if all labels are numbers.
    """
    sequences = {value.name: value for value in model.graph.output if value.type.WhichOneof("value") == "sequence_type"}
    labels: list[list[str]] = []
    for node in model.graph.node:
        if node.op_type == "ZipMap" and node.domain == ML:
            _unmap(node, sequences.get(node.output[0]))
            _know_identity(model)
        elif node.domain == ML:
            labels.append(_texts(node))
    _divide_lists(model)
    # Classifiers within others have strings too: AdaBoost's trees, then AdaBoost itself.
    labels = [each for each in (*labels, *_constants(model)) if each]
    if labels:
        _give_types(model)
    return [each for place, each in enumerate(labels) if each not in labels[:place]]


def _divide_lists(model: ModelProto) -> None:
    """Make an output of each item of a list of tensors that the graph makes as an output."""
    import onnx

    made = {node.output[0]: node for node in model.graph.node if node.op_type == "SequenceConstruct"}
    for place in reversed(range(len(model.graph.output))):
        value = model.graph.output[place]
        if value.name not in made or value.type.WhichOneof("value") != "sequence_type":
            continue
        kind = value.type.sequence_type.elem_type.tensor_type.elem_type
        names = [f"{value.name}_{number}" for number in range(len(made[value.name].input))]
        rest = list(model.graph.output)[place + 1 :]
        del model.graph.output[place:]
        for item, name in zip(made[value.name].input, names, strict=True):
            model.graph.node.append(onnx.helper.make_node("Identity", [item], [name]))
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
        model.graph.output.extend(rest)


def _unmap(node: NodeProto, value: ValueInfoProto | None) -> None:
    """Make a ZipMap an Identity, and the graph's output a tensor."""
    import onnx

    count = sum(len(each.strings) or len(each.ints) for each in node.attribute if each.name.startswith("classlabels"))
    node.op_type, node.domain = "Identity", ""
    del node.attribute[:]
    if value is not None:
        made = onnx.helper.make_tensor_value_info(value.name, onnx.TensorProto.FLOAT, [None, count])
        value.type.CopyFrom(made.type)


def _know_identity(model: ModelProto) -> None:
    """Import an opset of ONNX's own domain if the file has none: CatBoost's files import `ai.onnx.ml` alone."""
    import onnx

    if not any(each.domain in ("", "ai.onnx") for each in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("", OLDEST))


def _texts(node: NodeProto) -> list[str]:
    """The labels of a classifier that are strings, which become numbers."""
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


def _constants(model: ModelProto) -> list[list[str]]:
    """The lists of labels that a graph takes out of constants of strings, which become constants of numbers."""
    from onnx import TensorProto, numpy_helper

    texts = {each.name: each for each in model.graph.initializer if each.data_type == TensorProto.STRING}
    picked = {node.input[0] for node in model.graph.node if node.op_type == "ArrayFeatureExtractor"}
    found = []
    for name in [name for name in texts if name in picked]:
        tensor = texts[name]
        found.append([each.decode("utf-8", "replace") for each in tensor.string_data])
        places = np.arange(len(found[-1]), dtype=np.int64).reshape(tuple(tensor.dims))
        tensor.CopyFrom(numpy_helper.from_array(places, tensor.name))
    return found


def _give_types(model: ModelProto) -> None:
    """Change the type of labels from string to int64, in casts and outputs."""
    from onnx import TensorProto

    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.STRING:
                attribute.i = TensorProto.INT64
    for value in model.graph.output:
        if value.type.tensor_type.elem_type == TensorProto.STRING:
            value.type.tensor_type.elem_type = TensorProto.INT64
