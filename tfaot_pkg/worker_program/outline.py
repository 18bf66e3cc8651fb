"""The outline of a frozen graph, for people: operations with shapes and the tensors between them.

Constants, what is computed from constants and shapes alone, and operations that only pass values on are left out. Large
graphs are grouped by the names of their layers, or if those do not help by kinds of operations.
The result does not depend on the order in which TensorFlow lists the nodes.
"""

import collections
import heapq
from dataclasses import replace

from messages.graph import Outline, OutlineNode

MOST_NODES = 100
_PASSED_THROUGH = frozenset("Identity IdentityN StopGradient PreventGradient Snapshot".split())
_HIDDEN = frozenset("Const NoOp Placeholder Shape ShapeN Size Rank".split())
_LONGEST_NAME = 120


def outline(graph, inputs, outputs):
    """An Outline; None if it would say nothing. `graph` is TensorFlow's, `inputs` and `outputs` are freeze's."""
    room = MOST_NODES - len(inputs) - len(outputs)
    if room < 1:
        return None
    operations = {operation.name: operation for operation in graph.get_operations()}
    fed = {tensor.node for tensor in inputs}
    sources = _sources(operations, fed)
    used = _used(sources, [tensor.node for tensor in outputs], operations, fed)
    used = _fed_only(used, sources, fed)
    group_of = _groups([name for name in used if name not in fed], operations, room)
    nodes, places = [], {}
    for tensor in inputs:
        places[tensor.node] = len(nodes)
        nodes.append(_border(tensor, "input", []))
    for group, members in _sorted_groups(group_of, sources):
        for name in members:
            places[name] = len(nodes)
        nodes.append(_operation(group, members, operations))
    for number, members in _members(group_of, places):
        found = {places[source] for name in members for source in sources[name] if source in places}
        nodes[number] = replace(nodes[number], inputs=tuple(sorted(found - {number})))
    for tensor in outputs:
        ends = _through(operations[tensor.node], operations, places)
        nodes.append(_border(tensor, "output", sorted({places[name] for name in ends if name in places})))
    return Outline(format=1, nodes=tuple(nodes))


def _through(operation, operations: dict, kept) -> list:
    """The names of `operation`, or of the operations whose values it only passes on."""
    waiting, found, seen = [operation], [], set()
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


def _sources(operations: dict, fed: set) -> dict:
    """The shown operations that each shown operation takes its values from."""
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


def _used(sources: dict, ends: list, operations: dict, fed: set) -> list:
    """The shown operations that the outputs depend on, sorted."""
    waiting = [name for end in ends for name in _through(operations[end], operations, sources)]
    seen = set()
    while waiting:
        name = waiting.pop()
        if name in sources and name not in seen:
            seen.add(name)
            waiting.extend(sources[name])
    return sorted(seen | (fed & sources.keys()))


def _fed_only(used: list, sources: dict, fed: set) -> list:
    """Those of `used` that depend on an input; all of them if none does."""
    after: dict = {}
    for name in used:
        for source in sources[name]:
            after.setdefault(source, []).append(name)
    waiting, seen = sorted(fed), set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(after.get(name, ()))
    kept = [name for name in used if name in seen]
    return kept if len(kept) > len(fed) else used


def _groups(names: list, operations: dict, room: int) -> dict:
    """Name -> group: itself where there is room, else the beginning of its name that it shares with its group.

    The largest groups are divided as long as there is room, those of the same size (the repeated blocks of a network)
    all or none. One that has too many parts is divided by the kinds of its operations.
    """
    if len(names) <= room:
        return {name: name for name in names}
    groups, done = {"": names}, set()
    while sizes := [len(members) for group, members in groups.items() if len(members) > 1 and group not in done]:
        largest = sorted(group for group, members in groups.items() if len(members) == max(sizes) and group not in done)
        left = room - len(groups) + len(largest)
        parts = {}
        for group in largest:
            parts.update(_by_scope(group, groups[group]))
        if len(parts) > left and len(largest) == 1:
            parts = _by_kind(largest[0], groups[largest[0]], operations, left)
            done.update(parts)
        if len(parts) > left or parts.keys() == set(largest):
            done.update(largest)
            continue
        for group in largest:
            del groups[group]
        groups.update(parts)
    return {name: group for group, members in groups.items() for name in members}


def _by_scope(group: str, members: list) -> dict:
    """The members by one more part of their names."""
    depth = group.count("/") + 2 if group else 1
    parts: dict = {}
    for name in members:
        parts.setdefault("/".join(name.split("/")[:depth]), []).append(name)
    return parts


def _by_kind(group: str, members: list, operations: dict, most: int) -> dict:
    """The members by the kinds of operations; at most `most` parts, the last of which may hold all other kinds."""
    kinds = collections.Counter(operations[name].type for name in members).most_common()
    named = {kind for kind, _ in (kinds if len(kinds) <= most else kinds[: most - 1])}
    parts: dict = {}
    for name in members:
        kind = operations[name].type
        parts.setdefault(f"{group}/{kind if kind in named else 'others'}".lstrip("/"), []).append(name)
    return parts


def _sorted_groups(group_of: dict, sources: dict) -> list:
    """[(group, its members)], each after those that it depends on (except in cycles), else by name."""
    members: dict = {}
    for name in sorted(group_of):
        members.setdefault(group_of[name], []).append(name)
    before = {
        group: {group_of[source] for name in names for source in sources[name] if source in group_of} - {group}
        for group, names in members.items()
    }
    after: dict = {}
    for group, needed in before.items():
        for one in needed:
            after.setdefault(one, set()).add(group)
    ready = sorted(group for group, needed in before.items() if not needed)
    order, placed = [], set()
    while len(order) < len(members):
        group = heapq.heappop(ready) if ready else min(members.keys() - placed)  # the latter breaks a cycle
        if group in placed:
            continue
        placed.add(group)
        order.append((group, members[group]))
        for one in sorted(after.get(group, ())):
            before[one].discard(group)
            if not before[one] and one not in placed:
                heapq.heappush(ready, one)
    return order


def _members(group_of: dict, places: dict) -> list:
    """[(place of a group, its members)]."""
    found: dict = {}
    for name in sorted(group_of):
        found.setdefault(places[name], []).append(name)
    return sorted(found.items())


def _operation(group: str, members: list, operations: dict) -> OutlineNode:
    if len(members) > 1:
        return _node(group, group.rpartition("/")[2], "operation", "", None, len(members))
    operation = operations[members[0]]
    outputs = operation.outputs
    shape = outputs[0].shape if outputs else None
    dims = None if shape is None or shape.rank is None else shape.as_list()
    return _node(operation.name, operation.type, "operation", outputs[0].dtype.name if outputs else "", dims, 1)


def _border(tensor, kind: str, inputs: list) -> OutlineNode:
    return _node(tensor.name, kind, kind, tensor.dtype, tensor.shape, 1, inputs)


def _node(name: str, operation: str, kind: str, dtype: str, shape, members: int, inputs: list = ()) -> OutlineNode:
    return OutlineNode(
        name=name[:_LONGEST_NAME],
        op=operation[:_LONGEST_NAME],
        kind=kind,
        dtype=dtype,
        shape=None if shape is None else tuple(shape),
        inputs=tuple(inputs),
        members=members,
    )
