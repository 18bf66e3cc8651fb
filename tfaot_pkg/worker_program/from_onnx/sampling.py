"""Operators that read images at points between their elements."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx.layers import paddings
from from_onnx.table import operator
from from_onnx.tensors import constant_or, rank, reshaped, sizes, transposed

if TYPE_CHECKING:
    from from_onnx.table import Node


_CUBIC = -0.75  # as in ONNX's reference implementation; no attribute sets it


@operator("GridSample")
def _grid_sample(node: Node, x: tf.Tensor, grid: tf.Tensor) -> tf.Tensor:
    count = rank(node, x) - 2
    mode = node.get("mode", "linear").removeprefix("bi")
    aligned, padding = node.get("align_corners", 0), node.get("padding_mode", "zeros")
    if mode not in _TAPS or padding not in ("zeros", "border", "reflection"):
        raise node.fault(f"the mode {mode!r} with padding {padding!r} is not supported")
    given = _space(node, x)
    places = reshaped(grid, [sizes(grid)[0], -1, count])
    points = []
    for axis, size in enumerate(given):
        place = places[..., count - 1 - axis]  # the last coordinate belongs to the first axis
        scale, shift = ((size - 1) / 2, (size - 1) / 2) if aligned else (size / 2, (size - 1) / 2)
        points.append(place * tf.constant(scale, x.dtype) + tf.constant(shift, x.dtype))
    made = sampled(_flat(x), given, points, mode, padding, aligned=bool(aligned))
    made = reshaped(made, [*sizes(grid)[:-1], sizes(x)[1]])
    return transposed(made, [0, count + 1, *range(1, count + 1)])


def _space(node: Node, x: tf.Tensor) -> list[Any]:
    """The sizes of the image's axes."""
    given = x.shape.as_list()[2:]
    if None in given:
        raise node.fault("the sizes of its image are not known")
    result: list[Any] = given
    return result


def _flat(x: tf.Tensor) -> tf.Tensor:
    """[batch, places, channels]."""
    count = x.shape.rank
    last = transposed(x, [0, *range(2, count), 1])
    return reshaped(last, [sizes(x)[0], math.prod(x.shape.as_list()[2:]), sizes(x)[1]])


def _near(fraction: tf.Tensor) -> list[Any]:
    return [(0, None)]


def _linear(fraction: tf.Tensor) -> list[Any]:
    return [(0, 1 - fraction), (1, fraction)]


