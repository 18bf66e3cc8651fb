"""Freeze one signature: variables become constants, large constants become feeds bound to one blob of weights."""

import os

import hlo
import interface
import operations
import outline
import reached
import saved_model
import signatures
import specialize
import weights
import work
from faults import ModelFault

_SILENT = {
    "Assert": "assertions vanish: a failing one is not reported",
    "AssertNextDataset": "assertions vanish: a failing one is not reported",
    "CheckNumerics": "checks for NaN and infinity vanish",
    "GatherV2": "indices out of range are clamped, not reported",
    "GatherNd": "indices out of range are clamped, not reported",
    "ResourceGather": "indices out of range are clamped, not reported",
    "Where": "the result is padded to its largest size and the count is lost",
    "NonMaxSuppressionV4": "the result is padded to its largest size",
    "AssignAddVariableOp": "variables are frozen: an assignment is forgotten after the call",
    "AssignSubVariableOp": "variables are frozen: an assignment is forgotten after the call",
    "AssignVariableOp": "variables are frozen: an assignment is forgotten after the call",
    "RandomUniform": "random numbers differ from TensorFlow's",
    "RandomStandardNormal": "random numbers differ from TensorFlow's",
    "RandomUniformInt": "random numbers differ from TensorFlow's",
    "TruncatedNormal": "random numbers differ from TensorFlow's",
    "Multinomial": "random numbers differ from TensorFlow's",
    "StatelessRandomUniformV2": "random numbers differ from TensorFlow's",
    "StatelessRandomNormalV2": "random numbers differ from TensorFlow's",
    "StatelessTruncatedNormalV2": "random numbers differ from TensorFlow's",
    "StatelessRandomUniformIntV2": "random numbers differ from TensorFlow's",
    "StatelessRandomUniformFullIntV2": "random numbers differ from TensorFlow's",
}
_ASSIGNMENTS = frozenset(
    "AssignVariableOp AssignAddVariableOp AssignSubVariableOp Assign AssignAdd AssignSub ResourceScatterUpdate "
    "ResourceScatterAdd ScatterUpdate ScatterAdd ResourceStridedSliceAssign".split()
)
_INTEGER_DIVISION = frozenset("FloorDiv Div TruncateDiv FloorMod Mod".split())


def freeze(args: dict, report) -> dict:
    """Write `graph.pb` (and `weights.bin`) below args["out"]; return what is in them.

    args: folder, tags, signature, shapes {input: shape or absent}, order {"inputs": names, "outputs": names} (empty for
    the order of names), weights "shared" or "embedded", threshold (bytes from which on a constant is shared), out; with
    only_check the operations are listed, not required, and nothing is written.
    """
    graph = saved_model.meta_graph(saved_model.read(args["folder"]), args["tags"])
    signature = saved_model.require_signature(graph, args["signature"])
    _require_border(signature)
    found = reached.reached_by(graph, args["signature"], signature)
    if args.get("only_check") and found.faults:
        return _checked_unloaded(found)
    operations.require_none(found.faults)
    inputs, outputs, frozen = _freeze_signature(args, signatures.imported(args["folder"], graph, found))
    graph_def = frozen.graph.as_graph_def()
    _fix_shapes(inputs, args["shapes"])
    _find_shapes(outputs, inputs, frozen, graph_def)
    inputs = interface.in_order("inputs", inputs, args["order"]["inputs"])
    outputs = interface.in_order("outputs", outputs, args["order"]["outputs"])
    warnings = _warnings(graph_def, inputs, outputs)
    if args.get("only_check"):
        return {
            "inputs": inputs,
            "outputs": outputs,
            "warnings": warnings,
            "operations": _operation_counts(graph_def),
            "unsupported": (unsupported := operations.unsupported_nodes(graph_def)),
            "hlo": None if unsupported else hlo.listed(graph_def, inputs, outputs),
        }
    operations.require_compilable(graph_def)
    used = ancestors(graph_def, [tensor["node"] for tensor in outputs], control=False)
    listing = hlo.listed(graph_def, inputs, outputs)
    amount = work.work_of(graph_def, used, inputs, specialize.PROBES)
    shared, described = (
        weights.share(graph_def, used, inputs, outputs, args) if args["weights"] == "shared" else ([], [])
    )
    with open(os.path.join(args["out"], "graph.pb"), "wb") as file:
        file.write(graph_def.SerializeToString(deterministic=True))
    return {
        "inputs": inputs,
        "outputs": outputs,
        "weights": shared,
        "layers": described,
        "warnings": warnings,
        "hlo": listing,
        "work": amount,
        "graph": outline.outline(frozen.graph, inputs, outputs),
    }


