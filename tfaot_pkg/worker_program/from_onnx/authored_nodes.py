"""Nodes of ONNX files that the author of the model supplies (docs/decisions/053), computed by their references, which
run in another process (asking.py).

ONNX Runtime has no code for them, so a model is cut at these nodes, and it runs the parts between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import asking
import authored
from messages.requests import ModelFault

if TYPE_CHECKING:
    from framework_types import Array, Session
    from onnx import ModelProto, NodeProto


OWN_DOMAINS = frozenset(("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training"))


def is_authored(domain: str, operator: str, operations: Collection[str]) -> bool:
    """Whether the author supplies this operator; those of ONNX itself keep their meaning."""
    return domain not in OWN_DOMAINS and operator in operations


class CutSession:
    """A model that calls operations of its author's: ONNX Runtime between them, and their references."""

    def __init__(self, model: ModelProto, operations: Collection[str], session_of: Callable[[bytes], Session]) -> None:
        import onnx

        self._session_of = session_of
        self._sessions: dict[tuple[str, int], Session] = {}
        self._model, graph = model, model.graph
        self._initialized = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
        self._nodes = [each for each in graph.node if is_authored(each.domain, each.op_type, operations)]
        self._references = [self._reference(each) for each in self._nodes]
        self.types = {
            each.name: onnx.helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type).name
            for each in graph.input
            if each.name not in self._initialized
        }

    def _reference(self, node: NodeProto) -> asking.Reference:
        import onnx

        given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        plain = {key: list(value) if hasattr(value, "__len__") else value for key, value in given.items()}
        return asking.Reference(
            node.op_type, {key: authored.values_of(node.op_type, key, value) for key, value in plain.items()}
        )

    def run(self, names: list[str], feeds: dict[str, Array]) -> list[Array]:
        values = dict(feeds)
        for place, (node, reference) in enumerate(zip(self._nodes, self._references, strict=True)):
            found = reference(*self._values(("node", place), list(node.input), values))
            values.update(zip(node.output, found, strict=True))
        return self._values(("outputs", 0), names, values)

    def _values(self, key: tuple[str, int], names: list[str], values: dict[str, Array]) -> list[Array]:
        """The values of `names`, of which ONNX Runtime computes those that are not in `values` or in the file."""
        missing = [name for name in dict.fromkeys(names) if name not in values and name not in self._initialized]
        if missing and key not in self._sessions:
            # One session for each cut: the missing values there are always the same, and a session is slow to create.
            self._sessions[key] = self._session_of(self._part(missing, values).SerializeToString())
        if missing:
            session = self._sessions[key]
            given = {each.name: values[each.name] for each in session.get_inputs()}
            found = dict(zip(missing, session.run(missing, given), strict=True))
        else:
            found = {}
        known = {**self._initialized, **values, **found}
        return [known[name] for name in names]

    def _part(self, names: list[str], values: dict[str, Array]) -> ModelProto:
        """The part of the model that computes `names` from `values`."""
        import onnx

        # By identity below: names of nodes may be missing, or the same.
        made_by = {name: node for node in self._model.graph.node for name in node.output if name}
        needed: set[int] = set()
        read: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in values:
                read.add(name)
            elif name in made_by and id(made_by[name]) not in needed:
                needed.add(id(made_by[name]))
                waiting += made_by[name].input
                waiting += _captured(made_by[name])
        part = onnx.ModelProto()
        part.CopyFrom(self._model)
        graph = part.graph
        kept = [each for each in self._model.graph.node if id(each) in needed]
        for field in ("node", "input", "output", "value_info"):
            graph.ClearField(field)
        graph.node.extend(kept)
        for name in sorted(read):
            kind = onnx.helper.np_dtype_to_tensor_dtype(values[name].dtype)
            # A session is used again for batches of other sizes.
            shape = [None] * values[name].ndim
            graph.input.append(onnx.helper.make_tensor_value_info(name, kind, shape))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        return part


def _captured(node: NodeProto) -> list[str]:
    """Names that inner graphs of a node may read from the graphs around them."""
    inner = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return [name for graph in inner for each in graph.node for name in (*each.input, *_captured(each))]


def has_foreign(model: ModelProto) -> bool:
    """Whether the graph has nodes of other domains. If the author does not supply them, the builder reports it."""
    own = {*OWN_DOMAINS, *(function.domain for function in model.functions)}
    return any(node.domain not in own for node in model.graph.node)


def require_outside(model: ModelProto, operations: Collection[str]) -> None:
    """ModelFault if an operation of the author's is in an inner graph or a function of the file."""
    graphs = [attribute.g for node in model.graph.node for attribute in node.attribute if attribute.HasField("g")]
    waiting = [*graphs, *model.functions]
    while waiting:
        for node in waiting.pop().node:
            waiting += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
            if is_authored(node.domain, node.op_type, operations):
                raise ModelFault(
                    f"{node.op_type} (node {node.name!r}) is in a loop, a branch or a function of the file",
                    "call an operation of the author's in the graph itself",
                )


def nodes_of(model: ModelProto) -> Iterator[NodeProto]:
    """All nodes: inner graphs and functions have nodes of their own."""
    for body in (model.graph.node, *(function.node for function in model.functions)):
        yield from nodes_within(body)


def nodes_within(body: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes of a graph or function, and those of inner graphs."""
    waiting = [body]
    while waiting:
        for node in waiting.pop():
            yield node
            waiting += [graph.node for each in node.attribute for graph in (each.g, *each.graphs) if graph.node]
