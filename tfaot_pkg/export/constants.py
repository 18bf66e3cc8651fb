"""Constants of a program: parameters, buffers, and what the author's PyTorch computes of these alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .errors import ExportError, is_out_of_memory
from .nodes import operator_name

_MOST_COMPUTED, _MOST_STORED = 1 << 28, 1 << 20
"""The bytes up to which results are computed, and up to which they are stored if they are larger than their weights."""
_OF_NUMBERS = ("operator.", "math.", "torch.sym_")
_WITHOUT_NUMBERS = ("empty", "new_empty")
"""Operators whose elements are not set, and so those of their variants, such as empty_like."""


class Constants:
    """The nodes of `graph` that no input changes, with their values; `held` are those of placeholders by name.

    Random numbers, elements that are not set, and sizes that vary are no constants.
    """

    def __init__(self, torch: Any, graph: Any, held: Mapping[str, Any]) -> None:
        self._torch, self._graph, self._held = torch, graph, held
        self._values: dict[Any, Any] = {}
        self._sources: dict[Any, frozenset[str]] = {}
        with torch.no_grad():
            for node in graph.nodes:
                if node.op == "placeholder" and node.name in held:
                    self._values[node], self._sources[node] = held[node.name], frozenset((node.name,))
                elif node.op == "call_function" and self._is_determined(node):
                    self._compute(node)

    def required(self, outputs: Collection[str]) -> tuple[list[Any], dict[str, Any]]:
        """The nodes that compute `outputs`, placeholders among them, in order; and the constants that they read."""
        waiting = [node for node in self._graph.nodes if node.name in outputs]
        found: set[Any] = set()
        constants: dict[str, Any] = {}
        while waiting:
            node = waiting.pop()
            if self._is_stored(node):
                constants[node.name] = self._values[node]
            elif node not in found and self.number(node) is None:
                found.add(node)
                waiting += node.all_input_nodes
        return [node for node in self._graph.nodes if node in found], constants

    def number(self, node: Any) -> bool | int | float | None:
        """The number that a node is; None if it is a tensor, or no constant."""
        value = self._values.get(node)
        return value if isinstance(value, bool | int | float) else None

    def _is_stored(self, node: Any) -> bool:
        value: Any = self._values.get(node)
        if not self._torch.is_tensor(value):
            return False
        weights = sum(self._held[name].nbytes for name in self._sources[node])
        return bool(value.nbytes <= max(_MOST_STORED, weights))

    def _is_determined(self, node: Any) -> bool:
        if any(each not in self._values for each in node.all_input_nodes):
            return False
        name, schema = operator_name(node.target), getattr(node.target, "_schema", None)
        if schema is None:
            return name.startswith(_OF_NUMBERS)
        if schema.is_mutable or name.partition(".")[2].startswith(_WITHOUT_NUMBERS):
            return False
        return self._torch.Tag.nondeterministic_seeded not in node.target.tags and self._size(node) <= _MOST_COMPUTED

    def _size(self, node: Any) -> int:
        """The bytes of its results; 0 of those whose sizes are numbers that it reads out of constants."""
        found = node.meta.get("val")
        tensors = [
            each for each in (found if isinstance(found, list | tuple) else [found]) if self._torch.is_tensor(each)
        ]
        known = [each for each in tensors if all(isinstance(size, int) for size in each.shape)]
        return sum(each.numel() * each.element_size() for each in known)

    def _compute(self, node: Any) -> None:
        args, named = (self._torch.fx.map_arg(each, self._values.__getitem__) for each in (node.args, node.kwargs))
        try:
            self._values[node] = node.target(*args, **named)
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                raise ExportError(
                    f"not enough memory to compute {operator_name(node.target)} ({node.name}) of weights alone: "
                    f"compute it in __init__ and keep it as a buffer ({error})"
                ) from error
            # An operator that needs more than its operands, or has no code for this processor: it stays in the program.
            return
        self._sources[node] = frozenset().union(*(self._sources[each] for each in node.all_input_nodes))
