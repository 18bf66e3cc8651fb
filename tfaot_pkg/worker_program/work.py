"""How much a frozen graph computes: what costs of batches are estimated from (batching/costs.py)."""

import math

import operations
import specialize

_CALLS = operations.CONTROL_FLOW | operations.LOOPS | {"PartitionedCall", "StatefulPartitionedCall"}


def work_of(graph_def, used: set, inputs: list, batch_sizes) -> dict:
    """{"constant_bytes", "operations_per_call", "operations_per_row"} of the nodes `used`.

    Arithmetic operations are TensorFlow's own count ("flops": a multiplication and an addition are two), at two
    `batch_sizes`, between which the count grows with the batch. Operations without such a count are none. Functions and
    loops are not looked into: a graph with such counts two operations per row and element of its constants instead, as
    a product with each takes, where that is more.
    """
    constants = [_size(node) for node in graph_def.node if node.op == "Const" and node.name in used]
    light, _ = specialize.without_weights(graph_def)
    first, second = (_operations(light, used, inputs, size) for size in batch_sizes)
    per_row = max(0.0, (second - first) / (batch_sizes[1] - batch_sizes[0]))
    per_call = max(0.0, first - per_row * batch_sizes[0])
    if any(node.op in _CALLS for node in graph_def.node):
        per_row = max(per_row, 2.0 * sum(elements for elements, _ in constants))
    return {
        "constant_bytes": sum(elements * size for elements, size in constants),
        "operations_per_call": per_call,
        "operations_per_row": per_row,
    }


def _size(node) -> tuple:
    """(elements, bytes of each) of a constant."""
    from tensorflow.python.framework import dtypes

    shape = [dim.size for dim in node.attr["value"].tensor.tensor_shape.dim]
    return math.prod(shape), dtypes.as_dtype(node.attr["dtype"].type).size or 0


def _operations(graph_def, used: set, inputs: list, batch_size: int) -> float:
    import tensorflow as tf
    import tensorflow.python.profiler.internal.flops_registry  # registers the counts
    from tensorflow.python.framework import ops

    try:
        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(specialize.at_batch_size(graph_def, inputs, batch_size), name="")
    except ValueError:  # this batch size does not fit the model
        return 0.0
    count = 0.0
    for node in graph.as_graph_def(add_shapes=True).node:
        if node.name in used:
            try:
                count += ops.get_stats_for_node_def(graph, node, "flops").value or 0
            except ValueError:  # not all shapes are known
                continue
    return count
