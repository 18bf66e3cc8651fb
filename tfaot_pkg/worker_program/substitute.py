"""Put calls of the kernel library into a frozen graph, in place of the operations that they stand for.

A call is an `XlaCustomCallV2`: the code that tfcompile writes calls a function by its name, with the addresses of the
results, of the call's input and of its parameters. All of them are flat, so that XLA has no layout to choose. The first
result is the call's, the second memory for it to work in.
"""

import os

from graph_view import tensor_of
from messages.requests import LayerCall, Substitute, Substituted

_OPERATION = "XlaCustomCallV2"
_HARMLESS = frozenset("NoOp Identity Const Placeholder".split())


def substitute(request: Substitute, report) -> Substituted:
    """Write a graph for each of the variants. All have the same weights, because every unit is given all of them."""
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef()
    with open(request.graph, "rb") as file:
        graph.ParseFromString(file.read())
    _add_parameters(graph, [call for calls in request.variants for call in calls])
    variants = [_with_calls(graph, calls) for calls in request.variants]
    border = [tensor.node for tensor in (*request.inputs, *request.outputs)]
    reached = [node for variant in variants for node in _reached(variant, border)]
    needed = sorted({node.name for node in reached if node.op == "Placeholder"})
    paths = []
    for number, variant in enumerate(variants):
        paths.append(os.path.join(request.out, f"graph{number}.pb"))
        with open(paths[-1], "wb") as file:
            file.write(_pruned(variant, [*border, *needed]).SerializeToString(deterministic=True))
    return Substituted(graphs=tuple(paths), weights=tuple(needed))


def _with_calls(graph, calls: list):
    from tensorflow.core.framework import graph_pb2

    variant = graph_pb2.GraphDef()
    variant.CopyFrom(graph)
    nodes = {node.name: node for node in variant.node}
    for call in calls:
        _put(variant, nodes[call.gives], call)
    _drop_harmless(variant)
    return variant


def resize(graph_def, calls: dict) -> None:
    """Give the calls of `graph_def` the names of functions and the sizes of results of one unit.

    `calls` is {name: CallSizes}.
    """
    for node in graph_def.node:
        if node.op == _OPERATION and node.name in calls:
            call = calls[node.name]
            node.attr["call_target_name"].s = call.function.encode()
            shapes = node.attr["result_shapes"].list.shape
            del shapes[:]
            for size in call.sizes:
                shapes.add().dim.add(size=size)


def _add_parameters(graph, calls: list) -> None:
    """A placeholder for each of the parameters of `calls`; several layers may have the same."""
    from tensorflow.core.framework import types_pb2

    for name, shape in {each.node: each.shape for call in calls for each in call.parameters}.items():
        node = graph.node.add(name=name, op="Placeholder")
        node.attr["dtype"].type = types_pb2.DT_FLOAT
        for size in shape:
            node.attr["shape"].shape.dim.add(size=size)


def _put(graph, gives, call: LayerCall) -> None:
    """Add `call`; the node `gives` becomes what passes its result on."""
    from tensorflow.core.framework import types_pb2

    name, parameters = call.name, call.parameters
    source = "{}:{}".format(*call.reads)
    _add_reshape(graph, f"{name}/input", source, [-1])
    node = graph.node.add(name=name, op=_OPERATION)
    node.input.extend([f"{name}/input", *[parameter.node for parameter in parameters]])
    node.attr["operand_dtypes"].list.type.extend([types_pb2.DT_FLOAT] * (1 + len(parameters)))
    node.attr["result_dtypes"].list.type.extend([types_pb2.DT_FLOAT] * 2)
    node.attr["backend_config"].s = b""
    node.attr["has_side_effect"].b = False
    _add_reshape(graph, f"{name}/result", f"{name}:0", [-1, *call.shape])
    gives.op = "Identity"
    del gives.input[:]
    gives.input.append(f"{name}/result")
    gives.attr.clear()
    gives.attr["T"].type = types_pb2.DT_FLOAT


def _add_reshape(graph, name: str, source: str, shape: list) -> None:
    import numpy as np
    import tensorflow as tf
    from tensorflow.core.framework import types_pb2

    constant = graph.node.add(name=f"{name}/shape", op="Const")
    constant.attr["dtype"].type = types_pb2.DT_INT32
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.array(shape, np.int32)))
    node = graph.node.add(name=name, op="Reshape")
    node.input.extend([source, constant.name])
    node.attr["T"].type = types_pb2.DT_FLOAT
    node.attr["Tshape"].type = types_pb2.DT_INT32


def _drop_harmless(graph) -> None:
    """Let no node wait for what does nothing: such waiting would keep operations that calls stand for."""
    nodes = {node.name: node for node in graph.node}
    known: dict = {}
    for node in graph.node:
        kept = [text for text in node.input if text[0] != "^" or not _is_harmless(text[1:], nodes, known)]
        del node.input[:]
        node.input.extend(kept)


def _reached(graph, names: list) -> list:
    """The nodes of `names` and all that they need, in the order of the graph."""
    nodes = {node.name: node for node in graph.node}
    seen, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(tensor_of(text.lstrip("^"))[0] for text in nodes[name].input)
    return [node for node in graph.node if node.name in seen]


def _pruned(graph, names: list):
    """`graph` without what `names` do not need."""
    from tensorflow.core.framework import graph_pb2

    return graph_pb2.GraphDef(node=_reached(graph, names), library=graph.library, versions=graph.versions)


def _is_harmless(name: str, nodes: dict, known: dict) -> bool:
    """Whether waiting for `name` is waiting for nothing that does anything."""
    waiting, seen = [name], set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        if nodes[one].op not in _HARMLESS or known.get(one) is False:
            known[name] = False
            return False
        if known.get(one) is not True:
            waiting.extend(tensor_of(text.lstrip("^"))[0] for text in nodes[one].input)
    known.update(dict.fromkeys(seen, True))
    return True
