"""Resizing: the places and weights of each element, by the formulas of ONNX's page on Resize."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tfaot_pkg.compiler.attributes import Along
from tfaot_pkg.compiler.program import ONE, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.folding import MOST_FOLDED
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.indexing import take
from tfaot_pkg.frontends.onnx_lowering.reductions import total
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.interpolation_windows import windows_of

_Kernel = Callable[[Array], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """An axis that is resized from `size` to `length` elements; `region` is its part that is cut out."""

    axis: int
    size: int
    length: int
    scale: float
    region: tuple[float, float]


@operator("Upsample")
def _upsample(call: Call) -> Value:
    x = call.input(0)
    scales = call.reals("scales") or call.floats(1, "the scales")
    found = _scaled(call, x, list(range(x.rank)), scales, None)
    return _resized(call, x, found, call.text("mode", "nearest"), "asymmetric", "floor")


@operator("Resize")
def _resize(call: Call) -> Value:
    x, is_new = call.input(0), call.version >= 11
    axes = [call.axis(each, x.rank) for each in call.wholes("axes") or range(x.rank)]
    roi, scales, wanted = _arguments(call)
    place = call.text("coordinate_transformation_mode", "half_pixel" if is_new else "asymmetric")
    nearest = call.text("nearest_mode", "round_prefer_floor" if is_new else "floor")
    if place == "tf_crop_and_resize" and roi is None:
        raise call.fault("it crops, and has no region")
    found = _sized(call, x, axes, wanted) if wanted is not None else _scaled(call, x, axes, scales or [], roi)
    if wanted is not None and roi is not None:
        found = [
            _Axis(axis=e.axis, size=e.size, length=e.length, scale=e.scale, region=(roi[n], roi[n + len(axes)]))
            for e in found
            for n in [axes.index(e.axis)]
        ]
    return _resized(call, x, found, call.text("mode", "nearest"), place, nearest)


def _arguments(call: Call) -> tuple[list[float] | None, list[float] | None, tuple[Size, ...] | None]:
    """Region, scales and sizes; None for each that is not given."""
    if call.version < 11:
        return None, call.floats(1, "the scales"), None

    def is_given(place: int) -> bool:
        found = call.maybe(place)
        return found is not None and found.sizes != (Size(0),)

    return (
        call.floats(1, "the region") if is_given(1) else None,
        call.floats(2, "the scales") if is_given(2) else None,
        call.sizes(3, "the sizes") if is_given(3) else None,
    )


def _scaled(
    call: Call, x: Value, axes: Sequence[int], scales: Sequence[float], roi: Sequence[float] | None
) -> list[_Axis]:
    found = []
    for place, (axis, scale) in enumerate(zip(axes, scales, strict=True)):
        region = (0.0, 1.0) if roi is None else (roi[place], roi[place + len(axes)])
        if scale == 1 and region == (0.0, 1.0):
            continue
        size = call.number(x.sizes[axis], f"the size of axis {axis}, which it changes")
        found.append(_Axis(axis=axis, size=size, length=math.floor(size * scale), scale=scale, region=region))
    return found


def _sized(call: Call, x: Value, axes: Sequence[int], wanted: Sequence[Size]) -> list[_Axis]:
    # Exporters write the size of the batch itself for the first axis, which then does not change.
    pairs = [(axis, size) for axis, size in zip(axes, wanted, strict=True) if size != x.sizes[axis]]
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        pairs = list(zip(axes, wanted, strict=True))
    sizes = [call.number(x.sizes[axis], f"the size of axis {axis}, which it changes") for axis, _ in pairs]
    lengths = [call.number(size, "the sizes") for _, size in pairs]
    scales = [new / old for new, old in zip(lengths, sizes, strict=True)]
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        # Half up, as the standard rounds these sizes.
        scales, lengths = [scale] * len(sizes), [math.floor(scale * size + 0.5) for size in sizes]
    return [
        _Axis(axis=axis, size=size, length=length, scale=scale, region=(0.0, 1.0))
        for (axis, _), size, length, scale in zip(pairs, sizes, lengths, scales, strict=True)
    ]


def _resized(call: Call, x: Value, axes: Sequence[_Axis], mode: str, place: str, nearest: str) -> Value:
    b, order = call.builder, list(range(x.rank))
    if mode != "nearest" and x.rank > 2 and all(each.axis > 1 for each in axes):
        order = [0, *range(2, x.rank), 1]  # channels, which are computed together, side by side
    x = b.transpose(x, order)
    for each in axes:
        if place == "align_corners" and each.length != each.size * each.scale:
            raise call.fault("it aligns corners where scales give no whole number of elements: give the sizes")
        x = _interpolated(call, x, order.index(each.axis), each, mode, place, nearest)
    return b.transpose(x, [order.index(axis) for axis in range(x.rank)])


def _interpolated(call: Call, x: Value, axis: int, given: _Axis, mode: str, place: str, nearest: str) -> Value:
    b, points = call.builder, _points(call, place, given)
    if mode == "nearest":
        if nearest not in _ROUNDINGS:
            raise call.fault(f"the nearest_mode {nearest!r}")
        places = np.clip(_ROUNDINGS[nearest](points), 0, given.size - 1).astype(np.int32)
        made = take(b, x, known(places, "s32"), axis)
    else:
        where, weights = _window(call, given, points, mode)
        made = b.convert(_weighed(b, b.convert(x, "f32"), axis, where, weights), x.dtype)
    outside = (points < 0) | (points > given.size - 1)
    if place == "tf_crop_and_resize" and outside.any():
        sizes = [Size(len(points)) if each == axis else ONE for each in range(x.rank)]
        filler = call.constant(call.real("extrapolation_value", 0), made)
        made = b.map("select", b.reshape(known(outside, "pred"), sizes), filler, made)
    return made


def _weighed(b: Builder, x: Value, axis: int, places: Array, weights: Array) -> Value:
    """Each element along the axis is the sum of those at its `places`, [elements, n], times its `weights`."""
    factors, numbers = known(weights.astype(np.float32), "f32"), known(places.astype(np.int32), "s32")
    if b.layers:
        return b.op("interpolate", x, factors, numbers, attributes=Along(axis=axis))
    taken = take(b, x, numbers, axis)
    wide = b.reshape(factors, [*factors.sizes, *[ONE] * (x.rank - 1 - axis)])
    return total(b, b.map("multiply", taken, wide), [axis + 1], keep=False)


def _points(call: Call, mode: str, given: _Axis) -> Array:
    """The position in the input of each element of the output."""
    size, length, scale = given.size, given.length, given.scale
    if length > MOST_FOLDED:
        raise call.fault(f"its result would have {length} elements along axis {given.axis}")
    x = np.arange(length, dtype=np.float64)
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and length > 1):
        return (x + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        adjustment = length / (scale * size)
        return size / 2 * (1 - adjustment) + (x + 0.5) / scale - 0.5
    if mode == "align_corners" and length > 1:
        return x * (size - 1) / (length - 1)
    if mode in ("align_corners", "pytorch_half_pixel"):
        return np.zeros(length)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "tf_crop_and_resize":
        start, end = given.region
        if length > 1:
            return np.asarray(start * (size - 1) + x * (end - start) * (size - 1) / (length - 1))
        return np.full(length, 0.5 * (start + end) * (size - 1))
    raise call.fault(f"the coordinate_transformation_mode {mode!r}")


_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    # Only ties differ from rounding to the nearest: they go down or up.
    "round_prefer_floor": lambda x: np.asarray(np.ceil(x - 0.5)),
    "round_prefer_ceil": lambda x: np.asarray(np.floor(x + 0.5)),
    "floor": lambda x: np.asarray(np.floor(x)),
    "ceil": lambda x: np.asarray(np.ceil(x)),
}


def _window(call: Call, given: _Axis, points: Array, mode: str) -> tuple[Array, Array]:
    """[outputs, n]: the places of the inputs that each output uses, and their weights.

    These are the elements that ONNX Runtime reads, also those that happen to have the weight 0.
    """
    if mode not in ("linear", "cubic"):
        raise call.fault(f"the mode {mode!r}")
    kernel, reach = (_linear, 1) if mode == "linear" else (_cubic(call.real("cubic_coeff_a", -0.75)), 2)
    is_outside_left = bool(call.whole("exclude_outside", 0))
    if call.whole("antialias", 0):
        return _wide_window(given, points, kernel, reach, is_outside_left=is_outside_left)
    points = np.clip(points, 0, given.size - 1) if mode == "linear" else points
    places = np.floor(points)[:, None] + np.arange(1 - reach, 1 + reach)
    weights = kernel(points[:, None] - places)
    if is_outside_left:
        weights = _without_outside(places, weights, given.size)
    # Positions outside of the image count as the element at the edge.
    places = np.clip(places, 0, given.size - 1).astype(np.int32)
    if mode == "linear":
        weights[places[:, 0] == places[:, 1]] = 0.5  # of an infinity, too
    return places, weights


def _wide_window(
    given: _Axis, points: Array, kernel: _Kernel, reach: int, *, is_outside_left: bool
) -> tuple[Array, Array]:
    """The same with antialiasing: if the result is smaller, the kernel is as wide as the elements that become one."""
    width, size = max(1.0, 1 / given.scale), given.size
    # One position more on each side, so that rounding of floats cannot cut a kernel off.
    low, high = np.floor(points.min() - reach * width) - 1, np.ceil(points.max() + reach * width) + 1
    places = np.arange(low, high + 1)
    apart = (points[:, None] - places) / width
    weights = kernel(apart)
    weights = _without_outside(places, weights, size) if is_outside_left else weights
    weights = weights / weights.sum(1, keepdims=True)
    near = (np.abs(apart) < reach + 1e-9) & (places >= np.floor(points - reach * width + 1)[:, None])
    used = np.where((places >= 0) & (places < size), near, weights != 0)
    matrix, read = np.zeros((len(points), size)), np.zeros((len(points), size), bool)
    for column, place in enumerate(np.clip(places, 0, size - 1).astype(int)):
        matrix[:, place] += weights[:, column]
        read[:, place] |= used[:, column]
    return windows_of(matrix, read)


def _without_outside(places: Array, weights: Array, size: int) -> Array:
    inside = weights * ((places >= 0) & (places < size))
    return np.asarray(inside / inside.sum(1, keepdims=True))


def _linear(x: Array) -> Array:
    return np.asarray(np.maximum(1 - np.abs(x), 0))


def _cubic(a: float) -> _Kernel:
    """The kernel of cubic convolution (Keys, IEEE Trans. ASSP 29, 1981)."""

    def kernel(x: Array) -> Array:
        x = np.abs(x)
        near = (a + 2) * x**3 - (a + 3) * x**2 + 1
        far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
        return np.asarray(np.where(x <= 1, near, np.where(x < 2, far, 0)))

    return kernel
