"""Make a SavedModel of a graph: a GraphDef file with feeds and fetches, and possibly a checkpoint.

The graph is never run. TensorFlow imports it only to infer shapes, after its operations were checked.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import constant_branches
import graph_border
import graph_checkpoint
import graph_reading
import modules
import pinned_inputs
import reachability
import saved_model
import tensorflow as tf
from messages.conversions import ConvertGraph, ProposedGraph, ProposeGraph, Values
from messages.graph import Tensor
from messages.requests import ModelFault, Nothing, one_line
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow.python.framework import dtypes
from wiring import free, node_name, tensor_name

if TYPE_CHECKING:
    from framework_types import GraphDef, MetaGraphDef, NodeDef, Report, TensorInfo
    from messages.graph import Shape


_SIGNATURE = "proposed"
# Usual names of placeholders in graphs of TensorFlow 1, for the share of units that dropout keeps or drops.
_KEPT = re.compile(r"keep_?prob", re.IGNORECASE)
_DROPPED = re.compile(r"drop_?out(_?(rate|prob))?$|drop_?(rate|prob)$", re.IGNORECASE)
_VALID = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_./>-]*")
"""Names that TensorFlow accepts (node_def_util.cc)."""
_PLACEHOLDERS = frozenset("Placeholder PlaceholderV2 PlaceholderWithDefault".split())


def convert(request: ConvertGraph, report: Report) -> Nothing:
    """Write the SavedModel; ModelFault for another kind of file, or a border that the graph does not have."""
    found = graph_reading.read_graph(request.files.graph)
    config = graph_reading.read_config(request.files.config)
    # Before feeds are derived: a placeholder that has become a constant is no feed.
    pinned_inputs.replace_nodes(found.graph_def, request.constants)
    border = graph_border.chosen(found.graph_def, config, request)
    border = pinned_inputs.without_dead_branches(found.graph_def, border)
    meta_graph = _meta_graph(found.graph_def, border, request.signature, request.tags)
    graph_checkpoint.write_values(meta_graph, found, config, request)
    _write(meta_graph, request.out)
    return Nothing()


def propose(request: ProposeGraph, report: Report) -> ProposedGraph:
    """Propose inputs (placeholders that outputs need), outputs (unread tensors), constants (switches of training)."""
    found = graph_reading.read_graph(request.files.graph)
    config = graph_reading.read_config(request.files.config)
    given = {feed.id.node_name for feed in config.feed} if config else set()
    constants = {
        node.name: value
        for node in found.graph_def.node
        if node.op in _PLACEHOLDERS and node.name not in given and (value := _switched_off(node)) is not None
    }
    defaulted = [
        node.name
        for node in found.graph_def.node
        if node.op == "PlaceholderWithDefault" and not graph_border.is_of_training(node)
    ]
    pinned_inputs.replace_nodes(found.graph_def, constants)
    border = graph_border.derived(found.graph_def, config)
    border = pinned_inputs.without_dead_branches(found.graph_def, border)
    meta_graph = _meta_graph(found.graph_def, border, _SIGNATURE, ())
    signature = meta_graph.signature_def[_SIGNATURE]
    saved_model.require_dtypes(signature)
    used = reachability.reached_by(meta_graph, _SIGNATURE, signature)
    fed = {node_name(feed.name) for feed in border.feeds.values()}
    return ProposedGraph(
        inputs=saved_model.tensors_of(signature.inputs),
        outputs=_with_shapes(saved_model.tensors_of(signature.outputs), used),
        constants=constants,
        defaulted=tuple(sorted(name for name in defaulted if name not in {*fed, *constants})),
        variables=tuple(sorted(used.variables)),
    )


def _switched_off(node: NodeDef) -> Values | None:
    """The value that sets a placeholder for training to inference; None for any other placeholder."""
    shape = node.attr["shape"].shape
    if len(shape.dim) > 0:
        return None
    dtype, name = dtypes.as_dtype(node.attr["dtype"].type), node.name.rpartition("/")[2]
    # A scalar bool that is fed switches between training and inference, whatever its name.
    if dtype == dtypes.bool:
        return Values(shape=(), values=(False,))
    if not dtype.is_floating:
        return None
    if _KEPT.search(name):
        return Values(shape=(), values=(1.0,))
    return Values(shape=(), values=(0.0,)) if _DROPPED.search(name) else None


def _meta_graph(
    graph_def: GraphDef, border: graph_border.Border, signature: str, tags: tuple[str, ...]
) -> MetaGraphDef:
    _rename_invalid(graph_def, [*border.feeds.values(), *border.fetches.values()])
    meta_graph = meta_graph_pb2.MetaGraphDef()
    meta_graph.meta_info_def.tags.extend(tags)
    meta_graph.graph_def.CopyFrom(graph_def)
    made = meta_graph.signature_def[signature]
    made.method_name = "tensorflow/serving/predict"
    for infos, tensors in ((made.inputs, border.feeds), (made.outputs, border.fetches)):
        for key, tensor in tensors.items():
            infos[key].CopyFrom(tensor)
    return meta_graph


def _rename_invalid(graph_def: GraphDef, infos: list[TensorInfo]) -> None:
    """Rename nodes whose names TensorFlow rejects (other programs wrote them); the border keeps the names it shows."""
    taken_names = {node.name for node in graph_def.node}
    renamed: dict[str, str] = {}
    for node in graph_def.node:
        if not _VALID.fullmatch(node.name):
            wanted = re.sub(r"[^A-Za-z0-9_./>-]", "_", node.name)
            new = free(wanted if _VALID.fullmatch(wanted) else f"node{wanted}", taken_names)
            taken_names.add(new)
            renamed[node.name], node.name = new, new
    constant_branches.rename(graph_def.node, renamed)
    for info in infos:
        info.name = constant_branches.renamed_in(info.name, renamed)


def _write(meta_graph: MetaGraphDef, folder: str) -> None:
    model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    model.meta_graphs.append(meta_graph)
    try:
        content = model.SerializeToString()
    except ValueError as error:  # larger than two gigabytes
        raise ModelFault(f"the graph is too large for a SavedModel: {one_line(error)}") from error
    with open(os.path.join(folder, "saved_model.pb"), "wb") as file:
        file.write(content)


def _with_shapes(outputs: tuple[Tensor, ...], used: reachability.Reached) -> tuple[Tensor, ...]:
    """The outputs with the shapes that TensorFlow infers; unchanged if the graph may not be imported."""
    if used.faults:
        return outputs
    modules.refuse_hidden_code(used.graph_def)
    shapes = _inferred(used)
    return tuple(
        Tensor(name=tensor.name, dtype=tensor.dtype, shape=shapes.get(tensor.name, tensor.shape)) for tensor in outputs
    )


def _inferred(used: reachability.Reached) -> dict[str, Shape | None]:
    graph = tf.Graph()
    try:
        with graph.as_default():
            given = {
                tensor_name(info.name): tf.compat.v1.placeholder(
                    tf.as_dtype(info.dtype), tf.TensorShape(info.tensor_shape)
                )
                for info in used.inputs.values()
            }
            given.update({f"{name}:0": _stand_in(node) for name, node in used.variables.items()})
            # TensorFlow rejects inputs that nothing in the graph uses.
            needed = {tensor_name(text) for node in used.graph_def.node for text in node.input}
            asked = {key: text for key, text in used.fetched.items() if text not in given}
            results = tf.graph_util.import_graph_def(
                used.graph_def,
                input_map={text: tensor for text, tensor in given.items() if text in needed},
                return_elements=list(asked.values()),
                name="",
            )
    except (tf.errors.OpError, ValueError, KeyError, TypeError) as error:
        raise ModelFault(f"TensorFlow cannot load the graph: {one_line(error)}") from error
    return {key: saved_model.sizes_of(tensor.shape) for key, tensor in zip(asked, results, strict=True)}


def _stand_in(node: NodeDef) -> tf.Tensor:
    """A placeholder with the dtype and shape of a variable, without a value."""
    dtype, shape = tf.as_dtype(node.attr["dtype"].type), tf.TensorShape(node.attr["shape"].shape)
    # TensorFlow infers shapes through handles only if their type and shape are attributes.
    if node.op == "VarHandleOp":
        return tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape)
    return tf.compat.v1.placeholder(dtype, shape)
