"""Parts of a frozen graph that our compiler has no operations for: each becomes a graph of its own, for XLA.

A part begins as the operations that compute with other types (complex numbers), decompose matrices,
or loop until all rows have converged. It grows until every tensor that crosses its border has a type that programs
support and the batch as its first axis, and no path leaves it and comes back. Values computed from shapes and constants
alone are copied into it. In the remaining graph, a custom call replaces it; the program runs the part row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import operations
import specialize
import tensorflow as tf
from messages.graph import Feed, Fetch, FoundSegment
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import dtypes
from wiring import called, data_inputs, prune, tensor_name

if TYPE_CHECKING:
    from framework_types import AttrValue, GraphDef, NodeDef
    from messages.graph import Shape


_CALL = "XlaCustomCallV2"
_KNOWN = frozenset("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split())
_FOREIGN = frozenset("complex64 complex128".split())
# Decompositions of matrices, and functions that loop until all rows have converged (decision 042).
_LACKING = frozenset(
    "Cholesky LogMatrixDeterminant MatrixInverse MatrixSolve MatrixTriangularSolve Qr "
    "BatchCholesky BatchMatrixInverse BatchMatrixSolve BatchMatrixTriangularSolve "
    "Betainc Igamma IgammaGradA Igammac RandomGammaGrad SelfAdjointEig SelfAdjointEigV2 Svd".split()
)
_SOURCES = frozenset("Placeholder PlaceholderWithDefault".split())
_OF_SHAPES = frozenset("Shape ShapeN Size Rank".split())


class _Unfit(Exception):
    """The graph cannot be cut."""


@dataclass(frozen=True)
class Cut:
    """`graph_def` has calls in place of `segments`, whose graphs are `parts`; `outputs` are the model's."""

    graph_def: GraphDef
    outputs: tuple[Fetch, ...]
    segments: tuple[FoundSegment, ...]
    parts: tuple[GraphDef, ...]


def cut(graph_def: GraphDef, inputs: Sequence[Feed], outputs: Sequence[Fetch]) -> Cut | None:
    """The graph cut, or None if nothing needs cutting or it cannot be cut."""
    if not _may_lack(graph_def):
        return None
    try:
        return _Graph(graph_def, inputs, outputs).cut()
    except (_Unfit, ValueError):
        return None


def _may_lack(graph_def: GraphDef) -> bool:
    """Whether the compiler may lack a node; decided by the nodes alone, because an import copies all weights."""
    return any(map(_is_lacking, operations.nodes_of(graph_def)))


def _is_lacking(node: NodeDef) -> bool:
    return node.op in _LACKING or any(map(_is_foreign_type, node.attr.values()))


def _functions_of(node: NodeDef) -> list[str]:
    """Names of functions that a node may call: TensorFlow 1 writes a call as a node with the function's name."""
    return [*(each.name for each in called(node)), node.op]


def _is_foreign_type(attr: AttrValue) -> bool:
    types: Iterable[int] = [attr.type] if attr.WhichOneof("value") == "type" else attr.list.type
    foreign = {dtypes.as_dtype(name).as_datatype_enum for name in _FOREIGN}
    return any(each in foreign for each in types)


