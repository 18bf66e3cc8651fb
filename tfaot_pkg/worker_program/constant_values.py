"""Numbers that follow from the constants of a graph, found without running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from tensorflow.python.framework import tensor_util
from wiring import data_inputs, node_name, tensor_name

if TYPE_CHECKING:
    from framework_types import NodeDef


SWITCHES = frozenset("Switch RefSwitch".split())
# Operations that change no number, or only its shape: arrays of one element are all that is followed (_scalar).
_PASSING = frozenset("Identity StopGradient Snapshot Squeeze Reshape ExpandDims".split())
_DEEPEST = 100
"""A number computed through more operations than this counts as unknown."""


Value: TypeAlias = bool | int | float | complex | None
"""A number of the graph; None if it is not known."""


class Constants:
    """Numbers of a graph, or of a function's body, that follow from its constants.

    `nodes` are by name; `fed` are tensors that are overridden; `given` are values of a function's arguments.
    """

    def __init__(self, nodes: dict[str, NodeDef], fed: set[str], given: Mapping[str, Value] | None = None) -> None:
        self._nodes, self._fed = nodes, fed
        self._values: dict[str, Value] = dict(given or {})

    def value(self, text: str, depth: int = 0) -> Value:
        """The value of a tensor; None if it is not known."""
        name = node_name(text)
        node = self._nodes.get(name)
        if node is None:
            return self._values.get(name)
        # A fed tensor has another value than the graph computes.
        if depth > _DEEPEST or tensor_name(text) in self._fed:
            return None
        if name not in self._values:
            self._values[name] = self._computed(node, depth + 1)
        return self._values[name]

    def _computed(self, node: NodeDef, depth: int) -> Value:
        if node.op == "Const":
            return _scalar(node)
        given = [self.value(text, depth) for text in data_inputs(node)]
        # Of a Switch, one output has no value; the other has that of its input.
        if (node.op in _PASSING or node.op in SWITCHES) and given:
            return given[0]
        if node.op not in _COMPUTED or not given or None in given:
            return None
        return _COMPUTED[node.op](*given)


_COMPUTED: dict[str, Callable[..., bool | int | float]] = {
    "Add": lambda one, two: one + two,
    "AddV2": lambda one, two: one + two,
    "Mul": lambda one, two: one * two,
    "Sub": lambda one, two: one - two,
    "LogicalNot": lambda value: not value,
    "LogicalAnd": lambda one, two: one and two,
    "LogicalOr": lambda one, two: one or two,
    "Equal": lambda one, two: one == two,
    "NotEqual": lambda one, two: one != two,
    "Greater": lambda one, two: one > two,
    "GreaterEqual": lambda one, two: one >= two,
    "Less": lambda one, two: one < two,
    "LessEqual": lambda one, two: one <= two,
}


def _scalar(node: NodeDef) -> Value:
    tensor = node.attr["value"].tensor
    if any(axis.size != 1 for axis in tensor.tensor_shape.dim) or tensor.string_val:
        return None
    try:
        value: Value = tensor_util.MakeNdarray(tensor).item()
    except (TypeError, ValueError):  # a damaged constant: TensorFlow reports it when the graph is imported
        return None
    return value
