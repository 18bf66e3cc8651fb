"""Convolutions. ONNX has channels in axis 1; TensorFlow's kernels need them last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import by_channel, constant_or, rank, reshaped, sizes, transposed, vector

if TYPE_CHECKING:
    from from_onnx.table import Node


def channels_last(x: tf.Tensor) -> tf.Tensor:
    return transposed(x, [0, *range(2, x.shape.rank), 1])


def channels_first(x: tf.Tensor) -> tf.Tensor:
    return transposed(x, [0, x.shape.rank - 1, *range(1, x.shape.rank - 1)])


def paddings(node: Node, given: list[Any], kernel: list[int], strides: list[int], dilations: list[int]) -> list[Any]:
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
        # An odd element is added after the data (UPPER), or before it (LOWER).
        low = total // 2 if mode == "SAME_UPPER" else total - total // 2
        found.append((low, total - low))
    return found


def attributes(node: Node, count: int) -> tuple[Any, ...]:
    return node.get("strides") or [1] * count, node.get("dilations") or [1] * count


@operator("Conv")
def _conv(node: Node, x: tf.Tensor, w: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
    made = convolution(node, x, w)
    return made if bias is None else made + by_channel(bias, x.shape.rank)


def convolution(node: Node, x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """The convolution of `node` without its bias."""
    count = rank(node, x) - 2
    if None in w.shape.as_list():
        raise node.fault("the sizes of its weights are not known")
    kernel, groups = w.shape.as_list()[2:], node.get("group", 1)
    strides, dilations = attributes(node, count)
    pads = paddings(node, sizes(x)[2:], kernel, strides, dilations)
    # ONNX: outputs, inputs of a group, space; TensorFlow: space, inputs of a group, outputs.
    weights = transposed(w, [*range(2, count + 2), 1, 0])
    return channels_first(_convolved(channels_last(x), weights, strides, dilations, pads, groups))


def _convolved(
    x: tf.Tensor, weights: tf.Tensor, strides: list[int], dilations: list[int], pads: list[tuple[int, int]], groups: int
) -> tf.Tensor:
    count = len(strides)
    x = tf.pad(x, [(0, 0), *pads, (0, 0)]) if any(map(any, pads)) else x
    # One group for each channel. TensorFlow's kernel takes images with one stride for both axes.
    if count > 1 and groups > 1 and groups == x.shape[-1] and count == 2 and len(set(strides)) == 1:
        return _depthwise(x, weights, strides, dilations)
    if groups > 1:
        parts = zip(tf.split(x, groups, -1), tf.split(weights, groups, -1), strict=True)
        return tf.concat([_one_group(*part, strides, dilations) for part in parts], -1)
    return _one_group(x, weights, strides, dilations)


def _one_group(x: tf.Tensor, weights: tf.Tensor, strides: list[int], dilations: list[int]) -> tf.Tensor:
    """As a convolution of images.

    If filters have holes, tf.nn.convolution makes more rows of smaller arrays, whose number may not divide a size that
    varies.
    """
    if len(strides) == 1:
        made = tf.nn.conv2d(x[:, None], weights[None], [1, *strides], "VALID", dilations=[1, *dilations])
        return tf.squeeze(made, 1)
    if len(strides) == 3:
        return tf.nn.conv3d(x, weights, [1, *strides, 1], "VALID", dilations=[1, *dilations, 1])
    return tf.nn.conv2d(x, weights, strides, "VALID", dilations=dilations)


def _depthwise(x: tf.Tensor, weights: tf.Tensor, strides: list[int], dilations: list[int]) -> tf.Tensor:
    channels = x.shape[-1]
    height, width, _, outputs = weights.shape
    # Output c * m + i is computed from channel c.
    filters = constant_or(lambda each: tf.reshape(each, [height, width, channels, outputs // channels]), weights)
    # TensorFlow's kernel cannot combine strides with dilations: all positions are computed, and some selected.
    if max(dilations) > 1 and max(strides) > 1:
        made = tf.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "VALID", dilations=dilations)
        return made[:, :: strides[0], :: strides[1]]
    return tf.nn.depthwise_conv2d(x, filters, [1, *strides, 1], "VALID", dilations=dilations)


@operator("ConvTranspose")
def _conv_transpose(node: Node, x: tf.Tensor, w: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
    count, groups = rank(node, x) - 2, node.get("group", 1)
    kernel = w.shape.as_list()[2:]
    strides, dilations = attributes(node, count)
    extra = node.get("output_padding") or [0] * count
    spread = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = _transpose_paddings(node, sizes(x)[2:], strides, spread, extra, count)
    # A filter with holes is one with zeros in them.
    w = constant_or(lambda each: with_holes(each, dilations), w) if max(dilations) > 1 else w
    weights = transposed(w, [*range(2, count + 2), 1, 0])
    parts = zip(tf.split(channels_last(x), groups, -1), tf.split(weights, groups, -1), strict=True)
    made = tf.concat([_transposed_convolution(*part, strides) for part in parts], -1) if groups > 1 else (
        _transposed_convolution(channels_last(x), weights, strides)
    )  # fmt: skip
    made = _cut(made, pads, extra)
    made = channels_first(made)
    return made if bias is None else made + by_channel(bias, x.shape.rank)


def with_holes(w: tf.Tensor, dilations: list[int]) -> tf.Tensor:
    """`w`, of two axes and those of space, with zeros between the elements of these."""
    for place, dilation in enumerate(dilations):
        axis, shape = place + 2, sizes(w)
        if dilation == 1:
            continue
        wide = tf.stack([w, *[tf.zeros_like(w)] * (dilation - 1)], axis + 1)
        shape[axis] *= dilation
        w = reshaped(wide, shape)[(slice(None),) * axis + (slice(None, 1 - dilation),)]
    return w


def _transposed_convolution(x: tf.Tensor, weights: tf.Tensor, strides: list[int]) -> tf.Tensor:
    """The full result: all elements that an input contributes to."""
    given = sizes(x)
    kernel, outputs = weights.shape.as_list()[: len(strides)], weights.shape.as_list()[-2]
    shape = [(size - 1) * stride + width for size, stride, width in zip(given[1:-1], strides, kernel, strict=True)]
    return tf.nn.conv_transpose(x, weights, vector([given[0], *shape, outputs]), strides, "VALID")


def _transpose_paddings(
    node: Node, given: list[Any], strides: list[int], spread: list[int], extra: list[int], count: int
) -> list[Any]:
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


def _cut(x: tf.Tensor, pads: list[tuple[int, int]], extra: list[int]) -> tf.Tensor:
    """`x` without the elements that padding removes, and with zeros that `output_padding` adds."""
    more = [max(added - high, 0) for (_, high), added in zip(pads, extra, strict=True)]
    less = [max(high - added, 0) for (_, high), added in zip(pads, extra, strict=True)]
    x = x[(slice(None), *(slice(max(low, 0), -cut or None) for (low, _), cut in zip(pads, less, strict=True)))]
    grown = [(max(-low, 0), add) for (low, _), add in zip(pads, more, strict=True)]
    return tf.pad(x, [(0, 0), *grown, (0, 0)]) if any(map(any, grown)) else x
