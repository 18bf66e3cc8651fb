"""The wiring of GraphDefs: which nodes tensors come from and depend on, and which functions nodes call."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework_types import GraphDef, NameAttrList, NodeDef


CALLS = frozenset("PartitionedCall StatefulPartitionedCall".split())
"""Operations that only call a function."""

LOOPS = frozenset("While StatelessWhile".split())
"""Loops of TensorFlow 2; those of version 1 are cycles of nodes (operations.OLD_CONTROL_FLOW)."""


def tensor_name(text: str) -> str:
    """`node` is short for `node:0`."""
    return text if ":" in text else f"{text}:0"


def node_name(text: str) -> str:
    """The node of an input such as `node:1`, `^node` or, within functions, `node:output:1`."""
    return text.lstrip("^").partition(":")[0]


def data_inputs(node: NodeDef) -> list[str]:
    """The inputs of a node that are tensors."""
    return [text for text in node.input if text[:1] != "^"]


def control_inputs(node: NodeDef) -> list[str]:
    """The inputs of a node that are control dependencies."""
    return [text for text in node.input if text[:1] == "^"]


def ancestors(nodes: Mapping[str, NodeDef], texts: Iterable[str], *, control: bool = True) -> set[str]:
    """The names of all nodes that the tensors `texts` depend on, or, with `control`, wait for; including their own.

    `nodes` are by name. A name that is not among them, such as a function's argument, is included but not followed.
    """
    found: set[str] = set()
    waiting = [node_name(text) for text in texts]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            inputs = nodes[name].input if name in nodes else ()
            waiting += [node_name(text) for text in inputs if control or not text.startswith("^")]
    return found


def by_name(graph_def: GraphDef) -> dict[str, NodeDef]:
    """The nodes of a graph, without those of its functions."""
    return {node.name: node for node in graph_def.node}


def prune(graph_def: GraphDef, names: Iterable[str]) -> None:
    """Remove the nodes of `graph_def` that its nodes `names` do not depend on."""
    needed = ancestors(by_name(graph_def), names)
    # From the end, so that the indices of nodes still to be checked do not change.
    for index in reversed(range(len(graph_def.node))):
        if graph_def.node[index].name not in needed:
            del graph_def.node[index]


def called(node: NodeDef) -> Iterator[NameAttrList]:
    """The functions (NameAttrList) in the attributes of a node."""
    for value in node.attr.values():
        yield from (each for each in (value.func, *value.list.func) if each.name)


def free(wanted: str, taken: set[str]) -> str:
    """`wanted`, with a number appended if it is `taken`; the result is then taken."""
    name, number = wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


def parameter(name: str) -> str:
    """`name` as TensorFlow writes it as a parameter of a Python function: `in_` for `in`."""
    return f"{name}_" if keyword.iskeyword(name) else name


def distinct(wanted: Iterable[str]) -> list[str]:
    """The names `wanted`, with a number appended to repeated ones."""
    taken: set[str] = set()
    return [free(name, taken) for name in wanted]
