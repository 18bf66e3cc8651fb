"""Resizing: the places and weights of each element, by the formulas of ONNX's page on Resize."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import axis_of, ints, rank, required, sizes, transposed
from interpolation import weighed, windows_of

if TYPE_CHECKING:
    from framework_types import Array
    from from_onnx.table import Node


@operator("Upsample")
def _upsample(node: Node, x: tf.Tensor, scales: tf.Tensor | None = None) -> tf.Tensor:
    scales = node.get("scales") if scales is None else [float(each) for each in required(node, scales, "the scales")]
    mode = node.get("mode", "nearest")
    return _resized(node, x, list(range(rank(node, x))), scales, None, mode, "asymmetric", "floor")


@operator("Resize")
def _resize(node: Node, x: tf.Tensor, *more: tf.Tensor) -> tf.Tensor:
    roi, scales, wanted = _arguments(node, more)
    count = rank(node, x)
    axes = [axis_of(node, each, count) for each in node.get("axes") or range(count)]
    mode = node.get("mode", "nearest")
    place = node.get("coordinate_transformation_mode", "half_pixel" if node.version >= 11 else "asymmetric")
    nearest = node.get("nearest_mode", "round_prefer_floor" if node.version >= 11 else "floor")
    if place == "tf_crop_and_resize" and roi is None:
        raise node.fault("it crops, and has no region")
    return _resized(node, x, axes, scales, wanted, mode, place, nearest, roi)


def _arguments(node: Node, more: tuple[Any, ...]) -> tuple[Any, ...]:
    """Region, scales and sizes; None for each that is not given."""
    if node.version < 11:
        return None, [float(each) for each in required(node, more[0], "the scales")], None
    roi, scales, wanted = (*more, None, None, None)[:3]
    given = [None if each is None or each.shape.num_elements() == 0 else each for each in (roi, scales, wanted)]
    return (
        None if given[0] is None else [float(each) for each in required(node, given[0], "the region")],
        None if given[1] is None else [float(each) for each in required(node, given[1], "the scales")],
        None if given[2] is None else _wanted(node, given[2]),
    )


def _wanted(node: Node, tensor: tf.Tensor) -> list[Any]:
    """The sizes in `tensor`; None for a size that depends on the inputs, such as that of the batch."""
    partial = tf.get_static_value(tensor, partial=True)
    if partial is None:
        return ints(node, tensor, "the sizes")
    return [None if each is None else int(each) for each in partial]


def _resized(
    node: Node,
    x: tf.Tensor,
    axes: list[int],
    scales: tf.Tensor,
    wanted: tf.Tensor,
    mode: str,
    place: str,
    nearest: str,
    roi: tf.Tensor | None = None,
) -> tf.Tensor:
    given = sizes(x)
    if wanted is not None:
        # Exporters write the size of the batch itself for the first axis, which then does not change.
        sized = zip(axes, wanted, strict=True)
        kept = [axis for axis, size in sized if size is None and not isinstance(given[axis], int)]
        wanted = [size for axis, size in zip(axes, wanted, strict=True) if axis not in kept]
        axes = [axis for axis in axes if axis not in kept]
        if None in wanted:
            raise node.fault("the sizes: they depend on the inputs of the model", "export it with constant sizes")
        scales, wanted = _scales_of(node, [given[axis] for axis in axes], wanted)
    order = _channels_last(axes, x.shape.rank) if mode != "nearest" else [*range(x.shape.rank)]
    x = transposed(x, order)
    for number, axis in enumerate(axes):
        size, scale = given[axis], scales[number]
        if scale == 1 and (wanted is None or wanted[number] == size) and place != "tf_crop_and_resize":
            continue
        if not isinstance(size, int):
            raise node.fault(f"the size of axis {axis}, which it changes, is not known")
        length = math.floor(size * scale) if wanted is None else wanted[number]
        if place == "align_corners" and wanted is None and length != size * scale:
            raise node.fault(
                "ONNX and ONNX Runtime align corners in different ways where scales give no whole number of elements",
                "give the sizes instead of the scales",
            )
        region = (0.0, 1.0) if roi is None else (roi[number], roi[number + len(axes)])
        points = _points(node, place, size, length, scale, region)
        at = order.index(axis)
        x = _interpolated(node, x, at, size, points, scale, mode, nearest, is_cropped=place == "tf_crop_and_resize")
    return transposed(x, [order.index(axis) for axis in range(len(order))])


def _channels_last(axes: list[int], count: int) -> list[Any]:
    """The axes in an order in which those that stay as they are, which are computed together, lie side by side."""
    changed = [axis for axis in axes if axis > 1] or list(axes)
    return (
        [axis for axis in range(count) if axis == 0 and axis not in changed]
        + changed
        + [axis for axis in range(1, count) if axis not in changed]
    )


def _scales_of(node: Node, given: list[Any], wanted: list[Any]) -> tuple[Any, ...]:
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    scales = [
        new / old if isinstance(old, int) else 1.0 if new == 1 else math.nan
        for new, old in zip(wanted, given, strict=True)
    ]
    if policy == "stretch":
        return scales, wanted
    scale = min(scales) if policy == "not_larger" else max(scales)
    # Half up, as the standard rounds these sizes.
    return [scale] * len(given), [math.floor(scale * size + 0.5) for size in given]


def _points(node: Node, mode: str, size: int, length: int, scale: float, region: tuple[Any, ...]) -> tf.Tensor:
    """The position in the input of each element of the output: the formulas of ONNX's page on Resize."""
    x = np.arange(length, dtype=np.float64)
    if mode == "half_pixel":
        return (x + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if length > 1 else np.zeros(length)
    if mode == "half_pixel_symmetric":
        adjustment = length / (scale * size)
        center = size / 2
        return center * (1 - adjustment) + (x + 0.5) / scale - 0.5
    if mode == "align_corners":
        return x * (size - 1) / (length - 1) if length > 1 else np.zeros(length)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "tf_crop_and_resize":
        start, end = region
        if length > 1:
            return start * (size - 1) + x * (end - start) * (size - 1) / (length - 1)
        return np.full(length, 0.5 * (start + end) * (size - 1))
    raise node.fault(f"the coordinate_transformation_mode {mode!r} is not supported")


_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    # Only ties differ from rounding to the nearest: they go down or up.
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _interpolated(
    node: Node,
    x: tf.Tensor,
    axis: int,
    size: int,
    points: tf.Tensor,
    scale: float,
    mode: str,
    nearest: str,
    *,
    is_cropped: bool,
) -> tf.Tensor:
    if mode == "nearest":
        places = np.clip(_ROUNDINGS[nearest](points), 0, size - 1).astype(np.int32)
        made = tf.gather(x, places, axis=axis)
    else:
        values = x if x.dtype.is_floating else tf.cast(x, tf.float32)
        made = tf.cast(weighed(values, axis, *_window(node, size, points, scale, mode)), x.dtype)
    outside = (points < 0) | (points > size - 1)
    if is_cropped and outside.any():
        shape = [-1 if place == axis else 1 for place in range(x.shape.rank)]
        filler = tf.constant(node.get("extrapolation_value", 0.0), x.dtype)
        made = tf.where(outside.reshape(shape), filler, made)
    return made


def _window(node: Node, size: int, points: tf.Tensor, scale: float, mode: str) -> tuple[Any, ...]:
    """[outputs, n]: the places of the inputs that each output uses, and their weights.

    These are the elements that ONNX Runtime reads, also those that happen to have the weight 0.
    """
    kernels = {"linear": (_linear, 1), "cubic": (_cubic(node.get("cubic_coeff_a", -0.75)), 2)}
    if mode not in kernels:
        raise node.fault(f"the mode {mode!r} is not supported")
    kernel, reach = kernels[mode]
    if node.get("antialias", 0):
        return _wide_window(node, size, points, scale, kernel, reach)
    points = np.clip(points, 0, size - 1) if mode == "linear" else points
    places = np.floor(points)[:, None] + np.arange(1 - reach, 1 + reach)
    weights = kernel(points[:, None] - places)
    if node.get("exclude_outside", 0):
        weights = _without_outside(places, weights, size)
    # Positions outside of the image count as the element at the edge.
    places = np.clip(places, 0, size - 1).astype(np.int32)
    if mode == "linear":
        weights[places[:, 0] == places[:, 1]] = 0.5  # of an infinity, too
    return places, weights


def _wide_window(
    node: Node, size: int, points: tf.Tensor, scale: float, kernel: tf.Tensor, reach: int
) -> tuple[Any, ...]:
    """The same with antialiasing: if the result is smaller, the kernel is as wide as the elements that become one."""
    width = max(1.0, 1 / scale)
    # One position more on each side, so that rounding of floats cannot cut a kernel off.
    low, high = np.floor(points.min() - reach * width) - 1, np.ceil(points.max() + reach * width) + 1
    places = np.arange(low, high + 1)
    apart = (points[:, None] - places) / width
    weights = kernel(apart)
    weights = _without_outside(places, weights, size) if node.get("exclude_outside", 0) else weights
    weights = weights / weights.sum(1, keepdims=True)
    near = (np.abs(apart) < reach + 1e-9) & (places >= np.floor(points - reach * width + 1)[:, None])
    used = np.where((places >= 0) & (places < size), near, weights != 0)
    matrix, read = np.zeros((len(points), size)), np.zeros((len(points), size), bool)
    for column, place in enumerate(np.clip(places, 0, size - 1).astype(int)):
        matrix[:, place] += weights[:, column]
        read[:, place] |= used[:, column]
    return windows_of(matrix, read)


def _without_outside(places: tf.Tensor, weights: tf.Tensor, size: int) -> tf.Tensor:
    weights = weights * ((places >= 0) & (places < size))
    return weights / weights.sum(1, keepdims=True)


def _linear(x: tf.Tensor) -> tf.Tensor:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(a: float) -> tf.Tensor:
    """The kernel of cubic convolution (Keys, IEEE Trans. ASSP 29, 1981)."""

    def kernel(x: tf.Tensor) -> tf.Tensor:
        x = np.abs(x)
        near = (a + 2) * x**3 - (a + 3) * x**2 + 1
        far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0))

    return kernel
