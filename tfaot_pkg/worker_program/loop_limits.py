"""Loops whose number of iterations depends on values, limited by the spec (`compilation.max_iterations`).

XLA needs a limit if a gradient goes through such a loop: the values of all iterations are kept in lists of fixed size.
TensorFlow's loops count iterations in their first variable; the limit becomes part of their condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import operations
from tensorflow.python.framework import dtypes, tensor_util
from wiring import LOOPS

if TYPE_CHECKING:
    from framework_types import FunctionDef, GraphDef, NodeDef, Nodes


_LIST = "EmptyTensorList"
_PREFIX = "tfaot_limit"
_NO_SIZE = "requires a fixed tensor list size"  # words of XLA's error


def limit(graph_def: GraphDef, most: int) -> None:
    """End each loop of `graph_def` after `most` iterations, and give lists of unknown size that size."""
    functions = {function.signature.name: function for function in graph_def.library.function}
    # Sorted below: the output must not depend on the order of a set.
    conditions = {node.attr["cond"].func.name for node in operations.nodes_of(graph_def) if node.op in LOOPS}
    for name in sorted(conditions):
        _end(functions[name], most)
    _size(graph_def.node, most, "")
    for function in functions.values():
        _size(function.node_def, most, ":output:0")


def fault_of(graph_def: GraphDef, text: str) -> tuple[str, str] | None:
    """(what is wrong, what to do) if XLA's error `text` says that a loop needs a limit; else None."""
    if _NO_SIZE not in text:
        return None
    lists = {node.name for node in graph_def.node if node.op == _LIST}
    loops = [
        node.name
        for node in graph_def.node
        if node.op in LOOPS and any(each.split(":")[0] in lists for each in node.input)
    ]
    named = f"the loop {loops[0]!r}" if loops else "a loop"
    return (
        f"the number of iterations of {named} depends on values, and a gradient needs all of them: set the maximum",
        "give it in the spec, as in `compilation: {max_iterations: 100}`, or to tf.while_loop(maximum_iterations=...)",
    )


def _end(condition: FunctionDef, most: int) -> None:
    """Add the limit to a condition, whose first argument counts iterations."""
    arguments = condition.signature.input_arg
    # Loops written by other programs have no counter first: they end by themselves, or XLA rejects them.
    if not arguments or "loop_counter" not in arguments[0].name:
        return
    (result,) = condition.ret
    add, kind = condition.node_def.add, arguments[0].type
    value = tensor_util.make_tensor_proto(most, dtypes.as_dtype(kind), [])
    made = add(name=_PREFIX, op="Const")
    made.attr["dtype"].type = kind
    made.attr["value"].tensor.CopyFrom(value)
    # The counter is the number of finished iterations, so `most` of them run.
    less = add(name=f"{_PREFIX}_less", op="Less", input=[arguments[0].name, f"{_PREFIX}:output:0"])
    less.attr["T"].type = kind
    add(name=f"{_PREFIX}_and", op="LogicalAnd", input=[condition.ret[result], f"{_PREFIX}_less:z:0"])
    condition.ret[result] = f"{_PREFIX}_and:z:0"


def _size(nodes: Nodes, most: int, suffix: str) -> None:
    # The second input of EmptyTensorList is the number of elements that it may have; a negative one sets no limit.
    unknown = {node.name for node in nodes if node.op == "Const" and _is_negative(node)}
    lists = [node for node in nodes if node.op == _LIST and node.input[1].split(":")[0] in unknown]
    if not lists:
        return
    made = nodes.add(name=f"{_PREFIX}_size", op="Const")
    made.attr["dtype"].type = dtypes.int32.as_datatype_enum
    made.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(most, dtypes.int32, []))
    for node in lists:
        node.input[1] = made.name + suffix


def _is_negative(node: NodeDef) -> bool:
    tensor = node.attr["value"].tensor
    return (
        tensor.dtype == dtypes.int32.as_datatype_enum
        and not tensor.tensor_shape.dim
        and tensor_util.MakeNdarray(tensor) < 0
    )
