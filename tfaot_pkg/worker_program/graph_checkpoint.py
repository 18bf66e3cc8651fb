"""The values of a graph's variables, from a checkpoint of TensorFlow 1 (V1, V2) or TensorFlow 2 (objects).

They are written into the SavedModel, each under the name of its variable, and checkpoint.py reads them there.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection
from typing import TYPE_CHECKING

import checkpoint
import reachability
import tensorflow as tf
from messages.conversions import ConvertGraph
from messages.requests import ModelFault, one_line
from tensorflow.core.protobuf import trackable_object_graph_pb2

if TYPE_CHECKING:
    from framework_types import Array, CheckpointReader, Config, MetaGraphDef, NodeDef
    from graph_reading import GraphFile


_MOST_LISTED = 8


def write_values(meta_graph: MetaGraphDef, found: GraphFile, config: Config | None, request: ConvertGraph) -> None:
    """Write `variables/` of the SavedModel, with all variables that its signature reads; ModelFault if one has none."""
    signature = meta_graph.signature_def[request.signature]
    variables = reachability.reached_by(meta_graph, request.signature, signature).variables
    if not variables:
        return
    unvalued = {name: node for name, node in variables.items() if name in request.feeds}
    stored = {name: node for name, node in variables.items() if name not in unvalued}
    if stored and not request.files.checkpoint:
        raise _without_value(sorted(stored), config)
    values = {name: _zeros(name, node, config) for name, node in unvalued.items()}
    if stored:
        values.update(_read(request.files.checkpoint, meta_graph, found.restore, stored))
    _save(values, request.out)


def _without_value(names: list[str], config: Config | None) -> ModelFault:
    read_only = sorted(set(names) & {variable.node_name for variable in (config.variable if config else ())})
    listing = ", ".join(names[:_MOST_LISTED]) + (f" and {len(names) - _MOST_LISTED} more" * (len(names) > _MOST_LISTED))
    return ModelFault(
        f"the graph is not frozen: its variables have no values: {listing}",
        "model.checkpoint: name a checkpoint (what its files' names begin with); or let callers supply them: "
        f"model.feeds: [{', '.join(read_only or names[:2])}]",
    )


def _zeros(name: str, node: NodeDef, config: Config | None) -> Array:
    """A value for a variable that callers will supply.

    It is never read, but the SavedModel must have a value of the right shape for each variable.
    """
    import numpy as np

    shape = tf.TensorShape(node.attr["shape"].shape)
    for variable in config.variable if config else ():
        if variable.node_name == name and variable.HasField("shape"):
            shape = tf.TensorShape(variable.shape)
    if not shape.is_fully_defined():
        raise ModelFault(f"model.feeds names the variable {name!r}, whose shape the graph does not tell: {shape}")
    return np.zeros(shape.as_list(), tf.as_dtype(node.attr["dtype"].type).as_numpy_dtype)


def _read(prefix: str, meta_graph: MetaGraphDef, restore: str, variables: dict[str, NodeDef]) -> dict[str, Array]:
    try:
        reader = tf.train.load_checkpoint(prefix)
        held = reader.get_variable_to_shape_map()
        keys = _keys(reader, held, meta_graph, restore, variables)
        values = {}
        for name, (key, part) in keys.items():
            checkpoint.require_fitting(prefix, reader, name, key)
            values[name] = checkpoint.part_of(reader.get_tensor(key), part)
        return values
    except ModelFault:
        raise
    except Exception as error:  # its type depends on what is damaged and on TensorFlow's version
        raise ModelFault(
            f"the checkpoint {prefix} cannot be read: {one_line(error)}",
            "copy it again, whole: for PREFIX these are PREFIX.index and PREFIX.data-*, or the one file PREFIX",
        ) from error


def _keys(
    reader: CheckpointReader,
    held: Collection[str],
    meta_graph: MetaGraphDef,
    restore: str,
    variables: dict[str, NodeDef],
) -> dict[str, tuple[str, str]]:
    """Variable -> (key in the checkpoint, part of its values); ModelFault if one has no key."""
    restored = checkpoint.restored_by(meta_graph.graph_def, restore)
    objects = _object_keys(reader) if checkpoint.OBJECTS in held else {}
    found: dict[str, tuple[str, str]] = {}
    missing: list[str] = []
    for name, node in sorted(variables.items()):
        shared = node.attr["shared_name"].s.decode("utf-8", "replace") if "shared_name" in node.attr else ""
        # The most certain first: what the graph itself would restore, then names in graphs, then names of objects.
        candidates = [restored.get(name, ("", "")), (name, ""), (shared, "")]
        candidates += [(objects.get(each, ""), "") for each in (name, shared)]
        chosen = next((each for each in candidates if each[0] in held), None)
        if chosen is None:
            missing.append(name)
        else:
            found[name] = chosen
    if missing:
        raise _not_held(missing, held, objects)
    return found


def _object_keys(reader: CheckpointReader) -> dict[str, str]:
    """Names of variables -> their keys in an object checkpoint (TensorFlow 2)."""
    saved = trackable_object_graph_pb2.TrackableObjectGraph()
    saved.ParseFromString(reader.get_tensor(checkpoint.OBJECTS))
    found: dict[str, str] = {}
    several: set[str] = set()
    for node in saved.nodes:
        for attribute in node.attributes:
            if attribute.name == "VARIABLE_VALUE" and attribute.full_name:
                if found.setdefault(attribute.full_name, attribute.checkpoint_key) != attribute.checkpoint_key:
                    several.add(attribute.full_name)
    # Keras 3 names the kernel of every layer "kernel": such a name identifies nothing.
    return {name: key for name, key in found.items() if name not in several}


def _not_held(missing: list[str], held: Collection[str], objects: dict[str, str]) -> ModelFault:
    names = sorted({*held, *objects} - {checkpoint.OBJECTS})
    near = difflib.get_close_matches(missing[0], names, n=3, cutoff=0.5) or names[:3]
    more = f" and {len(missing) - _MOST_LISTED} more" if len(missing) > _MOST_LISTED else ""
    return ModelFault(
        f"the checkpoint has no value for the variables {', '.join(map(repr, missing[:_MOST_LISTED]))}{more}",
        f"it has {', '.join(map(repr, near))} and others; name the checkpoint of this graph in model.checkpoint, "
        "or let callers supply the variables (model.feeds)",
    )


def _save(values: dict[str, Array], folder: str) -> None:
    names = sorted(values)
    os.mkdir(os.path.join(folder, "variables"))
    # Not tf.train.Checkpoint, which chooses keys by objects: here keys are the names of variables.
    tf.raw_ops.SaveV2(
        prefix=os.path.join(folder, "variables", "variables"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(values[name]) for name in names],
    )
