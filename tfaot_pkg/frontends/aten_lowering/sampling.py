"""Resizing of images, and reading them at points between their elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tfaot_pkg.compiler.program import Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.table import Call, Results, operator, sizes_value
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Undecided, Value, known, number_of
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import stretched
from tfaot_pkg.frontends.onnx_lowering.sampling import at_points, inside_or_zero

_MODES = {"nearest": "nearest", "linear": "linear", "bicubic": "cubic", "bilinear": "linear", "trilinear": "linear"}
_SAMPLING = ("linear", "nearest", "cubic")
_PADDING = ("zeros", "border", "reflection")


@operator(
    "upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec", "upsample_linear1d.vec",
    "upsample_bilinear2d.vec", "upsample_trilinear3d.vec", "upsample_bicubic2d.vec", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d",
    "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bilinear2d_aa.vec", "_upsample_bicubic2d_aa",
    "_upsample_bicubic2d_aa.vec",
)  # fmt: skip
def _upsample(call: Call) -> Results:
    is_vector = call.op.endswith(".vec")
    x = call.value("input" if is_vector else "self")
    name = call.op.split(".")[1].removeprefix("_").removeprefix("upsample_")
    mode, aligned = _MODES[name.removesuffix("_aa")[:-2]], call.flag("align_corners")
    place = "asymmetric" if mode == "nearest" else "align_corners" if aligned else "half_pixel"
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": place, "nearest_mode": "floor"}
    if name.endswith("_aa"):
        if aligned:
            raise Unsupported("antialias with align_corners, where PyTorch's places are not those of the corners")
        # As in Pillow: kernels are cut at the edges, and that of cubics is another one.
        attributes |= {"antialias": 1, "exclude_outside": 1, "cubic_coeff_a": -0.5}
    scales = _scales(call, x.rank - 2)
    if mode == "nearest" and any(number_of(size) is None for size in x.sizes[2:]):
        return _repeated(call, x, scales)
    if scales:
        if not aligned:
            # The factors themselves are the scales of places, also where they give no whole number of elements.
            return call.onnx_one("Resize", x, None, known([1, 1, *scales], "f32"), None, **attributes)
        spatial = [call.number(size, "the size of its image") for size in x.sizes[2:]]
        wanted = [Size(int(size * scale)) for size, scale in zip(spatial, scales, strict=True)]
    else:
        wanted = call.sizes("output_size")
    return call.onnx_one("Resize", x, None, None, sizes_value([*x.sizes[:2], *wanted]), **attributes)


def _repeated(call: Call, x: Value, scales: list[float]) -> Value:
    """`x`, of sizes that vary, with each element as many times along an axis as the result is larger."""
    b, space = call.builder, x.sizes[2:]
    try:
        sizes = [] if scales else call.sizes("output_size")
        ratios = [*scales, *(number_of(b.ranges.divide(*each)) for each in zip(sizes, space, strict=bool(sizes)))]
    except Undecided:
        raise Unsupported("it changes a size that varies, not by a whole number: give that axis a number") from None
    for axis, count in enumerate(ratios, 2):
        if count is None or not _is_by_quotients(count):
            raise Unsupported("it changes a size that varies, not by a whole number: give that axis a number")
        wide = stretched(b, x, [axis + 1])
        wide = b.spread(wide, [*x.sizes[: axis + 1], Size(int(count)), *x.sizes[axis + 1 :]])
        x = b.reshape(wide, [*x.sizes[:axis], x.sizes[axis] * Size(int(count)), *x.sizes[axis + 1 :]])
    return x


def _is_by_quotients(count: float) -> bool:
    """Whether `count` is whole, and PyTorch reads the places i // `count`: it cuts products in float32."""
    if count < 1 or count != int(count):
        return False
    places = np.arange(1 << 16)
    return np.array_equal(np.floor(places.astype(np.float32) * np.float32(1 / count)), places // count)


def _scales(call: Call, axes: int) -> list[float]:
    """One for each axis of space; none if the sizes of the result decide."""
    given = call.get("scale_factors")
    if not isinstance(given, tuple):
        given = tuple(call.get(name) for name in ("scales", "scales_d", "scales_h", "scales_w") if call.has(name))
    scales = [float(each) for each in given if isinstance(each, int | float)]
    return scales if len(scales) == axes else []


@operator("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _grid_sampler(call: Call) -> Results:
    mode, padding = call.whole("interpolation_mode", 0), call.whole("padding_mode", 0)
    if not (0 <= mode < 3 and 0 <= padding < 3):
        raise Unsupported(f"the mode {mode} with padding {padding}")
    x, name = call.value("input"), _SAMPLING[mode]
    kernel = _Kernel(
        builder=call.builder, padding=_PADDING[padding], aligned=call.flag("align_corners"), is_volume=x.rank == 5
    )
    point, index = kernel.point, inside_or_zero(call.builder)
    if kernel.padding != "zeros":
        # Cubic kernels pad each element that they read, others the point.
        point, index = (kernel.point, kernel.padded_index) if name == "cubic" else (kernel.padded_point, index)
    space = [call.number(size, "the sizes of its image") for size in x.sizes[2:]]
    return at_points(
        call.builder, x, space, call.value("grid"), point, name, index, is_masked_last=kernel.is_volume
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """How PyTorch's kernels for the CPU find places: GridSamplerKernel.cpp for images, GridSampler.cpp for volumes."""

    builder: Builder
    padding: str
    aligned: bool
    is_volume: bool

    def point(self, place: Value, size: int) -> Value:
        """The place along an axis, of a coordinate from -1 to 1."""
        a = Arithmetic(self.builder, place)
        moved = a.add(place, 1)
        if self.is_volume:
            return a.mul(a.div(moved, 2), size - 1) if self.aligned else a.div(a.sub(a.mul(moved, size), 1), 2)
        return a.mul(moved, (size - 1) / 2) if self.aligned else a.sub(a.mul(moved, size / 2), 0.5)

    def padded_point(self, place: Value, size: int) -> Value:
        return self._padded(self.point(place, size), size)

    def padded_index(self, place: Value, size: int) -> tuple[Value, None]:
        return self.builder.convert(self._padded(place, size), "s32"), None

    def _padded(self, place: Value, size: int) -> Value:
        """A place within the image; what is none, the first of an image, and the last of a volume."""
        a = Arithmetic(self.builder, place)
        if self.padding == "reflection":
            place = self._reflected(a, place, size)
        if self.is_volume:
            place = a.where(a.compare("LT", place, 0), 0, place)
            return a.where(a.compare("LT", place, size - 1), place, size - 1)
        return a.min(a.where(a.compare("GE", place, 0), place, 0), size - 1)

    def _reflected(self, a: Arithmetic, place: Value, size: int) -> Value:
        """Reflected at the centers of the elements at the edges if corners are aligned, else at their outer edges."""
        low, span = (0.0, size - 1) if self.aligned else (-0.5, size)
        if span == 0:
            return self.builder.spread(a.value(0), place.sizes)
        distance = a.unary("abs", a.sub(place, low))
        if not self.is_volume:
            rest = a.sub(distance, a.mul(a.unary("floor", a.div(distance, 2 * span)), 2 * span))
            return a.add(a.min(rest, a.sub(2 * span, rest)), low)
        rest = self.builder.map("remainder", distance, a.value(span))
        flips = a.unary("floor", a.div(distance, span))
        is_odd = a.compare("EQ", a.sub(flips, a.mul(a.unary("floor", a.mul(flips, 0.5)), 2)), 1)
        return a.add(a.where(is_odd, a.sub(span, rest), rest), low)
