"""Nodes that no output depends on: assignments of seeds, and random numbers of a dropout that keeps everything.

Keras's recurrent layers with dropout change its seed in predictions too. Old graphs compute dropout in inference as
well, with a placeholder for the probability. If that is the constant 1, the comparison after each random number has
only one result; XLA would still draw the numbers, and rows would seem to depend on one another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tensorflow.python.framework import dtypes, tensor_util
from wiring import by_name, control_inputs, data_inputs, node_name

if TYPE_CHECKING:
    from constant_values import Constants
    from framework_types import GraphDef, NodeDef


_ASSIGNMENTS = frozenset("AssignAddVariableOp AssignSubVariableOp AssignVariableOp".split())
_FORWARD = frozenset({"Identity"})


def without_dead_nodes(graph_def: GraphDef, outputs: Iterable[str]) -> GraphDef:
    """`graph_def`, whose functions are inlined, without assignments if no output (a node's name) needs their variables.

    Nodes that only these assignments need, such as random numbers of dropout, are removed too. A graph is left
    unchanged if an output may see one of its assignments.
    """
    nodes = by_name(graph_def)
    changed = {_source(nodes, node.input[0]) for node in graph_def.node if node.op in _ASSIGNMENTS}
    needed = _needed(nodes, outputs)
    read = {_source(nodes, text) for name in needed for text in nodes[name].input if not text.startswith("^")}
    # An output that reads an assigned variable may see the old or the new value: then nothing is removed.
    if not changed or changed & read:
        return graph_def
    kept = [node for node in graph_def.node if node.name in needed or node.op == "Placeholder"]
    for node in kept:
        node.input[:] = [text for text in node.input if not _only_orders(nodes, text)]
    seen = type(graph_def)()
    seen.CopyFrom(graph_def)
    del seen.node[:]
    seen.node.extend(kept)
    return seen


def _needed(nodes: Mapping[str, NodeDef], outputs: Iterable[str]) -> set[str]:
    """The nodes that `outputs` need. A control edge from an assignment or a read of a variable does not count."""
    needed: set[str] = set()
    left = list(outputs)
    while left:
        name = left.pop()
        if name in needed:
            continue
        needed.add(name)
        left += [node_name(text) for text in nodes[name].input if not _only_orders(nodes, text)]
    return needed


def _only_orders(nodes: Mapping[str, NodeDef], text: str) -> bool:
    return text.startswith("^") and nodes[text[1:]].op in (*_ASSIGNMENTS, "ReadVariableOp")


def _source(nodes: Mapping[str, NodeDef], text: str) -> str:
    """The node that computes a tensor, skipping nodes that pass it on."""
    name = node_name(text)
    while nodes[name].op in _FORWARD:
        name = node_name(nodes[name].input[0])
    return name


_HIGHEST = 1 - 2**-23
"""RandomUniform draws multiples of 2**-23 in [0, 1) (random_distributions.h), or finer ones below this limit."""
_OF_SHAPES = frozenset("Shape ShapeN Size Rank".split())


def without_decided(graph_def: GraphDef, known: Constants) -> None:
    """Replace RandomUniform by zeros if everything computed from it is the same for all of its values.

    `known` has the numbers that follow from the graph's constants (constant_values.Constants).
    """
    users: dict[str, list[NodeDef]] = {}
    for node in graph_def.node:
        for text in node.input:
            users.setdefault(node_name(text), []).append(node)
    for node in list(graph_def.node):
        if node.op == "RandomUniform" and _is_decided(node, (0.0, _HIGHEST), users, known):
            _become_zeros(graph_def, node)


def _is_decided(
    node: NodeDef, interval: tuple[float, float], users: Mapping[str, list[NodeDef]], known: Constants
) -> bool:
    """Whether only the shape of `node` matters, whose values lie in the closed `interval`."""
    return all(_passes(user, node.name, interval, users, known) for user in users.get(node.name, ()))


def _passes(
    user: NodeDef, name: str, interval: tuple[float, float], users: Mapping[str, list[NodeDef]], known: Constants
) -> bool:
    if user.op in _OF_SHAPES:
        return True
    data = data_inputs(user)
    places = [place for place, text in enumerate(data) if node_name(text) == name]
    if len(places) != 1:
        return not places  # one that only waits for it
    other = known.value(data[1 - places[0]]) if len(data) == 2 else None
    lowest, highest = interval
    if user.op == "Floor":
        return math.floor(lowest) == math.floor(highest)
    if user.op == "Identity":
        return _is_decided(user, interval, users, known)
    if not isinstance(other, int | float) or isinstance(other, bool):
        return False
    if user.op == "GreaterEqual" and places[0] == 0:
        return lowest >= other
    if user.op in ("Add", "AddV2"):
        return _is_decided(user, (lowest + other, highest + other), users, known)
    # A negative factor would swap the ends of the interval.
    if user.op == "Mul" and other >= 0:
        return _is_decided(user, (lowest * other, highest * other), users, known)
    return False


def _become_zeros(graph_def: GraphDef, node: NodeDef) -> None:
    dtype, index_type = node.attr["dtype"].type, node.attr["T"].type
    zero = graph_def.node.add(name=f"{node.name}/decided_zero", op="Const")
    zero.attr["dtype"].type = dtype
    zero.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(0.0, dtypes.as_dtype(dtype), []))
    waits = control_inputs(node)
    node.op = "Fill"
    node.input[:] = [node.input[0], zero.name, *waits]
    node.attr.clear()
    node.attr["T"].type = dtype
    node.attr["index_type"].type = index_type
