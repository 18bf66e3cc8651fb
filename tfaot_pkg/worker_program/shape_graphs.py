"""Graphs in which TensorFlow infers shapes, and the order of their operations (shape_analysis.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow.python.framework import function_def_to_graph

if TYPE_CHECKING:
    from framework_types import FunctionDef, GraphDef


TURNING = frozenset("NextIteration RefNextIteration".split())
"""Operations that hand something to the next turn of a loop of TensorFlow 1."""


def imported(graph_def: GraphDef) -> tf.Graph:
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
    return graph


def needed(graph: tf.Graph, wanted: list[str]) -> set[str]:
    """The operations that the tensors `wanted` depend on."""
    found: set[str] = set()
    waiting = [graph.get_tensor_by_name(name).op for name in wanted]
    while waiting:
        op = waiting.pop()
        if op.name not in found:
            found.add(op.name)
            waiting += [tensor.op for tensor in op.inputs]
    return found


def in_order(graph: tf.Graph, needed: set[str]) -> list[tf.Operation]:
    """Operations, each after those that it uses, except for what a loop of TensorFlow 1 hands to its next turn."""
    order: list[tf.Operation] = []
    state: dict[str, str] = {}
    for root in (op for op in graph.get_operations() if op.name in needed):
        waiting = [root]
        while waiting:
            op = waiting[-1]
            if state.get(op.name) is None:
                state[op.name] = "open"
                if op.type not in TURNING:
                    waiting += [tensor.op for tensor in op.inputs if state.get(tensor.op.name) is None]
                    continue
            waiting.pop()
            if state[op.name] == "open":
                state[op.name] = "done"
                order.append(op)
    return order


def body_of(graph: tf.Graph, definition: FunctionDef, shapes: list[tf.TensorShape]) -> tuple[GraphDef, dict[str, str]]:
    """(the graph of a function for arguments of these shapes, names of its tensors by those in the function)."""
    with graph.as_default():
        made, names = function_def_to_graph.function_def_to_graph_def(definition, include_library_functions=True)
    # TensorFlow would prefer the shapes of the time when the model was saved.
    for node, shape in zip(made.node, shapes, strict=False):
        node.attr["shape"].shape.CopyFrom(shape.as_proto())
    for node in made.node:
        node.attr.pop("_output_shapes", None)
    return made, names
