"""Outputs whose number of rows depends on values (`Where`, `Unique`): padded rows, and how many of them are valid.

In the SavedModel each such output is padded with zeros, and its number of rows is an output of its own: TensorFlow
computes both for validation. XLA's arrays have fixed sizes, so for XLA `Where` and `Unique` return a row for each
element, valid rows first (RULES), and the rows after them become zeros at the output. Only operations that compute
each row from that row alone may lie between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import tensorflow as tf
from messages.requests import ModelFault
from tensorflow.python.framework import tensor_util
from wiring import ancestors, by_name, node_name

if TYPE_CHECKING:
    from framework_types import Array, GraphDef, NodeDef, TensorInfo


Nodes: TypeAlias = "Mapping[str, NodeDef]"

MARK = "tfaot_bounded"
SOURCES = ("Unique", "Where")
# A list of what is allowed: an operation that is missing here is an error, never a wrong answer (decision 056).
_BY_ROW = frozenset(
    """Abs Add AddV2 BiasAdd Cast Ceil Cos Elu Equal Exp ExpandDims Floor GatherNd GatherV2 Greater GreaterEqual
    Identity LeakyRelu Less LessEqual Log LogicalAnd LogicalNot LogicalOr MatMul Maximum Minimum Mul Neg NotEqual Pow
    RealDiv Relu Relu6 Round Rsqrt SelectV2 Selu Sigmoid Sign Sin Softplus Sqrt Square Squeeze StridedSlice Sub
    Tanh""".split()
)


def bound(graph_def: GraphDef, fetches: MutableMapping[str, TensorInfo], counts: Mapping[str, str]) -> dict[str, str]:
    """Pad the outputs that `counts` names; return the tensors of their numbers of rows, by the names in `counts`.

    `fetches` has TensorInfo by output, and gets the padded tensors. Raises ModelFault if rows are mixed on the way.
    """
    nodes = by_name(graph_def)
    for name in counts:
        if name not in fetches:
            raise ModelFault(
                f"model.counts names {name!r}, but the signature has no such output",
                f"the outputs are: {', '.join(sorted(fetches))}",
            )
        sizes = [axis.size for axis in fetches[name].tensor_shape.dim]
        if sizes[:1] != [-1]:
            raise ModelFault(
                f"model.counts names {name!r}, whose number of rows is fixed",
                "transpose it in the model: its first axis must be the one that values decide"
                if -1 in sizes
                else "remove it from the spec",
            )
    for name, info in sorted(fetches.items()):
        # All outputs, because for XLA the further rows of `Where` and `Unique` reach each of them.
        _require_rows_apart(nodes, info.name, name)
    found: dict[str, str] = {}
    for name, count in counts.items():
        source = _source(nodes, fetches[name].name, name)
        found[count] = _padded(graph_def, nodes[source], fetches[name], f"{MARK}/{len(found)}")
    return found


def _source(nodes: Mapping[str, NodeDef], text: str, output: str) -> str:
    """The one node that decides the number of rows."""
    sources = {name for name in ancestors(nodes, [text]) if nodes[name].op in SOURCES}
    if len(sources) != 1:
        listing = ", ".join(sorted(sources)) or "none"
        raise ModelFault(
            f"model.counts: the rows of output {output!r} must come from one Where or Unique, and there are: {listing}",
            "name outputs of tf.where, tf.boolean_mask or tf.unique",
        )
    return sources.pop()


def _require_rows_apart(nodes: Mapping[str, NodeDef], text: str, output: str) -> None:
    """Raise ModelFault if an output mixes several rows whose number depends on values."""
    made_of = ancestors(nodes, [text])
    of_values = {name for name in made_of if nodes[name].op in SOURCES}
    while True:
        new = {name for name in made_of - of_values if any(node_name(text) in of_values for text in nodes[name].input)}
        if not new:
            return
        of_values |= new
        for name in sorted(new):
            node = nodes[name]
            if node.op not in _BY_ROW or not _keeps_rows(nodes, node, of_values):
                raise ModelFault(
                    f"model.counts: {node.op} (node {name!r}) may compute output {output!r} of several rows whose "
                    "number values decide",
                    "compute it of all rows and a mask, or make the rows themselves an output",
                )


def _keeps_rows(nodes: Mapping[str, NodeDef], node: NodeDef, of_values: set[str]) -> bool:
    """Whether each row of a node's result is computed from one row of the inputs in `of_values`."""
    keeps = _KEEPING.get(node.op)
    return keeps is None or keeps(nodes, node, [node_name(text) in of_values for text in node.input])


def _keeps_left_rows(_: Nodes, node: NodeDef, of_values: Sequence[bool]) -> bool:
    """Rows of the left matrix are rows of the product; those of the right one are summed."""
    first, *others = of_values
    return first and not any(others) and not node.attr["transpose_a"].b


def _gathers_rows(nodes: Nodes, node: NodeDef, of_values: Sequence[bool]) -> bool:
    first, *others = of_values
    return not others[0] or (bool(_constant(nodes, node.input[2]) == 0) and not first)


def _inserts_behind_rows(nodes: Nodes, node: NodeDef, of_values: Sequence[bool]) -> bool:
    axis = _constant(nodes, node.input[1])
    return of_values[0] and axis is not None and bool(axis != 0 and axis >= -1)


def _removes_behind_rows(_: Nodes, node: NodeDef, __: Sequence[bool]) -> bool:
    # Without axes it would also remove the rows if there is only one.
    return 0 not in node.attr["squeeze_dims"].list.i and bool(node.attr["squeeze_dims"].list.i)


