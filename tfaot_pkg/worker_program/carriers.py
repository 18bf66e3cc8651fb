"""Inputs and outputs of types that tfcompile has no C++ type for: the graph takes and returns carriers instead.

float16 and bfloat16 are carried as their bits, complex numbers as pairs of floats (elements.py). A carrier has the
same bytes in memory as the value, so callers see no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from messages.carriers import CARRIERS, PARTS
from tensorflow.python.framework import dtypes
from wiring import by_name

if TYPE_CHECKING:
    from framework_types import GraphDef, NodeDef
    from messages.graph import Feed, Fetch


Carried = TypeVar("Carried", "Feed", "Fetch")


def carried(
    graph_def: GraphDef, inputs: Iterable[Feed], outputs: Iterable[Fetch]
) -> tuple[tuple[Feed, ...], tuple[Fetch, ...]]:
    """(inputs, outputs) of types that compiled code can have; nodes that convert them are added to `graph_def`."""
    taken = {node.name for node in graph_def.node}
    nodes = by_name(graph_def)

    def unique(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    feeds = tuple(_feed(graph_def, nodes, each, unique) for each in inputs)
    return feeds, tuple(_fetch(graph_def, each, unique) for each in outputs)


def _feed(graph_def: GraphDef, nodes: dict[str, NodeDef], feed: Feed, unique: Callable[[str], str]) -> Feed:
    if feed.dtype not in CARRIERS:
        return feed
    carrier, node = CARRIERS[feed.dtype], nodes[feed.node]
    placeholder = graph_def.node.add(name=unique(f"{feed.node}/carried"), op="Placeholder")
    placeholder.attr["dtype"].type = type_number(carrier)
    node.attr.clear()
    if feed.dtype in PARTS:
        parts = graph_def.node.add(name=unique(f"{feed.node}/parts"), op="Unpack", input=[placeholder.name])
        parts.attr["T"].type = type_number(carrier)
        parts.attr["num"].i = 2
        parts.attr["axis"].i = -1
        # The old placeholder becomes this operation, so that the nodes that read it need no change.
        node.op = "Complex"
        node.input[:] = [f"{parts.name}:0", f"{parts.name}:1"]
        node.attr["T"].type, node.attr["Tout"].type = type_number(carrier), type_number(feed.dtype)
    else:
        node.op = "Bitcast"
        node.input[:] = [placeholder.name]
        node.attr["T"].type, node.attr["type"].type = type_number(carrier), type_number(feed.dtype)
    return _standing(feed, placeholder.name)


def _fetch(graph_def: GraphDef, fetch: Fetch, unique: Callable[[str], str]) -> Fetch:
    if fetch.dtype not in CARRIERS:
        return fetch
    carrier, source = CARRIERS[fetch.dtype], f"{fetch.node}:{fetch.index}"
    name = unique(f"{fetch.node}/carried")
    if fetch.dtype in PARTS:
        parts = []
        for op in ("Real", "Imag"):
            part = graph_def.node.add(name=unique(f"{name}/{op}"), op=op, input=[source])
            part.attr["T"].type, part.attr["Tout"].type = type_number(fetch.dtype), type_number(carrier)
            parts.append(part.name)
        made = graph_def.node.add(name=name, op="Pack", input=parts)
        made.attr["T"].type = type_number(carrier)
        made.attr["N"].i = 2
        # Side by side along a new last axis, as the parts of complex numbers are in memory.
        made.attr["axis"].i = -1
    else:
        made = graph_def.node.add(name=name, op="Bitcast", input=[source])
        made.attr["T"].type, made.attr["type"].type = type_number(fetch.dtype), type_number(carrier)
    return replace(_standing(fetch, name), index=0)


def _standing(tensor: Carried, node: str) -> Carried:
    """`tensor` as the output of `node`, in its carrier type."""
    pair = tensor.dtype in PARTS
    return replace(
        tensor,
        node=node,
        dtype=CARRIERS[tensor.dtype],
        shape=(*tensor.shape, 2) if pair else tensor.shape,
        axes=(*tensor.axes, "") if pair and tensor.axes else tensor.axes,
        stands_for=tensor.dtype,
    )


def type_number(name: str) -> int:
    return int(dtypes.as_dtype(name).as_datatype_enum)
