"""The rules of type_rules.py for operations that HLO does not have: those of the kernel library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, prod

import numpy as np

from tfaot_pkg.compiler.attributes import (
    Along,
    Conv2d,
    Conv2dMaxPool,
    Dense,
    MaxPool,
    Quantize,
    Quantized,
    QuantizedConv2d,
    Resample,
    TopK,
    TransposedConv2d,
    adds,
    parts_of,
)
from tfaot_pkg.compiler.bfloat16 import PRODUCTS, STORED
from tfaot_pkg.compiler.program import NUMPY_TYPES
from tfaot_pkg.compiler.type_rules import ArrayType, Types, Use, different, require, windows

BYTES = frozenset({"u8", "s8"})


def top_k(use: Use) -> Types:
    (x,), k = use.arrays, use.sizes.number(TopK.of(use).k)
    require(x.dtype == "f32" and x.rank > 0 and 0 <= k <= x.sizes[-1], f"{k} of {x}")
    sizes = (*x.sizes[:-1], k)
    return ArrayType(x.dtype, sizes), ArrayType("s32", sizes)


def trees(use: Use) -> Types:
    (x,), made = use.arrays, use.result
    require(x.rank == 2 and made.rank > 0 and made.sizes[0] == x.sizes[0], "rows of features are needed")
    return (made,)


def _require_bias(use: Use, channels: int, *, behind: int = 0) -> None:
    """There is one bias at most, before `behind` other operands."""
    biases = use.arrays[2 : len(use.arrays) - behind]
    require(all(each == ArrayType("f32", (channels,)) for each in biases), "the bias has another type")


def dense(use: Use) -> Types:
    """The axes before the last one may be others than the input's: a reshape of rows is part of the layer."""
    x, weights, made = *use.arrays[:2], use.result
    require(x.dtype == weights.dtype == made.dtype == "f32" and weights.rank == 2 and x.rank > 0, "operands differ")
    axis = Dense.of(use).weights_axis
    require(axis in (0, 1), "no such axis of the weights")
    inputs, outputs = weights.sizes[axis], weights.sizes[1 - axis]
    require(x.sizes[-1] == inputs, "the weights are for another number of inputs")
    require(made.rank > 0 and made.sizes[-1] == outputs, "the weights are for another number of outputs")
    require(prod(made.sizes[:-1]) == prod(x.sizes[:-1]), "it has other rows than its input")
    _require_bias(use, outputs)
    return (made,)


def bfloat16_dense(use: Use) -> Types:
    x, weights, made = *use.arrays[:2], use.result
    require(weights.dtype == "f32" and weights.rank == 2 and x.rank > 0, "operands differ")
    _require_rows(x, weights, made)
    _require_bias(use, weights.sizes[1], behind=adds(use))
    _require_parts(use)
    return (made,)


def _require_parts(use: Use) -> None:
    """Numbers of one part may be stored as bfloat16, but not those that are added."""
    *_, last = use.arrays
    others = len(use.arrays) - adds(use)
    require(others in (2, 3) and (not adds(use) or last == ArrayType("f32", use.result.sizes)), "it adds another array")
    require(parts_of(use) in PRODUCTS, "numbers have no such parts")
    allowed = ("f32", STORED) if parts_of(use) == 1 else ("f32",)
    require(use.arrays[0].dtype in allowed and use.result.dtype in allowed, "operands differ")


def narrow_dense(use: Use) -> Types:
    """Weights of float32 are numbers of bfloat16; those of int8 have scales."""
    x, weights, *others = use.arrays
    require(x.dtype == use.result.dtype == "f32" and weights.dtype in ("f32", "s8"), "operands differ")
    require(weights.rank == 2 and x.rank > 0, "operands differ")
    _require_rows(x, weights, use.result)
    # Scales and a bias have the same type.
    count = len(others) - (weights.dtype == "s8")
    require(0 <= count <= 1, "there is another number of operands")
    require(all(each == ArrayType("f32", (weights.sizes[1],)) for each in others), "the bias has another type")
    return (use.result,)


