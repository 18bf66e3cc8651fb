"""Reductions along axes, and running sums."""

import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import axis_of, ints, rank, required

_REDUCTIONS = {
    "ReduceL1": lambda x, axes, keep: tf.reduce_sum(tf.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: tf.sqrt(tf.reduce_sum(tf.square(x), axes, keep)),
    "ReduceLogSum": lambda x, axes, keep: tf.math.log(tf.reduce_sum(x, axes, keep)),
    "ReduceLogSumExp": tf.reduce_logsumexp,
    "ReduceMax": tf.reduce_max,
    "ReduceMean": tf.reduce_mean,
    "ReduceMin": tf.reduce_min,
    "ReduceProd": tf.reduce_prod,
    "ReduceSum": tf.reduce_sum,
    "ReduceSumSquare": lambda x, axes, keep: tf.reduce_sum(tf.square(x), axes, keep),
}


@operator(*_REDUCTIONS)
def _reduce(node, x, axes=None):
    axes = node.get("axes") if axes is None else ints(node, axes, "the axes")
    count, keep = rank(node, x), bool(node.get("keepdims", 1))
    if not axes:
        if node.get("noop_with_empty_axes", 0):
            axes = []
            return _REDUCTIONS[node.op](x, axes, keep) if node.op != "ReduceMean" else x
        axes = list(range(count))
    axes = [axis_of(node, each, count) for each in axes]
    if x.dtype == tf.bool:  # the largest and smallest of truth values
        return (tf.reduce_any if node.op == "ReduceMax" else tf.reduce_all)(x, axes, keep)
    return _REDUCTIONS[node.op](x, axes, keep)


@operator("ArgMax", "ArgMin")
def _arg(node, x):
    axis = axis_of(node, node.get("axis", 0), rank(node, x))
    find = tf.argmax if node.op == "ArgMax" else tf.argmin
    if node.get("select_last_index", 0):
        found = tf.cast(tf.shape(x)[axis], tf.int64) - 1 - find(tf.reverse(x, [axis]), axis)
    else:
        found = find(x, axis)
    return tf.expand_dims(found, axis) if node.get("keepdims", 1) else found


@operator("CumSum", "CumProd")
def _cumulated(node, x, axis):
    axis = axis_of(node, int(required(node, axis, "the axis").reshape(())), rank(node, x))
    function = tf.cumsum if node.op == "CumSum" else tf.math.cumprod
    return function(x, axis, bool(node.get("exclusive", 0)), bool(node.get("reverse", 0)))
