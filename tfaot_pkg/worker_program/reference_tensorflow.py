"""Runs SavedModels as TensorFlow runs them, without any of our rewrites.

Except that `top_k(sorted=False)` gives its elements in order: TensorFlow allows any, and this is the one that XLA has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import compiled_signature
import defined_results
import interpreter
import numpy as np
import signatures
import tensorflow as tf
from messages import elements, open_results
from messages.requests import Reference
from operations import nodes_of

if TYPE_CHECKING:
    from framework_types import Array, GraphDef, NodeDef


_loaded: dict[str, Any] = {}
"""The last model that was requested, and its other functions: one validation asks for it many times."""


class TensorFlowModel:
    """The signature, compiled by XLA first if the request asks for it."""

    def __init__(self, request: Reference) -> None:
        self.version = tf.__version__
        self.rejections = (tf.errors.OpError, ValueError, TypeError)
        self.not_walked = (interpreter.CannotWalk,)
        wanted = (request.folder, request.tags, request.signature)
        if _loaded.get("wanted") != wanted:
            _loaded.clear()
            signature = signatures.load_signature(request.folder, request.tags, request.signature, change=_in_order)
            _loaded["signature"] = signature
            _loaded["jit"] = compiled_signature.CompiledSignature(signature)
            _loaded["wanted"] = wanted
        self._function = _loaded["jit" if request.jit else "signature"]
        signature = _loaded["signature"]
        # The inputs are followed by the function's captures: its variables.
        types = (tensor.dtype.name for tensor in signature.function.inputs)
        self.dtypes = dict(zip(signature.inputs, types, strict=False))

    @property
    def operations(self) -> list[str]:
        """The kinds of operations in the graph."""
        graph = _loaded["signature"].function.graph
        return sorted({node.op for node in nodes_of(graph.as_graph_def())})

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        return _run(self._function, feeds, self.dtypes)

    def walk(
        self, feeds: dict[str, Array], *, double: bool, observe: Callable[[open_results.Node], None] | None
    ) -> dict[str, Array]:
        """As `run`, node by node (interpreter.py). Raises CannotWalk."""
        try:
            if "walk" not in _loaded:
                signature = _loaded["signature"]
                _loaded["walk"] = interpreter.Walk(signature.function, signature.inputs, signature.outputs)
            given = {name: tensor_of(values, self.dtypes[name]) for name, values in feeds.items()}
            see = None if observe is None else partial(_observed, observe)
            define = _defined if observe is None else None
            found = _loaded["walk"].run(given, double=double, observe=see, define=define)
            return {name: elements.numbers(tensor.numpy(), tensor.dtype.name) for name, tensor in found.items()}
        # Which exceptions TensorFlow's kernels and its readers of graphs raise is not documented.
        except Exception as error:
            raise interpreter.CannotWalk(str(error)) from error


def _observed(
    observe: Callable[[open_results.Node], None], node: NodeDef, operands: list[tf.Tensor], nested: bool
) -> None:
    if not open_results.watched(node.op):
        return
    arrays = tuple(elements.numbers(each.numpy(), each.dtype.name) for each in operands)
    to = node.attr["DstT"].type if node.op == "Cast" else 0
    numbers: dict[str, Any] = {
        name: getattr(each, kind)
        for name, each in node.attr.items()
        if (kind := each.WhichOneof("value")) in ("f", "i", "b")
    }
    if node.op in ("ArgMax", "ArgMin"):
        numbers["axis"] = int(arrays[1])
    observe(
        open_results.Node(
            name=node.name, operation=node.op, operands=arrays, attributes=numbers,
            to=np.dtype(tf.as_dtype(to).as_numpy_dtype) if to else None, nested=nested,
        )
    )  # fmt: skip


def _defined(node: NodeDef, operands: list[tf.Tensor]) -> list[tf.Tensor] | None:
    """The results of a node that defined_results.py has; None for others."""
    if not defined_results.is_defined(node.op):
        return None
    arrays = [elements.numbers(each.numpy(), each.dtype.name) for each in operands]
    if node.op == "Cast":
        to = np.dtype(tf.as_dtype(node.attr["DstT"].type).as_numpy_dtype)
        if not operands[0].dtype.is_floating or to.kind not in "iu":
            return None
        return [tf.constant(defined_results.converted(arrays[0], to))]
    return [tf.constant(defined_results.shifted(arrays[0], arrays[1], to_left=node.op == "LeftShift"))]


def _run(
    function: Callable[..., dict[str, tf.Tensor]], feeds: dict[str, Array], dtypes: Mapping[str, str]
) -> dict[str, Array]:
    """The answers as numbers."""
    given = {name: tensor_of(values, dtypes[name]) for name, values in feeds.items()}
    return {name: elements.numbers(tensor.numpy(), tensor.dtype.name) for name, tensor in function(**given).items()}


def tensor_of(held: Array, dtype: str) -> tf.Tensor:
    # bfloat16 is held as uint16, which has its bits (messages/elements.py).
    made = tf.constant(held)
    return made if made.dtype == dtype else tf.bitcast(made, dtype)


def _in_order(graph_def: GraphDef) -> None:
    for node in nodes_of(graph_def):
        if node.op in ("TopK", "TopKV2") and "sorted" in node.attr:
            node.attr["sorted"].b = True