def _cubic(fraction: tf.Tensor) -> list[Any]:
    def near(x: tf.Tensor) -> tf.Tensor:
        return ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1

    def far(x: tf.Tensor) -> tf.Tensor:
        return ((_CUBIC * x - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC

    return [(-1, far(fraction + 1)), (0, near(fraction)), (1, near(1 - fraction)), (2, far(2 - fraction))]


_TAPS = {"nearest": _near, "linear": _linear, "cubic": _cubic}
"""Mode -> the elements that a point reads, as distances from the element before it, and their weights."""


def sampled(
    flat: tf.Tensor,
    space: list[Any],
    points: list[Any],
    mode: str = "linear",
    padding: str = "zeros",
    *,
    aligned: bool = True,
) -> tf.Tensor:
    """[batch, points, channels]: `flat` at `points`, one coordinate of [batch, points] for each axis of `space`."""
    taps = []
    for size, point in zip(space, points, strict=True):
        # Points farther away than any kernel reaches read padding alone; huge ones would not fit into integers.
        point = point if padding == "reflection" else tf.clip_by_value(point, -4.0, size + 3.0)  # noqa: PLW2901
        first = tf.round(point) if mode == "nearest" else tf.floor(point)
        taps.append([(_padded(first + step, size, padding, aligned), w) for step, w in _TAPS[mode](point - first)])
    parts = []
    for chosen in itertools.product(*taps):
        index, weight, inside = None, None, None
        for size, ((place, within), factor) in zip(space, chosen, strict=True):
            index = place if index is None else index * size + place
            inside = within if inside is None else inside & within
            if factor is not None:
                weight = factor if weight is None else weight * factor
        part = tf.gather(flat, index, batch_dims=1)
        # Not a product with 0: what is read outside is an element of the image, maybe NaN.
        part = part if inside is None else tf.where(inside[..., None], part, tf.zeros([], part.dtype))
        parts.append(part if weight is None else part * weight[..., None])
    return functools.reduce(tf.add, parts)


def _padded(place: tf.Tensor, size: int, padding: str, aligned: bool) -> tuple[Any, ...]:
    """The index of the element that is read at `place`, and whether that is inside of the image (None: always)."""
    inside = None
    if padding == "zeros":
        inside = (place >= 0) & (place <= size - 1)
    if padding == "reflection":
        # With aligned corners, images are reflected at the centers of the edge elements, else at their outer edges.
        period = float(max(2 * (size - 1), 1) if aligned else 2 * size)
        place = tf.math.floormod(place, tf.constant(period, place.dtype))
        place = tf.minimum(place, (period if aligned else period - 1) - place)
    return tf.cast(tf.clip_by_value(place, 0, size - 1), tf.int32), inside


@operator("RoiAlign")
def _roi_align(node: Node, x: tf.Tensor, regions: tf.Tensor, owners: tf.Tensor) -> tf.Tensor:
    ratio = node.get("sampling_ratio", 0)
    if ratio < 1:
        raise node.fault("how many points it reads depends on the inputs (sampling_ratio 0)", "export it with a number")
    half = node.get("coordinate_transformation_mode", "half_pixel") == "half_pixel" and node.version >= 16
    space = _space(node, x)
    lengths = (node.get("output_height", 1), node.get("output_width", 1))
    points = []
    for axis, length in enumerate(lengths):
        scale = tf.constant(node.get("spatial_scale", 1.0), x.dtype)
        start, end = (regions[:, place] * scale - (0.5 if half else 0.0) for place in (1 - axis, 3 - axis))
        # Before half_pixel, a region had at least one element.
        extent = end - start if half else tf.maximum(end - start, 1)
        steps = (np.arange(length * ratio) + 0.5) / (length * ratio)
        points.append(start[:, None] + extent[:, None] * tf.constant(steps, x.dtype))
    # Points outside by less than an element read the edge; those farther away read 0.
    inside = [(p >= -1) & (p <= size) for p, size in zip(points, space, strict=True)]
    points = [tf.clip_by_value(p, 0, size - 1) for p, size in zip(points, space, strict=True)]
    owner = tf.cast(owners, tf.int32)
    y, across = (each.reshape(-1) for each in np.indices([length * ratio for length in lengths]))
    grids = [tf.gather(points[0], y, axis=1), tf.gather(points[1], across, axis=1)]
    images = tf.gather(_flat(x), owner)
    within = tf.gather(inside[0], y, axis=1) & tf.gather(inside[1], across, axis=1)
    is_largest = node.get("mode", "avg") == "max"
    made = _largest_corner(images, space, grids) if is_largest else sampled(images, space, grids)
    made = tf.where(within[..., None], made, tf.zeros([], made.dtype))
    made = reshaped(made, [sizes(regions)[0], lengths[0], ratio, lengths[1], ratio, sizes(x)[1]])
    made = tf.reduce_max(made, [2, 4]) if is_largest else tf.reduce_mean(made, [2, 4])
    return tf.transpose(made, [0, 3, 1, 2])


def _largest_corner(flat: tf.Tensor, space: list[Any], points: list[Any]) -> tf.Tensor:
    """The largest product of an element and its weight, which is the maximum of ONNX and ONNX Runtime."""
    corners = []
    floors = [tf.floor(point) for point in points]
    for steps in itertools.product((0, 1), repeat=2):
        index: tf.Tensor = None
        weight: tf.Tensor = None
        for size, point, first, step in zip(space, points, floors, steps, strict=True):
            place = tf.cast(tf.minimum(first + step, size - 1), tf.int32)
            index = place if index is None else index * size + place
            factor = point - first if step else 1 - (point - first)
            weight = factor if weight is None else weight * factor
        corners.append(tf.gather(flat, index, batch_dims=1) * weight[..., None])
    return functools.reduce(tf.maximum, corners)


@operator("DeformConv")
def _deform_conv(
    node: Node,
    x: tf.Tensor,
    w: tf.Tensor,
    offset: tf.Tensor,
    bias: tf.Tensor | None = None,
    mask: tf.Tensor | None = None,
) -> tf.Tensor:
    space, (outputs, inputs, *kernel) = _space(node, x), w.shape.as_list()
    if len(kernel) != 2:
        raise node.fault("only images of two axes are supported")
    groups, owners = node.get("group", 1), node.get("offset_group", 1)
    strides, dilations = node.get("strides") or [1, 1], node.get("dilations") or [1, 1]
    pads = paddings(node, space, kernel, strides, dilations)
    height, width = offset.shape.as_list()[2:]
    taps = math.prod(kernel)
    batch, channels = sizes(x)[:2]
    moves = reshaped(offset, [batch, owners, taps, 2, height, width])
    bases = []
    for axis, length in enumerate((height, width)):
        inner = np.unravel_index(np.arange(taps), kernel)[axis] * dilations[axis]
        outer = np.arange(length) * strides[axis] - pads[axis][0]
        shape = [taps, length, 1] if axis == 0 else [taps, 1, length]
        bases.append(tf.constant((inner[:, None] + outer[None, :]).reshape(shape), x.dtype))
    parts = []
    for owner, image in enumerate(tf.split(_flat(x), owners, -1)):
        points = [reshaped(moves[:, owner, :, axis] + bases[axis], [batch, -1]) for axis in range(2)]
        part = sampled(image, space, points)
        if mask is not None:
            chosen = reshaped(mask, [batch, owners, taps * height * width])[:, owner]
            part = part * chosen[..., None]
        parts.append(reshaped(part, [batch, taps, height * width, channels // owners]))
    columns = tf.transpose(tf.concat(parts, -1), [0, 2, 1, 3])  # [batch, places, taps, channels]
    made = []
    for column, weight in zip(tf.split(columns, groups, -1), tf.split(w, groups, 0), strict=True):
        matrix = constant_or(
            lambda each: tf.reshape(tf.transpose(each, [2, 3, 1, 0]), [taps * inputs, outputs // groups]), weight
        )
        made.append(tf.tensordot(reshaped(column, [batch, height * width, taps * inputs]), matrix, 1))
    total = tf.concat(made, -1) if groups > 1 else made[0]
    total = total if bias is None else total + bias
    return tf.transpose(reshaped(total, [batch, height, width, outputs]), [0, 3, 1, 2])
