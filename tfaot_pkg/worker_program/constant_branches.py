"""Branches of TensorFlow 2 (`If`) whose condition is constant: the function of the taken branch is called directly.

Functions are followed only if they are called once: then the arguments of that call are the only ones they get.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import TYPE_CHECKING

from constant_values import Constants
from wiring import by_name, called, data_inputs, free, node_name

if TYPE_CHECKING:
    from constant_values import Value
    from framework_types import GraphDef, NodeDef, Nodes, TensorInfo


_BRANCHES = {"If": "StatefulPartitionedCall", "StatelessIf": "PartitionedCall"}
_CALLS = frozenset(_BRANCHES.values())
_DEEPEST = 100
"""Functions nested deeper than this are left unchanged."""


def call_constant_branches(graph_def: GraphDef, fetches: list[TensorInfo], fed: set[str]) -> None:
    """Replace each `If` of a known condition by a call of its branch; renames tensors in `fetches` (TensorInfo) too."""
    calls = _Calls(graph_def)
    nodes = graph_def.node
    renamed = calls.take(nodes, Constants(by_name(graph_def), fed), 0)
    rename(nodes, renamed)
    for info in fetches:
        info.name = renamed_in(info.name, renamed)


class _Calls:
    """The functions of a graph, and how often each is called."""

    def __init__(self, graph_def: GraphDef) -> None:
        self._library = {function.signature.name: function for function in graph_def.library.function}
        bodies = [graph_def.node, *(function.node_def for function in graph_def.library.function)]
        self._uses = collections.Counter(each.name for nodes in bodies for node in nodes for each in called(node))

    def take(self, nodes: Nodes, known: Constants, depth: int) -> dict[str, str]:
        """Change `nodes` and the functions that they call; return the new names of nodes by their old ones."""
        names = {node.name for node in nodes}
        renamed: dict[str, str] = {}
        for node in nodes:
            condition = known.value(node.input[0]) if node.op in _BRANCHES and node.input else None
            values = [known.value(text) for text in data_inputs(node)]
            if isinstance(condition, bool):
                _become_call(node, condition)
                values = values[1:]
                # TensorFlow names a function's nodes below its call; below an `If` the graph may have nodes.
                renamed[node.name] = free(f"{node.name}_taken", names)
                node.name = renamed[node.name]
            if node.op in _CALLS and depth < _DEEPEST:
                self._follow(node.attr["f"].func.name, values, depth + 1)
        return renamed

    def _follow(self, name: str, values: list[Value], depth: int) -> None:
        function = self._library.get(name)
        # A function that is called twice would need a copy for each set of constants.
        if function is None or self._uses[name] != 1 or len(values) != len(function.signature.input_arg):
            return
        arguments = [argument.name for argument in function.signature.input_arg]
        given = {argument: value for argument, value in zip(arguments, values, strict=True) if value is not None}
        if not given:
            return
        known = Constants({node.name: node for node in function.node_def}, set(), given)
        renamed = self.take(function.node_def, known, depth)
        rename(function.node_def, renamed)
        for results in (function.ret, function.control_ret):
            for key, text in list(results.items()):
                results[key] = renamed_in(text, renamed)


def _become_call(node: NodeDef, condition: bool) -> None:
    branch = node.attr["then_branch" if condition else "else_branch"].func
    node.attr["f"].func.CopyFrom(branch)
    node.op = _BRANCHES[node.op]
    del node.input[0]
    for name in [name for name in node.attr if name not in ("f", "Tin", "Tout")]:
        del node.attr[name]


def rename(nodes: Nodes, renamed: Mapping[str, str]) -> None:
    """Make `nodes` use the new names in `renamed` (old -> new)."""
    for node in nodes if renamed else ():
        node.input[:] = [renamed_in(text, renamed) for text in node.input]


def renamed_in(text: str, renamed: Mapping[str, str]) -> str:
    """`text`, an input or a tensor, with the new name of its node."""
    name = node_name(text)
    return text.replace(name, renamed[name], 1) if name in renamed else text
