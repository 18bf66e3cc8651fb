"""Say why XLA cannot compile a graph, from its error, and what to do about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import loop_limits
import replacements
from messages.requests import ModelFault
from wiring import LOOPS, by_name

if TYPE_CHECKING:
    from framework_types import GraphDef


_NO_SHAPES_OF_VALUES = (
    "shapes must not depend on the values of inputs; otherwise try another toolchain (compilation.tensorflow)"
)
_KEPT_SHAPES = (
    "the gradient of a loop keeps the sizes of each iteration, which XLA does not know unless TensorFlow knew them: "
    "export the function with fixed sizes (tf.TensorSpec([32, 6, 4]), with compilation.batch_sizes: [32]), or without "
    "the loop (unroll=True of recurrent layers of Keras, static_rnn in place of TensorFlow 1's dynamic_rnn)"
)
# The words of tf2xla: nothing else in the error tells which input it is.
_NEEDS_CONSTANT = re.compile(r"Input (\d+) to node `([^`]*)` with op (\w+) must be a compile-time constant")
_GRADIENT = re.compile(r"grad", re.IGNORECASE)
_LISTS = frozenset("TensorListPushBack TensorListPopBack TensorListReserve EmptyTensorList".split())


class NeedsConstant(Exception):
    """XLA must know the value of an operation's input at compile time, and cannot."""

    def __init__(self, error: str, index: str, node: str, operation: str) -> None:
        super().__init__(node)
        self.error = error
        self.node = node
        self.text = (
            f"the value of input {index} of operation {operation} (node {node}) must be known while the model is "
            "compiled, but it depends on the values of the model's inputs"
        )


def needed(text: str) -> NeedsConstant | None:
    """The value that XLA must know, according to its error `text`; None for other errors."""
    found = _NEEDS_CONSTANT.search(_line(text))
    return NeedsConstant(text, found[1], found[2], found[3]) if found else None


def fault(graph_def: GraphDef, batch_size: int, text: str) -> ModelFault:
    """What XLA's error `text` means for the model of `graph_def`."""
    text = _line(text)
    if known := loop_limits.fault_of(graph_def, text):
        return ModelFault(*known)
    missing = needed(text)
    return ModelFault(
        f"XLA cannot compile the model for batch size {batch_size}: {missing.text if missing else text[:600]}",
        next((advice for part, advice in replacements.FAILURES.items() if part in text), _advice(graph_def, missing)),
    )


def _advice(graph_def: GraphDef, missing: NeedsConstant | None) -> str:
    is_of_gradient = missing is not None and _GRADIENT.search(missing.node) and _keeps_values(graph_def)
    return _KEPT_SHAPES if is_of_gradient else _NO_SHAPES_OF_VALUES


def _keeps_values(graph_def: GraphDef) -> bool:
    """Whether a loop takes lists, as those whose iterations a gradient needs."""
    nodes = by_name(graph_def)
    return any(
        nodes[source].op in _LISTS
        for node in graph_def.node
        if node.op in LOOPS
        for source in (each.split(":")[0] for each in node.input)
        if source in nodes
    )


def _line(text: str) -> str:
    return " ".join(text.split())
