"""Products of matrices and tensors, reductions along axes, and running sums."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import axis_of, constant_or, ints, rank, required, static, transposed

if TYPE_CHECKING:
    from from_onnx.table import Node


@operator("Gemm")
def gemm(node: Node, a: tf.Tensor, b: tf.Tensor, c: tf.Tensor | None = None) -> tf.Tensor:
    """Return alpha * a @ b + beta * c, with a and b transposed if the attributes say so."""
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    a = tf.transpose(a) if node.get("transA", 0) else a
    b = transposed(b, [1, 0]) if node.get("transB", 0) else b
    b = b if alpha == 1 else constant_or(lambda each: each * tf.constant(alpha, each.dtype), b)
    made = tf.matmul(a, b)
    if c is None or beta == 0:
        return made
    if c.shape.rank == 2 and c.shape[0] == 1:
        c = tf.reshape(c, [-1])  # TensorFlow's optimizer expects a bias, a term added to a product, to have one axis
    return made + (c if beta == 1 else constant_or(lambda each: each * tf.constant(beta, each.dtype), c))


@operator("MatMul")
def _matmul(node: Node, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return matmul(node, a, b)


def matmul(node: Node, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """As numpy.matmul."""
    if rank(node, b) == 1:
        return tf.tensordot(a, b, [[rank(node, a) - 1], [0]])
    if rank(node, a) == 1:
        return tf.tensordot(a, b, [[0], [rank(node, b) - 2]])
    if rank(node, a) > 2 and rank(node, b) == 2:
        # Weights: one product over all leading axes, as Keras's dense layers compute it.
        return tf.tensordot(a, b, [[rank(node, a) - 1], [0]])
    return tf.matmul(a, b)


@operator("Einsum")
def _einsum(node: Node, *inputs: tf.Tensor) -> tf.Tensor:
    return tf.einsum(node.get("equation").replace(" ", ""), *inputs)


@operator("Det")
def _det(node: Node, x: tf.Tensor) -> tf.Tensor:
    return tf.linalg.det(x)


@operator("MatMulInteger")
def _matmul_integer(
    node: Node, a: tf.Tensor, b: tf.Tensor, a_zero: tf.Tensor | None = None, b_zero: tf.Tensor | None = None
) -> tf.Tensor:
    return integer_product(node, _centered(a, a_zero, -2), _centered(b, b_zero, -1))


EXACT = 1 << 24
"""Integers up to which float32 is exact."""


def integer_product(node: Node, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """The product of integers of up to 9 bits, as a sum of products of floats, each short enough to be exact."""
    depth, values = a.shape[-1], static(b)
    if depth is None or rank(node, a) < 2 or rank(node, b) < 2:
        return matmul(node, a, b)
    # Bytes less their zero point are at most 255 in size, and so are those of b if they are not known.
    most = EXACT // (255 * max(1, 255 if values is None else int(np.abs(values).max(initial=0))))
    parts = []
    for start in range(0, depth, most):
        cut = slice(start, start + most)
        pair = (tf.cast(each, tf.float32) for each in (a[..., cut], b[..., cut, :]))
        parts.append(tf.cast(matmul(node, *pair), tf.int32))
    return functools.reduce(tf.add, parts)


def _centered(x: tf.Tensor, zero: tf.Tensor, axis: int) -> tf.Tensor:
    """`x` minus its zero point: one for all elements, or one for each row (axis -2) or column (axis -1)."""
    x = tf.cast(x, tf.int32)
    if zero is None:
        return x
    zero = tf.cast(zero, tf.int32)
    if axis == -2 and zero.shape.rank == 1:
        zero = zero[:, None]
    return x - zero


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
def _reduce(node: Node, x: tf.Tensor, axes: tf.Tensor | None = None) -> tf.Tensor:
    axes = node.get("axes") if axes is None else ints(node, axes, "the axes")
    count, keep = rank(node, x), bool(node.get("keepdims", 1))
    if not axes:
        if node.get("noop_with_empty_axes", 0):
            axes = []
            return _REDUCTIONS[node.op](x, axes, keep) if node.op != "ReduceMean" else x
        # An empty list means all axes.
        axes = list(range(count))
    axes = [axis_of(node, each, count) for each in axes]
    if x.dtype == tf.bool:  # the largest and smallest of truth values
        return (tf.reduce_any if node.op == "ReduceMax" else tf.reduce_all)(x, axes, keep)
    return _REDUCTIONS[node.op](x, axes, keep)


@operator("ArgMax", "ArgMin")
def _arg(node: Node, x: tf.Tensor) -> tf.Tensor:
    axis = axis_of(node, node.get("axis", 0), rank(node, x))
    find = tf.argmax if node.op == "ArgMax" else tf.argmin
    if node.get("select_last_index", 0):
        # TensorFlow gives the first of equal elements: the last one is the first of the reversed axis.
        found = tf.cast(tf.shape(x)[axis], tf.int64) - 1 - find(tf.reverse(x, [axis]), axis)
    else:
        found = find(x, axis)
    if x.dtype.is_floating:
        # Both leave NaN out, but ONNX Runtime begins with the first element, and no number is larger than NaN.
        found = tf.where(tf.math.is_nan(tf.gather(x, 0, axis=axis)), tf.zeros_like(found), found)
    return tf.expand_dims(found, axis) if node.get("keepdims", 1) else found


@operator("CumSum", "CumProd")
def _cumulated(node: Node, x: tf.Tensor, axis: tf.Tensor) -> tf.Tensor:
    axis = axis_of(node, int(required(node, axis, "the axis").reshape(())), rank(node, x))
    function = tf.cumsum if node.op == "CumSum" else tf.math.cumprod
    return function(x, axis, bool(node.get("exclusive", 0)), bool(node.get("reverse", 0)))
