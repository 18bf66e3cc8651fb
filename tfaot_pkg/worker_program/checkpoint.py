"""The values of a model's variables, read from its checkpoint.

Which value belongs to which variable is read from the model: from its object graph, as Python's loader would follow
it, or from the operations that restore the checkpoint, as other loaders would run them. Nothing is run.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import saved_model
import tensorflow as tf
from messages.requests import ModelFault, one_line
from tensorflow.core.protobuf import trackable_object_graph_pb2
from wiring import CALLS, ancestors, by_name, node_name

if TYPE_CHECKING:
    from framework_types import (
        Array,
        CheckpointReader,
        FunctionDef,
        GraphDef,
        MetaGraphDef,
        NodeDef,
        RepeatedComposite,
        SavedObject,
        SavedObjectGraph,
        TrackableObjectGraph,
    )


OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The key under which checkpoints of TensorFlow 2 store their object graph."""
_ASSIGNMENTS = frozenset("AssignVariableOp Assign".split())
_PASSING = frozenset("Identity Reshape".split())


def values_of(folder: str, meta_graph: MetaGraphDef, variables: dict[str, NodeDef]) -> dict[str, Array]:
    """Name -> value (a NumPy array) of each of `variables` (name -> node); ModelFault if one has none."""
    if not variables:
        return {}
    prefix = _prefix(folder)
    try:
        return _read(prefix, meta_graph, sorted(variables))
    except ModelFault:
        raise
    except Exception as error:  # its type depends on what is damaged and on TensorFlow's version
        raise ModelFault(
            f"the SavedModel's variables ({prefix}.*) are damaged: {one_line(error)}",
            "copy or export it again, whole",
        ) from error


def _prefix(folder: str) -> str:
    """The common prefix of the checkpoint's files; ModelFault if they are missing or lie elsewhere."""
    variables = os.path.join(folder, "variables")
    prefix = os.path.join(variables, "variables")
    if not os.path.lexists(prefix + ".index"):
        raise ModelFault(
            f"the SavedModel's variables are missing: no file {prefix}.index", "copy or export it again, whole"
        )
    # TensorFlow opens these files by name: a link could lead it to any file of the machine.
    for name in sorted(os.listdir(variables)):
        saved_model.require_inside(folder, os.path.join(variables, name))
    return prefix


def _read(prefix: str, meta_graph: MetaGraphDef, names: list[str]) -> dict[str, Array]:
    reader = tf.train.load_checkpoint(prefix)
    # The object graph takes precedence (decision 028).
    restore = meta_graph.saver_def.restore_op_name
    restored = restored_by(meta_graph.graph_def, restore) if restore else {}
    keys = {**restored, **_kept_by_objects(meta_graph, reader)}
    if not restore and not meta_graph.object_graph_def.nodes:
        keys = {name: (name, "") for name in names}  # as graph_checkpoint.py writes values
    found: dict[str, Array] = {}
    for name in names:
        key, part = keys.get(name, ("", ""))
        if not key or not reader.has_tensor(key):
            raise ModelFault(
                f"the SavedModel's checkpoint has no value for the variable {name!r}",
                "export the model again, with all that it needs initialized",
            )
        require_fitting(prefix, reader, name, key)
        found[name] = part_of(reader.get_tensor(key), part)
    return found


def require_fitting(prefix: str, reader: CheckpointReader, name: str, key: str) -> None:
    """Raise ModelFault if a value claims more bytes than the checkpoint has: TensorFlow allocates before it reads."""
    dtype = reader.get_variable_to_dtype_map()[key]
    bytes_each = 1 if dtype.name == "string" else dtype.size  # a string takes at least one byte, for its length
    claimed = math.prod(reader.get_variable_to_shape_map()[key]) * bytes_each
    folder = os.path.dirname(prefix)
    held = sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder))
    if claimed > held:
        raise ModelFault(
            f"the variable {name!r}: its value in the checkpoint is said to take {claimed:,} bytes, "
            f"but the checkpoint's files hold {held:,}",
            "copy or export the model again, whole",
        )


def part_of(values: Array, text: str) -> Array:
    """The part of a partitioned value that `text` names, in the form of RestoreV2's `shape_and_slices`.

    That is the full shape, then `start,size` for each axis, or `-` for the whole axis.
    """
    if not text:
        return values
    specs = text.rpartition(" ")[2].split(":")
    bounds = [[int(number) for number in spec.split(",")] if spec != "-" else None for spec in specs]
    return values[tuple(slice(None) if b is None else slice(b[0], b[0] + b[1]) for b in bounds)]


