"""The table of operators: a function for each, which creates TensorFlow's operations for one node."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from messages.requests import ModelFault

MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"
"""Domains beside ONNX's own."""

OPERATORS: dict = {}
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
    inputs: tuple
    outputs: tuple
    attributes: dict
    run: Callable[..., Any]
    by_row: bool

    def get(self, name: str, default=None):
        """An attribute."""
        return self.attributes.get(name, default)

    def like(self, op: str) -> "Node":
        """Return this node as one of the operator `op` of ONNX's own domain, in its newest form."""
        return replace(self, op=op, domain="ai.onnx", version=99)

    def results(self, graph: dict, given: tuple = ()) -> tuple:
        """The outputs of an inner graph, from its inputs in their order."""
        values = self.run(graph, dict(zip(graph["inputs"], given, strict=True)))
        return tuple(values[name] for name in graph["outputs"])

    def fault(self, why: str, hint: str = "") -> ModelFault:
        """The error for a node that is not supported."""
        domain = "" if self.domain == "ai.onnx" else f"{self.domain}."
        return ModelFault(f"{domain}{self.op} (node {self.name!r}, opset {self.version}): {why}", hint)


def operator(*names: str, domain: str = "ai.onnx"):
    """Register the decorated function for these operators."""

    def add(function):
        for name in names:
            assert (domain, name) not in OPERATORS, name
            OPERATORS[domain, name] = function
        return function

    return add
