"""Maxima for which XLA's kernels have other rules than TensorFlow's: places of them, scatters, second derivatives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from framework_types import NodeDef


Rule: TypeAlias = Callable[..., "tf.Tensor | None"]
"""The result of a node of its inputs; None for XLA's own kernel."""


def _place(operation: Callable[..., tf.Tensor]) -> Rule:
    """A rule for `ArgMax` or `ArgMin`. None, for XLA's own kernel, of integers.

    TensorFlow's kernel begins with index 0 and the lowest number that is finite, and takes each number that is larger:
    NaN is left out. XLA's takes the number behind the last NaN.
    """

    def rule(node: NodeDef, x: tf.Tensor, axis: tf.Tensor) -> tf.Tensor | None:
        if not x.dtype.is_floating:
            return None
        is_largest = node.op == "ArgMax"
        start = tf.constant(x.dtype.min if is_largest else x.dtype.max, x.dtype)
        better = x > start if is_largest else x < start
        output = tf.as_dtype(node.attr["output_type"].type) if "output_type" in node.attr else tf.int64
        return operation(input=tf.where(better, x, start), dimension=axis, output_type=output)

    return rule


def _scatter(operation: Callable[..., tf.Tensor]) -> Rule:
    """A rule for `TensorScatterMax` or `TensorScatterMin`. None, for XLA's own kernel, of integers.

    TensorFlow's kernel takes an update that is larger than the element: NaN is never. XLA's maximum with NaN is NaN.
    """

    def rule(node: NodeDef, x: tf.Tensor, indices: tf.Tensor, updates: tf.Tensor) -> tf.Tensor | None:
        if not x.dtype.is_floating:
            return None
        least = tf.constant(-np.inf if node.op == "TensorScatterMax" else np.inf, x.dtype)
        return operation(tensor=x, indices=indices, updates=tf.where(tf.math.is_nan(updates), least, updates))

    return rule


def _second_gradient(
    node: NodeDef, x: tf.Tensor, pooled: tf.Tensor, gradient: tf.Tensor, *sizes: tf.Tensor
) -> tf.Tensor | None:
    """A rule for `MaxPoolGradGrad`. None, for XLA's own kernel, of integers and of sizes that are not constant.

    For each window, the element of `gradient` at the first place where `x` is the maximum, `pooled`; 0 for none. XLA's
    kernel cuts the elements of a window to bfloat16 before it looks for the largest one, so it takes another element
    than TensorFlow where two are nearly the same.
    """
    if sizes:
        window, strides = (tf.get_static_value(each) for each in sizes)
    else:
        window, strides = (list(node.attr[name].list.i) for name in ("ksize", "strides"))
    if window is None or strides is None or not x.dtype.is_floating or x.shape.rank != len(window):
        return None
    axes = [_Axis(node, *each) for each in zip(x.shape, window, strides, strict=True)]
    if any(axis.size is None and axis.window * axis.stride > 1 for axis in axes):
        return None
    padding = [axis.padding for axis in axes]
    # What is outside equals no maximum.
    x, gradient = tf.pad(x, padding, constant_values=float("nan")), tf.pad(gradient, padding)
    found = tf.zeros_like(pooled)
    # The last place first, so that the first one remains.
    for place in reversed(list(itertools.product(*(range(axis.window) for axis in axes)))):
        view = tuple(axis.view(offset) for axis, offset in zip(axes, place, strict=True))
        found = tf.where(tf.equal(x[view], pooled), gradient[view], found)
    return found


class _Axis:
    """An axis of the input: the windows along it, and what is padded before and behind."""

    def __init__(self, node: NodeDef, size: int | None, window: int, stride: int) -> None:
        self.size, self.window, self.stride = size, int(window), int(stride)
        self.count: int | None = None
        self.padding = (0, 0)
        if size is None:
            return
        if node.attr["padding"].s == b"SAME":
            self.count = -(-size // self.stride)
            missing = max((self.count - 1) * self.stride + self.window - size, 0)
            self.padding = (missing // 2, missing - missing // 2)
        else:
            self.count = -(-(size - self.window + 1) // self.stride)

    def view(self, offset: int) -> slice:
        """The elements at `offset` in each window."""
        if self.count is None:
            return slice(None)
        return slice(offset, offset + (self.count - 1) * self.stride + 1, self.stride)


RULES: dict[str, Rule] = {
    "ArgMax": _place(tf.raw_ops.ArgMax),
    "ArgMin": _place(tf.raw_ops.ArgMin),
    **dict.fromkeys(("MaxPool3DGradGrad", "MaxPoolGradGrad", "MaxPoolGradGradV2"), _second_gradient),
    "TensorScatterMax": _scatter(tf.raw_ops.TensorScatterMax),
    "TensorScatterMin": _scatter(tf.raw_ops.TensorScatterMin),
}
