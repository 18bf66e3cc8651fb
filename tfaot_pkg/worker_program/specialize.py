"""A frozen graph at one batch size: all shapes are known, and values that depend only on shapes are computed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from framework_types import Config, GraphDef, NodeDef
    from messages.graph import Fetch


PROBES = (5, 7)
"""Two batch sizes, which distinguish axes that grow with the batch from those that do not."""
_MAXIMA: Mapping[str, int] = {}  # no sizes: each symbol has its maximum
WEIGHTS_FROM = 256
"""Constants of at least this many floats or narrow integers count as weights: shapes and indices are seldom computed
from them."""
_OF_SHAPES = frozenset("Shape Size Rank".split())


class Placed(Protocol):
    """A placeholder of a graph, and its shape, with None for the batch: Feed, Weight or ConstantFeed."""

    @property
    def node(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> Sequence[int | None]: ...


@dataclass(frozen=True)
class ConstantFeed:
    """A placeholder in place of a constant."""

    node: str
    dtype: str
    shape: tuple[int, ...]


def sized(tensor: Placed, batch_size: int, sizes: Mapping[str, int]) -> list[int]:
    """The shape of `tensor` at a batch size; axes with a symbol that is not in `sizes` keep their maximum."""
    names = getattr(tensor, "axes", ()) or [""] * len(tensor.shape)
    return [
        batch_size if size is None else sizes.get(name, size) for size, name in zip(tensor.shape, names, strict=True)
    ]


def at_batch_size(
    graph_def: GraphDef, feeds: Iterable[Placed], batch_size: int, sizes: Mapping[str, int] = _MAXIMA
) -> GraphDef:
    """A copy of `graph_def` with placeholders of the shapes of `feeds`, in which None means `batch_size`.

    Axes with a symbol have the length in `sizes`, or their maximum.
    """
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.framework import tensor_shape

    shapes = {feed.node: sized(feed, batch_size, sizes) for feed in feeds}
    copy = graph_pb2.GraphDef()
    copy.CopyFrom(graph_def)
    for node in copy.node:
        if node.name in shapes and node.op == "Placeholder":
            node.attr["shape"].shape.CopyFrom(tensor_shape.TensorShape(shapes[node.name]).as_proto())
        node.attr.pop("_output_shapes", None)  # those of the time when the model was saved
        if node.op == "XlaCustomCallV2":  # a segment (segments.py), or a call of ours (authored.py)
            for shape in node.attr["result_shapes"].list.shape:
                for axis in shape.dim:
                    axis.size = batch_size if axis.size < 0 else axis.size
    return copy


def without_weights(graph_def: GraphDef, large: int = WEIGHTS_FROM) -> tuple[GraphDef, list[ConstantFeed]]:
    """(a copy of `graph_def` with placeholders for large constants, these constants as ConstantFeed)."""
    from tensorflow.core.framework import graph_pb2

    copy = graph_pb2.GraphDef(versions=graph_def.versions, library=graph_def.library)
    feeds = []
    for node in graph_def.node:
        feed = _as_feed(node, large) if node.op == "Const" else None
        if feed is None:
            copy.node.append(node)
            continue
        made = copy.node.add(name=node.name, op="Placeholder")
        made.attr["dtype"].CopyFrom(node.attr["dtype"])
        made.attr["shape"].shape.CopyFrom(node.attr["value"].tensor.tensor_shape)
        feeds.append(feed)
    return copy, feeds


def _as_feed(node: NodeDef, large: int) -> ConstantFeed | None:
    """A constant of at least `large` elements, which may be a weight, as a feed; None for others."""
    from tensorflow.python.framework import dtypes

    tensor = node.attr["value"].tensor
    dtype = dtypes.as_dtype(tensor.dtype)
    shape = [dimension.size for dimension in tensor.tensor_shape.dim]
    if math.prod(shape) < large or not (dtype.is_floating or (dtype.is_integer and dtype.size == 1)):
        return None
    return ConstantFeed(node=node.name, dtype=dtype.name, shape=tuple(shape))


def inferred_shapes(graph_def: GraphDef, outputs: Iterable[tuple[str, int]]) -> list[list[int | None] | None]:
    """The shapes that TensorFlow infers for `outputs` (node, index): lists with None for unknown sizes, or None."""
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
    shapes = [graph.get_tensor_by_name(f"{node}:{index}").shape for node, index in outputs]
    return [None if shape.rank is None else shape.as_list() for shape in shapes]


def folded(graph_def: GraphDef, feeds: Sequence[Placed], outputs: Iterable[Fetch]) -> GraphDef:
    """`graph_def`, whose shapes are known, with everything that depends only on shapes and constants computed.

    XLA does some of this itself, but not for every operation (for example, scattering into a shape).
    """
    from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
    from tensorflow.python.grappler import tf_optimizer

    graph_def = _with_constant_shapes(graph_def)
    meta_graph = meta_graph_pb2.MetaGraphDef(graph_def=graph_def)
    kept = meta_graph_pb2.CollectionDef()
    kept.node_list.value.extend([f"{out.node}:{out.index}" for out in outputs] + [feed.node for feed in feeds])
    # The optimizer keeps the nodes that this collection names.
    meta_graph.collection_def["train_op"].CopyFrom(kept)
    config = config_pb2.ConfigProto()
    options = config.graph_options.rewrite_options
    # No other optimizer: they rename, merge and replace operations that are to be listed as they are.
    options.optimizers.append("constfold")
    # By default it skips small graphs.
    options.min_graph_nodes = -1
    options.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    optimized: GraphDef = tf_optimizer.OptimizeGraph(config, meta_graph)
    return optimized


def _with_constant_shapes(graph_def: GraphDef) -> GraphDef:
    """`graph_def` with constants for `Shape`, `Size` and `Rank` of tensors of known shape."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2

    if not any(node.op in _OF_SHAPES for node in graph_def.node):
        return graph_def  # an import costs as much as the lowering
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
    copy = graph_pb2.GraphDef()
    copy.CopyFrom(graph_def)
    for node in copy.node:
        if node.op not in _OF_SHAPES:
            continue
        shape = graph.get_operation_by_name(node.name).inputs[0].shape
        if not shape.is_fully_defined():
            continue
        value = {"Shape": shape.as_list(), "Size": shape.num_elements(), "Rank": shape.rank}[node.op]
        dtype = tf.dtypes.as_dtype(node.attr["out_type"].type or tf.int32)
        tensor = tf.make_tensor_proto(np.array(value, dtype.as_numpy_dtype))
        node.op = "Const"
        del node.input[:]
        node.attr.clear()
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tensor)
    return copy


def tfcompile_config(
    feeds: Iterable[Placed], outputs: Iterable[Fetch], batch_size: int, sizes: Mapping[str, int] = _MAXIMA
) -> Config:
    """tf2xla's Config: feeds and fetches in our order, under names of ours that are C identifiers.

    None in a shape of `feeds` (messages.graph.Feed, Weight, or ConstantFeed) means `batch_size`; axes with a symbol
    have the length in `sizes`, or their maximum.
    """
    from tensorflow.compiler.tf2xla import tf2xla_pb2
    from tensorflow.python.framework import dtypes, tensor_shape

    made = tf2xla_pb2.Config()
    for index, tensor in enumerate(feeds):
        # Names of a model may be no identifiers of C++, which tfcompile would make methods of.
        feed = made.feed.add(name=f"in{index}", type=dtypes.as_dtype(tensor.dtype).as_datatype_enum)
        feed.id.node_name = tensor.node
        shape = sized(tensor, batch_size, sizes)
        feed.shape.CopyFrom(tensor_shape.TensorShape(shape).as_proto())
    for index, tensor in enumerate(outputs):
        fetch = made.fetch.add(name=f"out{index}")
        fetch.id.node_name = tensor.node
        fetch.id.output_index = tensor.index
    return made