def _require_rows(x: ArrayType, weights: ArrayType, made: ArrayType) -> None:
    inputs, outputs = weights.sizes
    require(x.sizes[-1] == inputs, "the weights are for another number of inputs")
    require(made.rank > 0 and made.sizes[-1] == outputs, "the weights are for another number of outputs")
    require(prod(made.sizes[:-1]) == prod(x.sizes[:-1]), "it has other rows than its input")


def quantized_dense(use: Use) -> Types:
    x, weights, made = *use.arrays[:2], use.result
    require(weights.rank == 2 and x.rank > 0, "operands differ")
    _require_rows(x, weights, made)
    _require_quantized(use)
    return (made,)


def _require_quantized(use: Use) -> None:
    """A layer of bytes by int8, whose result are sums without scales, and bytes with them."""
    x, weights, bias, *more = use.arrays
    made, given, outputs = use.result, Quantized.of(use), weights.sizes[-1]
    require(x.dtype in BYTES and weights.dtype == "s8", "operands differ")
    require(bias == ArrayType("s32", (outputs,)), "the bias has another type")
    require(all(each == ArrayType("f32", (outputs,)) for each in more[:1]), "the scales have another type")
    require(made.dtype in (BYTES if more else {"s32"}), "its result has another type")
    require(len(more) in ((3,) if given.residual else (0, 1)), "it adds bytes without their numbers")
    if more:
        _require_range(made.dtype, given.zero, given.low, given.high)
    if given.residual:
        added, factors = more[1:]
        require(added.dtype in BYTES and added.sizes == made.sizes, "it adds bytes of another shape")
        require(factors == ArrayType("f32", (3,)) and len(given.residual) == 4, "it adds bytes without their numbers")
        _require_range(added.dtype, given.residual[0], *_range_of(added.dtype))
        _require_range(made.dtype, *given.residual[1:])


def quantize(use: Use) -> Types:
    (x,), made, given = use.arrays, use.result, Quantize.of(use)
    require(x.dtype == "f32" and made.dtype in BYTES and 0 < given.scale < inf, "it makes bytes of float32")
    _require_range(made.dtype, given.zero, given.low, given.high)
    return (ArrayType(made.dtype, x.sizes),)


def look_up(use: Use) -> Types:
    x, table = use.arrays
    require(x.dtype in BYTES and table.dtype in BYTES and table.sizes == (256,), "it looks up bytes by bytes")
    return (ArrayType(table.dtype, x.sizes),)


def _range_of(dtype: str) -> tuple[int, int]:
    ends = np.iinfo(NUMPY_TYPES[dtype])
    return int(ends.min), int(ends.max)


def _require_range(dtype: str, zero: int, low: int, high: int) -> None:
    least, most = _range_of(dtype)
    require(
        all(least <= each <= most for each in (zero, low, high)) and low <= high, "its range is not that of its type"
    )


def quantized_conv2d(use: Use) -> Types:
    image, filters, given = *use.arrays[:2], QuantizedConv2d.of(use)
    window = use.sizes.numbers(given.window)
    require(filters.rank == image.rank == 4 and len(window) == 13, "no filters")
    require(list(window[5:7]) == list(filters.sizes[:2]), "the window is not the filters'")
    *_, inputs, outputs = filters.sizes
    is_of_groups = given.groups > 0 and outputs % given.groups == 0
    require(is_of_groups and image.sizes[3] == inputs * given.groups, "channels do not fit")
    _require_quantized(use)
    ends = np.iinfo(NUMPY_TYPES[image.dtype])
    require(ends.min <= given.padding <= ends.max, "its padding is no byte of its input")
    return (replace(_window_result(image, window, filters.sizes[3]), dtype=use.result.dtype),)


