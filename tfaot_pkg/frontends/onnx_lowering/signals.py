"""Fourier transforms as products with constant matrices, because libraries contain no FFT."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfaot_pkg.compiler.program import ZERO, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.indexing import take
from tfaot_pkg.frontends.onnx_lowering.moving import cut, element, join, stretched
from tfaot_pkg.frontends.onnx_lowering.products import matmul
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator
from tfaot_pkg.ground.arrays import Array

_LONGEST = 4096
"""Elements of a transform: its matrices then take 128 MiB."""


@operator("DFT")
def _dft(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    if call.version < 20:
        named = call.whole("axis", 1)
    else:
        named = -2 if call.maybe(2) is None else call.integers(2, "the axis")[0]
    axis = call.axis(named, x.rank)
    size = call.number(x.sizes[axis], "the size of the axis that it transforms")
    inverse, half = bool(call.whole("inverse", 0)), bool(call.whole("onesided", 0))
    whole = 2 * (size - 1) if inverse and half else size
    points = whole if call.maybe(1) is None else call.integers(1, "the length of the transform")[0]
    if not 0 < points <= _LONGEST:
        raise call.fault(f"a transform of {points} elements")
    order = [each for each in range(x.rank - 1) if each != axis] + [axis]
    # Elements beyond the length are cut off; missing ones count as zeros.
    kept = min(points // 2 + 1 if inverse and half else points, size)
    parts = []
    for place in range(call.number(x.sizes[-1], "the number of its parts")):
        part = b.transpose(element(b, x, x.rank - 1, place), order)
        parts.append(cut(b, part, part.rank - 1, ZERO, Size(kept)))
    if inverse and half:
        made = [_real_inverse(b, parts, points)]
    else:
        made = _transform(b, parts, points, points // 2 + 1 if half else points, inverse=inverse)
    back = [order.index(each) for each in range(x.rank - 1)]
    return join(b, [stretched(b, b.transpose(each, back), [x.rank - 1]) for each in made], x.rank - 1)


def _angles(rows: int, columns: int, points: int) -> Array:
    # Reduced to one revolution in integers: sines of large angles would lose digits.
    return np.asarray(2 * np.pi * ((np.arange(rows)[:, None] * np.arange(columns)[None, :]) % points) / points)


def _product(b: Builder, x: Value, matrix: Array) -> Value:
    return matmul(b, x, known(np.ascontiguousarray(matrix), x.dtype))


def _transform(
    b: Builder, parts: Sequence[Value], points: int, outputs: int, *, inverse: bool, window: Array | None = None
) -> list[Value]:
    """Real and imaginary part of the transform along the last axis; one part if `parts` are real numbers."""
    angles = _angles(parts[0].sizes[-1].constant, outputs, points)
    factor = np.reshape(1.0 if window is None else window, (-1, 1)) / (points if inverse else 1)
    cosines, sines = np.cos(angles) * factor, np.sin(angles) * (factor if inverse else -factor)
    real, imaginary = _product(b, parts[0], cosines), _product(b, parts[0], sines)
    if len(parts) == 2:
        real = b.op("subtract", real, _product(b, parts[1], sines))
        imaginary = b.op("add", imaginary, _product(b, parts[1], cosines))
    return [real, imaginary]


def _real_inverse(b: Builder, parts: Sequence[Value], points: int) -> Value:
    """The real numbers whose transform begins with `parts`."""
    count = parts[0].sizes[-1].constant
    angles = _angles(count, points, points)
    weight = np.full((count, 1), 2.0)
    weight[0] = 1
    if points % 2 == 0 and count == points // 2 + 1:
        # Half of a real signal's spectrum: all parts count twice, except the first, and the last of an even length.
        weight[-1] = 1
    made = _product(b, parts[0], np.cos(angles) * weight / points)
    if len(parts) == 1:
        return made
    return b.op("subtract", made, _product(b, parts[1], np.sin(angles) * weight / points))


@operator("STFT")
def _stft(call: Call) -> Value:
    b, x, window = call.builder, call.input(0), call.maybe(2)
    (step,) = call.integers(1, "the distance of frames")
    if call.maybe(3) is not None:
        (width,) = call.integers(3, "the length of frames")
    elif window is not None:
        width = call.number(window.sizes[0], "the length of frames")
    else:
        raise call.fault("it has neither a window nor a length of frames")
    length = call.number(x.sizes[1], "the length of its signal")
    if not 0 < width <= min(_LONGEST, length) or step < 1:
        raise call.fault(f"frames of {width} elements, {step} apart")
    weights = None if window is None else np.array(call.floats(2, "its window"))
    places = np.arange(1 + (length - width) // step)[:, None] * step + np.arange(width)[None, :]
    parts = [x] if x.rank == 2 else [element(b, x, 2, place) for place in range(x.sizes[2].constant)]
    parts = [take(b, each, known(places, "s64"), 1) for each in parts]
    is_half = bool(call.whole("onesided", 1)) and len(parts) == 1
    made = _transform(b, parts, width, width // 2 + 1 if is_half else width, inverse=False, window=weights)
    return join(b, [stretched(b, each, [3]) for each in made], 3)


@operator("MelWeightMatrix")
def _mel_weight_matrix(call: Call) -> Value:
    bins, length, rate, low, high = (call.floats(place, "its inputs")[0] for place in range(5))
    if not (0 < bins < _LONGEST and 0 < length < 1 << 20):
        raise call.fault(f"{bins:g} bands of {length:g} points")
    # The mel scale with the constants of the standard (O'Shaughnessy).
    first, last = (2595 * np.log10(1 + each / 700) for each in (low, high))
    mels = np.arange(int(bins) + 2) * ((last - first) / (int(bins) + 2)) + first
    edges = np.floor((length + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate).astype(int)
    made = np.zeros((int(length) // 2 + 1, int(bins)))
    for band, (left, center, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        up, down = np.arange(left, center + 1), np.arange(center, right)
        made[up, band] = (up - left) / (center - left) if center > left else 1
        if right > center:
            made[down, band] = (right - down) / (right - center)
    return known(made, call.dtype(call.whole("output_datatype", 1)))
