"""Write the SavedModel of an ONNX graph: each node becomes operations of TensorFlow (table.py).

Nodes whose inputs are all known are computed at once, so that arithmetic on shapes and weights costs nothing later.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx import (  # noqa: F401 (each fills the table)
    authored_nodes,
    contributed,
    control,
    elementwise,
    images,
    indexing,
    layers,
    normalizing,
    pooling,
    preprocessing,
    products,
    quantized,
    recurrent,
    sampling,
    selecting,
    sequences,
    shaping,
    signals,
    trees,
)
from from_onnx.contributed import SAVE_BASIC
from from_onnx.graphs import GRAPH, TENSORS
from from_onnx.sequences import Sequence
from from_onnx.table import MICROSOFT, OPERATORS, Node
from messages.requests import ModelFault, Nothing, one_line
from messages.sources import BuildOnnx

if TYPE_CHECKING:
    from framework_types import Report


_LONGEST_SCOPE = 400
_MOST_FOLDED = 1 << 24
"""Larger results are not computed at once: a constant that is expanded may have any number of elements."""


def build(request: BuildOnnx, report: Report) -> Nothing:
    """Write the SavedModel, with one signature, `serving_default`."""
    with open(os.path.join(request.graph, GRAPH), encoding="utf-8") as file:
        document = json.load(file)
    with np.load(os.path.join(request.graph, TENSORS), allow_pickle=False) as file:
        arrays = {name: _array(file[name], document["dtypes"].get(name)) for name in file.files}
    module = tf.Module()
    module.serve = function_of(document, arrays, request.operations)
    try:
        tf.saved_model.save(module, request.out, signatures=module.serve)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise ModelFault(f"TensorFlow cannot express the ONNX model: {one_line(error)}", _SIMPLIFY) from error
    return Nothing()


_SIMPLIFY = "simplify the file (python -m onnxsim IN.onnx OUT.onnx), or export it with another opset"


def function_of(document: dict[str, Any], arrays: dict[str, Any], operations: Collection[str] = ()) -> tf.Tensor:
    """The graph as a function of its inputs, in their order, which returns outputs by name.

    `operations` are those operators that the author supplies.
    """
    specs = [tf.TensorSpec(each["shape"], each["dtype"], name=each["name"]) for each in document["inputs"]]

    @tf.function(input_signature=specs, autograph=False)
    def serve(*feeds: tf.Tensor) -> tf.Tensor:
        builder = Builder(document, arrays, operations)
        given = {each["key"]: feed for each, feed in zip(document["inputs"], feeds, strict=True)}
        values = builder.run(document["graph"], given)
        return {each["name"]: tf.identity(values[each["key"]]) for each in document["outputs"]}

    return serve


class Builder:
    def __init__(self, document: dict[str, Any], arrays: dict[str, Any], operations: Collection[str]) -> None:
        self._operations = operations
        self._opsets, self._arrays, self._by_row = document["opsets"], arrays, document["by_row"]

    def run(self, graph: dict[str, Any], given: dict[str, Any], outer: dict[str, Any] | None = None) -> dict[str, Any]:
        """All values of `graph` by name, from its inputs `given`; `outer` are those of the graphs around it."""
        # An inner graph reads the values of those around it, and hides those whose names it uses itself.
        values = dict(outer or {})
        values.update({name: self._constant(array) for name, array in graph["tensors"].items()})
        values.update(given)
        for document in graph["nodes"]:
            node = self._node(document, values)
            inputs = [values[name] if name else None for name in node.inputs]
            # Scopes become the blocks of the drawing on the package's page (layers.py).
            with tf.name_scope(_scope_of(document["scope"], node.op)):
                results = self._computed(node, inputs)
            # A node may name fewer outputs than its operator has.
            for name, result in zip(node.outputs, results, strict=False):
                if name and isinstance(result, Sequence):
                    values[name] = result
                elif name:
                    values[name] = _shaped(tf.convert_to_tensor(result), graph["shapes"].get(name), self._by_row)
        return values

    def _node(self, document: dict[str, Any], values: dict[str, Any]) -> Node:
        node = Node(
            op=document["op"],
            domain=document["domain"],
            version=self._opsets.get(document["domain"], 1),
            name=document["name"],
            inputs=tuple(document["inputs"]),
            outputs=tuple(document["outputs"]),
            attributes={name: self._attribute(value) for name, value in document["attributes"].items()},
            run=lambda graph, given: self.run(graph, given, values),
            by_row=self._by_row,
        )
        if missing := [name for name in node.inputs if name and name not in values]:
            raise node.fault(f"its input {missing[0]!r} is computed nowhere before it")
        return node

    def _attribute(self, value: tf.Tensor) -> tf.Tensor:
        if isinstance(value, dict):
            return self._arrays[value["tensor"]] if "tensor" in value else value["graph"]
        return value

    def _constant(self, name: str) -> tf.Tensor:
        array = self._arrays[name]
        return tf.constant(array, dtype=tf.string if array.dtype.kind == "U" else None)

    def _computed(self, node: Node, inputs: list[Any]) -> tuple[Any, ...]:
        """The outputs of one node."""
        if authored_nodes.is_authored(node.domain, node.op, self._operations):
            return authored_nodes.tensors(node, inputs)
        function = OPERATORS.get((node.domain, node.op))
        if function is None and node.domain not in authored_nodes.OWN_DOMAINS:
            raise node.fault(
                "this operator is neither ONNX's nor in compilation.operations of the spec",
                SAVE_BASIC
                if node.domain.startswith(MICROSOFT)
                else "supply it there: NAME: {source: NAME.cpp, reference: NAME.py}",
            )
        if function is None:
            raise node.fault(
                "this operator is not supported", "replace it in the model: docs/onnx-coverage.md lists what is"
            )
        known = [None if each is None or isinstance(each, Sequence) else tf.get_static_value(each) for each in inputs]
        is_known = all(value is not None for value, each in zip(known, inputs, strict=True) if each is not None)
        try:
            if is_known and not _has_graphs(node):
                with tf.init_scope():  # runs at once, outside of the graph that is being made
                    made = _tuple(function(node, *_constants(known, inputs)))
                    is_folded = all(map(_is_small, made))
                    values = [each.numpy() if is_folded and each is not None else None for each in made]
                if is_folded:
                    return tuple(None if each is None else tf.constant(each) for each in values)
            return _tuple(function(node, *inputs))
        except ModelFault:
            raise
        except (tf.errors.OpError, ValueError, TypeError, IndexError, KeyError) as error:
            raise node.fault(f"TensorFlow cannot express it: {one_line(error)}", _SIMPLIFY) from error


def _is_small(made: tf.Tensor) -> bool:
    """Whether a result may be a constant."""
    return made is None or (not isinstance(made, Sequence) and np.prod(made.shape) <= _MOST_FOLDED)


def _scope_of(name: str, op: str) -> str:
    """The name of a node as a scope, whose last part names the operator: `/encoder/in` becomes `encoder/in/Conv`."""
    # TensorFlow allows few characters in scopes, and only a letter, a digit or a dot at the beginning.
    parts = [re.sub(r"[^A-Za-z0-9_.]", "_", part) for part in name.split("/") if part]
    parts = [part if part[0].isalnum() or part[0] == "." else f"n{part}" for part in parts]
    if not parts or re.sub(r"_\d+$", "", parts[-1]) != op:
        parts.append(re.sub(r"[^A-Za-z0-9]", "_", op))
    return "/".join(parts)[-_LONGEST_SCOPE:].strip("/_") or "node"


def _has_graphs(node: Node) -> bool:
    return any(isinstance(value, dict) for value in node.attributes.values())


def _constants(known: list[Any], inputs: list[Any]) -> list[Any]:
    return [None if each is None else tf.constant(value, each.dtype) for value, each in zip(known, inputs, strict=True)]


def _tuple(made: tf.Tensor) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def _shaped(tensor: tf.Tensor, shape: tf.Tensor, by_row: bool) -> tf.Tensor:
    """`tensor` with the sizes that ONNX's inference found and TensorFlow did not."""
    if shape is None or tensor.shape.is_fully_defined():
        return tensor
    # If the batch replaces an axis of size 1, ONNX's inference may still have sizes that follow from the 1.
    known = [None if by_row else size for size in shape]
    if tensor.shape.rank is None or tensor.shape.rank == len(known):
        tensor.set_shape([b if b is not None else a for a, b in zip(known, _list(tensor, len(known)), strict=True)])
    return tensor


def _list(tensor: tf.Tensor, count: int) -> list[Any]:
    return tensor.shape.as_list() if tensor.shape.rank is not None else [None] * count


def _array(array: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    if dtype is None:
        return array
    return array.view(tf.as_dtype(dtype).as_numpy_dtype)
