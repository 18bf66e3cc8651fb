"""Operators that the reference implementation of the ONNX package has wrong (1.23), lacks for older opsets, or computes
so slowly, element by element, that a network of images or texts could not be run in a minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from framework_types import Array


def operators(opset: int) -> list[type]:
    """The classes of all of them for files of `opset`, by the package's own interface."""
    from onnx.reference.op_run import OpRun

    class GlobalMaxPool(OpRun):  # type: ignore[misc]  # its class has no types in tools/stubs
        op_domain = ""

        def _run(self, x: Array) -> tuple[Array]:
            return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)

    class BatchNormalization(OpRun):  # type: ignore[misc]
        """The package updates the statistics of files that have a momentum, as in training."""

        op_domain = ""

        def _run(
            self, x: Array, scale: Array, shift: Array, mean: Array, variance: Array, epsilon: float = 1e-5, **_: Any
        ) -> tuple[Array]:
            by_channel = (-1, *[1] * (x.ndim - 2))
            factor = (scale / np.sqrt(variance + np.asarray(epsilon, x.dtype))).reshape(by_channel)
            return (((x - mean.reshape(by_channel)) * factor + shift.reshape(by_channel)).astype(x.dtype),)

    class DequantizeLinear(OpRun):  # type: ignore[misc]  # its class has no types in tools/stubs
        op_domain = ""

        def _run(self, x: Array, scale: Array, zero: Array | None = None, axis: int = 1, **_: Any) -> tuple[Array]:
            sizes = [-1 if place == axis % max(x.ndim, 1) else 1 for place in range(x.ndim)]
            scale = scale.reshape(sizes) if scale.ndim else scale
            zero = zero if zero is None or zero.ndim == 0 else zero.reshape(sizes)
            whole = x.astype(scale.dtype) if zero is None else x.astype(scale.dtype) - zero.astype(scale.dtype)
            return ((whole * scale).astype(scale.dtype),)

    older = [(14, BatchNormalization), (19, DequantizeLinear)]
    return [GlobalMaxPool, *_of_windows(), *_normalizing(), *[each for first, each in older if opset < first]]


def _normalizing() -> list[type]:
    """Normalizations that compute in the type of their operand, whatever `stash_type` is: the package knows float32."""
    from onnx.reference.ops.op_layer_normalization import LayerNormalization
    from onnx.reference.ops.op_rms_normalization import RMSNormalization

    def of_operand(of_package: Any) -> type:
        class Normalization(of_package):  # type: ignore[misc]  # classes of the package have no types in tools/stubs
            op_domain = ""

            def _run(self, *given: Array | None, stash_type: int = 1, **more: Any) -> tuple[Array, ...]:
                found: tuple[Array, ...] = super()._run(*given, stash_type=1, **more)
                return found

        Normalization.__name__ = of_package.__name__  # the operator's
        return Normalization

    return [of_operand(LayerNormalization), of_operand(RMSNormalization)]


def _of_windows() -> list[type]:
    from onnx.reference.op_run import OpRun
    from onnx.reference.ops.op_average_pool import AveragePool_19
    from onnx.reference.ops.op_max_pool import MaxPool as MaxPoolOfPackage

    class Conv(OpRun):  # type: ignore[misc]  # its class has no types in tools/stubs
        op_domain = ""

        def _run(
            self, x: Array, w: Array, b: Array | None = None, group: int = 1, kernel_shape: Any = None, **place: Any
        ) -> tuple[Array]:
            found = windows(x, w.shape[2:], 0.0, **place)
            # One image at a time: its windows are as many numbers as it has, times the size of the kernel.
            made = np.stack([_products(each, w, group) for each in found])
            return (made if b is None else made + b.reshape(-1, *[1] * (w.ndim - 2)),)

    class MaxPool(MaxPoolOfPackage):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Array, kernel_shape: Any = None, **place: Any) -> tuple[Array, ...]:
            if place.get("ceil_mode") or len(self.onnx_node.output) > 1 or x.dtype.kind != "f":
                found: tuple[Array, ...] = super()._run(x, kernel_shape=kernel_shape, **place)
                return found
            place.pop("storage_order", None)
            return (windows(x, kernel_shape, -np.inf, **place).max(axis=tuple(range(-len(kernel_shape), 0))),)

    class AveragePool(AveragePool_19):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Array, kernel_shape: Any = None, **place: Any) -> tuple[Array]:
            if place.get("ceil_mode"):
                found: tuple[Array] = super()._run(x, kernel_shape=kernel_shape, **place)
                return found
            counts_all, axes = place.pop("count_include_pad", 0), tuple(range(-len(kernel_shape), 0))
            total = windows(x, kernel_shape, 0.0, **place).sum(axis=axes)
            ones = np.ones((1, 1, *x.shape[2:]), x.dtype)
            count = windows(ones, kernel_shape, 1.0 if counts_all else 0.0, **place).sum(axis=axes)
            return ((total / count).astype(x.dtype),)

    return [Conv, MaxPool, AveragePool]


def windows(
    x: Array,
    kernel: Sequence[int],
    fill: float,
    *,
    auto_pad: str | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    **_: Any,
) -> Array:
    """The windows of [rows, channels, *sizes], with `fill` around it: [rows, channels, *places, *kernel], a view."""
    rank = len(kernel)
    steps, gaps = list(strides or [1] * rank), list(dilations or [1] * rank)
    spans = [(size - 1) * gap + 1 for size, gap in zip(kernel, gaps, strict=True)]
    around = [(0, 0), (0, 0), *_around(x.shape[2:], spans, steps, auto_pad or "NOTSET", pads or [0] * 2 * rank)]
    padded = np.pad(x, around, constant_values=fill)
    whole = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=tuple(range(2, 2 + rank)))
    places = tuple(slice(None, None, step) for step in steps)
    within = tuple(slice(None, None, gap) for gap in gaps)
    found: Array = whole[(slice(None), slice(None), *places, *within)]
    return found


def _around(
    sizes: Sequence[int], spans: Sequence[int], steps: Sequence[int], auto_pad: str, pads: Sequence[int]
) -> list[tuple[int, int]]:
    """How many elements stand before and behind each axis."""
    rank = len(sizes)
    if auto_pad == "VALID":
        return [(0, 0)] * rank
    if auto_pad == "NOTSET":
        return [(pads[axis], pads[axis + rank]) for axis in range(rank)]
    missing = [
        max(0, ((size + step - 1) // step - 1) * step + span - size)
        for size, span, step in zip(sizes, spans, steps, strict=True)
    ]
    lower = auto_pad == "SAME_LOWER"
    return [((each + lower) // 2, each - (each + lower) // 2) for each in missing]


def _products(image: Array, w: Array, group: int) -> Array:
    """[filters, *places] of the windows [channels, *places, *kernel] of one image."""
    rank = w.ndim - 2
    places = image.shape[1 : 1 + rank]
    by_tap = np.moveaxis(image, range(1, 1 + rank), range(-rank, 0))
    columns = by_tap.reshape(group, w[0].size, -1)
    made: Array = (w.reshape(group, -1, w[0].size) @ columns).reshape(-1, *places)
    return made
