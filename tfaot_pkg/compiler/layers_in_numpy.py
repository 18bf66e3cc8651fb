"""What the layers of the kernel library compute, in NumPy: as meanings.py for operations that HLO does not have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.compiler.arithmetic import FUNCTIONS
from tfaot_pkg.compiler.attributes import (
    Along,
    Conv2d,
    Conv2dMaxPool,
    Dense,
    Layer,
    MaxPool,
    Quantize,
    Quantized,
    QuantizedConv2d,
    Resample,
    TopK,
    TransposedConv2d,
    parts_of,
)
from tfaot_pkg.compiler.bfloat16 import floats_of_bits, products, rounded_bits, windows_of
from tfaot_pkg.compiler.meanings import Run, windows
from tfaot_pkg.compiler.program import NUMPY_TYPES, Operation
from tfaot_pkg.ground.arrays import Array

_ACTIVATIONS: Mapping[str, Callable[..., Array]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "leakyRelu": lambda x, slope: np.maximum(x, 0) + slope * np.minimum(x, 0),
    "clipped": np.clip,
    "elu": lambda x: np.maximum(x, 0) + np.expm1(np.minimum(x, 0)),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu_erf": lambda x: x / 2 * (1 + np.asarray(FUNCTIONS["erf"](x / np.sqrt(2)))),
    "gelu_tanh": FUNCTIONS["gelu-tanh"],
    "hard_swish": FUNCTIONS["hard-swish"],
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


def _activated(operation: Operation, sums: Array, biases: Sequence[Array]) -> Array:
    """`sums`, which are float64, with their bias and activation."""
    name, *numbers = re.findall(r"[^(), ]+", Layer.of(operation).activation)
    return _ACTIVATIONS[name](sum(biases, sums), *map(_float, numbers))


def _float(text: str) -> float:
    """The number that an activation's C++ says."""
    return float(text.replace("kNoEnd", "inf")) if "kNoEnd" in text else float.fromhex(text.removesuffix("f"))


def dense(run: Run, operation: Operation, x: Array, weights: Array, *biases: Array) -> Array:
    matrix = weights.T if Dense.of(operation).weights_axis == 1 else weights
    made = _activated(operation, x.reshape(-1, x.shape[-1]).astype(np.float64) @ matrix, biases)
    return made.reshape(run.sizes(operation))


def bfloat16_dense(run: Run, operation: Operation, x: Array, weights: Array, *biases: Array) -> Array:
    sums = products(_as_floats(x).reshape(-1, x.shape[-1]), weights, parts=parts_of(operation))
    return _of_bfloat16(operation, sums, biases).reshape(run.sizes(operation))


def narrow_dense(run: Run, operation: Operation, x: Array, weights: Array, *others: Array) -> Array:
    """Scales come before the bias if weights are steps."""
    scales, biases = (others[0], others[1:]) if weights.dtype == np.int8 else (1, others)
    sums = x.reshape(-1, x.shape[-1]).astype(np.float64) @ weights.astype(np.float64) * scales
    return _activated(operation, sums, biases).reshape(run.sizes(operation))


def _of_bfloat16(operation: Operation, sums: Array, others: Sequence[Array]) -> Array:
    """The bias and what else is added are added in float32."""
    with np.errstate(all="ignore"):
        made: Array = sum((each.reshape(-1, sums.shape[-1]) for each in others), sums).astype(np.float64)
    made = _activated(operation, made, ())
    return made if operation.shape.dtype == "f32" else rounded_bits(made)


def _as_floats(x: Array) -> Array:
    """Of bfloat16 that are stored as such."""
    return x if x.dtype.kind == "f" else floats_of_bits(x)


