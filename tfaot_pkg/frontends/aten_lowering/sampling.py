"""Resizing of images, and reading them at points between their elements."""

from __future__ import annotations

from typing import Any

from tfaot_pkg.compiler.program import Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.table import Call, Results, operator, sizes_value
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic

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
    if scales:
        if not aligned:
            # The factors themselves are the scales of places, also where they give no whole number of elements.
            return call.onnx_one("Resize", x, None, known([1, 1, *scales], "f32"), None, **attributes)
        spatial = [call.number(size, "the size of its image") for size in x.sizes[2:]]
        wanted = [Size(int(size * scale)) for size, scale in zip(spatial, scales, strict=True)]
    else:
        wanted = call.sizes("output_size")
    return call.onnx_one("Resize", x, None, None, sizes_value([*x.sizes[:2], *wanted]), **attributes)


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
    grid = call.value("grid")
    if _SAMPLING[mode] != "cubic" and _PADDING[padding] != "zeros":
        grid = _with_places(call, grid, is_reflected=_PADDING[padding] == "reflection")
    return call.onnx_one(
        "GridSample", call.value("input"), grid, mode=_SAMPLING[mode], padding_mode=_PADDING[padding],
        align_corners=int(call.flag("align_corners")),
    )  # fmt: skip


def _with_places(call: Call, grid: Value, *, is_reflected: bool) -> Value:
    """A grid whose NaN, and infinities that would be reflected, are the edge that they are in PyTorch 2.13's kernels.

    Of images that is the first element, of volumes the last one.
    """
    b, a = call.builder, Arithmetic(call.builder, grid)
    is_place = b.op("is-finite", grid) if is_reflected else a.compare("EQ", grid, grid)
    return a.where(is_place, grid, -1 if grid.rank == 4 else 1)
