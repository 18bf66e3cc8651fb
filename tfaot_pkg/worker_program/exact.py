"""Special functions of a graph in float64: they tell how far off TensorFlow's own answers in float32 are.

Its series lose digits in float32, as XLA's do: igamma(a, a + 1) is off by 5e-3 at a = 5,000, and by 0.1 at 1e5.
"""

from lowerings import rename_output

_SPECIAL = frozenset("Betainc Digamma Igamma IgammaGradA Igammac Lgamma Polygamma Zeta".split())


def in_double(graph_def) -> bool:
    """Let the special functions of float32 in `graph_def` be computed in float64; whether there were any."""
    from tensorflow.core.framework import types_pb2

    found = False
    for nodes, function in [(graph_def.node, None), *((f.node_def, f) for f in graph_def.library.function)]:
        for node in [node for node in nodes if node.op in _SPECIAL and node.attr["T"].type == types_pb2.DT_FLOAT]:
            found = True
            _compute_in_double(nodes, node, function)
    return found


def _compute_in_double(nodes, node, function) -> None:
    """`node` becomes a cast of what it was to float32."""
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import op_def_registry

    made = nodes.add(name=f"{node.name}/in_double", op=node.op)
    made.attr["T"].type = types_pb2.DT_DOUBLE
    for index, text in enumerate(node.input):
        if text.startswith("^"):
            made.input.append(text)
            continue
        given = nodes.add(name=f"{node.name}/double_{index}")
        _become_cast(given, text, types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE)
        made.input.append(f"{given.name}:y:0" if function is not None else given.name)
    output = op_def_registry.get(node.op).output_arg[0].name
    result = f"{made.name}:{output}:0" if function is not None else made.name
    _become_cast(node, result, types_pb2.DT_DOUBLE, types_pb2.DT_FLOAT)
    if function is not None:
        rename_output(function, node.name, "y")


def _become_cast(node, text: str, source: int, target: int) -> None:
    node.op = "Cast"
    node.input[:] = [text]
    node.attr.clear()
    node.attr["SrcT"].type = source
    node.attr["DstT"].type = target
