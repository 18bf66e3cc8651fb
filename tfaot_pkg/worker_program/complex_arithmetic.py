"""Complex arithmetic as arithmetic of real and imaginary parts, which programs and all types of XLA support.

An operation on complex tensors gets two real ones beside it if all tensors that it reads have parts; operations that
turn complex numbers into real ones then read these. Complex operations without readers are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from carriers import type_number
from messages.carriers import MADE, PARTS
from tensorflow.python.framework import dtypes, tensor_util
from wiring import by_name, control_inputs, data_inputs, node_name, prune

if TYPE_CHECKING:
    from framework_types import GraphDef, NodeDef
    from messages.graph import Fetch


_MOVING = frozenset(
    "BroadcastTo ConcatV2 ExpandDims GatherNd GatherV2 Identity Pack Pad Reshape ReverseV2 Roll Slice Snapshot Squeeze "
    "StridedSlice Sum Tile Transpose".split()
)
"""Each part of their result is the same operation on that part. Inputs that are not complex stay the same."""
_SINGLE = frozenset("Add AddV2 Neg Sub".split())
_BINARY = frozenset("Add AddV2 BatchMatMulV2 MatMul Mul Sub".split())
_KNOWN = _MOVING | _SINGLE | _BINARY | {"Conj", "Exp"}


def split(graph_def: GraphDef, outputs: Iterable[Fetch]) -> None:
    """Replace complex operations in `graph_def` where possible; its `outputs` are real."""
    if _Split(graph_def).run():
        placeholders = [node.name for node in graph_def.node if node.op == "Placeholder"]
        prune(graph_def, [*(each.node for each in outputs), *placeholders])


Parts: TypeAlias = tuple[str, str, int]
"""Real part, imaginary part, and the type of both."""


class _Split:
    def __init__(self, graph_def: GraphDef) -> None:
        self._graph_def = graph_def
        self._nodes = by_name(graph_def)
        self._parts: dict[str, Parts | None] = {}  # by names of nodes; None if it has none

    def run(self) -> bool:
        """Replace operations; return whether there were any."""
        found = False
        for node in list(self._graph_def.node):
            if node.op in _REAL and (parts := self._of(node.input[0])) is not None:
                _REAL[node.op](self, node, *parts)
                found = True
        return found

    def _of(self, text: str) -> Parts | None:
        """The parts of a complex tensor, created on first use; None if it has none."""
        name, _, index = text.partition(":")
        if index not in ("", "0"):
            return None
        waiting = [name]
        while waiting:  # a list: graphs are deeper than Python's stack
            name = waiting[-1]
            if name not in self._parts:
                missing = [each for each in self._complex_inputs(name) if each not in self._parts]
                # Longer than the graph: a cycle of TensorFlow 1, whose tensors then have no parts.
                if missing and len(waiting) < len(self._nodes):
                    waiting += missing
                    continue
                self._parts[name] = self._made(self._nodes[name])
            waiting.pop()
        return self._parts[node_name(text)]

    def _complex_inputs(self, name: str) -> list[str]:
        node = self._nodes[name]
        is_known = node.op in _KNOWN and self._is_complex(node)
        return [node_name(text) for text in self._data(node)] if is_known else []

    def _data(self, node: NodeDef) -> list[str]:
        """The inputs of type T."""
        texts = data_inputs(node)
        if node.op == "ConcatV2":
            return texts[:-1]
        if node.op in _BINARY or node.op == "Pack":
            return texts
        return texts[:1]

    def _is_complex(self, node: NodeDef) -> bool:
        name = "Tparams" if node.op in ("GatherV2", "GatherNd") else "T"
        return node.attr[name].type in _parts_by_number()

    def _made(self, node: NodeDef) -> Parts | None:
        texts = data_inputs(node)
        if node.op == "Complex":
            return self._of_pair(node, *texts)
        if node.op == "Const":
            return self._of_constant(node)
        if node.op == "Cast":
            return self._of_cast(node, texts[0])
        if node.op not in _KNOWN or not self._is_complex(node):
            return None
        found = [self._parts.get(node_name(text)) if self._is_first(text) else None for text in self._data(node)]
        data = [each for each in found if each is not None]
        if len(data) < len(found):
            return None
        real = data[0][2]
        if node.op in _BINARY - _SINGLE:
            return self._product(node, data, real)
        if node.op == "Conj":
            return data[0][0], self.add(node, "Neg", real, data[0][1]), real
        if node.op == "Exp":
            # exp(a + bi) = exp(a) (cos b + i sin b)
            size, angle = self.add(node, "Exp", real, data[0][0]), data[0][1]
            cos, sin = (self.add(node, op, real, angle) for op in ("Cos", "Sin"))
            return self.add(node, "Mul", real, size, cos), self.add(node, "Mul", real, size, sin), real
        re = self._copied(node, [each[0] for each in data], real)
        return re, self._copied(node, [each[1] for each in data], real), real

    def _of_pair(self, node: NodeDef, re: str, im: str) -> Parts:
        """The parts of a `Complex`, which broadcasts both to one shape."""
        real = node.attr["T"].type
        sources = {node_name(re), node_name(im)}
        # Two parts of one source have the same shape already, and so have those that this program created.
        if len(sources) == 1 or MADE in node.name:
            return re, im, real
        shape = self.add(node, "BroadcastArgs", _int32(), *(self._shape(node, real, each) for each in (re, im)))
        re, im = (self._broadcast(node, real, each, shape) for each in (re, im))
        return re, im, real

    def _shape(self, node: NodeDef, real: int, text: str) -> str:
        made = self._new(node, "Shape")
        made.input.append(text)
        made.attr["T"].type, made.attr["out_type"].type = real, _int32()
        return made.name

    def _broadcast(self, node: NodeDef, real: int, text: str, shape: str) -> str:
        name = self.add(node, "BroadcastTo", real, text, shape)
        self._nodes[name].attr["Tidx"].type = _int32()
        return name

    def _product(self, node: NodeDef, data: list[Parts], real: int) -> Parts:
        """The product of numbers or matrices; adjoint matrices are conjugated too."""
        (a, b, _), (c, d, _) = data
        if node.attr["adj_x"].b:
            b = self.add(node, "Neg", real, b)
        if node.attr["adj_y"].b:
            d = self.add(node, "Neg", real, d)
        # Four products: the method with three loses digits if the parts differ in magnitude.
        ac, bd, ad, bc = (self._copied(node, [*pair], real) for pair in ((a, c), (b, d), (a, d), (b, c)))
        return self.add(node, "Sub", real, ac, bd), self.add(node, "AddV2", real, ad, bc), real

    @staticmethod
    def _is_first(text: str) -> bool:
        return text.partition(":")[2] in ("", "0")

    def _copied(self, node: NodeDef, data: list[str], real: int) -> str:
        """The same operation on one part."""
        made = self._new(node, node.op)
        rest = data_inputs(node)[len(data) :]
        made.input.extend([*data, *rest])
        for name, value in node.attr.items():
            if name[0] != "_":
                made.attr[name].CopyFrom(value)
        made.attr["Tparams" if node.op in ("GatherV2", "GatherNd") else "T"].type = real
        return made.name

    def _of_constant(self, node: NodeDef) -> Parts | None:
        import numpy as np

        real = _parts_by_number().get(node.attr["dtype"].type)
        if real is None:
            return None
        values = tensor_util.MakeNdarray(node.attr["value"].tensor)
        parts = []
        for part in (np.real(values), np.imag(values)):
            made = self._new(node, "Const")
            made.attr["dtype"].type = real
            made.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(part))
            parts.append(made.name)
        return parts[0], parts[1], real

    def _of_cast(self, node: NodeDef, text: str) -> Parts | None:
        """The parts of real numbers that are cast to complex ones."""
        real = _parts_by_number().get(node.attr["DstT"].type)
        if real is None or node.attr["SrcT"].type in _parts_by_number():
            return None
        made = self._new(node, "Cast")
        made.input.append(text)
        made.attr["SrcT"].type, made.attr["DstT"].type = node.attr["SrcT"].type, real
        return made.name, self.add(node, "ZerosLike", real, made.name), real

    def add(self, beside: NodeDef, op: str, real: int, *inputs: str) -> str:
        made = self._new(beside, op)
        made.input.extend(inputs)
        made.attr["T"].type = real
        return made.name

    def constant(self, beside: NodeDef, real: int, value: float) -> str:
        made = self._new(beside, "Const")
        made.attr["dtype"].type = real
        values = tensor_util.make_tensor_proto(value, dtypes.as_dtype(real))
        made.attr["value"].tensor.CopyFrom(values)
        return made.name

    def _new(self, beside: NodeDef, op: str) -> NodeDef:
        name = f"{beside.name}{MADE}part_{len(self._nodes)}"
        while name in self._nodes:
            name += "_"
        made = self._graph_def.node.add(name=name, op=op)
        self._nodes[name] = made
        return made


def _become(node: NodeDef, op: str, real: int, *inputs: str) -> None:
    waits = control_inputs(node)
    node.op = op
    node.input[:] = [*inputs, *waits]
    node.attr.clear()
    node.attr["T"].type = real


def _real(split: _Split, node: NodeDef, re: str, im: str, real: int) -> None:
    _become(node, "Identity", real, re)


def _imag(split: _Split, node: NodeDef, re: str, im: str, real: int) -> None:
    _become(node, "Identity", real, im)


def _abs(split: _Split, node: NodeDef, re: str, im: str, real: int) -> None:
    """The larger part times sqrt(1 + (smaller / larger)^2), because squares overflow; exact for 0 and infinities."""
    sizes = [split.add(node, "Abs", real, each) for each in (re, im)]
    large, small = (split.add(node, op, real, *sizes) for op in ("Maximum", "Minimum"))
    one = split.constant(node, real, 1)
    ratio = split.add(node, "Div", real, small, large)
    root = split.add(
        node, "Sqrt", real, split.add(node, "AddV2", real, one, split.add(node, "Mul", real, ratio, ratio))
    )
    size = split.add(node, "Mul", real, large, root)
    for tested, value in ((small, 0.0), (large, float("inf"))):  # 0 / 0 and inf / inf are NaN
        is_exact = split.add(node, "Equal", real, tested, split.constant(node, real, value))
        size = split.add(node, "SelectV2", real, is_exact, large, size)
    _become(node, "Identity", real, size)


def _angle(split: _Split, node: NodeDef, re: str, im: str, real: int) -> None:
    _become(node, "Atan2", real, im, re)


_REAL: dict[str, Callable[[_Split, NodeDef, str, str, int], None]] = {
    "Angle": _angle,
    "Real": _real,
    "Imag": _imag,
    "ComplexAbs": _abs,
}
"""Operations from complex to real numbers."""


def _int32() -> int:
    return type_number("int32")


def _parts_by_number() -> dict[int, int]:
    return {type_number(name): type_number(part) for name, part in PARTS.items()}
