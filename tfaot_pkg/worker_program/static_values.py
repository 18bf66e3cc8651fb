"""Shapes and values of tensors that are known before a model runs, also in functions of loops and branches.

A function is called with tensors whose shapes and values may be known. If several nodes call it, only what all of
the calls agree on is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import interface
import specialize
import tensorflow as tf
from tensorflow.python.framework import function_def_to_graph

if TYPE_CHECKING:
    from framework_types import FunctionDef, GraphDef
    from messages.graph import Feed, Symbol


_CALLS = {
    "Case": (("branches",), 1),
    "If": (("then_branch", "else_branch"), 1),
    "PartitionedCall": (("f",), 0),
    "StatefulPartitionedCall": (("f",), 0),
    "While": (("cond", "body"), 0),
}
"""Operation -> attributes that name functions, number of inputs before their arguments (a condition or an index).

The name of the operation may begin with `Stateless`.
"""


Values: TypeAlias = dict[str, Any]
"""Values of tensors by their names: arrays; of handles of tables, the names of their nodes."""

Input: TypeAlias = tuple["tf.DType", "list[int | None] | None", Any]
"""(dtype, shape or None, value or None) of an input of a node."""


class StaticValues:
    """What is known in one graph or function: one TensorFlow graph for each batch size and each call.

    Each graph has the values of its placeholders; for tables, the names of their nodes.
    """

    def __init__(self) -> None:
        self._graphs: list[tuple[tf.Graph, Values]] = []

    def add(self, graph: tf.Graph, values: Values) -> None:
        self._graphs.append((graph, values))

    def inputs_of(self, name: str) -> list[Input]:
        """(dtype, shape or None, value or None) of each input of a node."""
        found = zip(*(self._of_node(graph, values, name) for graph, values in self._graphs), strict=True)
        return [
            (each[0][0].dtype, _common([tensor.shape for tensor, _ in each]), _same([value for _, value in each]))
            for each in found
        ]

    @staticmethod
    def _of_node(graph: tf.Graph, values: Values, name: str) -> list[tuple[tf.Tensor, Any]]:
        return [(tensor, _value(tensor, values)) for tensor in graph.get_operation_by_name(name).inputs]


def static_values_in(graph_def: GraphDef, inputs: Sequence[Feed], symbols: Sequence[Symbol]) -> dict[str, StaticValues]:
    """`StaticValues` by the names of all reachable functions, and "" for the graph itself."""
    # Compared at two batch sizes, and two sizes of each symbol: what differs depends on them, so it is not known.
    points: list[tuple[int, dict[str, int]]] = [(size, {}) for size in specialize.PROBES]
    points += [(specialize.PROBES[0], interface.distinct_sizes(symbols))] if symbols else []
    functions = {function.signature.name: function for function in graph_def.library.function}
    found = {"": StaticValues()}
    for point in points:
        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(specialize.at_batch_size(graph_def, inputs, *point), name="")
            tables = {op.outputs[0].name: op.name for op in graph.get_operations() if _is_handle(op)}
            found[""].add(graph, tables)
            _follow_calls(graph, tables, functions, found)
    return found


def _is_handle(op: tf.Operation) -> bool:
    return bool(op.type == "Placeholder" and op.outputs[0].dtype == tf.resource)


def _follow_calls(
    graph: tf.Graph, values: Values, functions: Mapping[str, FunctionDef], found: dict[str, StaticValues]
) -> None:
    for op in graph.get_operations():
        attributes, without = _CALLS.get(op.type.removeprefix("Stateless"), ((), 0))
        given = [*op.inputs][without:]
        names = [name for each in attributes for name in _names(op.get_attr(each))]
        # Built with the shapes of this call: the stored function has those that it was exported with.
        bodies = [
            function_def_to_graph.function_def_to_graph(functions[name], input_shapes=[each.shape for each in given])
            for name in names
        ]
        # A value that an iteration changes is known before the first iteration only.
        kept = _unchanged(bodies[-1]) if "body" in attributes else [True] * len(given)
        for name, body in zip(names, bodies, strict=True):
            inner = {
                place.name: value
                for place, tensor, stays in zip(body.inputs, given, kept, strict=True)
                if stays and (value := _value(tensor, values)) is not None
            }
            found.setdefault(name, StaticValues()).add(body, inner)
            _follow_calls(body, inner, functions, found)


def _names(attribute: Any) -> list[str]:
    return [each.name for each in attribute] if isinstance(attribute, list) else [attribute.name]


def _unchanged(body: tf.Graph) -> list[bool]:
    """For each value of a loop, whether the body returns it unchanged."""
    return [_origin(result) is given for given, result in zip(body.inputs, body.outputs, strict=True)]


def _origin(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _value(tensor: tf.Tensor, values: Values) -> Any:
    origin = _origin(tensor)
    if origin.name in values:
        return values[origin.name]
    found = tf.get_static_value(origin)
    return _clipped(origin, values) if found is None else found


def _clipped(tensor: tf.Tensor, values: Values) -> Any:
    """The value of min(number, max(number, x)) if it does not depend on x, as in the sizes of Keras's counts."""
    if tensor.op.type != "Minimum" or tensor.shape.rank != 0:
        return None
    # Either operand of Minimum may be the number.
    for most, clipped in (tensor.op.inputs, tensor.op.inputs[::-1]):
        upper = _value(most, values)
        if upper is not None and _origin(clipped).op.type == "Maximum":
            lowers = [_value(each, values) for each in _origin(clipped).op.inputs]
            if any(lower is not None and lower >= upper for lower in lowers):
                return upper
    return None


def _common(shapes: list[tf.TensorShape]) -> list[int | None] | None:
    """The sizes common to all shapes, None for those that differ; None if the number of axes is not known."""
    if any(shape.rank is None or shape.rank != shapes[0].rank for shape in shapes):
        return None
    return [sizes[0] if len({*sizes}) == 1 else None for sizes in zip(*(s.as_list() for s in shapes), strict=True)]


def _same(values: list[Any]) -> Any:
    """The value that all are equal to; None if they differ."""
    import numpy as np

    first = values[0]
    return None if first is None or any(v is None or not np.array_equal(v, first) for v in values) else first
