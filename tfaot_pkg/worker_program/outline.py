"""The outline of a frozen graph, for people: operations with shapes, and the tensors between them.

Constants, values computed from constants and shapes alone, and operations that only pass values on are left out. In
large graphs, consecutive operations are one node: those of a layer, by their names. Such a node is a run in one
topological order of all operations, so groups depend on one another as their operations do, and form no cycle that
the graph does not have. A recognized layer (layers.py) is one node too. The result does not depend on the order in
which TensorFlow lists the nodes.
"""

from __future__ import annotations

import collections
import heapq
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import layers
from messages.graph import Outline, OutlineNode, OutlinePart

if TYPE_CHECKING:
    import tensorflow as tf
    from framework_types import FunctionDef
    from layers import Operations, Sources
    from messages.graph import Feed, Fetch


MOST_NODES = 100
_MOST_PARTS, _ALL_PARTS, _LONGEST_PART = 40, 600, 60
_PASSED_THROUGH = frozenset("Identity IdentityN StopGradient PreventGradient Snapshot".split())
_HIDDEN = frozenset("Const NoOp Placeholder Shape ShapeN Size Rank".split())
_LONGEST_NAME = 120


Run: TypeAlias = tuple[int, list[str]]
"""A run of operations: the depth of names that made it, and its names."""


