"""Feeds and fetches of a graph: from the spec or a tf2xla Config, or else its placeholders and sinks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import operations
import tensorflow as tf
from messages.conversions import ConvertGraph
from messages.requests import ModelFault
from tensorflow.core.framework import tensor_shape_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.framework import op_def_registry
from wiring import ancestors, by_name, data_inputs, node_name

if TYPE_CHECKING:
    from framework_types import AttrValue, Config, GraphDef, NodeDef, OpDef, TensorId, TensorInfo, TensorShapeProto
    from messages.graph import Shape


_FED = frozenset("Placeholder PlaceholderV2".split())
_PASSIVE = frozenset("Const Placeholder PlaceholderV2 PlaceholderWithDefault NoOp Assert Print PrintV2".split())
_SCOPES_OF_TRAINING = frozenset("gradients save train Adam Momentum GradientDescent RMSProp init".split())
_TYPED_SHAPES_SINCE = 24
"""Graphs of older producers have [] as the shape of placeholders of any shape (graph.proto)."""


@dataclass(frozen=True)
class Border:
    """TensorInfo of feeds and fetches, by their names in the signature."""

    feeds: dict[str, TensorInfo]
    fetches: dict[str, TensorInfo]


def chosen(graph_def: GraphDef, config: Config | None, request: ConvertGraph) -> Border:
    """The border that the request asks for; ModelFault if the graph has no such tensors."""
    graph = _Graph(graph_def)
    if config is not None:
        return _of_config(graph, config, request.shapes)
    fetches = request.outputs or tuple(_sinks(graph))
    feeds = request.inputs or tuple(_placeholders(graph, fetches))
    return Border(
        feeds={key: graph.info(key, "model.inputs") for key in feeds},
        fetches={key: graph.info(key, "model.outputs") for key in fetches},
    )


def derived(graph_def: GraphDef, config: Config | None) -> Border:
    """The border of `config`, or else placeholders and sinks."""
    graph = _Graph(graph_def)
    if config is not None:
        return _of_config(graph, config, {})
    fetches = _sinks(graph)
    return Border(
        feeds={key: graph.info(key, "") for key in _placeholders(graph, fetches)},
        fetches={key: graph.info(key, "") for key in fetches},
    )


def _of_config(graph: _Graph, config: Config, shapes: Mapping[str, Shape]) -> Border:
    feeds: dict[str, TensorInfo] = {}
    for feed in config.feed:
        key = feed.name or _short(feed.id)
        info = graph.info(_short(feed.id), "the Config's feeds")
        if feed.type and feed.type != info.dtype:
            raise ModelFault(
                f"feed {key!r} of the Config has another dtype than the node {feed.id.node_name!r}",
                "correct the type in the Config, or remove it",
            )
        # A shape in the spec takes precedence over that of the Config.
        if feed.HasField("shape") and key not in shapes:
            _require_compatible(key, feed.shape, info.tensor_shape)
            info.tensor_shape.CopyFrom(feed.shape)
        _put(feeds, key, info)
    fetches: dict[str, TensorInfo] = {}
    for fetch in config.fetch:
        _put(fetches, fetch.name or _short(fetch.id), graph.info(_short(fetch.id), "the Config's fetches"))
    return Border(feeds=feeds, fetches=fetches)


def _short(tensor_id: TensorId) -> str:
    return f"{tensor_id.node_name}:{tensor_id.output_index}" if tensor_id.output_index else tensor_id.node_name


def _put(found: dict[str, TensorInfo], key: str, info: TensorInfo) -> None:
    if key in found:
        raise ModelFault(f"the Config has {key!r} twice", "give each feed and each fetch a name of its own")
    found[key] = info


def _require_compatible(key: str, wanted: TensorShapeProto, own: TensorShapeProto) -> None:
    if not tf.TensorShape(wanted).is_compatible_with(tf.TensorShape(own)):
        raise ModelFault(
            f"feed {key!r} of the Config has the shape {tf.TensorShape(wanted)}, its placeholder {tf.TensorShape(own)}",
            "correct the shape in the Config",
        )


class _Graph:
    """A graph, and the dtypes and shapes of its nodes' outputs."""

    def __init__(self, graph_def: GraphDef) -> None:
        self.nodes = by_name(graph_def)
        self.library = {function.signature.name: function for function in graph_def.library.function}
        self._has_typed_shapes = graph_def.versions.producer >= _TYPED_SHAPES_SINCE

    def info(self, text: str, where: str) -> TensorInfo:
        """TensorInfo of the tensor `text`; if there is none, a ModelFault that tells `where` it is named."""
        name, _, index = text.partition(":")
        node = self.nodes.get(name)
        if node is None or (index and not index.isdecimal()):
            near = difflib.get_close_matches(name, list(self.nodes), n=3, cutoff=0.5)
            raise ModelFault(
                f"{where} names the tensor {text!r}, but the graph has no such node",
                f"did you mean {', '.join(map(repr, near))}?"
                if near
                else "write NODE, or NODE:1 for its second output",
            )
        dtypes = self.dtypes(node)
        if int(index or 0) >= len(dtypes):
            raise ModelFault(
                f"{where} names the tensor {text!r}, and the node {name!r} ({node.op}) has {len(dtypes)} outputs",
                "name another tensor of the graph",
            )
        if not dtypes[int(index or 0)]:
            raise ModelFault(f"the graph is damaged: the node {name!r} ({node.op}) has no dtype", "write it again")
        info = meta_graph_pb2.TensorInfo(name=f"{name}:{index or 0}", dtype=dtypes[int(index or 0)])
        info.tensor_shape.CopyFrom(self._shape(node, int(index or 0)))
        return info

    def dtypes(self, node: NodeDef) -> list[int]:
        """The dtype of each output of a node; ModelFault for an operation that this TensorFlow does not know."""
        called = self.library.get(node.op)
        definition = called.signature if called is not None else op_def_registry.get(node.op)
        if definition is None:
            raise ModelFault(
                f"the node {node.name!r} is an operation that this TensorFlow does not know: {node.op}",
                "choose another toolchain (compilation.tensorflow), or replace the operation",
            )
        found: list[int] = []
        for output in definition.output_arg:
            if output.type_list_attr:
                found += node.attr[output.type_list_attr].list.type
            else:
                # An output may be several tensors: their number and types are attributes of the node.
                count = node.attr[output.number_attr].i if output.number_attr else 1
                found += [output.type or _attribute(node, definition, output.type_attr).type] * count
        return found

    def _shape(self, node: NodeDef, index: int) -> TensorShapeProto:
        # Files have no _output_shapes; only constants and placeholders state their shapes.
        if node.op == "Const":
            return node.attr["value"].tensor.tensor_shape
        if node.op in operations.VARIABLES or node.op in {*_FED, "PlaceholderWithDefault"}:
            shape = node.attr["shape"].shape
            if "shape" in node.attr and (len(shape.dim) or self._has_typed_shapes):
                return shape
        known = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else ()
        return known[index] if index < len(known) else tensor_shape_pb2.TensorShapeProto(unknown_rank=True)


