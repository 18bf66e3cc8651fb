"""Operators whose number of rows depends on values: computed now for constants, else by `Where`, for `model.counts`.

data_dependent_rows.py lets values decide the number of rows in `Where` and `Unique` only, and each row must be
computed from itself alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import axis_of, rank, required, sizes, static, vector

if TYPE_CHECKING:
    from from_onnx.table import Node


_NONE = -np.inf


def places_of(tensor: tf.Tensor) -> tf.Tensor:
    """The result of `Where`, positions in rows, if `tensor` is its transposition, as NonZero has it; else None."""
    if tf.executing_eagerly() or tensor.op.type != "Transpose" or tensor.op.inputs[0].op.type != "Where":
        return None
    return tensor.op.inputs[0]


@operator("NonZero")
def _non_zero(node: Node, x: tf.Tensor) -> tf.Tensor:
    values = static(x)
    if values is not None:
        return tf.constant(np.stack(np.nonzero(values)), tf.int64)
    return tf.transpose(tf.where(x))


@operator("Compress")
def _compress(node: Node, x: tf.Tensor, condition: tf.Tensor) -> tf.Tensor:
    axis, values = node.get("axis"), static(condition)
    if axis is None:
        x, axis = tf.reshape(x, [-1]), 0
    axis = axis_of(node, axis, rank(node, x))
    if values is not None:
        return tf.gather(x, np.nonzero(values)[0], axis=axis)
    return tf.gather(x, tf.where(condition)[:, 0], axis=axis)


@operator("Unique")
def _unique(node: Node, x: tf.Tensor) -> Any:
    values = static(x)
    if values is None:
        return _kinds(node, x)
    found = np.unique(values, return_index=True, return_inverse=True, return_counts=True, axis=node.get("axis"))
    made, first, inverse, counts = found
    if not node.get("sorted", 1):
        order = np.argsort(first)
        back = np.argsort(order)
        made = np.take(made, order, axis=node.get("axis") or 0)
        first, inverse, counts = first[order], back[inverse], counts[order]
    return (tf.constant(made), *(tf.constant(np.ravel(each), tf.int64) for each in (first, inverse, counts)))


def _kinds(node: Node, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Unique for values that depend on inputs: each element is compared with each other one."""
    if node.get("axis") is not None and rank(node, x) != 1:
        raise node.fault(
            "which rows are different depends on the values of the inputs", "give the numbers of rows as inputs"
        )
    x = tf.reshape(x, [-1])
    at = tf.range(tf.size(x))
    same = x[:, None] == x[None, :]
    first = ~tf.reduce_any(same & (at[:, None] > at[None, :]), 1)
    # For each element, the number of distinct values before its own.
    before = x[None, :] < x[:, None] if node.get("sorted", 1) else at[None, :] < _first_of(same, at)[:, None]
    inverse = tf.reduce_sum(tf.cast(before & first[None, :], tf.int64), 1)
    counts = tf.reduce_sum(tf.cast(same, tf.int64), 1)
    if node.get("sorted", 1):
        order = tf.argsort(x, stable=True)
        x, first, at, counts = (tf.gather(each, order) for each in (x, first, at, counts))
    places = tf.where(first)[:, 0]
    kinds = (tf.gather(each, places) for each in (x, tf.cast(at, tf.int64), counts))
    values, at, counts = kinds
    return values, at, inverse, counts


def _first_of(same: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
    """For each element, the position of the first one that equals it."""
    return tf.reduce_min(tf.where(same, at[None, :], tf.size(at)), 1)


@operator("NonMaxSuppression")
def _non_max_suppression(
    node: Node,
    boxes: tf.Tensor,
    scores: tf.Tensor,
    most: tf.Tensor | None = None,
    overlap: tf.Tensor | None = None,
    least: tf.Tensor | None = None,
) -> tf.Tensor:
    most = 0 if most is None else int(np.ravel(required(node, most, "how many boxes it takes"))[0])
    overlap = tf.reshape(tf.zeros([]) if overlap is None else overlap, [])
    count = scores.shape[-1]
    if count is None:
        raise node.fault("the number of its boxes is not known", "give the inputs' full shapes (model.shapes)")
    steps = min(most, count)
    if not steps:
        return tf.zeros([0, 3], tf.int64)
    overlaps = _overlaps(boxes, centered=bool(node.get("center_point_box", 0))) > overlap
    alive = scores if least is None else tf.where(scores > tf.reshape(least, []), scores, _NONE)

    def step(
        number: tf.Tensor, alive: tf.Tensor, places: tf.Tensor, taken: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        best = tf.argmax(alive, -1)  # of equal ones the first
        slot = tf.one_hot(number, steps, on_value=True, off_value=False)
        # A class whose boxes are all suppressed takes none in the steps that are left.
        is_one = tf.reduce_max(alive, -1) > _NONE
        near = tf.gather(overlaps, best, batch_dims=1) | tf.one_hot(best, count, on_value=True, off_value=False)
        return (
            number + 1,
            tf.where(near, _NONE, alive),
            tf.where(slot, best[..., None], places),
            taken | (slot & is_one[..., None]),
        )

    shape = vector([*sizes(scores)[:2], steps])
    begin = (tf.constant(0), alive, tf.zeros(shape, tf.int64), tf.zeros(shape, tf.bool))
    _, _, places, taken = tf.while_loop(lambda number, *_: number < steps, step, begin, maximum_iterations=steps)
    batch, classes = (tf.range(tf.cast(size, tf.int64), dtype=tf.int64) for size in sizes(scores)[:2])
    zeros = tf.zeros(shape, tf.int64)
    # A table of all slots, so that the result is rows that `Where` selects from it.
    rows = tf.stack([batch[:, None, None] + zeros, classes[:, None] + zeros, places], -1)
    return tf.gather_nd(rows, tf.where(taken))


def _overlaps(boxes: tf.Tensor, *, centered: bool) -> tf.Tensor:
    """[batch, count, count]: intersection over union of each two boxes."""
    first, second, third, fourth = tf.unstack(boxes, axis=-1)
    if centered:  # x, y, width, height
        edges = [(second - fourth / 2, second + fourth / 2), (first - third / 2, first + third / 2)]
    else:  # two opposite corners, whichever
        edges = [(tf.minimum(a, b), tf.maximum(a, b)) for a, b in ((first, third), (second, fourth))]
    common = [
        tf.maximum(tf.minimum(high[:, :, None], high[:, None]) - tf.maximum(low[:, :, None], low[:, None]), 0.0)
        for low, high in edges
    ]
    both, area = common[0] * common[1], (edges[0][1] - edges[0][0]) * (edges[1][1] - edges[1][0])
    return tf.math.divide_no_nan(both, area[:, :, None] + area[:, None] - both)
