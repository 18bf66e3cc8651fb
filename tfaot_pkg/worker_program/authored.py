"""Operations that the author of a model supplies (decision 053), and that compiled programs call.

Such an operation is a function of the graph marked as implementing `tfaot.operation:NAME`, with its attributes as JSON
after a space. TensorFlow runs its body; in HLO, each call of it is a custom call.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import specialize
from messages.carriers import OPERATION
from messages.requests import ModelFault, one_line
from wiring import CALLS, data_inputs

if TYPE_CHECKING:
    import tensorflow as tf
    from framework_types import AttrValue, FunctionDef, GraphDef, NodeDef
    from messages.graph import Feed


IMPLEMENTS = "_implements"
"""The function attribute that tf.function(experimental_implements=...) sets."""

_PREFIX = "tfaot.operation:"
_CUSTOM_CALL = "XlaCustomCallV2"
_MOST_EXACT = 1 << 53  # a double represents every integer up to it
_ADVICE = "compilation.operations in the spec names the operations that the author supplies"


Attributes: TypeAlias = Mapping[str, list[float]]
"""Numbers of an operation by their names."""

Marks: TypeAlias = Mapping[str, tuple[str, Mapping[str, list[float]]]]
"""The operation and its attributes, by the node that calls it."""


def config(name: str, attributes: Attributes) -> dict[str, Any]:
    """The configuration of the custom call that represents an operation."""
    return {"name": name, "attributes": attributes}


def is_operation(value: AttrValue) -> bool:
    """Whether `value`, an attribute of a function, marks it as an operation of the author's."""
    return value.s.startswith(_PREFIX.encode())


def keep_apart(function: FunctionDef) -> None:
    """Keep TensorFlow's optimizer from inlining `function`, an operation, or removing arguments of it."""
    function.attr["_noinline"].b = True
    function.attr["_nospecialize"].b = True


def called(graph_def: GraphDef, inputs: Sequence[Feed], declared: Collection[str]) -> GraphDef:
    """A copy of `graph_def` with custom calls for the operations; `graph_def` itself if it has none.

    `declared` are the names in the spec. Raises ModelFault for a name that is not declared, or that no node calls.
    """
    implementing = {
        each.signature.name: each.attr[IMPLEMENTS] for each in graph_def.library.function if IMPLEMENTS in each.attr
    }
    marks = {name: parsed(value.s) for name, value in implementing.items() if is_operation(value)}
    marked = {node.name: marks[name] for node in graph_def.node if (name := _function(node)) in marks}
    for name, _ in marks.values():
        require_declared(name, declared)
    inner = [node.name for each in graph_def.library.function for node in each.node_def if _function(node) in marks]
    # The shapes of a call are found at two batch sizes (_results): only nodes of the graph itself have these.
    if inner:
        raise ModelFault(
            f"the model calls an operation of its author's within a loop, a branch or another such operation (node "
            f"{min(inner)!r})",
            "call it outside of them, with all steps on one axis",
        )
    if unused := sorted(set(declared) - {name for name, _ in marked.values()}):
        raise ModelFault(
            f"no node of the model calls the operation {unused[0]!r} of compilation.operations",
            "remove it from the spec, or export the model with the node that calls it",
        )
    return _replaced(graph_def, inputs, marked) if marked else graph_def


def require_declared(name: str, declared: Collection[str]) -> None:
    """Raise ModelFault if the spec does not declare the operation `name`."""
    if name not in declared:
        has = f"it has: {', '.join(declared)}" if declared else "it has none"
        raise ModelFault(
            f"the model calls the operation {name!r}, which is not in compilation.operations; {has}", _ADVICE
        )


def _function(node: NodeDef) -> str:
    """The function that a node calls; TensorFlow 1 names it as the node's operation."""
    return node.attr["f"].func.name if node.op in CALLS else node.op


def parsed(mark: bytes) -> tuple[str, dict[str, list[float]]]:
    """(name, attributes) of the operation that a function implements."""
    name, _, text = mark.decode("utf-8", "replace").removeprefix(_PREFIX).partition(" ")
    try:
        attributes = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ModelFault(f"the attributes of the operation {name!r} are not valid JSON: {one_line(error)}") from error
    if not isinstance(attributes, dict):
        raise ModelFault(f"the attributes of the operation {name!r} are not a mapping")
    return name, {key: values_of(name, key, value) for key, value in attributes.items()}


