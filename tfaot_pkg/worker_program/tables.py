"""Contents of lookup tables: TensorFlow fills them when it loads a model; here they are read from the file.

A table is filled by an initializer: an operation beside it, or in a function that gets the table, its keys and its
values. Only constant numbers are accepted; no initializer is run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorflow.python.framework import dtypes, tensor_util
from wiring import by_name, data_inputs, node_name

if TYPE_CHECKING:
    from framework_types import Array, FunctionDef, GraphDef, NodeDef


_FILLING = frozenset("InitializeTable InitializeTableV2 LookupTableImport LookupTableImportV2".split())
_MOST_ENTRIES = 1 << 24
_NO_NUMBERS = "its keys or values are text: look them up in the calling program, and pass numbers"


class Unknown(Exception):
    """The content of a table is not known; the message says why."""


@dataclass(frozen=True)
class Table:
    """`keys`, ascending and unique, and the value of each, as NumPy arrays."""

    keys: Array
    values: Array


def content(graph_def: GraphDef, table: NodeDef) -> Table:
    """The content of the node `table` of `graph_def`, which is a whole file's graph. Raises Unknown."""
    for name in ("key_dtype", "value_dtype"):
        dtype = dtypes.as_dtype(table.attr[name].type)
        if not (dtype.is_integer or (name == "value_dtype" and (dtype.is_floating or dtype.is_bool))):
            raise Unknown(_NO_NUMBERS if dtype == dtypes.string else f"its {name} is {dtype.name}")
    nodes = by_name(graph_def)
    functions = {function.signature.name: function for function in graph_def.library.function}
    found = [entries for node in graph_def.node for entries in _filling(node, table.name, functions)]
    if not found:
        raise Unknown(
            "nothing in the file fills it with constants: it is filled from another file, or freezing took its "
            "initializer away (keep that node, such as key_value_init, beside the outputs, or give the SavedModel)"
        )
    if len(found) != 1:
        raise Unknown(f"it is filled {len(found)} times when the model is loaded")
    keys, values = (_constant(nodes.get(node_name(text))) for text in found[0])
    return _sorted(keys, values)


def _filling(node: NodeDef, table: str, functions: dict[str, FunctionDef]) -> Iterator[tuple[str, str]]:
    """(keys, values), as tensors of the graph, if `node` fills the table, or calls a function that fills it."""
    inputs = data_inputs(node)
    if node.op in _FILLING and node_name(inputs[0]) == table:
        yield inputs[1], inputs[2]
    # TensorFlow 1 writes a call as an operation with the name of the function.
    function = functions.get(node.attr["f"].func.name if "f" in node.attr else node.op)
    if function is None or len(inputs) != len(function.signature.input_arg):
        return
    given = {arg.name: text for arg, text in zip(function.signature.input_arg, inputs, strict=True)}
    for inner in function.node_def:
        if inner.op in _FILLING and node_name(given.get(inner.input[0], "")) == table:
            yield given.get(inner.input[1], ""), given.get(inner.input[2], "")


def _constant(node: NodeDef | None) -> Array:
    if node is None or node.op != "Const":
        raise Unknown("its content is not constant")
    tensor = node.attr["value"].tensor
    # By the shape: a file stores a constant of one repeated value once.
    if math.prod(dim.size for dim in tensor.tensor_shape.dim) > _MOST_ENTRIES:
        raise Unknown(f"it has more than {_MOST_ENTRIES:,} entries")
    try:
        values: Array = tensor_util.MakeNdarray(tensor)
    except (ValueError, TypeError) as error:
        raise Unknown("its content is damaged") from error
    return values


def _sorted(keys: Array, values: Array) -> Table:
    import numpy as np

    if keys.ndim != 1 or keys.shape != values.shape or not len(keys):
        raise Unknown("it has no entries, or not a value for each key")
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    again = keys[1:] == keys[:-1]
    # TensorFlow accepts a key twice if its value is the same.
    if np.any(again & (values[1:] != values[:-1])):
        raise Unknown("a key has two values")
    first = np.concatenate([[True], ~again])
    return Table(keys=keys[first], values=values[first])
