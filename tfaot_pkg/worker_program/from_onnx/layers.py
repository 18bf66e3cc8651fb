"""Convolutions and pooling. ONNX has channels in axis 1; TensorFlow's kernels want them last."""

import functools
import math

import numpy as np
import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import constant_or, rank, sizes, transposed, vector


def channels_last(x):
    return transposed(x, [0, *range(2, x.shape.rank), 1])


def channels_first(x):
    return transposed(x, [0, x.shape.rank - 1, *range(1, x.shape.rank - 1)])


def paddings(node, given: list, kernel: list, strides: list, dilations: list) -> list:
    """(before, after) for each axis of space, of sizes `given`."""
    mode = node.get("auto_pad", "NOTSET")
    count = len(kernel)
    if mode in ("NOTSET", ""):
        pads = node.get("pads") or [0] * (2 * count)
        return [(pads[place], pads[place + count]) for place in range(count)]
    if mode == "VALID":
        return [(0, 0)] * count
    found = []
    for size, width, stride, dilation in zip(given, kernel, strides, dilations, strict=True):
        if not isinstance(size, int):
            if stride > 1:
                raise node.fault(f"auto_pad {mode} with strides needs the sizes of its input", "export explicit pads")
            size = 0  # noqa: PLW2901 (without strides the padding does not depend on it)
        total = max((-(-size // stride) - 1) * stride + (width - 1) * dilation + 1 - size, 0)
        low = total // 2 if mode == "SAME_UPPER" else total - total // 2
        found.append((low, total - low))
    return found


def _attributes(node, count: int) -> tuple:
    return node.get("strides") or [1] * count, node.get("dilations") or [1] * count


@operator("Conv")
def _conv(node, x, w, bias=None):
    made = convolution(node, x, w)
    return made if bias is None else made + constant_or(lambda b: tf.reshape(b, [-1] + [1] * (x.shape.rank - 2)), bias)


def convolution(node, x, w):
    """The convolution of `node` without its bias."""
    count = rank(node, x) - 2
    if None in w.shape.as_list():
        raise node.fault("the sizes of its weights are not known")
    kernel, groups = w.shape.as_list()[2:], node.get("group", 1)
    strides, dilations = _attributes(node, count)
    pads = paddings(node, sizes(x)[2:], kernel, strides, dilations)
    # ONNX: outputs, inputs of a group, space; TensorFlow: space, inputs of a group, outputs.
    weights = transposed(w, [*range(2, count + 2), 1, 0])
    return channels_first(_convolved(channels_last(x), weights, strides, dilations, pads, groups))


def _convolved(x, weights, strides: list, dilations: list, pads: list, groups: int):
    count = len(strides)
    x = tf.pad(x, [(0, 0), *pads, (0, 0)]) if any(map(any, pads)) else x
    if count > 1 and groups > 1 and groups == x.shape[-1] and count == 2 and len(set(strides)) == 1:
        return _depthwise(x, weights, strides, dilations)
    if groups > 1:
        parts = zip(tf.split(x, groups, -1), tf.split(weights, groups, -1), strict=True)
        return tf.concat([_one_group(*part, strides, dilations) for part in parts], -1)
    return _one_group(x, weights, strides, dilations)


def _one_group(x, weights, strides: list, dilations: list):
    if max(strides) > 1 and max(dilations) > 1:
        # TensorFlow has one or the other: skip what is computed between the strides.
        made = tf.nn.convolution(x, weights, 1, "VALID", dilations=dilations)
        return made[(slice(None), *(slice(None, None, each) for each in strides))]
    return tf.nn.convolution(x, weights, strides, "VALID", dilations=dilations)


def _depthwise(x, weights, strides: list, dilations: list):
    channels = x.shape[-1]
    height, width, _, outputs = weights.shape
    # Output c * m + i is computed from channel c.
    filters = constant_or(lambda each: tf.reshape(each, [height, width, channels, outputs // channels]), weights)
    if max(dilations) > 1 and max(strides) > 1:
        made = tf.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "VALID", dilations=dilations)
        return made[:, :: strides[0], :: strides[1]]
    return tf.nn.depthwise_conv2d(x, filters, [1, *strides, 1], "VALID", dilations=dilations)


@operator("ConvTranspose")
def _conv_transpose(node, x, w, bias=None):
    count, groups = rank(node, x) - 2, node.get("group", 1)
    kernel = w.shape.as_list()[2:]
    strides, dilations = _attributes(node, count)
    extra = node.get("output_padding") or [0] * count
    spread = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = _transpose_paddings(node, sizes(x)[2:], strides, spread, extra, count)
    # A filter with holes is one with zeros in them.
    w = constant_or(lambda each: _with_holes(each, dilations), w) if max(dilations) > 1 else w
    weights = transposed(w, [*range(2, count + 2), 1, 0])
    parts = zip(tf.split(channels_last(x), groups, -1), tf.split(weights, groups, -1), strict=True)
    made = tf.concat([_transposed_convolution(*part, strides) for part in parts], -1) if groups > 1 else (
        _transposed_convolution(channels_last(x), weights, strides)
    )  # fmt: skip
    made = _cut(made, pads, extra)
    made = channels_first(made)
    return made if bias is None else made + constant_or(lambda b: tf.reshape(b, [-1] + [1] * count), bias)


def _with_holes(w, dilations: list):
    for place, dilation in enumerate(dilations):
        axis = place + 2
        wide = tf.stack([w, *[tf.zeros_like(w)] * (dilation - 1)], axis + 1)
        shape = w.shape.as_list()
        shape[axis] *= dilation
        w = tf.gather(tf.reshape(wide, shape), range(shape[axis] - dilation + 1), axis=axis)
    return w


def _transposed_convolution(x, weights, strides: list):
    """The full result: every place that an input reaches."""
    given = sizes(x)
    kernel, outputs = weights.shape.as_list()[: len(strides)], weights.shape.as_list()[-2]
    shape = [(size - 1) * stride + width for size, stride, width in zip(given[1:-1], strides, kernel, strict=True)]
    return tf.nn.conv_transpose(x, weights, vector([given[0], *shape, outputs]), strides, "VALID")


def _transpose_paddings(node, given: list, strides: list, spread: list, extra: list, count: int) -> list:
    wanted, mode = node.get("output_shape"), node.get("auto_pad", "NOTSET")
    if not wanted and mode in ("NOTSET", ""):
        pads = node.get("pads") or [0] * (2 * count)
        return [(pads[place], pads[place + count]) for place in range(count)]
    if mode == "VALID":
        return [(0, 0)] * count
    wanted = wanted[-count:] if wanted else None
    found = []
    for place in range(count):
        if wanted and not isinstance(given[place], int):
            raise node.fault("output_shape needs the sizes of its input", "export explicit pads")
        if wanted:
            total = strides[place] * (given[place] - 1) + extra[place] + spread[place] - wanted[place]
        else:
            total = spread[place] + extra[place] - strides[place]
        half = total // 2
        found.append((half, total - half) if mode == "SAME_UPPER" else (total - half, half))
    return found


def _cut(x, pads: list, extra: list):
    """Without what padding removes; with rows of zeros that the padding of the output adds."""
    more = [max(added - high, 0) for (_, high), added in zip(pads, extra, strict=True)]
    less = [max(high - added, 0) for (_, high), added in zip(pads, extra, strict=True)]
    x = x[(slice(None), *(slice(max(low, 0), -cut or None) for (low, _), cut in zip(pads, less, strict=True)))]
    grown = [(max(-low, 0), add) for (low, _), add in zip(pads, more, strict=True)]
    return tf.pad(x, [(0, 0), *grown, (0, 0)]) if any(map(any, grown)) else x


def _pool_paddings(node, x, kernel: list, strides: list, dilations: list) -> tuple:
    """What ONNX pads, and how much more is needed so that a last window that is not full counts (ceil_mode)."""
    given = sizes(x)[2:]
    pads = paddings(node, given, kernel, strides, dilations)
    more = [0] * len(kernel)
    if node.get("ceil_mode", 0):
        for place, (size, width, stride, dilation, (low, high)) in enumerate(
            zip(given, kernel, strides, dilations, pads, strict=True)
        ):
            if not isinstance(size, int):
                raise node.fault("ceil_mode needs the sizes of its input")
            spread = (width - 1) * dilation + 1
            count = math.ceil((size + low + high - spread) / stride) + 1
            # A window that would begin behind the data does not count.
            count -= (count - 1) * stride >= size + low
            more[place] = max((count - 1) * stride + spread - size - low - high, 0)
    return pads, more


def _windows(x, kernel: list, strides: list, dilations: list, combine):
    """`combine` over the windows of `x`, channels last, one place of the window after the other."""
    given = sizes(x)[1:-1]
    counts = [(s - (k - 1) * d - 1) // t + 1 for s, k, t, d in zip(given, kernel, strides, dilations, strict=True)]
    parts = []
    for place in np.ndindex(*kernel):
        cut = [
            slice(p * d, p * d + (n - 1) * t + 1, t)
            for p, d, n, t in zip(place, dilations, counts, strides, strict=True)
        ]
        parts.append(x[(slice(None), *cut)])
    return functools.reduce(combine, parts)


def _is_plain(x, dilations: list) -> bool:
    return max(dilations) == 1 and x.shape.rank <= 5 and x.dtype in (tf.float32, tf.float64)


@operator("MaxPool")
def _max_pool(node, x):
    if any(node.outputs[1:]):
        raise node.fault("the places of the largest elements are not read")
    kernel = node.get("kernel_shape")
    strides, dilations = _attributes(node, len(kernel))
    pads, more = _pool_paddings(node, x, kernel, strides, dilations)
    filler = x.dtype.min if x.dtype.is_integer else -math.inf
    padded = _padded(channels_last(x), pads, more, filler)
    if _is_plain(x, dilations):
        return channels_first(tf.nn.pool(padded, kernel, "MAX", strides, "VALID"))
    return channels_first(_windows(padded, kernel, strides, dilations, tf.maximum))


def _padded(x, pads: list, more: list, filler):
    table = [(low, high + add) for (low, high), add in zip(pads, more, strict=True)]
    if not any(map(any, table)):
        return x
    return tf.pad(x, [(0, 0), *table, (0, 0)], constant_values=tf.cast(filler, x.dtype))


@operator("AveragePool")
def _average_pool(node, x):
    kernel = node.get("kernel_shape")
    strides, dilations = _attributes(node, len(kernel))
    pads, more = _pool_paddings(node, x, kernel, strides, dilations)
    last = channels_last(x)
    total = _sums(_padded(last, pads, more, 0), kernel, strides, dilations)
    if not any(map(any, pads)) and not any(more):
        return channels_first(total / tf.constant(math.prod(kernel), x.dtype))
    # The elements of each window that count: padding that ONNX names, if it is included, and never more than that.
    ones = tf.ones(vector([1, *sizes(last)[1:-1], 1]), x.dtype)
    ones = _padded(ones, pads, [0] * len(kernel), 1 if node.get("count_include_pad", 0) else 0)
    counts = _sums(_padded(ones, [(0, 0)] * len(kernel), more, 0), kernel, strides, dilations)
    return channels_first(total / counts)


def _sums(x, kernel: list, strides: list, dilations: list):
    if _is_plain(x, dilations):
        return tf.nn.pool(x, kernel, "AVG", strides, "VALID") * tf.constant(math.prod(kernel), x.dtype)
    return _windows(x, kernel, strides, dilations, tf.add)


@operator("LpPool")
def _lp_pool(node, x):
    kernel, order = node.get("kernel_shape"), node.get("p", 2)
    strides, dilations = _attributes(node, len(kernel))
    pads, more = _pool_paddings(node, x, kernel, strides, dilations)
    powers = tf.pow(tf.abs(_padded(channels_last(x), pads, more, 0)), order)
    return channels_first(tf.pow(_sums(powers, kernel, strides, dilations), 1 / order))


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(node, x):
    axes = list(range(2, rank(node, x)))
    if node.op == "GlobalLpPool":
        order = node.get("p", 2)
        return tf.pow(tf.reduce_sum(tf.pow(tf.abs(x), order), axes, True), 1 / order)
    return (tf.reduce_mean if node.op == "GlobalAveragePool" else tf.reduce_max)(x, axes, True)
