"""Functions without a signature in a SavedModel, such as those of a `tf.Module`, in the form of signatures.

The file's object graph has the arguments, results and captures of each function; it is only read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from messages.requests import ModelFault
from wiring import distinct, free

if TYPE_CHECKING:
    from framework_types import MetaGraphDef, NodeDef, OpDef, StructuredValue, TensorInfo, TensorSpecProto


_INPUT_SIGNATURE = "save it with a signature: tf.saved_model.save(module, folder, signatures=module.FUNCTION)"
_FUNCTIONS = ("function", "bare_concrete_function")


@dataclass(frozen=True)
class _Callable:
    """A function of the library, the numbers of the objects that it captures, and the structures of its tensors."""

    name: str
    captures: tuple[int, ...]
    inputs: StructuredValue
    outputs: StructuredValue


def names(graph: MetaGraphDef) -> list[str]:
    """Names of the root object's functions, sorted; several traces are named `NAME[0]`, `NAME[1]`."""
    return sorted(_callables(graph))


def add_signature(graph: MetaGraphDef, name: str) -> None:
    """Add a signature `name` to the MetaGraphDef `graph`, which calls the function of that name.

    Raises ModelFault if the function takes or captures anything except tensors.
    """
    found = _callables(graph)[name]
    function = next((each for each in graph.graph_def.library.function if each.signature.name == found.name), None)
    if function is None:
        raise ModelFault(f"the SavedModel is damaged: its function {name!r} does not exist", "export it again")
    inputs, outputs = _leaves(name, found.inputs, ""), _leaves(name, found.outputs, "")
    arguments = function.signature.input_arg
    if len(inputs) + len(found.captures) != len(arguments) or len(outputs) != len(function.signature.output_arg):
        raise ModelFault(f"the function {name!r} takes or returns values that are not tensors", _INPUT_SIGNATURE)
    made = graph.signature_def[name]
    made.method_name = "tensorflow/serving/predict"
    adding = _Adding(graph, name)
    keys = distinct([spec.name or argument.name for (_, spec), argument in zip(inputs, arguments, strict=False)])
    texts = []
    for key, (_, spec) in zip(keys, inputs, strict=True):
        texts.append(adding.placeholder(key, spec))
        _fill(made.inputs[key], f"{texts[-1]}:0", spec)
    texts += [adding.captured(number) for number in found.captures]
    call = adding.call(found.name, texts, arguments, function.signature.output_arg)
    # TensorFlow's own signatures name unnamed outputs of a function in this way.
    keys = distinct([path or f"output_{index}" for index, (path, _) in enumerate(outputs)])
    for index, (key, (_, spec)) in enumerate(zip(keys, outputs, strict=True)):
        _fill(made.outputs[key], f"{call}:{index}", spec)


def _callables(graph: MetaGraphDef) -> dict[str, _Callable]:
    objects = graph.object_graph_def
    found: dict[str, _Callable] = {}
    for child in objects.nodes[0].children if objects.nodes else ():
        # Functions whose name begins with one underscore are private; __call__ is not.
        is_private = child.local_name.startswith("_") and not child.local_name.startswith("__")
        if is_private or not 0 <= child.node_id < len(objects.nodes):
            continue
        node = objects.nodes[child.node_id]
        kind = node.WhichOneof("kind")
        if kind not in _FUNCTIONS:
            continue
        bare = kind == "bare_concrete_function"
        traces = [node.bare_concrete_function.concrete_function_name] if bare else node.function.concrete_functions
        traces = [each for each in traces if each in objects.concrete_functions]
        for index, trace in enumerate(traces):
            concrete = objects.concrete_functions[trace]
            found[f"{child.local_name}[{index}]" if len(traces) > 1 else child.local_name] = _Callable(
                name=trace,
                captures=tuple(concrete.bound_inputs),
                inputs=concrete.canonicalized_input_signature,
                outputs=concrete.output_signature,
            )
    return found


