"""Makes sums of signed bytes ones of unsigned bytes, which ONNX Runtime computes exactly on every CPU.

On x86-64 without VNNI it adds pairs of products with `vpmaddubsw`, which saturates at 16 bits if a byte of them is
signed: other sums than the operators define, and than those of other CPUs. Its own way out, which is called
`session.x64quantprecision`, works with all fusions only (sessions.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onnx import GraphProto, ModelProto, NodeProto

_HALF = 128


@dataclass(frozen=True, kw_only=True)
class _Places:
    """Which inputs of an operator are bytes, each with that of its zero point, and the input with the result's."""

    bytes: tuple[tuple[int, int], ...]
    result: int | None = None


_SUMS = {
    "ConvInteger": _Places(bytes=((0, 2), (1, 3))),
    "DynamicQuantizeLSTM": _Places(bytes=((1, 9), (2, 11))),
    "DynamicQuantizeMatMul": _Places(bytes=((1, 3),)),
    "MatMulInteger": _Places(bytes=((0, 2), (1, 3))),
    "MatMulIntegerToFloat": _Places(bytes=((0, 4), (1, 5))),
    "QAttention": _Places(bytes=((0, 6), (1, 7))),
    "QGemm": _Places(bytes=((0, 2), (3, 5)), result=8),
    "QLinearConv": _Places(bytes=((0, 2), (3, 5)), result=7),
    "QLinearMatMul": _Places(bytes=((0, 2), (3, 5)), result=7),
}
"""By operator, of ONNX and of ONNX Runtime (com.microsoft)."""


def make_unsigned(model: ModelProto) -> None:
    """Change `model` so that its operators of `_SUMS` have unsigned bytes, with the same results."""
    graphs = [graph for graph in _graphs(model.graph) if any(node.op_type in _SUMS for node in graph.node)]
    types, numbers = _types(model) if graphs else {}, count()
    for graph in graphs:
        _Graph(graph, types, numbers).change()


def _graphs(graph: GraphProto) -> list[GraphProto]:
    inner = [each.g for node in graph.node for each in node.attribute if each.HasField("g")]
    return [graph, *(found for each in inner for found in _graphs(each))]


def _types(model: ModelProto) -> dict[str, int]:
    """Types of elements by value, as far as ONNX infers them."""
    from onnx import shape_inference

    found: dict[str, int] = {}
    for graph in _graphs(shape_inference.infer_shapes(model).graph):
        found |= {each.name: each.data_type for each in graph.initializer}
        found |= {
            each.name: each.type.tensor_type.elem_type for each in (*graph.input, *graph.value_info, *graph.output)
        }
    return found


class _Graph:
    """A graph that is being changed. `numbers` make names: inner graphs have the names of outer ones."""

    def __init__(self, graph: GraphProto, types: Mapping[str, int], numbers: Iterator[int]) -> None:
        self._graph, self._types, self._numbers = graph, types, numbers
        self._nodes: list[NodeProto] = []
        self._shifted: dict[str, str] = {}

    def change(self) -> None:
        for node in self._graph.node:
            places = _SUMS.get(node.op_type, _Places(bytes=()))
            for value, zero in places.bytes:
                self._make_operand(node, value, zero)
            after = self._make_result(node, places.result) if places.result is not None else []
            self._nodes += [node, *after]
        nodes = [*self._nodes]
        del self._graph.node[:]
        self._graph.node.extend(nodes)

    def _make_operand(self, node: NodeProto, value: int, zero: int) -> None:
        if not self._is_signed(node.input[value], _at(node, zero)):
            return
        zero_point = self._plus(_at(node, zero)) if _at(node, zero) else self._constant("uint8")
        node.input[value] = self._plus(node.input[value])
        node.input.extend([""] * (zero + 1 - len(node.input)))
        node.input[zero] = zero_point

    def _make_result(self, node: NodeProto, zero: int) -> list[NodeProto]:
        """Make the result unsigned. Returns nodes that make of it what it was. Without a zero point it is a float."""
        if not self._is_signed(_at(node, zero)):
            return []
        node.input[zero] = self._plus(node.input[zero])
        name, node.output[0] = node.output[0], self._new(node.output[0])
        return self._moved(node.output[0], name, "Sub", "int8")

    def _is_signed(self, *names: str) -> bool:
        return any(self._types.get(name) == _kind("int8") for name in names)

    def _plus(self, name: str) -> str:
        """The signed value `name`, as an unsigned one that is 128 larger."""
        if name not in self._shifted:
            self._shifted[name] = made = self._new(name)
            self._nodes += self._moved(name, made, "Add", "uint8")
        return self._shifted[name]

    def _moved(self, name: str, result: str, operator: str, dtype: str) -> list[NodeProto]:
        """Nodes that move `name` by 128: ONNX Runtime folds those of constants."""
        from onnx import helper

        wide, moved, half = self._new(name), self._new(name), self._constant("int32")
        return [
            helper.make_node("Cast", [name], [wide], to=_kind("int32")),
            helper.make_node(operator, [wide, half], [moved]),
            helper.make_node("Cast", [moved], [result], to=_kind(dtype)),
        ]

    def _constant(self, dtype: str) -> str:
        from onnx import helper, numpy_helper

        name = self._new("half")
        value = numpy_helper.from_array(np.array(_HALF, dtype))
        self._nodes.append(helper.make_node("Constant", [], [name], value=value))
        return name

    def _new(self, name: str) -> str:
        return f"{name}/unsigned/{next(self._numbers)}"


def _kind(dtype: str) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _at(node: NodeProto, place: int) -> str:
    return node.input[place] if place < len(node.input) else ""
