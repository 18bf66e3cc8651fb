"""Assignments that no output sees: Keras's recurrent layers with dropout change its seed in predictions, too."""

_ASSIGNMENTS = frozenset("AssignAddVariableOp AssignSubVariableOp AssignVariableOp".split())
_FORWARD = frozenset({"Identity"})


def without_unseen(graph_def, outputs: list):
    """`graph_def`, whose functions are inlined, without assignments if no output (a node's name) needs their variables.

    With them goes what only they need, such as the random numbers of dropout. A graph with an assignment that an output
    may see stays as it is.
    """
    nodes = {node.name: node for node in graph_def.node}
    changed = {_source(nodes, node.input[0]) for node in graph_def.node if node.op in _ASSIGNMENTS}
    needed = _needed(nodes, outputs)
    read = {_source(nodes, text) for name in needed for text in nodes[name].input if not text.startswith("^")}
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


def _needed(nodes: dict, outputs: list) -> set:
    """The nodes that `outputs` need. Nothing needs an assignment, or the reading of a variable, to have happened."""
    needed: set = set()
    left = list(outputs)
    while left:
        name = left.pop()
        if name in needed:
            continue
        needed.add(name)
        left += [_node(text) for text in nodes[name].input if not _only_orders(nodes, text)]
    return needed


def _only_orders(nodes: dict, text: str) -> bool:
    return text.startswith("^") and nodes[text[1:]].op in (*_ASSIGNMENTS, "ReadVariableOp")


def _source(nodes: dict, text: str) -> str:
    """The node that makes a tensor, without nodes that pass it on."""
    name = _node(text)
    while nodes[name].op in _FORWARD:
        name = _node(nodes[name].input[0])
    return name


def _node(text: str) -> str:
    return text.lstrip("^").partition(":")[0]