def requantized(operation: Operation, sums: Array, more: Sequence[Array]) -> Array:
    """Sums of integers, modulo 2^32; with scales bytes of them, and with added bytes and factors the bytes of all."""
    sums = sums.astype(np.int32)
    if not more:
        return sums
    scales, *residual = more
    given, dtype = Quantized.of(operation), NUMPY_TYPES[operation.shape.dtype]
    with np.errstate(over="ignore"):
        made = _as_bytes(sums.astype(np.float32) * scales, (given.zero, given.low, given.high))
    if residual:
        added, (factor, factor_of_added, divisor) = residual
        zero_of_added, *ends = given.residual
        pairs = ((made, given.zero, factor), (added.reshape(made.shape), zero_of_added, factor_of_added))
        first, second = (((each - np.float64(zero)).astype(np.float32) * by) for each, zero, by in pairs)
        with np.errstate(all="ignore"):
            made = _as_bytes((first + second) / divisor, ends)
    return np.asarray(made.astype(dtype))


def _as_bytes(values: Array, ends: Sequence[int]) -> NDArray[np.float64]:
    """Whole numbers plus a zero point, between two bounds."""
    zero, low, high = ends
    return np.asarray((np.rint(values).astype(np.float64) + zero).clip(low, high))


def quantize(_run: Run, operation: Operation, x: Array) -> Array:
    given = Quantize.of(operation)
    made = _as_bytes(x / np.float32(given.scale), (given.zero, given.low, given.high))
    return np.where(np.isnan(x), given.low, made).astype(NUMPY_TYPES[operation.shape.dtype])


def look_up(_run: Run, _operation: Operation, x: Array, table: Array) -> Array:
    return np.asarray(table[x.view(np.uint8)])


def quantized_dense(run: Run, operation: Operation, x: Array, weights: Array, bias: Array, *more: Array) -> Array:
    sums = _whole(x.reshape(-1, x.shape[-1]).astype(np.float64) @ weights.astype(np.float64)) + bias
    return requantized(operation, sums, more).reshape(run.sizes(operation))


def _whole(sums: Array) -> NDArray[np.int64]:
    """Sums of products of bytes: float64 has all of them exactly, and its products are much faster than int64's."""
    return sums.astype(np.int64)


def _convolved(image: Array, filters: Array, sides: Sequence[Sequence[int]], groups: int) -> Array:
    """NHWC by HWIO."""
    whole = (1, 1, 0, 0, 1, 1)
    seen = windows(image.astype(np.float64), [whole, *sides, whole], 0)[:, :, :, :, 0, :, :, 0]  # NHWC, then the window
    parts = zip(np.split(seen, groups, 3), np.split(filters, groups, 3), strict=True)
    return np.concatenate([_products(x, weights) for x, weights in parts], 3)


def _products(seen: Array, filters: Array) -> Array:
    """Windows, NHWC and then the window, times HWIO."""
    return np.tensordot(seen, filters.astype(np.float64), ((4, 5, 3), (0, 1, 2)))


def _sides(window: Sequence[int]) -> list[tuple[int, ...]]:
    """The sides of a Window (kernels.h), whose padding behind follows from the sizes of the images."""
    height, width, _, rows, columns, *rest = window
    sides: list[tuple[int, ...]] = []
    for axis, (given, made) in enumerate(((height, rows), (width, columns))):
        size, stride, dilation, low = (rest[2 * place + axis] for place in range(4))
        high = (made - 1) * stride + (size - 1) * dilation + 1 - given - low
        sides.append((size, stride, low, high, dilation, 1))
    return sides


def conv2d(run: Run, operation: Operation, image: Array, filters: Array, *biases: Array) -> Array:
    attributes = Conv2d.of(operation)
    sides = _sides(run.at.numbers(attributes.window))
    return _activated(operation, _convolved(image, filters, sides, attributes.groups), biases)