def _cuts_behind_rows(nodes: Nodes, node: NodeDef, _: Sequence[bool]) -> bool:
    # Bit 0 of each mask is the axis of the rows, which must stay whole and in order: other strides would count fewer
    # rows, or put the padding first.
    strides = _constant(nodes, node.input[3])
    whole = all(node.attr[each].i & 1 for each in ("begin_mask", "end_mask"))
    has_others = node.attr["shrink_axis_mask"].i & 1 or node.attr["new_axis_mask"].i or node.attr["ellipsis_mask"].i
    return whole and not has_others and strides is not None and bool(strides[0] == 1)


_KEEPING: dict[str, Callable[[Any, Any, Sequence[bool]], bool]] = {
    "ExpandDims": _inserts_behind_rows,
    "GatherV2": _gathers_rows,
    "MatMul": _keeps_left_rows,
    "Squeeze": _removes_behind_rows,
    "StridedSlice": _cuts_behind_rows,
}
"""Operations of _BY_ROW that keep rows on a condition: it gets which inputs have rows whose number values decide."""


def _constant(nodes: Mapping[str, NodeDef], text: str) -> Array | None:
    """The value of a constant; None of other nodes."""
    node = nodes[node_name(text)]
    return tensor_util.MakeNdarray(node.attr["value"].tensor) if node.op == "Const" else None


def _padded(graph_def: GraphDef, source: NodeDef, info: TensorInfo, prefix: str) -> str:
    """Add nodes that pad the tensor of `info`; return the tensor of its number of rows."""
    rank = len(info.tensor_shape.dim)
    if info.tensor_shape.unknown_rank or not rank:
        raise ModelFault(f"model.counts: {info.name} has no known number of axes", "fix it by tf.ensure_shape")
    dtype, given = tf.as_dtype(info.dtype), tf.as_dtype(source.attr["T"].type or tf.bool.as_datatype_enum)
    graph = tf.Graph()
    with graph.as_default():
        rows = tf.compat.v1.placeholder(dtype, [None] * rank, name="rows")
        values = tf.compat.v1.placeholder(given, None, name="values")
        most, count = tf.size(values), tf.shape(rows)[0]
        filled = tf.pad(rows, [[0, most - count]] + [[0, 0]] * (rank - 1))
        meant = tf.reduce_sum(tf.cast(first_of(source.op, tf.reshape(values, [-1])), tf.int32))
        # The first tensor of each is TensorFlow's result. `chosen` replaces it for XLA, where `rows` always has its
        # largest size: so the valid rows are counted again, from the values.
        tf.raw_ops.IdentityN(input=[filled, rows, meant], name="output")
        tf.raw_ops.IdentityN(input=[count, meant], name="count")
    texts = {"rows": info.name, "values": source.input[0]}
    for made in graph.as_graph_def().node:
        if made.op != "Placeholder":
            copy = graph_def.node.add()
            copy.CopyFrom(made)
            copy.name = f"{prefix}/{made.name}"
            copy.input[:] = [texts.get(text, f"{prefix}/{text}") for text in made.input]
    info.name = f"{prefix}/output:0"
    info.tensor_shape.dim[0].size = -1
    return f"{prefix}/count:0"


def first_of(op: str, values: tf.Tensor) -> tf.Tensor:
    """For each of `values`: whether `Where` finds it, or it is the first of equal values, which `Unique` keeps."""
    if op == "Where":
        return values if values.dtype == tf.bool else tf.not_equal(values, tf.zeros([], values.dtype))
    # By comparing all pairs: XLA has no operation for the first of a kind, and such outputs are short.
    places = tf.range(tf.size(values))
    earlier = places[:, tf.newaxis] > places[tf.newaxis, :]
    return ~tf.reduce_any(_same(values) & earlier, axis=1)


# Replacements of these operations for XLA, where sizes are fixed.


def where(node: NodeDef, values: tf.Tensor) -> tf.Tensor:
    flat = tf.reshape(values, [-1])
    places = order(first_of("Where", flat))
    shape = tf.shape(values)
    axes: list[tf.Tensor] = []
    # Flat positions become coordinates, the last axis first, because elements are row-major.
    for axis in reversed(range(values.shape.rank)):
        axes.insert(0, places % shape[axis])
        places //= shape[axis]
    return tf.cast(tf.stack(axes, axis=1), tf.int64)


def unique(node: NodeDef, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    first = first_of("Unique", values)
    ranks = tf.cumsum(tf.cast(first, tf.int32)) - 1
    same = _same(values) & first[tf.newaxis, :]
    kind = tf.as_dtype(node.attr["out_idx"].type)
    # Exactly one first element equals each element: the sum is that element's rank.
    number = tf.reduce_sum(tf.where(same, ranks[tf.newaxis, :], 0), axis=1)
    return tf.gather(values, order(first)), tf.cast(number, kind)


def chosen(node: NodeDef, *given: tf.Tensor) -> tuple[tf.Tensor, ...] | None:
    """The results of a marked node for XLA: rows with zeros after the valid ones, or the number of valid rows."""
    if not node.name.startswith(MARK):
        return None
    if len(given) == 2:
        return given[1], given[1]
    _, rows, meant = given
    mask = tf.reshape(tf.range(tf.shape(rows)[0]) < meant, [-1] + [1] * (rows.shape.rank - 1))
    return tf.where(mask, rows, tf.zeros([], rows.dtype)), rows, meant


def _same(values: tf.Tensor) -> tf.Tensor:
    """Whether element i equals element j."""
    return tf.equal(values[:, tf.newaxis], values[tf.newaxis, :])


def order(first: tf.Tensor) -> tf.Tensor:
    """The indices of all elements, valid ones first."""
    # Stable, so that rows keep the order in which TensorFlow gives them.
    return tf.argsort(tf.cast(~first, tf.int32), stable=True)


RULES: dict[str, Callable[..., Any]] = {"IdentityN": chosen, "Unique": unique, "Where": where}
