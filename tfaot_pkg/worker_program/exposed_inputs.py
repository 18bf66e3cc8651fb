"""Make constants and variables of a model inputs of each call, and its random numbers functions of a seed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import data_dependent_rows
import drawing
import freeze
import signatures
from messages.conversions import Expose
from messages.requests import ModelFault, Nothing
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

if TYPE_CHECKING:
    import tensorflow as tf
    from framework_types import NodeDef, Report


_MOST_LISTED = 12


def expose(request: Expose, report: Report) -> Nothing:
    """Write the frozen signature as a SavedModel; `feeds` are its new inputs, by the names of their nodes.

    With `seed`, its random numbers are functions of seeds (drawing.py). `counts` names outputs whose number of rows
    depends on values, and further outputs for these numbers (data_dependent_rows.py).
    """
    signature = signatures.load_signature(request.folder, request.tags, request.signature)
    frozen = freeze.frozen_function(request.signature, signature)
    model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta_graph = model.meta_graphs.add()
    meta_graph.meta_info_def.tags.extend(request.tags)
    meta_graph.graph_def.CopyFrom(frozen.graph.as_graph_def())
    freeze.fill(meta_graph.graph_def, signature)
    made = meta_graph.signature_def[request.signature]
    # As TensorFlow's exporter writes it (signature_constants.PREDICT_METHOD_NAME).
    made.method_name = "tensorflow/serving/predict"
    for infos, names, tensors in (
        (made.inputs, signature.inputs, freeze.inputs_of(frozen)),
        (made.outputs, signature.outputs, frozen.outputs),
    ):
        for name, tensor in zip(names, tensors, strict=True):
            infos[name].CopyFrom(_info(tensor))
    if request.seed:
        if request.seed in made.inputs:
            raise ModelFault(f"model.seed names {request.seed!r}, which is an input already", "choose another name")
        # This copy keeps its own generators: each build compares their distributions with ours (verify/draws.py).
        if request.keeps_state:
            drawing.numbered(meta_graph.graph_def)
        elif drawing.seeded(meta_graph.graph_def, request.seed):
            info = meta_graph_pb2.TensorInfo(name=f"{request.seed}:0", dtype=types_pb2.DT_INT64)
            info.tensor_shape.dim.add(size=2)
            made.inputs[request.seed].CopyFrom(info)
    if request.counts:
        for name, text in data_dependent_rows.bound(meta_graph.graph_def, made.outputs, request.counts).items():
            if name in made.outputs:
                raise ModelFault(f"model.counts names {name!r}, which is an output already", "choose another name")
            made.outputs[name].CopyFrom(meta_graph_pb2.TensorInfo(name=text, dtype=types_pb2.DT_INT32))
            # An empty shape, that of a scalar, instead of an unknown one.
            made.outputs[name].tensor_shape.SetInParent()
    constants = {node.name: node for node in meta_graph.graph_def.node if node.op == "Const"}
    for text in request.feeds:
        node = _constant(text, constants)
        if text in made.inputs:
            raise ModelFault(f"model.feeds names {text!r}, which is an input already", "remove it from model.feeds")
        tensor = node.attr["value"].tensor
        info = meta_graph_pb2.TensorInfo(name=f"{node.name}:0", dtype=tensor.dtype, tensor_shape=tensor.tensor_shape)
        made.inputs[text].CopyFrom(info)
    with open(request.out, "wb") as file:
        file.write(model.SerializeToString())
    return Nothing()


def _info(tensor: tf.Tensor) -> meta_graph_pb2.TensorInfo:
    return meta_graph_pb2.TensorInfo(
        name=tensor.name, dtype=tensor.dtype.as_datatype_enum, tensor_shape=tensor.shape.as_proto()
    )


def _constant(text: str, constants: Mapping[str, NodeDef]) -> NodeDef:
    """The constant, or former variable, that `text` names; a ModelFault that lists the largest if there is none."""
    name = text.removesuffix(":0")
    if name in constants:
        return constants[name]
    near = difflib.get_close_matches(name, list(constants), n=3, cutoff=0.6)
    largest = sorted(constants, key=lambda each: (-constants[each].ByteSize(), each))[:_MOST_LISTED]
    listing = ", ".join(f"{each} {_shape(constants[each])}" for each in (near or largest))
    raise ModelFault(
        f"model.feeds names {text!r}, but the model has no such constant or variable",
        f"did you mean {listing}?" if near else f"the largest are: {listing}" if listing else "it has none",
    )


def _shape(node: NodeDef) -> list[int]:
    return [axis.size for axis in node.attr["value"].tensor.tensor_shape.dim]