def values_of(name: str, key: str, value: Any) -> list[float]:
    """The numbers of an attribute. Raises ModelFault if it has others."""
    values = value if isinstance(value, list) else [value]
    for each in values:
        # `not ... <=` instead of `>`, so that NaN is rejected too.
        if not isinstance(each, int | float) or not abs(each) <= _MOST_EXACT:
            raise ModelFault(
                f"the attribute {key!r} of the operation {name!r} is not a number, or list of numbers, "
                "that a double can represent",
                "give an operation numbers, and choose among kinds by a number",
            )
    return list(map(float, values))


def _replaced(graph_def: GraphDef, inputs: Sequence[Feed], marked: Marks) -> GraphDef:
    from tensorflow.core.framework import graph_pb2

    shapes, dtypes = _results(graph_def, inputs, marked)
    made = graph_pb2.GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        copy = made.node.add()
        if node.name not in marked:
            copy.CopyFrom(node)
            continue
        name, attributes = marked[node.name]
        copy.name, copy.op = node.name, _CUSTOM_CALL
        copy.input.extend(data_inputs(node))
        copy.attr["operand_dtypes"].list.CopyFrom(dtypes[node.name][0])
        copy.attr["result_dtypes"].list.CopyFrom(dtypes[node.name][1])
        for sizes in shapes[node.name]:
            shape = copy.attr["result_shapes"].list.shape.add()
            for size in sizes:
                shape.dim.add(size=size)
        copy.attr["call_target_name"].s = OPERATION.encode()
        # Sorted, because the listing of the graph must not depend on the order of attributes in the model.
        copy.attr["backend_config"].s = json.dumps(config(name, attributes), sort_keys=True).encode()
        # XLA may then remove a call whose results nothing uses, as it removes any other operation.
        copy.attr["has_side_effect"].b = False
    return made


def _results(
    graph_def: GraphDef, inputs: Sequence[Feed], marked: Marks
) -> tuple[dict[str, list[list[int]]], dict[str, list[AttrValue.ListValue]]]:
    """By node: (the shapes of a call's results, with -1 for the batch; the types of its inputs and results)."""
    import tensorflow as tf

    found: list[dict[str, tf.Operation]] = []
    # At two batch sizes: an axis whose size differs is the batch.
    for size in specialize.PROBES:
        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(specialize.at_batch_size(graph_def, inputs, size), name="")
        found.append({name: graph.get_operation_by_name(name) for name in marked})
    shapes: dict[str, list[list[int]]] = {}
    dtypes: dict[str, list[AttrValue.ListValue]] = {}
    for name, (operation, _) in marked.items():
        pairs = zip(*(_shapes_at(graph_def, each[name]) for each in found), strict=True)
        shapes[name] = [_sizes(operation, name, small, large) for small, large in pairs]
        dtypes[name] = [_types(tensors) for tensors in (found[0][name].inputs, found[0][name].outputs)]
    return shapes, dtypes


def _shapes_at(graph_def: GraphDef, call: tf.Operation) -> list[tf.TensorShape]:
    """The shapes of a call's results."""
    from tensorflow.core.framework import function_pb2
    from tensorflow.python.framework import function_def_to_graph

    called = function_pb2.FunctionDef()
    called.CopyFrom({each.signature.name: each for each in graph_def.library.function}[_function(call.node_def)])
    # The saved shapes too: they may be of another batch size.
    called.arg_attr.clear()
    for node in called.node_def:
        node.attr.pop("_output_shapes", None)
    body = function_def_to_graph.function_def_to_graph(called, input_shapes=[each.shape for each in call.inputs])
    return [each.shape for each in body.outputs]


def _sizes(operation: str, node: str, small: tf.TensorShape, large: tf.TensorShape) -> list[int]:
    if not small.is_fully_defined() or not large.is_fully_defined():
        raise ModelFault(
            f"the shape of the result of the operation {operation!r} is not known (node {node!r}): {large}",
            "set it in the model (tf.ensure_shape)",
        )
    pairs = list(zip(small.as_list(), large.as_list(), strict=True))
    made = [one if one == two else -1 for one, two in pairs]
    if made[:1] != [-1] or -1 in made[1:] or pairs[0] != specialize.PROBES:
        raise ModelFault(
            f"the operation {operation!r} returns {small} for {specialize.PROBES[0]} rows, and {large} for "
            f"{specialize.PROBES[1]} (node {node!r}): its first axis must be the batch",
            "an operation computes row by row",
        )
    return made


def _types(tensors: Iterable[tf.Tensor]) -> AttrValue.ListValue:
    from tensorflow.core.framework import attr_value_pb2

    return attr_value_pb2.AttrValue.ListValue(type=[each.dtype.as_datatype_enum for each in tensors])