def bfloat16_conv2d(run: Run, operation: Operation, image: Array, filters: Array, *biases: Array) -> Array:
    whole = (1, 1, 0, 0, 1, 1)
    window = run.at.numbers(Conv2d.of(operation).window)
    sides = [whole, *_sides(window), whole]
    seen = windows(_as_floats(image), sides, 0)[:, :, :, :, 0, :, :, 0]  # NHWC, then the window
    read = windows_of(window)
    matrix = read.filled(filters, 2).reshape(-1, filters.shape[3])
    rows = read.filled(seen.transpose(0, 1, 2, 4, 5, 3), 5).reshape(-1, len(matrix))
    sums = products(rows, matrix, read.block, parts_of(operation))
    return _of_bfloat16(operation, sums, biases).reshape(run.sizes(operation))


def quantized_conv2d(run: Run, operation: Operation, image: Array, filters: Array, bias: Array, *more: Array) -> Array:
    attributes = QuantizedConv2d.of(operation)
    whole = (1, 1, 0, 0, 1, 1)
    sides = [whole, *_sides(run.at.numbers(attributes.window)), whole]
    seen = windows(image.astype(np.float64), sides, attributes.padding)[:, :, :, :, 0, :, :, 0]
    parts = zip(np.split(seen, attributes.groups, 3), np.split(filters, attributes.groups, 3), strict=True)
    return requantized(operation, _whole(np.concatenate([_products(*each) for each in parts], 3)) + bias, more)


def transposed_conv2d(run: Run, operation: Operation, image: Array, filters: Array, *biases: Array) -> Array:
    attributes = TransposedConv2d.of(operation)
    return _activated(operation, _convolved(image, filters, run.at.table(attributes.sides), attributes.groups), biases)


def _pooled(image: Array, window: Sequence[int], *, keeps_nan: bool) -> Array:
    whole = (1, 1, 0, 0, 1, 1)
    least = -np.inf if image.dtype.kind == "f" else np.iinfo(image.dtype).min
    if image.dtype.kind == "f" and not keeps_nan:
        image = np.where(np.isnan(image), least, image)
    return np.asarray(windows(image, [whole, *_sides(window), whole], least).max((4, 5, 6, 7)))


def max_pool(_run: Run, operation: Operation, image: Array) -> Array:
    given = MaxPool.of(operation)
    return _pooled(image, given.window, keeps_nan=given.keeps_nan)


def conv2d_max_pool(run: Run, operation: Operation, image: Array, filters: Array, *biases: Array) -> Array:
    given = Conv2dMaxPool.of(operation)
    return _pooled(conv2d(run, operation, image, filters, *biases), given.pool, keeps_nan=given.keeps_nan)


def softmax(_run: Run, operation: Operation, x: Array) -> Array:
    axis = Along.of(operation).axis
    made = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True, initial=-np.inf))
    return np.asarray(made / made.sum(axis, keepdims=True))


def top_k(run: Run, operation: Operation, x: Array) -> tuple[Array, Array]:
    """In the total order of floats; among equal ones, the lower index comes first."""
    attributes = TopK.of(operation)
    bits = np.where((x == 0) & (attributes.zeros == "equal"), np.float32(0), x).view(np.int32).astype(np.int64)
    order = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    places = np.argsort(-order if attributes.largest else order, -1, kind="stable")[..., : run.at.number(attributes.k)]
    return np.take_along_axis(x, places, -1), places.astype(np.int32)


def interpolate(_run: Run, operation: Operation, x: Array, weights: Array, places: Array) -> Array:
    axis = Along.of(operation).axis
    taken = np.moveaxis(x, axis, -1)[..., places].astype(np.float64)
    return np.moveaxis((taken * weights).sum(-1), -1, axis)


def resample(_run: Run, operation: Operation, image: Array, weights: Array, places: Array) -> Array:
    factors = weights.transpose(Resample.of(operation).axes).astype(np.float64)  # rows, columns, and the window's
    width, channels = image.shape[2:]
    starts = places // channels
    rows, columns = starts // width, starts % width
    made = np.zeros((len(image), *places.shape, channels))
    for down, right in np.ndindex(*factors.shape[2:]):
        made += image[:, rows + down, columns + right] * factors[:, :, down, right, None]
    return made
