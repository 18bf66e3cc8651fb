"""Nodes of ONNX files that the author of the model supplies (docs/decisions/053), computed by their references, which
run in another process (asking.py).

ONNX Runtime has no code for them, so a model is cut at these nodes, and it runs the parts between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import asking
import authored
import own_calls
import specialize
from messages.carriers import OPERATION
from messages.requests import ModelFault

if TYPE_CHECKING:
    import tensorflow as tf
    from framework_types import Array, Session
    from from_onnx.table import Node
    from onnx import ModelProto, NodeProto


OWN_DOMAINS = frozenset(("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training"))


def is_authored(domain: str, operator: str, operations: Collection[str]) -> bool:
    """Whether the author supplies this operator; those of ONNX itself keep their meaning."""
    return domain not in OWN_DOMAINS and operator in operations


def tensors(node: Node, inputs: list[tf.Tensor]) -> tuple[tf.Tensor, ...]:
    """The results of the node (table.Node) as tensors, of the shapes that its reference returns."""
    if any(each is None for each in inputs):
        raise node.fault("an operation of the author's has no inputs that are left out")
    attributes = {key: authored.values_of(node.op, key, value) for key, value in node.attributes.items()}
    reference = asking.Reference(node.op, attributes)
    # Found by calls at two batch sizes: a Python function does not declare the shapes of its results.
    small, large = (reference(*_ones(node, inputs, size)) for size in specialize.PROBES)
    if len(small) != len(node.outputs) or len(large) != len(small):
        raise node.fault(f"its reference returns {len(small)} arrays, and the node has {len(node.outputs)} outputs")
    results = [(one.dtype.name, _shape(node, one.shape, two.shape)) for one, two in zip(small, large, strict=True)]
    return tuple(own_calls.own_call(OPERATION, inputs, authored.config(node.op, attributes), results))


def _ones(node: Node, inputs: list[tf.Tensor], rows: int) -> list[Array]:
    import numpy as np
    import tensorflow as tf

    made: list[Array] = []
    for place, each in enumerate(inputs):
        known = tf.get_static_value(each)
        sizes: list[int | None] | None = None if each.shape.rank is None else each.shape.as_list()
        if known is not None:
            made.append(known)
            continue
        if sizes is None or None in sizes[1:]:
            raise node.fault(
                f"the shape of its input {place} is not known: {each.shape}",
                "give the axes of the model's inputs sizes (model.shapes); only the first may be the batch",
            )
        made.append(np.ones([rows if size is None else size for size in sizes], each.dtype.as_numpy_dtype))
    return made


def _shape(node: Node, small: tuple[int, ...], large: tuple[int, ...]) -> tuple[int | None, ...]:
    first, second = specialize.PROBES
    if small[:1] != (first,) or large[:1] != (second,) or small[1:] != large[1:]:
        raise node.fault(
            f"its reference returns the shape {list(small)} for {first} rows, and {list(large)} for {second}",
            "the first axis must be the batch, and others have the same sizes always",
        )
    return (None, *small[1:])


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