def _require_border(signature) -> None:
    from tensorflow.python.framework import dtypes

    for kind, infos in (("input", signature.inputs), ("output", signature.outputs)):
        for name, info in sorted(infos.items()):
            interface.require_dtype(kind, name, dtypes.as_dtype(info.dtype).name)


def _checked_unloaded(found) -> dict:
    """What can be said of a model that is not imported, because it holds operations that are not compiled."""
    from tensorflow.python.framework import dtypes, tensor_shape

    def tensors(infos: dict) -> list:
        shapes = {name: _shape(tensor_shape.TensorShape(info.tensor_shape)) for name, info in infos.items()}
        return [
            {"name": name, "dtype": dtypes.as_dtype(info.dtype).name, "shape": shapes[name]}
            for name, info in sorted(infos.items())
        ]

    return {
        "inputs": tensors(found.inputs),
        "outputs": tensors(found.outputs),
        "warnings": [],
        "operations": _operation_counts(found.graph_def),
        "unsupported": found.faults,
    }


def _freeze_signature(args: dict, signature):
    from tensorflow.python.framework import convert_to_constants

    # TensorFlow's own forgets `Case`, and XLA has no kernels for the operations that it would be lowered to.
    convert_to_constants.disable_lower_using_switch_merge = _keep_control_flow
    try:
        frozen = convert_to_constants.convert_variables_to_constants_v2(signature.function, lower_control_flow=False)
    except (ValueError, KeyError, TypeError) as error:
        raise _cannot_freeze(args, signature.function, error) from error
    if len(signature.inputs) != len(frozen.inputs):
        raise ModelFault(
            f"the signature {args['signature']!r} has {len(signature.inputs)} inputs, "
            f"its frozen graph {len(frozen.inputs)}",
            "a variable could not be frozen: mutable state cannot be compiled",
        )
    inputs = [
        {"name": name, "node": tensor.op.name, "dtype": tensor.dtype.name, "shape": _shape(tensor.shape)}
        for name, tensor in zip(signature.inputs, frozen.inputs, strict=True)
    ]
    outputs = [
        {
            "name": name,
            "node": tensor.op.name,
            "index": tensor.value_index,
            "dtype": tensor.dtype.name,
            "shape": _shape(tensor.shape),
        }
        for name, tensor in zip(signature.outputs, frozen.outputs, strict=True)
    ]
    return inputs, outputs, frozen


def _keep_control_flow(graph_def):
    for node in operations.nodes_of(graph_def):
        if node.op in operations.CONTROL_FLOW:
            node.attr["_lower_using_switch_merge"].b = False
    return graph_def


def _cannot_freeze(args: dict, function, error: Exception) -> ModelFault:
    graph_def = function.graph.as_graph_def()
    changed = sorted({node.op for node in operations.nodes_of(graph_def) if node.op in _ASSIGNMENTS})
    if changed:
        return ModelFault(
            f"the signature {args['signature']!r} changes variables ({', '.join(changed)}): "
            "compiled code keeps no state",
            "pass the state in as an input and out as an output",
        )
    text = " ".join(str(error).split())[:300]
    return ModelFault(f"TensorFlow cannot freeze the signature {args['signature']!r}: {text}")


def _shape(shape):
    return None if shape.rank is None else shape.as_list()


