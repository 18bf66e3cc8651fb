"""Runs the graph of a signature node by node, in its own types or with float64 in place of float32.

TensorFlow's own kernels compute each node, without any rewrite of the graph. In float64 this tells how far off answers
in float32 are; between the nodes, which rules of the framework an answer depends on (messages/open_results.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import function_def_to_graph, op_def_registry
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

if TYPE_CHECKING:
    from framework_types import AttrValue, ConcreteFunction, NodeDef, Nodes, OpDef


_FLOAT, _DOUBLE = types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE
_WIDER = {_FLOAT: _DOUBLE, types_pb2.DT_COMPLEX64: types_pb2.DT_COMPLEX128}
_NORMALIZATIONS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_BRANCHES = frozenset({"If", "StatelessIf"})
_LOOPS = frozenset({"While", "StatelessWhile"})
_TURNS = 10_000
"""The most turns of a loop: each of its nodes is started alone."""


class CannotWalk(Exception):
    """A graph with an operation that cannot be run alone."""


Define: TypeAlias = Callable[["NodeDef", "list[tf.Tensor]"], "list[tf.Tensor] | None"]
"""The results of a node in place of its kernel's; None for those of its kernel."""
Observe: TypeAlias = Callable[["NodeDef", "list[tf.Tensor]", bool], None]
"""Called with a node, its operands, and whether these are not the rows of the batch."""


class Walk:
    """The graph of `function`, a ConcreteFunction whose inputs have the names `inputs`, and its outputs `outputs`."""

    def __init__(self, function: ConcreteFunction, inputs: list[str], outputs: list[str]) -> None:
        frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
        graph = frozen.graph.as_graph_def()
        self._functions = {each.signature.name: each for each in graph.library.function}
        self._bodies: dict[str, _Body] = {}
        self._main = _Body(graph.node, [each.name for each in frozen.inputs], [each.name for each in frozen.outputs])
        self._inputs, self._outputs = inputs, outputs
        tensors = (each for operation in frozen.graph.get_operations() for each in operation.outputs)
        self.varying = {each.name for each in tensors if _varies(each)}
        """The tensors that begin with an axis of any size: that of the batch."""

    def run(
        self,
        given: Mapping[str, tf.Tensor],
        *,
        double: bool,
        observe: Observe | None = None,
        define: Define | None = None,
    ) -> dict[str, tf.Tensor]:
        """The outputs for the tensors `given`, by name. `observe(node, operands, nested)` is called before each
        node; those whose arrays do not begin with the rows of the batch, as in loops and branches, are `nested`.

        Raises CannotWalk, and the errors of TensorFlow.
        """
        feeds = [_widened(given[name]) if double else given[name] for name in self._inputs]
        found = _Run(self, double, observe, define).body(self._main, feeds)
        return dict(zip(self._outputs, found, strict=True))

    def body_of(self, name: str) -> _Body:
        if name not in self._bodies:
            definition = self._functions[name]
            graph, flat = function_def_to_graph.function_def_to_graph_def(definition)
            results = [flat[definition.ret[each.name]] for each in definition.signature.output_arg]
            parameters = [f"{each.name}:0" for each in definition.signature.input_arg]
            self._bodies[name] = _Body(graph.node, parameters, results)
        return self._bodies[name]


class _Body:
    """Nodes in an order in which they can run, and the names of tensors that come in and go out."""

    def __init__(self, nodes: Nodes, inputs: list[str], outputs: list[str]) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.nodes = _ordered({node.name: node for node in nodes}, outputs)


def _varies(tensor: tf.Tensor) -> bool:
    return tensor.shape.rank is None or bool(tensor.shape.rank > 0 and tensor.shape[0] is None)


def _ordered(nodes: Mapping[str, NodeDef], outputs: list[str]) -> list[NodeDef]:
    """The nodes that `outputs` need, each after its operands."""
    done: set[str] = set()
    order: list[NodeDef] = []
    waiting = [text.partition(":")[0] for text in outputs]
    while waiting:
        name = waiting[-1]
        missing = [each for each in map(_node_of, nodes[name].input) if each not in done] if name not in done else []
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if name not in done:
            done.add(name)
            order.append(nodes[name])
    return order


def _node_of(text: str) -> str:
    return text.lstrip("^").partition(":")[0]