class _Graph:
    def __init__(self, graph_def: GraphDef, inputs: Sequence[Feed], outputs: Sequence[Fetch]) -> None:
        self._graph_def, self._inputs, self._outputs = graph_def, inputs, outputs
        self._functions = {function.signature.name: function for function in graph_def.library.function}
        self._foreign: dict[str, bool] = {}  # functions
        self._shapes: list[dict[str, tf.TensorShape]] = []
        for size in specialize.PROBES:
            graph = tf.Graph()
            with graph.as_default():
                tf.graph_util.import_graph_def(specialize.at_batch_size(graph_def, inputs, size), name="")
            operations = graph.get_operations()
            self._shapes.append({tensor.name: tensor.shape for each in operations for tensor in each.outputs})
        self._ops = {each.name: each for each in operations}
        self._fetched = {f"{each.node}:{each.index}" for each in outputs}
        self._fixed = self._of_shapes()

    def cut(self) -> Cut | None:
        if any(op.type in ("Enter", "RefEnter") for op in self._ops.values()):  # loops of TensorFlow 1
            return None
        found = {name: why for name, op in self._ops.items() if (why := self._lacks(op)) and name not in self._fixed}
        if not found:
            return None
        parts = self._parts(set(found))
        # Reports show the reason of the first operation of a part, in the order of the graph.
        reasons = [next(why for name, why in found.items() if name in part) for part in parts]
        return self._made(parts, reasons)

    def _of_shapes(self) -> set[str]:
        """Operations whose results depend only on shapes and constants."""
        fixed: set[str] = set()
        for name, op in self._ops.items():  # in topological order
            # A copy of an operation that draws random numbers would draw others.
            constant = op.type not in _SOURCES and not op.op_def.is_stateful
            if op.type in _OF_SHAPES or (constant and all(each.op.name in fixed for each in op.inputs)):
                fixed.add(name)
        return fixed

    def _lacks(self, op: tf.Operation) -> str:
        """Why the compiler cannot compute `op`; empty if it can."""
        for tensor in (*op.inputs, *op.outputs):
            if tensor.dtype.name in _FOREIGN:
                return f"{op.type} of {tensor.dtype.name} (node '{op.name}')"
        if op.type in _LACKING:
            return f"{op.type} (node '{op.name}')"
        for name in _functions_of(op.node_def):
            if name in self._functions and self._is_foreign(name):
                return f"{op.type} (node '{op.name}')"
        return ""

    def _is_foreign(self, name: str) -> bool:
        if name not in self._foreign:
            # Set before its callees are visited, which ends a recursion of functions.
            self._foreign[name] = False
            self._foreign[name] = any(
                _is_lacking(node)
                or any(other in self._functions and self._is_foreign(other) for other in _functions_of(node))
                for node in self._functions[name].node_def
            )
        return self._foreign[name]

    def _parts(self, found: set[str]) -> list[set[str]]:
        """Sets of operations, each with a border that fits."""
        # A part that grows may touch another one, so they are connected again.
        while True:
            parts = self._connected(found)
            grown = set(found)
            for part in parts:
                grown |= self._between(part)
                grown |= self._behind_border(part)
            if grown == found:
                return parts
            found = grown

    def _connected(self, found: set[str]) -> list[set[str]]:
        left = set(found)
        parts: list[set[str]] = []
        for start in [name for name in self._ops if name in found]:
            if start not in left:
                continue
            part: set[str] = set()
            waiting = [start]
            while waiting:
                name = waiting.pop()
                if name in left:
                    left.discard(name)
                    part.add(name)
                    op = self._ops[name]
                    waiting += [each.op.name for each in op.inputs]
                    waiting += [user.name for each in op.outputs for user in each.consumers()]
            parts.append(part)
        return parts

    def _between(self, part: set[str]) -> set[str]:
        """Operations on paths from the part back to it."""
        behind: set[str] = set()
        before: set[str] = set()
        for name, op in self._ops.items():
            if name in part or any(each.op.name in behind for each in op.inputs):
                behind.add(name)
        for name, op in reversed(self._ops.items()):
            if name in part or any(user.name in before for each in op.outputs for user in each.consumers()):
                before.add(name)
        return (behind & before) - self._fixed

    def _behind_border(self, part: set[str]) -> set[str]:
        """Operations that must join the part, because tensors between them and the part do not fit."""
        more: set[str] = set()
        for tensor in self._read(part):
            if not self._fits(tensor):
                # No operation computes an input, so the border cannot move beyond it.
                if tensor.op.type in _SOURCES:
                    raise _Unfit
                more.add(tensor.op.name)
        for tensor in self._given(part):
            shape = self._shape(tensor)
            if shape is None or not self._fits(tensor) or shape[:1] != (None,):
                if tensor.name in self._fetched:
                    raise _Unfit
                more |= {user.name for user in tensor.consumers()}
        return more - self._fixed

    def _fits(self, tensor: tf.Tensor) -> bool:
        shape = self._shape(tensor)
        return tensor.dtype.name in _KNOWN and shape is not None and None not in shape[1:]

    def _shape(self, tensor: tf.Tensor) -> Shape | None:
        """The shape with None for the batch axis; None if another axis is not constant."""
        known = [found[tensor.name] for found in self._shapes]
        if not all(each.is_fully_defined() for each in known):
            return None
        # Two batch sizes distinguish the batch axis from one that happens to have its size.
        first, second = (each.as_list() for each in known)
        made: list[int | None] = []
        for small, large in zip(first, second, strict=True):
            if small != large and (small, large) != specialize.PROBES:
                return None
            made.append(small if small == large else None)
        return tuple(made)

    def _border(self, tensor: tf.Tensor) -> Shape:
        """The shape of a tensor that crosses a border. Raises _Unfit if it is not known."""
        shape = self._shape(tensor)
        if shape is None:
            raise _Unfit
        return shape

    def _read(self, part: set[str]) -> list[tf.Tensor]:
        """The tensors that it reads from outside, except those that depend only on shapes and constants."""
        read = {
            each.name: each
            for name in self._closure(part)
            for each in self._ops[name].inputs
            if each.op.name not in part and each.op.name not in self._fixed
        }
        return [read[name] for name in sorted(read)]

    def _given(self, part: set[str]) -> list[tf.Tensor]:
        return [
            each
            for name, op in self._ops.items()
            if name in part
            for each in op.outputs
            if each.name in self._fetched or any(user.name not in part for user in each.consumers())
        ]

    def _closure(self, part: set[str]) -> set[str]:
        """The part, and the operations on shapes and constants that it needs."""
        needed, waiting = set(part), [each.op.name for name in part for each in self._ops[name].inputs]
        while waiting:
            name = waiting.pop()
            if name in self._fixed and name not in needed:
                needed.add(name)
                waiting += [each.op.name for each in self._ops[name].inputs if self._ops[name].type not in _OF_SHAPES]
        return needed

    def _made(self, parts: list[set[str]], reasons: list[str]) -> Cut:
        segments: list[FoundSegment] = []
        graphs: list[GraphDef] = []
        renamed: dict[str, tuple[str, int]] = {}
        for number, (part, reason) in enumerate(zip(parts, reasons, strict=True)):
            name = f"tfaot_segment_{number}"
            read, given = self._read(part), self._given(part)
            # Operations that read only the shape of a tensor do not join the part that computes it.
            if not given or not all(map(self._fits, (*read, *given))):
                raise _Unfit
            # The program runs a part once for each row, so the part must read rows.
            if not any(self._border(each)[:1] == (None,) for each in read):
                raise _Unfit
            feeds = tuple(
                Feed(name=f"in{i}", node=f"{name}_in{i}", dtype=each.dtype.name, shape=self._border(each))
                for i, each in enumerate(read)
            )
            fetches = tuple(
                Fetch(name=f"out{i}", node=each.op.name, index=each.value_index, dtype=each.dtype.name,
                      shape=self._border(each))
                for i, each in enumerate(given)
            )  # fmt: skip
            segments.append(
                FoundSegment(
                    name=name,
                    reason=reason,
                    inputs=feeds,
                    outputs=fetches,
                )
            )
            graphs.append(self._part_of(part, dict(zip([each.name for each in read], feeds, strict=True))))
            renamed.update({each.name: (name, i) for i, each in enumerate(given)})
        outputs = tuple(_moved(each, renamed) for each in self._outputs)
        outside = self._without(parts, segments, renamed)
        needed = [*(each.node for each in outputs), *(each.node for each in self._inputs)]
        prune(outside, needed)  # for example weights of the parts, which would otherwise stay in the program
        return Cut(graph_def=outside, outputs=outputs, segments=tuple(segments), parts=tuple(graphs))

    def _part_of(self, part: set[str], feeds: Mapping[str, Feed]) -> GraphDef:
        """The part alone, with placeholders for the tensors that it reads."""
        kept = self._closure(part)
        made = graph_pb2.GraphDef(versions=self._graph_def.versions, library=self._graph_def.library)
        for feed in feeds.values():
            node = made.node.add(name=feed.node, op="Placeholder")
            node.attr["dtype"].type = dtypes.as_dtype(feed.dtype).as_datatype_enum
        for node in self._graph_def.node:
            if node.name in kept:
                copy = made.node.add()
                copy.CopyFrom(node)
                del copy.input[:]
                for text in node.input:
                    given = feeds.get(_tensor(text))
                    if text[0] != "^":
                        copy.input.append(text if given is None else given.node)
        return made

    def _without(
        self, parts: list[set[str]], segments: list[FoundSegment], renamed: Mapping[str, tuple[str, int]]
    ) -> GraphDef:
        """The graph with calls in place of the parts, and without the nodes that only they needed."""
        inside: set[str] = set().union(*parts)
        made = graph_pb2.GraphDef(versions=self._graph_def.versions, library=self._graph_def.library)
        for node in self._graph_def.node:
            if node.name not in inside:
                copy = made.node.add()
                copy.CopyFrom(node)
                del copy.input[:]
                # Control dependencies change no value, and would keep the weights of the parts.
                copy.input.extend(_rewired(text, renamed) for text in data_inputs(node))
        for part, segment in zip(parts, segments, strict=True):
            _add_call(made, segment, [_rewired(each.name, renamed) for each in self._read(part)])
        return made


