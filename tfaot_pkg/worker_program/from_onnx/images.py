"""Resizing: an interpolation is a product with a constant matrix along each axis."""

import math

import numpy as np
import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import axis_of, ints, moved_back, moved_last, rank, required, sizes


@operator("Upsample")
def _upsample(node, x, scales=None):
    scales = node.get("scales") if scales is None else [float(each) for each in required(node, scales, "the scales")]
    mode = node.get("mode", "nearest")
    return _resized(node, x, list(range(rank(node, x))), scales, None, mode, "asymmetric", "floor")


@operator("Resize")
def _resize(node, x, *more):
    roi, scales, wanted = _arguments(node, more)
    count = rank(node, x)
    axes = [axis_of(node, each, count) for each in node.get("axes") or range(count)]
    mode = node.get("mode", "nearest")
    place = node.get("coordinate_transformation_mode", "half_pixel" if node.version >= 11 else "asymmetric")
    nearest = node.get("nearest_mode", "round_prefer_floor" if node.version >= 11 else "floor")
    if place == "tf_crop_and_resize" and roi is None:
        raise node.fault("it crops, and has no region")
    return _resized(node, x, axes, scales, wanted, mode, place, nearest, roi)


def _arguments(node, more: tuple) -> tuple:
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


def _wanted(node, tensor) -> list:
    """The sizes in `tensor`; None for a size that depends on the inputs, such as that of the batch."""
    partial = tf.get_static_value(tensor, partial=True)
    if partial is None:
        return ints(node, tensor, "the sizes")
    return [None if each is None else int(each) for each in partial]


def _resized(node, x, axes: list, scales, wanted, mode: str, place: str, nearest: str, roi=None):
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
        x = _interpolated(node, x, axis, size, points, scale, mode, nearest, is_cropped=place == "tf_crop_and_resize")
    return x


def _scales_of(node, given: list, wanted: list) -> tuple:
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


def _points(node, mode: str, size: int, length: int, scale: float, region: tuple):
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


_ROUNDINGS = {
    # Only ties differ from rounding to the nearest: they go down or up.
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _interpolated(node, x, axis: int, size: int, points, scale: float, mode: str, nearest: str, *, is_cropped: bool):
    if mode == "nearest":
        places = np.clip(_ROUNDINGS[nearest](points), 0, size - 1).astype(np.int32)
        made = tf.gather(x, places, axis=axis)
        matrix = None
    else:
        matrix = _matrix(node, size, points, scale, mode)
        values = moved_last(x, axis) if x.dtype.is_floating else tf.cast(moved_last(x, axis), tf.float32)
        made = tf.cast(moved_back(tf.tensordot(values, tf.constant(matrix.T, values.dtype), 1), axis), x.dtype)
    outside = (points < 0) | (points > size - 1)
    if is_cropped and outside.any():
        shape = [-1 if place == axis else 1 for place in range(x.shape.rank)]
        filler = tf.constant(node.get("extrapolation_value", 0.0), x.dtype)
        made = tf.where(outside.reshape(shape), filler, made)
    return made


def _matrix(node, size: int, points, scale: float, mode: str):
    """[outputs, inputs]: the weight of each input in each output."""
    kernels = {"linear": (_linear, 1.0), "cubic": (_cubic(node.get("cubic_coeff_a", -0.75)), 2.0)}
    if mode not in kernels:
        raise node.fault(f"the mode {mode!r} is not supported")
    kernel, reach = kernels[mode]
    # Antialiasing, if the result is smaller: the kernel is as wide as the elements that become one.
    width = max(1.0, 1 / scale) if node.get("antialias", 0) else 1.0
    # One position more on each side, so that rounding of floats cannot cut a kernel off.
    low = int(np.floor((points - reach * width).min())) - 1
    high = int(np.ceil((points + reach * width).max())) + 1
    places = np.arange(low, high + 1)
    weights = kernel((points[:, None] - places[None, :]) / width)
    if node.get("exclude_outside", 0) or node.get("antialias", 0):
        weights = weights * ((places >= 0) & (places < size)) if node.get("exclude_outside", 0) else weights
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((len(points), size))
    # Positions outside of the image count as the element at the edge.
    for column, place in enumerate(places):
        matrix[:, min(max(place, 0), size - 1)] += weights[:, column]
    return matrix


def _linear(x):
    return np.maximum(1 - np.abs(x), 0)


def _cubic(a: float):
    """The kernel of cubic convolution (Keys, IEEE Trans. ASSP 29, 1981)."""

    def kernel(x):
        x = np.abs(x)
        near = (a + 2) * x**3 - (a + 3) * x**2 + 1
        far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0))

    return kernel