class _Run:
    def __init__(self, walk: Walk, double: bool, observe: Observe | None, define: Define | None) -> None:
        self._walk, self._double, self._observe, self._define, self._depth = walk, double, observe, define, 0

    def body(self, body: _Body, given: list[tf.Tensor]) -> list[tf.Tensor]:
        fed = dict(zip(body.inputs, given, strict=True))
        known = dict(fed)
        for node in body.nodes:
            if f"{node.name}:0" in fed:
                continue
            texts = [text for text in node.input if not text.startswith("^")]
            operands = [known[text if ":" in text else f"{text}:0"] for text in texts]
            if self._observe is not None:
                named = {text if ":" in text else f"{text}:0" for text in texts}
                self._observe(node, operands, self._depth > 0 or not named & self._walk.varying)
            for place, result in enumerate(self._node(node, operands)):
                known[f"{node.name}:{place}"] = result
        return [known[text] for text in body.outputs]

    def _node(self, node: NodeDef, operands: list[tf.Tensor]) -> list[tf.Tensor]:
        if node.op == "Const":
            value = tf.constant(tf.make_ndarray(node.attr["value"].tensor))
            return [_widened(value) if self._double else value]
        if node.op in _CALLS:
            return self.body(self._walk.body_of(node.attr["f"].func.name), operands)
        if node.op in _BRANCHES:
            side = "then_branch" if bool(tf.cast(operands[0], tf.bool)) else "else_branch"
            return self._nested(self._walk.body_of(node.attr[side].func.name), operands[1:])
        if node.op in _LOOPS:
            return self._loop(node, operands)
        if self._define is not None and (defined := self._define(node, operands)) is not None:
            return defined
        if self._double and node.op in _NORMALIZATIONS and not node.attr["is_training"].b:
            return _normalized(node, operands)
        return self._kernel(node, operands)

    def _nested(self, body: _Body, given: list[tf.Tensor]) -> list[tf.Tensor]:
        self._depth += 1
        try:
            return self.body(body, given)
        finally:
            self._depth -= 1

    def _loop(self, node: NodeDef, state: list[tf.Tensor]) -> list[tf.Tensor]:
        condition, body = (self._walk.body_of(node.attr[name].func.name) for name in ("cond", "body"))
        for _ in range(_TURNS):
            if not bool(self._nested(condition, state)[0]):
                return state
            state = self._nested(body, state)
        raise CannotWalk(f"{node.name}: more than {_TURNS} turns")

    def _kernel(self, node: NodeDef, operands: list[tf.Tensor]) -> list[tf.Tensor]:
        definition = _definition(node)
        wide = {name for name, each in node.attr.items() if self._double and _is_wider(definition, name, each)}
        attributes = {name: _plain(each, name in wide) for name, each in node.attr.items() if not name.startswith("_")}
        inputs = _cast(definition, operands, attributes)
        outputs = sum(_count(each, attributes) for each in definition.output_arg)
        listed = [part for name, value in attributes.items() for part in (name, value)]
        results = execute.execute(
            node.op.encode(), outputs, inputs=inputs, attrs=tuple(listed), ctx=context.context(), name=None
        )
        results = results if isinstance(results, list | tuple) else []
        return [_widened(each) if self._double else each for each in results]


def _definition(node: NodeDef) -> OpDef:
    """Raises CannotWalk for operations that change something, or that run functions."""
    definition: OpDef | None = op_def_registry.get(node.op)
    if definition is None or definition.is_stateful or any(each.HasField("func") for each in node.attr.values()):
        raise CannotWalk(f"{node.name} ({node.op}) cannot be run alone")
    return definition


def _cast(definition: OpDef, operands: list[tf.Tensor], attributes: Mapping[str, Any]) -> list[tf.Tensor]:
    """`operands` in the types that the operation takes with these attributes."""
    dtypes = [dtype for each in definition.input_arg for dtype in _types(each, attributes)]
    return [
        each if dtype is None or each.dtype == dtype else tf.cast(each, dtype)
        for each, dtype in zip(operands, dtypes, strict=True)
    ]


def _is_wider(definition: OpDef, name: str, value: AttrValue) -> bool:
    """Whether the attribute `name` of a node is a type, or types, that may be float64 in place of float32."""
    kinds = [value.type] if value.HasField("list") is False and value.type else list(value.list.type)
    if not any(kind in _WIDER for kind in kinds):
        return False
    (allowed,) = [set(each.allowed_values.list.type) for each in definition.attr if each.name == name] or [set()]
    return not allowed or all(_WIDER.get(kind, kind) in allowed for kind in kinds)


def _plain(value: AttrValue, wide: bool) -> Any:
    """An attribute as Python's execute takes it."""
    kind = value.WhichOneof("value")
    if kind == "type":
        return _WIDER.get(value.type, value.type) if wide else value.type
    if kind == "shape":
        return None if value.shape.unknown_rank else [None if each.size < 0 else each.size for each in value.shape.dim]
    if kind == "list":
        found = value.list
        if found.type:
            return [_WIDER.get(each, each) if wide else each for each in found.type]
        if found.shape:
            return [[None if each.size < 0 else each.size for each in shape.dim] for shape in found.shape]
        return [*found.i] or [*found.f] or [*found.s] or [*found.b]
    if kind is None:
        raise CannotWalk("an attribute without a value")
    if kind == "tensor":
        return tf.make_ndarray(value.tensor)
    return getattr(value, kind)


def _count(argument: OpDef.ArgDef, attributes: Mapping[str, Any]) -> int:
    """How many tensors one argument is."""
    if argument.number_attr:
        return int(attributes[argument.number_attr])
    return len(attributes[argument.type_list_attr]) if argument.type_list_attr else 1


def _types(argument: OpDef.ArgDef, attributes: Mapping[str, Any]) -> list[tf.DType | None]:
    """The types of the tensors of one argument; None if any will do."""
    if argument.type_list_attr:
        return [tf.as_dtype(each) for each in attributes[argument.type_list_attr]]
    kind = argument.type or (attributes.get(argument.type_attr) if argument.type_attr else None)
    return [tf.as_dtype(kind) if kind else None] * _count(argument, attributes)


def _widened(tensor: tf.Tensor) -> tf.Tensor:
    kind = _WIDER.get(tensor.dtype.as_datatype_enum)
    return tensor if kind is None else tf.cast(tensor, tf.as_dtype(kind))


def _normalized(node: NodeDef, operands: list[tf.Tensor]) -> list[tf.Tensor]:
    """Batch normalization for inference, for which there is no kernel of float64."""
    if node.attr["data_format"].s == b"NCHW":
        raise CannotWalk(f"{node.name}: channels first")
    x, scale, offset, mean, variance = operands
    result = (x - mean) * (scale / tf.sqrt(variance + np.float64(node.attr["epsilon"].f))) + offset
    return [result, mean, variance, mean, variance, mean]