def _attribute(node: NodeDef, definition: OpDef, name: str) -> AttrValue:
    """An attribute of a node, or its default, which writers of graphs omit."""
    if name in node.attr:
        return node.attr[name]
    return next(each.default_value for each in definition.attr if each.name == name)


def _sinks(graph: _Graph) -> list[str]:
    """The tensors that depend on a placeholder and that no node reads, by name; ModelFault if there are none."""
    used = {node_name(text) for node in graph.nodes.values() for text in data_inputs(node)}
    fed = _fed_nodes(graph)
    ends = [
        node for node in graph.nodes.values() if node.name in fed and node.name not in used and node.op not in _PASSIVE
    ]
    # Graphs of training end in savers and optimizers too; these count only if there is nothing else.
    computed = [node for node in ends if _is_inference(node)] or ends
    found = [
        node.name if index == 0 else f"{node.name}:{index}"
        for node in sorted(computed, key=lambda node: node.name)
        for index in range(len(graph.dtypes(node)))
    ]
    if not found:
        raise ModelFault(
            "the outputs are not known: the graph has no node that depends on a placeholder and that no other uses",
            "name them in model.outputs",
        )
    return found


def _is_inference(node: NodeDef) -> bool:
    changes = node.op.startswith(("Assign", "Apply", "ResourceApply", "Scatter", "ResourceScatter"))
    return operations.is_allowed(node.op) and not changes and not is_of_training(node)


def is_of_training(node: NodeDef) -> bool:
    """Whether a node is in a scope of TensorFlow's savers or optimizers."""
    return any(re.sub(r"_\d+$", "", part) in _SCOPES_OF_TRAINING for part in node.name.split("/")[:-1])


def _fed_nodes(graph: _Graph) -> set[str]:
    """Names of the nodes that depend on placeholders."""
    users: dict[str, list[str]] = {}
    for node in graph.nodes.values():
        for text in node.input:
            if text[:1] != "^":
                users.setdefault(node_name(text), []).append(node.name)
    waiting = [node.name for node in graph.nodes.values() if _is_fed(node)]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += users.get(name, [])
    return found


def _placeholders(graph: _Graph, outputs: Iterable[str]) -> list[str]:
    """The placeholders that `outputs` need, by name."""
    needed = ancestors(graph.nodes, outputs)
    return sorted(name for name, node in graph.nodes.items() if name in needed and _is_fed(node))


def _is_fed(node: NodeDef) -> bool:
    """Whether a node is a placeholder without a default, or one that is fed with batches."""
    # A default of fixed shape is a setting, such as a rate of dropout; with an open axis it is a sample of a batch.
    open_axes = any(axis.size < 0 for axis in node.attr["shape"].shape.dim) if "shape" in node.attr else False
    return node.op in _FED or (node.op == "PlaceholderWithDefault" and open_axes)