def _kept_by_objects(meta_graph: MetaGraphDef, reader: CheckpointReader) -> dict[str, tuple[str, str]]:
    """Variable -> (key, ""), for variables that functions of the object graph capture (TensorFlow 2)."""
    objects = meta_graph.object_graph_def
    if not objects.nodes or not reader.has_tensor(OBJECTS):
        return {}
    saved = trackable_object_graph_pb2.TrackableObjectGraph()
    saved.ParseFromString(reader.get_tensor(OBJECTS))
    same = _same_objects(objects.nodes, saved.nodes)
    found = {}
    for node in meta_graph.graph_def.node:
        # What a saved function captures are its last arguments.
        captured = objects.concrete_functions[node.attr["f"].func.name].bound_inputs if _is_saved(node, objects) else ()
        for text, number in zip(node.input[-len(captured) :] if captured else (), captured, strict=False):
            for attribute in saved.nodes[same[number]].attributes if number in same else ():
                if attribute.name == "VARIABLE_VALUE":
                    found[node_name(text)] = (attribute.checkpoint_key, "")
    return found


def _is_saved(call: NodeDef, objects: SavedObjectGraph) -> bool:
    return call.op in CALLS and call.attr["f"].func.name in objects.concrete_functions


def _same_objects(
    nodes: RepeatedComposite[SavedObject],
    saved: RepeatedComposite[TrackableObjectGraph.TrackableObject],
) -> dict[int, int]:
    """Number of an object in the model -> its number in the checkpoint: both are graphs of named children."""
    same = {0: 0} if nodes and saved else {}
    waiting = list(same)
    while waiting:
        number = waiting.pop()
        names = {child.local_name: child.node_id for child in saved[same[number]].children}
        for child in nodes[number].children:
            other = names.get(child.local_name, -1)
            # A file's numbers may point anywhere.
            if child.node_id not in same and 0 <= child.node_id < len(nodes) and 0 <= other < len(saved):
                same[child.node_id] = other
                waiting.append(child.node_id)
    return same


def restored_by(graph_def: GraphDef, operation: str) -> dict[str, tuple[str, str]]:
    """Variable -> (key, part of its value), as the saver's restore operation would assign them.

    If `operation` is "" (not known), all restoring assignments of the graph count.
    """
    functions = {function.signature.name: function for function in graph_def.library.function}
    top = by_name(graph_def)
    found: dict[str, tuple[str, str]] = {}
    restoring = ancestors(top, [operation]) if operation else top
    for node in graph_def.node:
        if node.name not in restoring:
            continue
        called = functions.get(node.attr["f"].func.name) if node.op in CALLS else None
        if called is not None:
            _take_assignments(called, node, top, found)
        elif node.op in _ASSIGNMENTS and len(node.input) > 1:
            _take(found, node_name(_origin(top, node.input[0])), node.input[1], top)
    return found


def _take_assignments(
    function: FunctionDef, call: NodeDef, top: dict[str, NodeDef], found: dict[str, tuple[str, str]]
) -> None:
    """Collect the assignments in `function`, whose arguments are variables of the graph that calls it."""
    nodes = {node.name: node for node in function.node_def}
    arguments = {argument.name: index for index, argument in enumerate(function.signature.input_arg)}
    for node in function.node_def:
        argument = arguments.get(node.input[0], len(call.input)) if len(node.input) > 1 else len(call.input)
        if node.op in _ASSIGNMENTS and argument < len(call.input):
            _take(found, node_name(_origin(top, call.input[argument])), node.input[1], nodes)


def _take(found: dict[str, tuple[str, str]], variable: str, value: str, nodes: dict[str, NodeDef]) -> None:
    """Record the key of `variable` if `value`, a tensor among `nodes`, is read from a checkpoint."""
    text = _origin(nodes, value)
    node = nodes.get(node_name(text))
    if node is None or node.op != "RestoreV2" or len(node.input) < 3:
        return
    index = text.rpartition(":")[2]
    keys, parts = (_texts(nodes.get(node_name(node.input[i]))) for i in (1, 2))
    position = int(index) if index.isdecimal() else 0
    # A damaged file may have fewer keys than results.
    if position < len(keys):
        found[variable] = (keys[position], parts[position] if position < len(parts) else "")


def _origin(nodes: dict[str, NodeDef], text: str) -> str:
    """The tensor whose value `text` has; skips operations that only pass it on."""
    seen: set[str] = set()
    while (name := node_name(text)) in nodes and name not in seen and nodes[name].op in _PASSING and nodes[name].input:
        seen.add(name)
        text = nodes[name].input[0]
    return text


def _texts(node: NodeDef | None) -> list[str]:
    """The strings of a constant."""
    if node is None or node.op != "Const":
        return []
    return [text.decode("utf-8", "replace") for text in node.attr["value"].tensor.string_val]