def _window_result(image: ArrayType, window: Sequence[int], channels: int) -> ArrayType:
    """The image of the kernel library's Window over `image` (kernels.h)."""
    require(image.rank == 4 and len(window) == 13, "it is no window over an image")
    height, width, depth, rows, columns, *sides = window
    require(image.sizes[1:] == (height, width, depth), "the window is that of another image")
    require(all(side > 0 for side in sides[:6]) and all(side >= 0 for side in sides[6:]), "a window of no size")
    return ArrayType(image.dtype, (image.sizes[0], rows, columns, channels))


def conv2d(use: Use) -> Types:
    require(use.arrays[0].dtype == "f32", "no filters")
    return _conv2d(use)


def _conv2d(use: Use, *, behind: int = 0) -> Types:
    image, filters = use.arrays[:2]
    window, groups = use.sizes.numbers(Conv2d.of(use).window), Conv2d.of(use).groups
    require(filters.dtype == "f32" and filters.rank == 4 and len(window) == 13, "no filters")
    *taps, inputs, outputs = filters.sizes
    require(list(window[5:7]) == taps and groups > 0, "the window is not the filters'")
    require(image.rank == 4 and image.sizes[3] == inputs * groups and outputs % groups == 0, "channels do not fit")
    _require_bias(use, outputs, behind=behind)
    return (_window_result(image, window, outputs),)


def bfloat16_conv2d(use: Use) -> Types:
    require(Conv2d.of(use).groups == 1, "it has groups")
    _require_parts(use)
    (made,) = _conv2d(use, behind=adds(use))
    return (replace(made, dtype=use.result.dtype),)


def max_pool(use: Use) -> Types:
    (image,) = use.arrays
    require(image.dtype in ("f32", *BYTES) and image.rank == 4, "it is no image")
    return (_window_result(image, MaxPool.of(use).window, image.sizes[3]),)


def conv2d_max_pool(use: Use) -> Types:
    (image,) = conv2d(use)
    return (_window_result(image, Conv2dMaxPool.of(use).pool, image.sizes[3]),)


def transposed_conv2d(use: Use) -> Types:
    image, filters = use.arrays[:2]
    given = TransposedConv2d.of(use)
    require(filters.dtype == "f32" and filters.rank == image.rank == 4, "no filters")
    *taps, inputs, outputs = filters.sizes
    sides = use.sizes.table(given.sides)
    is_of_groups = given.groups > 0 and outputs % given.groups == 0
    require(is_of_groups and image.sizes[3] == inputs * given.groups, "channels do not fit")
    require([side[0] for side in sides] == taps, "the window is not the filters'")
    _require_bias(use, outputs)
    return (ArrayType("f32", (image.sizes[0], *windows(image.sizes[1:3], sides), outputs)),)


def resample(use: Use) -> Types:
    image, weights, places = use.arrays
    require(image.dtype == weights.dtype == "f32" and image.rank == weights.rank == 4, "operands differ")
    axes = different(Resample.of(use).axes, 4)
    require(len(axes) == 4 and places.dtype == "s32", "it does not name each axis of the weights")
    made = tuple(weights.sizes[axis] for axis in axes[:2])
    require(places.sizes == made, "places are those of another image")
    return (ArrayType("f32", (image.sizes[0], *made, image.sizes[3])),)


def interpolate(use: Use) -> Types:
    x, weights, places = use.arrays
    axis = Along.of(use).axis
    require(x.dtype == weights.dtype == "f32" and weights.rank == 2 and 0 <= axis < x.rank, "operands differ")
    require(places == ArrayType("s32", weights.sizes), "each weight needs a place")
    return (ArrayType("f32", (*x.sizes[:axis], weights.sizes[0], *x.sizes[axis + 1 :])),)


def softmax(use: Use) -> Types:
    (x,) = use.arrays
    axis = Along.of(use).axis
    require(x.dtype == "f32" and 0 <= axis < x.rank, "no such axis")
    return (x,)
