"""A signature of TensorFlow 2 is one call of a function: here its body takes the call's place.

So nodes have the names that they have within the function, without those of the call before them. People read these
names, and files of measurements hold them.
"""

_CALLS = frozenset("PartitionedCall StatefulPartitionedCall".split())
_KEPT_APART = frozenset("_noinline _XlaMustCompile".split())


def unwrapped(graph_def, outputs: dict, fed: set) -> tuple:
    """(graph, outputs): where `graph_def` is constants and one call, the body of what is called; else as they are.

    `outputs` are tensors by name; `fed` are nodes that `graph_def` takes tensors of but does not hold.
    """
    call = _only_call(graph_def, outputs)
    if call is None:
        return graph_def, outputs
    function = next(each for each in graph_def.library.function if each.signature.name == call.attr["f"].func.name)
    constants = [node for node in graph_def.node if node is not call]
    taken = {node.name for node in constants} | fed
    arguments = [argument.name for argument in function.signature.input_arg]
    if len(arguments) != len(call.input) or taken & {node.name for node in function.node_def}:
        return graph_def, outputs
    return _body(graph_def, call, constants, function, outputs)


def _only_call(graph_def, outputs: dict):
    """The one call that all outputs come from, None where there is more to the graph."""
    calls = [node for node in graph_def.node if node.op != "Const"]
    if len(calls) != 1 or calls[0].op not in _CALLS or any(text.startswith("^") for text in calls[0].input):
        return None
    call = calls[0]
    library = {each.signature.name: each for each in graph_def.library.function}
    function = library[call.attr["f"].func.name]
    whole = all(tensor.partition(":")[0] == call.name for tensor in outputs.values())
    return call if whole and not _KEPT_APART & {*call.attr, *function.attr} else None


def _body(graph_def, call, constants: list, function, outputs: dict) -> tuple:
    from tensorflow.core.framework import graph_pb2

    flat = _flat_names(function, call, {each.signature.name: each for each in graph_def.library.function})
    made = graph_pb2.GraphDef()
    made.versions.CopyFrom(graph_def.versions)
    made.library.CopyFrom(graph_def.library)
    made.node.extend(constants)
    for node in function.node_def:
        copy = made.node.add()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(text if text.startswith("^") else flat[text] for text in node.input)
    results = [flat[function.ret[each.name]] for each in function.signature.output_arg]
    return made, {name: results[int(tensor.rpartition(":")[2])] for name, tensor in outputs.items()}


def _flat_names(function, call, library: dict) -> dict:
    """Names of tensors within a function (`node:output:0`, or an argument's) -> in a graph (`node:0`)."""
    from tensorflow.python.framework import op_def_registry

    flat = {argument.name: text for argument, text in zip(function.signature.input_arg, call.input, strict=True)}
    for node in function.node_def:
        called = library.get(node.op)
        definition = called.signature if called is not None else op_def_registry.get(node.op)
        position = 0
        for output in definition.output_arg:
            for index in range(_count(output, node)):
                flat[f"{node.name}:{output.name}:{index}"] = f"{node.name}:{position}"
                position += 1
    return flat


def _count(output, node) -> int:
    """How many tensors an output of an operation is."""
    if output.number_attr:
        return node.attr[output.number_attr].i
    return len(node.attr[output.type_list_attr].list.type) if output.type_list_attr else 1
