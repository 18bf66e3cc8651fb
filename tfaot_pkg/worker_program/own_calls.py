"""Operations that TensorFlow does not have, in SavedModels that this program builds: custom calls with our targets.

Each becomes an opcode of programs (compiler/). TensorFlow requires all sizes of a custom call when it is created, so
the SavedModel contains an empty module instead, and two attributes of it hold target and configuration of the call.
These attributes mean nothing in other files (messages.graph.Chosen.is_built). TensorFlow itself cannot run such calls.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import operations
from messages.carriers import OWN, TREES
from messages.forest import Forest, packed

if TYPE_CHECKING:
    import tensorflow as tf
    from framework_types import GraphDef
    from messages.graph import Shape


_HOLDER, _CALL = "XlaCallModule", "XlaCustomCallV2"
_EMPTY = "module {func.func @main() {return}}"
_TARGET, _CONFIG = "_tfaot_target", "_tfaot_config"


def trees(forest: Forest, x: tf.Tensor) -> tf.Tensor:
    """The sums of a forest for the rows of `x` [batch, features], as a TensorFlow tensor."""
    return own_call(TREES, [x, packed(forest)], {}, [(forest.total, (None, forest.outputs))])[0]


def own_call(
    target: str, operands: list[Any], config: dict[str, Any], results: list[tuple[str, Shape]]
) -> list[tf.Tensor]:
    """Tensors of `results`, [(dtype, shape)] with None for the batch. `config` is JSON, and listed with the call."""
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops
    from tensorflow.core.framework import attr_value_pb2

    assert target.startswith(OWN)
    made: list[tf.Tensor] = gen_xla_ops.xla_call_module(
        args=[tf.constant(each) if isinstance(each, np.ndarray) else each for each in operands],
        version=5,
        module=_EMPTY,
        Sout=[tf.TensorShape(shape) for _, shape in results],
        Tout=[tf.as_dtype(dtype) for dtype, _ in results],
        platforms=["CPU"],
    )
    # After the operation was made: its Python wrapper takes no other attributes than its own.
    for name, text in ((_TARGET, target), (_CONFIG, json.dumps(config, sort_keys=True))):
        made[0].op._set_attr(name, attr_value_pb2.AttrValue(s=text.encode()))  # noqa: SLF001
    return made


def place(graph_def: GraphDef) -> tuple[str, ...]:
    """Put the calls into the graph of a SavedModel that this program built; return their targets, sorted."""
    found = set()
    for node in operations.nodes_of(graph_def):
        if node.op == _HOLDER and _TARGET in node.attr:
            found.add(node.attr[_TARGET].s.decode())
            # Copies: clearing the attributes of the node would clear these messages too.
            attributes = {name: type(value).FromString(value.SerializeToString()) for name, value in node.attr.items()}
            node.attr.clear()
            node.op = _CALL
            for name, given in (("call_target_name", _TARGET), ("backend_config", _CONFIG), ("operand_dtypes", "Tin"),
                                ("result_dtypes", "Tout"), ("result_shapes", "Sout")):  # fmt: skip
                node.attr[name].CopyFrom(attributes[given])
            node.attr["has_side_effect"].b = False
    return tuple(sorted(found))
