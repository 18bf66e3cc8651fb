"""Scopes of the nodes of PyTorch's files: the modules that made them, which its exporter notes beside each node.

A module that is called again gets a scope for each call (`encoder`, `encoder_1`): by these, the graph of a package's
page shows that both share their weights (layers.py).
"""

import ast

_NOTE = "pkg.torch.onnx.name_scopes"
_MOST_TEXT, _MOST_DEPTH = 4000, 40


def scopes(graph) -> list:
    """For each node of an ONNX graph its scope with its name ("encoder_1/fc/linear_3"), "" if nothing is noted."""
    weights = {tensor.name for tensor in graph.initializer}
    return scopes_of(
        [(_noted(node), next((name for name in node.input if name in weights), "")) for node in graph.node]
    )


def _noted(node) -> list:
    """The modules around a node, outermost first, and its own name; [] if the note is missing or of another form."""
    text = next((each.value for each in node.metadata_props if each.key == _NOTE), "")
    try:
        found = ast.literal_eval(text) if len(text) < _MOST_TEXT else []
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    is_form = isinstance(found, list) and len(found) < _MOST_DEPTH and all(isinstance(one, str) for one in found)
    return [one for one in found if one] if is_form else []


def scopes_of(nodes: list) -> list:
    """The scopes of nodes in their order, each given as ([modules, ..., own name], its weight or "").

    What a call begins with, a module or a weight, tells where the next call of the same module begins.
    """
    calls: dict = {}
    begins: dict = {}
    opened: list = []  # (module, scope) of the calls that the last node was in
    found = []
    for noted, weight in nodes:
        modules, name = noted[:-1], noted[-1] if noted else ""
        path = [*modules, f"weight {weight}" if weight else ""]
        depth = 0
        while depth < min(len(opened), len(modules)) and opened[depth][0] == modules[depth]:
            depth += 1
        while depth and begins[opened[depth - 1][1]] and begins[opened[depth - 1][1]] == path[depth]:
            depth -= 1
        del opened[depth:]
        for place in range(depth, len(modules)):
            above, outer = (modules[place - 1], opened[-1][1]) if place else ("", "")
            scope = f"{outer}/{modules[place].removeprefix(f'{above}.')}".strip("/")
            count = calls[scope] = calls.get(scope, 0) + 1
            scope += f"_{count - 1}" if count > 1 else ""
            begins[scope] = path[place + 1]
            opened.append((modules[place], scope))
        found.append(f"{opened[-1][1]}/{name}" if opened else name)
    return found
