"""Random numbers as functions of a seed: operations that keep state between calls become stateless ones.

TensorFlow's stateful and stateless generators are Philox over the same counters (philox.py). A state starts from the
seeds of its operation, with `seed` as key and `seed2` in the upper half of the counter. So an operation with seeds
gives the numbers of its first call. An operation without seeds takes them from the caller's seed: its first number,
mixed with the position of the operation, is the key; its second number is the upper half of the counter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from messages.requests import ModelFault
from tensorflow.python.framework import dtypes, tensor_util
from wiring import control_inputs, data_inputs

if TYPE_CHECKING:
    from framework_types import GraphDef, NodeDef


_STATELESS = {
    "RandomUniform": "StatelessRandomUniformV2",
    "RandomStandardNormal": "StatelessRandomNormalV2",
    "RandomUniformInt": "StatelessRandomUniformIntV2",
}
_OTHERS = ("Multinomial", "ParameterizedTruncatedNormal", "RandomShuffle", "TruncatedNormal")
_PHILOX = 1  # tf.random.Algorithm.PHILOX
_MIXED = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_ANY = 0x51F0AD
"""The seed of operations that have none, so that a verdict does not depend on chance."""


def seeded(graph_def: GraphDef, name: str) -> bool:
    """Make random numbers of a flat graph functions of seeds; return whether it now has an input `name` (int64[2])."""
    _require_known(graph_def)
    found = [node for node in graph_def.node if node.op in _STATELESS]
    if not found:
        raise ModelFault(
            "model.seed: the signature draws no random numbers that depend on calls before", "remove it from the spec"
        )
    source = None
    for place, node in enumerate(found):
        if (own := _of_operation(graph_def, node)) is None:
            source = source or _source(graph_def, name)
            # By position: two operations without seeds must not draw the same numbers.
            own = _of_caller(graph_def, node, source, place)
        _replace(graph_def, node, *own)
    return source is not None


def numbered(graph_def: GraphDef) -> None:
    """As `seeded`, except that operations without seeds always draw the same sequence from call to call."""
    place = 0
    for node in [node for node in graph_def.node if node.op in _STATELESS]:
        if own := _of_operation(graph_def, node):
            _replace(graph_def, node, *own)
        else:
            place += 1
            node.attr["seed"].i, node.attr["seed2"].i = _ANY, place


def _require_known(graph_def: GraphDef) -> None:
    for node in graph_def.node:
        if node.op in _OTHERS:
            raise ModelFault(
                f"model.seed: {node.op} (node {node.name!r}) has no form that depends on a seed alone",
                "use tf.random.uniform, tf.random.normal, or numbers that are an input of the model",
            )
    for function in graph_def.library.function:
        for node in function.node_def:
            if node.op in _STATELESS or node.op in _OTHERS:
                # In each iteration of a loop, a stateless operation would draw the same numbers.
                raise ModelFault(
                    f"model.seed: {node.op} (node {node.name!r}) is inside of a loop or a branch",
                    "draw the numbers before it, or pass them in as an input of the model",
                )


def _source(graph_def: GraphDef, name: str) -> str:
    """The two numbers of the caller's seed as outputs 0 and 1 of a node, each a uint64[1]."""
    if any(node.name == name for node in graph_def.node):
        raise ModelFault(f"model.seed names {name!r}, which the graph has already", "choose another name")
    given = graph_def.node.add(name=name, op="Placeholder")
    given.attr["dtype"].type = dtypes.int64.as_datatype_enum
    given.attr["shape"].shape.dim.add(size=2)
    # As bits: a cast of a negative seed to an unsigned number would be undefined.
    bits = graph_def.node.add(name=f"{name}/bits", op="Bitcast", input=[name])
    bits.attr["T"].type, bits.attr["type"].type = dtypes.int64.as_datatype_enum, dtypes.uint64.as_datatype_enum
    axis = _constant(graph_def, given, "axis", 0, dtypes.int32)
    parts = graph_def.node.add(name=f"{name}/parts", op="Split", input=[axis, bits.name])
    parts.attr["T"].type, parts.attr["num_split"].i = dtypes.uint64.as_datatype_enum, 2
    return parts.name


def _of_operation(graph_def: GraphDef, node: NodeDef) -> tuple[str, str] | None:
    """Key and counter from the seeds of an operation; None if it has none."""
    # Two zeros stand for no seed: TensorFlow then chooses one at random.
    seed, second = node.attr["seed"].i & _MASK, node.attr["seed2"].i & _MASK
    if not (seed or second):
        return None
    return _constant(graph_def, node, "key", [seed]), _constant(graph_def, node, "counter", [0, second])


def _of_caller(graph_def: GraphDef, node: NodeDef, source: str, place: int) -> tuple[str, str]:
    # A multiple of 2**64 divided by the golden ratio, an odd number: consecutive positions give keys far apart.
    mixed = _constant(graph_def, node, "place", [(place * _MIXED) & _MASK])
    key = graph_def.node.add(name=f"{node.name}/seeded_key", op="BitwiseXor", input=[source, mixed])
    zero, axis = _constant(graph_def, node, "zero", [0]), _constant(graph_def, node, "axis", 0, dtypes.int32)
    counter = graph_def.node.add(name=f"{node.name}/seeded_counter", op="ConcatV2", input=[zero, f"{source}:1", axis])
    for made in (key, counter):
        made.attr["T"].type = dtypes.uint64.as_datatype_enum
    counter.attr["N"].i, counter.attr["Tidx"].type = 2, dtypes.int32.as_datatype_enum
    return key.name, counter.name


def _replace(graph_def: GraphDef, node: NodeDef, key: str, counter: str) -> None:
    shape, *limits = data_inputs(node)
    waits = control_inputs(node)
    # RandomUniformInt has the type of its result in Tout, the others have it in dtype.
    kind, of_shape = node.attr["Tout" if limits else "dtype"].type, node.attr["T"].type
    algorithm = _constant(graph_def, node, "algorithm", _PHILOX, dtypes.int32)
    node.op = _STATELESS[node.op]
    node.input[:] = [shape, key, counter, algorithm, *limits, *waits]
    node.attr.clear()
    node.attr["dtype"].type, node.attr["Tshape"].type = kind, of_shape


def _constant(
    graph_def: GraphDef, node: NodeDef, what: str, values: int | list[int], dtype: dtypes.DType | None = None
) -> str:
    dtype = dtype or dtypes.uint64
    made = graph_def.node.add(name=f"{node.name}/seeded_{what}_of", op="Const")
    made.attr["dtype"].type = dtype.as_datatype_enum
    made.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(values, dtype))
    return made.name