def _add_call(graph: GraphDef, segment: FoundSegment, operands: list[str]) -> None:
    node = graph.node.add(name=segment.name, op=_CALL)
    node.input.extend(operands)
    for name, border in (("operand_dtypes", segment.inputs), ("result_dtypes", segment.outputs)):
        node.attr[name].list.type.extend(dtypes.as_dtype(each.dtype).as_datatype_enum for each in border)
    for each in segment.outputs:
        shape = node.attr["result_shapes"].list.shape.add()
        for size in each.shape:
            shape.dim.add(size=-1 if size is None else size)  # specialize.at_batch_size sets it
    node.attr["call_target_name"].s = segment.name.encode()
    node.attr["backend_config"].s = b""
    node.attr["has_side_effect"].b = False


def _moved(output: Fetch, renamed: Mapping[str, tuple[str, int]]) -> Fetch:
    """An output of the model in the remaining graph."""
    place = renamed.get(f"{output.node}:{output.index}")
    if place is None:
        return output
    return Fetch(name=output.name, node=place[0], index=place[1], dtype=output.dtype, shape=output.shape)


def _tensor(text: str) -> str:
    """A node's input as the name of a tensor."""
    return text if text[0] == "^" else tensor_name(text)


def _rewired(text: str, renamed: Mapping[str, tuple[str, int]]) -> str:
    place = renamed.get(_tensor(text))
    return text if place is None else "{}:{}".format(*place)