def _fix_shapes(inputs: list, shapes: dict) -> None:
    unknown = sorted(set(shapes) - {tensor["name"] for tensor in inputs})
    if unknown:
        listing = ", ".join(tensor["name"] for tensor in inputs)
        raise ModelFault(f"model.shapes names {', '.join(unknown)}, but the inputs are: {listing}")
    for tensor in inputs:
        tensor["shape"] = interface.input_shape(tensor["name"], tensor["shape"], shapes.get(tensor["name"]))


def _find_shapes(outputs: list, inputs: list, frozen, graph_def) -> None:
    """Set the shapes of `outputs`, None for the batch axis; ModelFault where one grows otherwise."""
    light, _ = specialize.without_weights(graph_def)
    known = [_inferred(light, inputs, outputs, size) for size in specialize.PROBES]
    if any(shape is None or None in shape for shapes in known for shape in shapes):
        known = [_observed(frozen, inputs, outputs, size) for size in specialize.PROBES]
    for output, first, second in zip(outputs, *known, strict=True):
        output["shape"] = interface.output_shape(output["name"], specialize.PROBES, (first, second))


def _inferred(graph_def, inputs: list, outputs: list, batch_size: int) -> list:
    try:
        return specialize.inferred_shapes(specialize.at_batch_size(graph_def, inputs, batch_size), outputs)
    except ValueError:  # this batch size does not fit the model: what it says when it runs is clearer
        return [None] * len(outputs)


def _observed(frozen, inputs: list, outputs: list, batch_size: int) -> list:
    """The shapes of what the model gives; ModelFault where they depend on the inputs' values."""
    import tensorflow as tf

    seen, failures = [], []
    for fill in (tf.zeros, tf.ones):
        shapes = [[batch_size if size is None else size for size in tensor["shape"]] for tensor in inputs]
        try:
            results = frozen(
                *[tf.cast(fill(shape), tensor["dtype"]) for shape, tensor in zip(shapes, inputs, strict=True)]
            )
            seen.append([result.shape.as_list() for result in results])
        except (tf.errors.OpError, ValueError) as error:  # such values may be refused by the model's own checks
            failures.append(" ".join(str(error).split())[:300])
    if not seen:
        raise ModelFault(
            f"the model does not run at batch size {batch_size}, to find the shapes of its outputs: {failures[0]}",
            "set the shapes of outputs in the model (tf.ensure_shape)",
        )
    for output, zeros, ones in zip(outputs, seen[0], seen[-1], strict=True):
        if zeros != ones:
            raise ModelFault(
                f"the shape of output {output['name']!r} depends on the values of the inputs "
                f"({zeros} or {ones} at batch size {batch_size})",
                "compiled code has fixed shapes: give all rows, and a mask as another output",
            )
    return seen[0]


def _operation_counts(graph_def) -> dict:
    counts: dict = {}
    for node in operations.nodes_of(graph_def):
        counts[node.op] = counts.get(node.op, 0) + 1
    return dict(sorted(counts.items()))


def _warnings(graph_def, inputs: list, outputs: list) -> list:
    """What compiled code does differently from TensorFlow without saying so."""
    from tensorflow.python.framework import dtypes

    found = set()
    for node in operations.nodes_of(graph_def):
        if node.op in _SILENT:
            found.add(f"{node.op}: {_SILENT[node.op]}")
        if node.op in _INTEGER_DIVISION and dtypes.as_dtype(node.attr["T"].type).is_integer:
            found.add(f"{node.op}: integer division by zero gives -1, it is not reported")
    used = ancestors(graph_def, [tensor["node"] for tensor in outputs])
    for tensor in inputs:
        if tensor["node"] not in used:
            found.add(f"input {tensor['name']!r} is not used: its values change nothing")
    return sorted(found)


def ancestors(graph_def, names: list, *, control: bool = True) -> set:
    """The nodes that `names` are made of, themselves too; with `control`, those that they wait for as well."""
    inputs_of = {node.name: node.input for node in graph_def.node}
    seen, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        inputs = [text for text in inputs_of.get(name, ()) if control or not text.startswith("^")]
        waiting.extend(text.lstrip("^").split(":")[0] for text in inputs)
    return seen
