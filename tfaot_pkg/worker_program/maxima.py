"""Second derivatives of maximum pooling (`MaxPoolGradGrad`), for XLA.

XLA's own kernel cuts the elements of a window to bfloat16 before it looks for the largest one, so it takes another
element than TensorFlow where two are nearly the same.
"""

import itertools

import tensorflow as tf


def second_gradient(node, x, pooled, gradient, *sizes):
    """For each window, the element of `gradient` at the first place where `x` is the maximum, `pooled`; 0 for none.

    None, for XLA's own kernel, of integers and of sizes that are not constant.
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

    def __init__(self, node, size, window, stride) -> None:
        self.size, self.window, self.stride = size, int(window), int(stride)
        self.count, self.padding = None, (0, 0)
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
