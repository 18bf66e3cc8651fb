"""Read the files of a graph: GraphDef, MetaGraphDef (.meta) and tf2xla's Config, as text (.pbtxt) or binary."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from messages.requests import ModelFault, one_line
from tensorflow.compiler.tf2xla import tf2xla_pb2
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

if TYPE_CHECKING:
    from framework_types import Config, GraphDef
    from google.protobuf.message import Message


_TEXT = (".pbtxt", ".txt", ".prototxt")

M = TypeVar("M", bound="Message")


@dataclass(frozen=True)
class GraphFile:
    """A graph, and the operation that restores its checkpoint; "" if the file does not name one."""

    graph_def: GraphDef
    restore: str


def read_graph(path: str) -> GraphFile:
    """The graph in the file `path`; ModelFault if there is none."""
    if path.endswith(".meta"):
        meta_graph = _parsed(path, meta_graph_pb2.MetaGraphDef(), "MetaGraphDef")
        graph_def, restore = meta_graph.graph_def, meta_graph.saver_def.restore_op_name
    else:
        _refuse_saved_model(path)
        try:
            graph_def, restore = _parsed(path, graph_pb2.GraphDef(), "GraphDef"), ""
        except ModelFault:
            _refuse_saved_model(path, by_content=True)
            raise
    if not graph_def.node:
        raise ModelFault(f"{path} is a graph without nodes", "write it again, with the nodes of the model")
    # All later steps find nodes by their names.
    names: set[str] = set()
    for node in graph_def.node:
        if not node.name or node.name in names:
            raise ModelFault(
                f"{path} is damaged: it has several nodes named {node.name!r}"
                if node.name
                else f"{path} is damaged: it has a node without a name",
                "write the graph again",
            )
        names.add(node.name)
    return GraphFile(graph_def=graph_def, restore=restore)


def read_config(path: str) -> Config | None:
    """The tf2xla Config in the file `path`; None without a path. ModelFault if the file is not valid."""
    if not path:
        return None
    config = _parsed(path, tf2xla_pb2.Config(), "Config of tf2xla (feed, fetch, variable)")
    if not config.fetch:
        raise ModelFault(f"{path} names no fetch", 'a Config has at least one: fetch { id { node_name: "NODE" } }')
    for kind, items in (("feed", config.feed), ("fetch", config.fetch)):
        for item in items:
            if not item.id.node_name:
                raise ModelFault(f"{path}: a {kind} has no id.node_name", "name the node of the graph")
            if item.id.output_index < 0:
                raise ModelFault(f"{path}: {kind} {item.id.node_name}: output_index is negative")
    return config


def _parsed(path: str, message: M, what: str) -> M:
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    if not os.path.isfile(path):
        raise ModelFault(f"{path} is not a file", "name the file itself")
    with open(path, "rb") as file:
        content = file.read()
    try:
        if path.endswith(_TEXT):
            text_format.Parse(content.decode(), message)
        else:
            message.ParseFromString(content)
    except (DecodeError, text_format.ParseError, UnicodeDecodeError, RecursionError, ValueError) as error:
        other = "binary: name it .pb" if path.endswith(_TEXT) else "text: name it .pbtxt"
        raise ModelFault(
            f"{path} is not a {what}: {one_line(error)}", f"write the file again; if it is {other}"
        ) from error
    return message


def _refuse_saved_model(path: str, *, by_content: bool = False) -> None:
    """Raise ModelFault for the graph file of a SavedModel, recognized by its name or content."""
    from google.protobuf.message import DecodeError

    found = os.path.basename(path) in ("saved_model.pb", "saved_model.pbtxt")
    if by_content:
        try:
            with open(path, "rb") as file:
                # Only after parsing as a graph failed: the bytes of one message often parse as another.
                found = bool(saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs)
        except DecodeError:
            found = False
    if found:
        raise ModelFault(
            f"{path} is a part of a SavedModel, not a GraphDef", "model.saved_model: name the folder that contains it"
        )
