"""Inputs that become constants, and the branches that they turn off, which are removed from the graph.

Old graphs distinguish training from inference by a placeholder. Even as a constant, XLA would still compile both sides.
The file is only changed; nothing is run.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import TYPE_CHECKING

import constant_branches
import dead_nodes
import saved_model
from constant_values import SWITCHES, Constants
from graph_border import Border
from messages.conversions import Pin
from messages.requests import ModelFault, Nothing
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes, tensor_shape, tensor_util
from wiring import by_name, control_inputs, data_inputs, node_name, tensor_name

if TYPE_CHECKING:
    from framework_types import Array, GraphDef, NodeDef, Report
    from messages.conversions import Values


_MERGES = frozenset("Merge RefMerge".split())


def pin(request: Pin, report: Report) -> Nothing:
    """Write the SavedModel with constants for the inputs of its signature that the request names."""
    model = saved_model.read(request.folder)
    meta_graph = saved_model.meta_graph(model, request.tags)
    signature = saved_model.require_signature(meta_graph, request.signature)
    for key, value in request.constants.items():
        if key not in signature.inputs:
            raise ModelFault(
                f"model.constants names {key!r}, but the signature has no such input",
                f"the inputs are: {', '.join(sorted(signature.inputs))}",
            )
        replace_nodes(meta_graph.graph_def, {signature.inputs[key].name.removesuffix(":0"): value})
        del signature.inputs[key]
    border = Border(feeds=dict(signature.inputs), fetches=dict(signature.outputs))
    fetches = without_dead_branches(meta_graph.graph_def, border).fetches
    for key, info in fetches.items():
        signature.outputs[key].name = info.name
    with open(request.out, "wb") as file:
        file.write(model.SerializeToString())
    return Nothing()


def replace_nodes(graph_def: GraphDef, constants: Mapping[str, Values]) -> None:
    """Make the nodes named in `constants` constants of these values (messages.conversions.Values)."""
    nodes = by_name(graph_def)
    for text, value in constants.items():
        node = nodes.get(text.removesuffix(":0"))
        if node is None:
            held = sorted(node.name for node in graph_def.node if node.op.startswith("Placeholder"))
            raise ModelFault(
                f"model.constants names {text!r}, but the graph has no such node",
                f"its placeholders are: {', '.join(held)}" if held else "the graph has no placeholders",
            )
        _become_constant(node, value)


def _become_constant(node: NodeDef, value: Values) -> None:
    import numpy as np

    if "dtype" not in node.attr:
        raise ModelFault(
            f"model.constants names the node {node.name!r} ({node.op}), which is not a placeholder",
            "only placeholders, variables and constants can get another value",
        )
    dtype = dtypes.as_dtype(node.attr["dtype"].type)
    values = np.array(value.values).reshape(value.shape)
    if not _fits(values, dtype):
        raise ModelFault(
            f"model.constants: the value of {node.name!r} does not fit its dtype, {dtype.name}",
            "correct it in the spec",
        )
    known = tensor_shape.TensorShape(node.attr["shape"].shape) if "shape" in node.attr else None
    # [] also stands for any shape in old graphs.
    if known is not None and known.rank and not known.is_compatible_with(values.shape):
        raise ModelFault(
            f"model.constants: the value of {node.name!r} has the shape {list(values.shape)}, its placeholder {known}",
            "correct it in the spec",
        )
    node.op = "Const"
    del node.input[:]
    node.attr.clear()
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(values.astype(dtype.as_numpy_dtype)))


def _fits(values: Array, dtype: dtypes.DType) -> bool:
    import numpy as np

    # Numbers are not taken for bools: 0 and 1 are more likely a mistake in the spec.
    if dtype.is_bool or values.dtype == bool:
        return bool(dtype.is_bool and values.dtype == bool)
    if dtype.is_integer:
        return bool(np.all(values == np.round(values)) and np.all(values >= dtype.min) and np.all(values <= dtype.max))
    return bool(dtype.is_floating)


def without_dead_branches(graph_def: GraphDef, border: Border) -> Border:
    """`border` in `graph_def` without the branches that constants turn off; placeholders become their defaults.

    Raises ModelFault if an output is in such a branch.
    """
    fed = {info.name for info in border.feeds.values()}
    # Defaults first: conditions may depend on them.
    for node in graph_def.node:
        if node.op == "PlaceholderWithDefault" and f"{node.name}:0" not in fed:
            node.op = "Identity"
            node.attr["T"].CopyFrom(node.attr["dtype"])
            del node.attr["dtype"]
            del node.attr["shape"]
    constant_branches.call_constant_branches(graph_def, list(border.fetches.values()), fed)
    flow = _Flow(graph_def, fed)
    if flow.taken:
        _take_out(flow, border)
    dead_nodes.without_decided(graph_def, Constants(by_name(graph_def), fed))
    return border


def _take_out(flow: _Flow, border: Border) -> None:
    for key, info in border.fetches.items():
        if not flow.is_live(info.name):
            raise ModelFault(
                f"the output {key!r} is in a branch that model.constants turn off", "name another output, or constant"
            )
    renamed = flow.remove_dead()
    for info in border.fetches.values():
        info.name = renamed.get(info.name, info.name)


class _Flow:
    """The control flow of TensorFlow 1 (Switch and Merge): which tensors get a value.

    `taken` is the output of each Switch whose condition is known.
    """

    def __init__(self, graph_def: GraphDef, fed: set[str]) -> None:
        self._graph_def, self._fed = graph_def, fed
        self._nodes = by_name(graph_def)
        self.taken: dict[str, int] = {}
        known = Constants(self._nodes, fed)
        for node in graph_def.node:
            if node.op in SWITCHES and len(node.input) > 1:
                condition = known.value(node.input[1])
                if isinstance(condition, bool):
                    self.taken[node.name] = int(condition)
        self._live: set[str] = self._find_live() if self.taken else set()

    def is_live(self, text: str) -> bool:
        name, _, index = text.lstrip("^").partition(":")
        if tensor_name(text) in self._fed:
            return True
        # A control dependency on a Switch waits for any of its outputs.
        chosen = text[:1] == "^" or self.taken.get(name, int(index or 0)) == int(index or 0)
        return name in self._live and chosen

    def _find_live(self) -> set[str]:
        """The nodes that run: all of their inputs have values, or one input of a Merge. A loop must be entered."""
        users: dict[str, list[NodeDef]] = collections.defaultdict(list)
        for node in self._graph_def.node:
            for text in node.input:
                users[node_name(text)].append(node)
        self._live = set()
        waiting = list(self._graph_def.node)
        while waiting:
            node = waiting.pop()
            if node.name not in self._live and self._runs(node):
                self._live.add(node.name)
                waiting += users[node.name]
        return self._live

    def _runs(self, node: NodeDef) -> bool:
        data = [self.is_live(text) for text in data_inputs(node)]
        waits = [self.is_live(text) for text in control_inputs(node)]
        return all(waits) and (any(data) if node.op in _MERGES else all(data))

    def remove_dead(self) -> dict[str, str]:
        """Remove known Switches and the Merges of their outputs; return new names of tensors by old ones."""
        # A Switch becomes an Identity, which has one output.
        renamed = {f"{name}:1": f"{name}:0" for name, index in self.taken.items() if index == 1}
        for node in list(self._graph_def.node):
            if node.name in self.taken:
                _become_identity(node, node.input[0], control_inputs(node))
            elif node.op in _MERGES and node.name in self._live:
                renamed.update(self._merged(node))
        for node in self._graph_def.node:
            for place, text in enumerate(node.input):
                if text[:1] != "^" and (new := renamed.get(tensor_name(text))):
                    node.input[place] = new
        return renamed

    def _merged(self, node: NodeDef) -> dict[str, str]:
        """If only one input of a Merge has a value, make the Merge pass it on."""
        data = data_inputs(node)
        live = [place for place, text in enumerate(data) if self.is_live(text)]
        if len(live) != 1:
            return {}
        # The second output of a Merge is the number of the input that it passed on.
        index = self._graph_def.node.add(name=f"{node.name}/pinned_index", op="Const")
        _become_index(index, live[0])
        _become_identity(node, data[live[0]], control_inputs(node))
        return {f"{node.name}:1": f"{index.name}:0"}


def _become_identity(node: NodeDef, source: str, waits: list[str]) -> None:
    node.op = "Identity"
    node.input[:] = [source, *waits]
    for name in [name for name in node.attr if name != "T"]:
        del node.attr[name]


def _become_index(node: NodeDef, index: int) -> None:
    node.attr["dtype"].type = types_pb2.DT_INT32
    node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(index, dtype="int32", shape=[]))
