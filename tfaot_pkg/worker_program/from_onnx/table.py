"""The table of operators: a function for each, which creates TensorFlow's operations for one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from messages.requests import ModelFault

if TYPE_CHECKING:
    import tensorflow as tf


MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"
"""Domains beside ONNX's own."""

Operator: TypeAlias = Callable[..., Any]
"""`function(node, *inputs)`, which returns one output or a tuple of them."""

OPERATORS: dict[tuple[str, str], Operator] = {}
"""(domain, operator) -> function(node, *inputs), which returns one output or a tuple of them.

Inputs and outputs are tensors of TensorFlow's; None for an omitted one.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of an ONNX graph. `version` is the opset of its domain, `outputs` are names, "" for an omitted one.

    `run` computes an inner graph on tensors by name (building.py). `by_row`: an axis of size 1 became the batch.
    """

    op: str
    domain: str
    version: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    run: Callable[..., Any]
    by_row: bool

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def like(self, op: str) -> Node:
        """Return this node as one of the operator `op` of ONNX's own domain, in its newest form."""
        return replace(self, op=op, domain="ai.onnx", version=99)

    def results(self, graph: Mapping[str, Any], given: Sequence[tf.Tensor] = ()) -> tuple[tf.Tensor, ...]:
        """The outputs of an inner graph, from its inputs in their order."""
        values = self.run(graph, dict(zip(graph["inputs"], given, strict=True)))
        return tuple(values[name] for name in graph["outputs"])

    def fault(self, why: str, hint: str = "") -> ModelFault:
        """The error for a node that is not supported."""
        domain = "" if self.domain == "ai.onnx" else f"{self.domain}."
        return ModelFault(f"{domain}{self.op} (node {self.name!r}, opset {self.version}): {why}", hint)


def operator(*names: str, domain: str = "ai.onnx") -> Callable[[Operator], Operator]:
    """Register the decorated function for these operators."""

    def add(function: Operator) -> Operator:
        for name in names:
            assert (domain, name) not in OPERATORS, name
            OPERATORS[domain, name] = function
        return function

    return add
