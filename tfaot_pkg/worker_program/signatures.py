"""Signatures of SavedModels as TensorFlow functions: the only place where a model is loaded into this process.

Only the part that the signature runs is imported (reachability.py), of allowed operations (operations.py), with
variables read from the checkpoint (checkpoint.py). The model's initializers, its saver and its other functions are left
out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import checkpoint
import modules
import operations
import reachability
import saved_model
import tensorflow as tf
from messages.requests import ModelFault, one_line
from wiring import free, tensor_name

if TYPE_CHECKING:
    from framework_types import Array, ConcreteFunction, GraphDef, MetaGraphDef, NodeDef
    from tables import Table


class LoadedSignature:
    """One signature, run by TensorFlow as it was exported: `signature(x=tensor)` returns its outputs by name.

    `inputs` and `outputs` are names, sorted; `function` maps inputs to outputs in these orders.
    `tables` are handles of lookup tables, by the names of the nodes that represent them.
    """

    def __init__(
        self,
        function: ConcreteFunction,
        inputs: list[str],
        outputs: list[str],
        variables: dict[str, tf.Variable],
        tables: dict[str, Any],
    ) -> None:
        self.function = function
        self.inputs = inputs
        self.outputs = outputs
        # By node. A function does not keep its variables and tables alive.
        self.variables = variables
        self.tables = {name: table.resource_handle for name, table in tables.items()}
        self._kept = [*tables.values()]

    def __call__(self, /, **feeds: tf.Tensor) -> dict[str, tf.Tensor]:
        """Outputs by name. Raises TypeError for missing and unknown inputs."""
        if sorted(feeds) != self.inputs:
            raise TypeError(f"the inputs are {', '.join(self.inputs)}; given: {', '.join(sorted(feeds))}")
        return dict(zip(self.outputs, self.function(*[feeds[name] for name in self.inputs]), strict=True))


def load_signature(
    folder: str, tags: Sequence[str], name: str, change: Callable[[GraphDef], None] | None = None
) -> LoadedSignature:
    """The signature `name` of the SavedModel; ModelFault if it may not or cannot be loaded.

    `change` is called with its graph, and may change it.
    """
    graph = saved_model.meta_graph(saved_model.read(folder), tags)
    found = reachability.reached_by(graph, name, saved_model.require_signature(graph, name))
    operations.require_none(found.faults)
    if change is not None:
        change(found.graph_def)
    return imported(folder, graph, found)


def imported(folder: str, meta_graph: MetaGraphDef, found: reachability.Reached) -> LoadedSignature:
    """The signature of `found` (reached.Reached), whose operations were checked."""
    # Before TensorFlow imports anything: it would compile such modules.
    modules.refuse_hidden_code(found.graph_def)
    values = checkpoint.values_of(folder, meta_graph, found.variables)
    # Popped, so that no value is in memory twice.
    variables = {name: _variable(name, node, values.pop(name)) for name, node in sorted(found.variables.items())}
    tables = {name: _table(table) for name, table in sorted(found.tables.items())}
    try:
        function = tf.compat.v1.wrap_function(
            lambda *feeds: _import(found, variables, tables, feeds), _specs(found), name="signature"
        )
    except (tf.errors.OpError, ValueError, KeyError, TypeError) as error:
        text = one_line(error)
        raise ModelFault(f"TensorFlow cannot load {folder}: {text}", "copy or export the model again") from error
    return LoadedSignature(function, sorted(found.inputs), sorted(found.outputs), variables, tables)


def _variable(name: str, node: NodeDef, values: Array) -> tf.Variable:
    dtype, shape = tf.as_dtype(node.attr["dtype"].type), tf.TensorShape(node.attr["shape"].shape)
    if dtype.as_numpy_dtype != values.dtype or not shape.is_compatible_with(values.shape):
        raise ModelFault(
            f"the variable {name!r} is {dtype.name} {shape}, its value in the checkpoint "
            f"{values.dtype} {list(values.shape)}",
            "export the model again",
        )
    with tf.init_scope():
        return tf.Variable(values, dtype=dtype, trainable=False)


def _specs(found: reachability.Reached) -> list[tf.TensorSpec]:
    """The inputs, sorted by name; each has the node of its name, if that is free."""
    taken = {node.name for node in found.graph_def.node} | set(found.variables) | set(found.tables)
    specs = []
    for name in sorted(found.inputs):
        info = found.inputs[name]
        # TensorFlow names a placeholder after its input, and accepts these characters only.
        unique = free(re.sub(r"^(?![A-Za-z0-9])", "input", re.sub(r"[^A-Za-z0-9_.]", "_", name)), taken)
        specs.append(tf.TensorSpec(tf.TensorShape(info.tensor_shape), tf.as_dtype(info.dtype), name=unique))
    return specs


def _table(table: Table) -> Any:
    with tf.init_scope():
        filled = tf.lookup.KeyValueTensorInitializer(tf.constant(table.keys), tf.constant(table.values))
        return tf.lookup.StaticHashTable(filled, tf.zeros([], table.values.dtype))


def _import(
    found: reachability.Reached, variables: dict[str, tf.Variable], tables: dict[str, Any], feeds: tuple[tf.Tensor, ...]
) -> list[tf.Tensor]:
    given = {tensor_name(found.inputs[name].name): feed for name, feed in zip(sorted(found.inputs), feeds, strict=True)}
    given.update({f"{name}:0": _fed(name, found.variables[name], variables[name]) for name in variables})
    graph = tf.compat.v1.get_default_graph()
    given.update({f"{name}:0": graph.capture(table.resource_handle, name=name) for name, table in tables.items()})
    wanted = [found.fetched[name] for name in sorted(found.fetched)]
    # TensorFlow rejects inputs that nothing in the graph uses.
    used = {tensor_name(text) for node in found.graph_def.node for text in node.input}
    asked = [text for text in wanted if text not in given]
    results = tf.graph_util.import_graph_def(
        found.graph_def,
        input_map={name: tensor for name, tensor in given.items() if name in used},
        return_elements=asked,
        name="",
    )
    gained = dict(zip(asked, results, strict=True))
    return [gained[text] if text in gained else tf.identity(given[text]) for text in wanted]


def _fed(name: str, node: NodeDef, variable: tf.Variable) -> tf.Tensor:
    """A variable in the graph: its handle, or its value for the reference variables of TensorFlow 1."""
    graph = tf.compat.v1.get_default_graph()
    graph.watch_variable(variable)
    handle = graph.capture(variable.handle, name=name)
    if node.op == "VarHandleOp":
        return handle
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.dtype, name=f"{name}/value")