def outline(
    graph: tf.Graph, inputs: Sequence[Feed], outputs: Sequence[Fetch], functions: Iterable[FunctionDef] = ()
) -> Outline | None:
    """An Outline; None if it would be empty. `graph` is TensorFlow's; `inputs` and `outputs` are those of freeze.py.

    `functions` are those that the graph's loops and conditions run, as GraphDefs store them.
    """
    # A picture of more nodes cannot be read, and the page has a limit of bytes (catalogue/package.py).
    room = MOST_NODES - len(inputs) - len(outputs)
    if room < 1:
        return None
    operations = {operation.name: operation for operation in graph.get_operations()}
    fed = {tensor.node for tensor in inputs}
    library = {function.signature.name: function for function in functions}
    sources = _sources(operations, fed)
    used = _used(sources, [tensor.node for tensor in outputs], operations, fed)
    used = [name for name in _fed_only(used, sources, fed) if name not in fed]
    groups = _labelled(used, sources, _wholes(used, sources, operations, library), room)
    places = {tensor.node: place for place, tensor in enumerate(inputs)}
    for place, group in enumerate(groups, len(inputs)):
        places.update(dict.fromkeys(group.members, place))
    nodes = [_border(tensor, "input", []) for tensor in inputs]
    # Few groups may show all of their parts; many share the limit of the whole page.
    limit = min(_MOST_PARTS, _ALL_PARTS // max(1, sum(_has_parts(group.members, operations) for group in groups)))
    for place, group in enumerate(groups, len(inputs)):
        found = {places[source] for name in group.members for source in sources[name] if source in places}
        parts = _parts(group.members, operations, library)[:limit] if _has_parts(group.members, operations) else []
        node = _operation(group.name, group.label, group.members, operations)
        nodes.append(replace(node, inputs=tuple(sorted(found - {place})), parts=tuple(parts)))
    for result in outputs:
        ends = _through(operations[result.node], operations, places)
        nodes.append(_border(result, "output", sorted({places[name] for name in ends if name in places})))
    return Outline(format=1, nodes=tuple(nodes))


@dataclass(frozen=True)
class _Group:
    """The operations of one node, in order. `label` is that of a recognized layer, or empty."""

    name: str
    label: str
    members: list[str]


def _labelled(used: list[str], sources: Sources, wholes: Mapping[str, layers.Layer], room: int) -> list[_Group]:
    """At most `room` groups of the operations `used`, with all operations of each of the layers `wholes` together."""
    kept, between = _contracted(used, sources, wholes)
    found = []
    for name, stand_ins in _groups(kept, between, room):
        members = [one for each in stand_ins for one in _members(each, wholes, sources)]
        # A layer that was grouped with other operations is not labelled as that layer.
        is_layer = name in wholes and len(members) == len(wholes[name].members)
        found.append(_Group(name, wholes[name].label if is_layer else "", members))
    return found


def _wholes(
    names: list[str], sources: Sources, operations: Operations, functions: Mapping[str, FunctionDef]
) -> dict[str, layers.Layer]:
    """The recurrent layers, each by the name of one of its operations."""
    shown = set(names)
    inner = {name: [source for source in sources[name] if source in shown] for name in names}
    return {min(found.members): found for found in layers.layers(operations, inner, functions)}


def _contracted(
    names: list[str], sources: Sources, wholes: Mapping[str, layers.Layer]
) -> tuple[list[str], dict[str, list[str]]]:
    """(names, their sources) with one operation in place of each layer."""
    stands = {name: first for first, whole in wholes.items() for name in whole.members}
    between: dict[str, set[str]] = {}
    for name in names:
        mine = stands.get(name, name)
        found = between.setdefault(mine, set())
        found |= {stands.get(source, source) for source in sources[name]} - {mine}
    kept = [name for name in names if stands.get(name, name) == name]
    return kept, {name: sorted(found) for name, found in between.items()}


def _members(name: str, wholes: Mapping[str, layers.Layer], sources: Sources) -> list[str]:
    return _ordered(sorted(wholes[name].members), sources) if name in wholes else [name]


def _through(operation: tf.Operation, operations: Operations, kept: Collection[str]) -> list[str]:
    """The names of `operation`, or of the operations whose values it only passes on."""
    waiting, found = [operation], []
    seen: set[str] = set()
    while waiting:
        one = waiting.pop()
        if one.name in seen:
            continue
        seen.add(one.name)
        if one.type in _PASSED_THROUGH and one.name not in kept:
            waiting.extend(tensor.op for tensor in one.inputs)
        else:
            found.append(one.name)
    return sorted(found)


def _sources(operations: Operations, fed: set[str]) -> dict[str, list[str]]:
    """The shown operations that each shown operation reads from."""
    shown = {
        name: operation
        for name, operation in operations.items()
        if name in fed or operation.type not in _HIDDEN | _PASSED_THROUGH
    }
    sources = {}
    for name, operation in shown.items():
        found = {end for tensor in operation.inputs for end in _through(tensor.op, operations, shown)}
        sources[name] = [] if name in fed else sorted(found & shown.keys())
    return sources


def _used(sources: Sources, ends: list[str], operations: Operations, fed: set[str]) -> list[str]:
    """The shown operations that the outputs depend on, sorted."""
    waiting = [name for end in ends for name in _through(operations[end], operations, sources)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in sources and name not in seen:
            seen.add(name)
            waiting.extend(sources[name])
    return sorted(seen | (fed & sources.keys()))


def _fed_only(used: list[str], sources: Sources, fed: set[str]) -> list[str]:
    """The operations of `used` that depend on an input; all of them if none does."""
    after: dict[str, list[str]] = {}
    for name in used:
        for source in sources[name]:
            after.setdefault(source, []).append(name)
    waiting = sorted(fed)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(after.get(name, ()))
    kept = [name for name in used if name in seen]
    return kept if len(kept) > len(fed) else used


def _groups(names: list[str], sources: Sources, room: int) -> list[tuple[str, list[str]]]:
    """[(name, its members)] in the order of the graph: single operations if there is room, else runs of operations.

    The largest runs are divided where the next part of their names changes, as long as there is room; runs of the same
    size (the repeated blocks of a network) all or none. A run of most of the graph that names do not divide is cut into
    pieces of equal size, which all have its name.
    """
    order = _ordered(names, sources)
    if len(order) <= room:
        return [(name, [name]) for name in order]
    runs: list[Run] = [(0, order)]
    done: set[str] = set()
    while sizes := [len(members) for _, members in runs if len(members) > 1 and members[0] not in done]:
        chosen = [run for run in runs if len(run[1]) == max(sizes) and run[1][0] not in done]
        parts = {run[1][0]: _divided(run) for run in chosen}
        if len(runs) - len(chosen) + sum(map(len, parts.values())) > room:
            done.update(parts)
            continue
        done.update(first for first, found in parts.items() if len(found) == 1)
        runs = [part for run in runs for part in parts.get(run[1][0], [run])]
    found: list[list[str]] = []
    for _, members in runs:
        pieces = room - len(runs) + 1 if 2 * len(members) > len(order) else 1
        length = -(-len(members) // pieces)
        found += [members[at : at + length] for at in range(0, len(members), length)]
    return [(_name_of(members), members) for members in found]


def _name_of(members: list[str]) -> str:
    """The common prefix of the names in a group; "" if there is none."""
    if len(members) == 1:
        return members[0]
    parts = min(_shared(members[0], name) for name in members)
    return _beginning(members[0], parts) if parts else ""


def _divided(run: Run) -> list[Run]:
    """The parts of a run (a pair: the depth of names that made it, its names); one part if names do not divide it."""
    depth, members = run
    while True:
        depth += 1
        begins = [_beginning(name, depth) for name in members]
        starts = [0, *(at for at in range(1, len(begins)) if begins[at] != begins[at - 1])]
        if len(starts) > 1 or all(begin == name for begin, name in zip(begins, members, strict=True)):
            ends = [*starts[1:], len(members)]
            return [(depth, members[at:end]) for at, end in zip(starts, ends, strict=True)]


def _beginning(name: str, depth: int) -> str:
    """The first `depth` parts of a name; `model/block_3/dense` has four parts."""
    parts = [found.end() for found in re.finditer(r"[^/_]+", name)]
    return name[: parts[depth - 1]] if depth < len(parts) else name


def _ordered(names: list[str], sources: Sources) -> list[str]:
    """The names in topological order, except in cycles, with layers kept together."""
    wanted = {name: {one for one in sources.get(name, ()) if one != name} for name in names}
    after: dict[str, list[str]] = {}
    for name in names:
        wanted[name] &= wanted.keys()
        for source in wanted[name]:
            after.setdefault(source, []).append(name)
    ready = _Ready(names)
    for name in names:
        if not wanted[name]:
            ready.add(name)
    left, last = dict.fromkeys(sorted(names)), ""
    order: list[str] = []
    while left:
        last = ready.take(last) or next(iter(left))  # if none is ready, break a cycle
        del left[last]
        order.append(last)
        for one in after.get(last, ()):
            wanted[one].discard(last)
            if not wanted[one] and one in left:
                ready.add(one)
    return order


class _Ready:
    """Names that may come next, by their common prefixes.

    Comparing all of them in each step took 35 s for a graph of 1000 chains of three operations; this takes 0.1 s.
    """

    def __init__(self, names: list[str]) -> None:
        self._ranks = {name: rank for rank, name in enumerate(sorted(names, key=_descending, reverse=True))}
        self._waiting: set[str] = set()
        self._by_beginning: dict[tuple[str, ...], list[tuple[int, str]]] = {}

    def add(self, name: str) -> None:
        self._waiting.add(name)
        parts = _name_parts(name)
        for depth in range(len(parts) + 1):
            # In one heap for each prefix of its name; the other heaps drop it when they reach it.
            heapq.heappush(self._by_beginning.setdefault(parts[:depth], []), (self._ranks[name], name))

    def take(self, last: str) -> str:
        """The name with the longest prefix common with `last`, the first in sorted order; "" if there is none."""
        parts = _name_parts(last)
        for depth in reversed(range(len(parts) + 1)):
            heap = self._by_beginning.get(parts[:depth], [])
            while heap and heap[0][1] not in self._waiting:  # already taken from the heap of another prefix
                heapq.heappop(heap)
            if heap:
                _, name = heapq.heappop(heap)
                self._waiting.remove(name)
                return str(name)
        return ""


def _descending(name: str) -> list[int]:
    # Sorted in reverse, these lists give ascending names, except that a name comes before its own prefix.
    return [-ord(char) for char in name]


def _shared(one: str, other: str) -> int:
    """The number of leading name parts that two operations have in common."""
    count = 0
    for mine, theirs in zip(_name_parts(one), _name_parts(other), strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _name_parts(name: str) -> tuple[str, ...]:
    return tuple(re.split("[/_]+", name))


def _operation(group: str, label: str, members: list[str], operations: Operations) -> OutlineNode:
    if len(members) > 1:
        # Without a name, a group is labelled with its most common operations.
        kinds = collections.Counter(_label(operations[name]) for name in members).most_common(3)
        group = (_name_of(members) or group) if label else group
        label = label or _last_parts(group) or ", ".join(kind for kind, _ in kinds)
        return _node(group, label, "operation", "", None, len(members))
    operation = operations[members[0]]
    dtype, dims = _type_of(operation)
    return _node(operation.name, label or _label(operation), "operation", dtype, dims, 1)


def _last_parts(scope: str) -> str:
    """The label of a scope: `dense`, or `layers/0` for a block that has only a number."""
    last = re.search(r"([^/]*/)?[0-9]+$|[^/]*$", scope)
    return last[0] if last else ""


def _label(operation: tf.Operation) -> str:
    """The kind of an operation, by its common name."""
    if operation.type == "XlaCallModule":
        return "StableHLO"
    return layers.label_of(operation) or str(operation.type)


def _type_of(operation: tf.Operation) -> tuple[str, list[int | None] | None]:
    """(dtype, shape) of the first output; "" and None if there is none or its rank is unknown."""
    outputs = operation.outputs
    shape = outputs[0].shape if outputs else None
    dims = None if shape is None or shape.rank is None else shape.as_list()
    return outputs[0].dtype.name if outputs else "", dims


def _has_parts(members: list[str], operations: Operations) -> bool:
    return len(members) > 1 or bool(layers.label_of(operations[members[0]]))


def _parts(members: list[str], operations: Operations, functions: Mapping[str, FunctionDef]) -> list[OutlinePart]:
    """The operations of a group in order; after each loop or condition those of its body or branches."""
    scope = _name_of(members)
    found: list[OutlinePart] = []
    for name in members:
        operation = operations[name]
        dtype, dims = _type_of(operation)
        if len(members) > 1:
            found.append(_part(name.removeprefix(scope), _label(operation), dtype, dims))
        for node in layers.body_of(operation, functions):
            if node.op not in _HIDDEN | _PASSED_THROUGH:
                found.append(_part(node.name.rpartition("while/")[2], node.op, "", None, inside=True))
    return found


def _part(
    name: str, operation: str, dtype: str, shape: Sequence[int | None] | None, *, inside: bool = False
) -> OutlinePart:
    return OutlinePart(
        name=name.strip("/_")[-_LONGEST_PART:],
        op=operation[:_LONGEST_PART],
        dtype=dtype,
        shape=None if shape is None else tuple(shape),
        inside=inside,
    )


def _border(tensor: Feed | Fetch, kind: Literal["input", "output"], inputs: list[int]) -> OutlineNode:
    return _node(tensor.name, kind, kind, tensor.dtype, tensor.shape, 1, inputs)


def _node(
    name: str,
    operation: str,
    kind: Literal["input", "operation", "output"],
    dtype: str,
    shape: Sequence[int | None] | None,
    members: int,
    inputs: Sequence[int] = (),
) -> OutlineNode:
    return OutlineNode(
        name=name[:_LONGEST_NAME],
        op=operation[:_LONGEST_NAME],
        kind=kind,
        dtype=dtype,
        shape=None if shape is None else tuple(shape),
        inputs=tuple(inputs),
        members=members,
    )