def _leaves(function: str, value: StructuredValue, path: str) -> list[tuple[str, TensorSpecProto]]:
    """[(path, TensorSpec)] of a StructuredValue, in TensorFlow's order; values that are not tensors are left out."""
    kind = value.WhichOneof("kind")
    if kind in ("tensor_spec_value", "bounded_tensor_spec_value"):
        return [(path, getattr(value, kind))]
    if kind == "type_spec_value":
        raise ModelFault(
            f"the function {function!r} takes or returns a sparse, ragged or other composite tensor "
            f"({path or 'itself'})",
            "export a function of dense tensors",
        )
    if kind in ("list_value", "tuple_value"):
        parts = [(str(index), each) for index, each in enumerate(getattr(value, kind).values)]
        # The outermost list is that of arguments or results: positions in it are no names.
        parts = parts if path else [("", each) for _, each in parts]
    elif kind == "dict_value":
        # TensorFlow flattens dictionaries in the order of their keys.
        parts = sorted(value.dict_value.fields.items())
    elif kind == "named_tuple_value":
        parts = [(pair.key, pair.value) for pair in value.named_tuple_value.values]
    else:
        return []
    return [leaf for name, each in parts for leaf in _leaves(function, each, "_".join(filter(None, (path, name))))]


def _fill(info: TensorInfo, name: str, spec: TensorSpecProto) -> None:
    info.name = name
    info.dtype = spec.dtype
    info.tensor_shape.CopyFrom(spec.shape)


class _Adding:
    """Adds the nodes of one call to the graph."""

    def __init__(self, graph: MetaGraphDef, function: str) -> None:
        self._graph, self._function = graph, function
        self._taken = {node.name for node in graph.graph_def.node}
        variables = {
            (each.variable.name.removesuffix(":0"), each.variable.dtype)
            for each in graph.object_graph_def.nodes
            if each.WhichOneof("kind") == "variable"
        }
        self._handles = {
            node.name
            for node in graph.graph_def.node
            if node.op == "VarHandleOp" and (node.name, node.attr["dtype"].type) in variables
        }

    def placeholder(self, key: str, spec: TensorSpecProto) -> str:
        node = self._node(f"input_{key}", "Placeholder")
        node.attr["dtype"].type = spec.dtype
        node.attr["shape"].shape.CopyFrom(spec.shape)
        return node.name

    def captured(self, number: int) -> str:
        objects = self._graph.object_graph_def.nodes
        captured = objects[number] if 0 <= number < len(objects) else None
        kind = captured.WhichOneof("kind") if captured is not None else "nothing"
        if captured is not None and kind == "constant":
            return captured.constant.operation
        if captured is None or kind != "variable":
            raise ModelFault(
                f"the function {self._function!r} captures what is neither a variable nor a constant ({kind})",
                "lookup tables and assets cannot be compiled: pass their values as inputs",
            )
        name = captured.variable.name.removesuffix(":0") or f"variable_{number}"
        if name in self._handles:  # of the saver: the call determines which value it gets
            self._handles.remove(name)
            return name
        node = self._node(name, "VarHandleOp")
        node.attr["dtype"].type = captured.variable.dtype
        node.attr["shape"].shape.CopyFrom(captured.variable.shape)
        return node.name

    def call(
        self, name: str, inputs: list[str], arguments: Iterable[OpDef.ArgDef], results: Iterable[OpDef.ArgDef]
    ) -> str:
        node = self._node("called", "StatefulPartitionedCall")
        node.attr["f"].func.name = name
        node.input.extend(inputs)
        node.attr["Tin"].list.type.extend(argument.type for argument in arguments)
        node.attr["Tout"].list.type.extend(result.type for result in results)
        return node.name

    def _node(self, wanted: str, op: str) -> NodeDef:
        return self._graph.graph_def.node.add(name=free(wanted, self._taken), op=op)
