"""Fourier transforms as products with constant matrices (fourier.py), because libraries contain no FFT; and windows."""

from __future__ import annotations

import numpy as np

from tfaot_pkg.compiler.program import ZERO, Size, Unsupported
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.fourier import Parts, fitted, of_real, to_real, transformed
from tfaot_pkg.frontends.onnx_lowering.indexing import take
from tfaot_pkg.frontends.onnx_lowering.moving import cut, element, join, stretched
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator

_MOST_BANDS = 4096


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
    if points < 1:
        raise call.fault(f"a transform of {points} elements")
    order = [each for each in range(x.rank - 1) if each != axis] + [axis]
    parts = [b.transpose(each, order) for each in _parts(b, x)]
    made = _transformed(b, Parts(parts[0], parts[1] if len(parts) > 1 else None), points, inverse=inverse, half=half)
    back = [order.index(each) for each in range(x.rank - 1)]
    return _joined(b, made.each(lambda part: b.transpose(part, back)))


def _transformed(b: Builder, x: Parts, points: int, *, inverse: bool, half: bool) -> Parts:
    """The transform along the last axis. Elements beyond its length are cut off; missing ones count as zeros."""
    if inverse and half:
        return _divided(b, Parts(to_real(b, x, points), None), points)
    x = fitted(b, x, points)
    if inverse:
        made = _divided(b, transformed(b, x, 1), points)
    elif half and x.imaginary is None:
        return of_real(b, x.real)
    else:
        made = transformed(b, x, -1)
    kept = points // 2 + 1 if half else points
    return made.each(lambda part: cut(b, part, part.rank - 1, ZERO, Size(kept)))


def _divided(b: Builder, x: Parts, points: int) -> Parts:
    return x.each(lambda part: Arithmetic(b, part).mul(part, 1 / points))


def _parts(b: Builder, x: Value) -> list[Value]:
    """Real numbers, or real and imaginary parts, along the last axis."""
    count = x.sizes[-1]
    if not count.is_constant or count.constant not in (1, 2):
        raise Unsupported(f"a signal of {count} numbers for each element: one (real) or two (complex) are possible")
    return [element(b, x, x.rank - 1, place) for place in range(count.constant)]


def _joined(b: Builder, x: Parts) -> Value:
    parts = [x.real] if x.imaginary is None else [x.real, x.imaginary]
    return join(b, [stretched(b, each, [each.rank]) for each in parts], x.real.rank)


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
    if not 0 < width <= length or step < 1:
        raise call.fault(f"frames of {width} elements, {step} apart")
    places = np.arange(1 + (length - width) // step)[:, None] * step + np.arange(width)[None, :]
    parts = [x] if x.rank == 2 else _parts(b, x)
    parts = [take(b, each, known(places, "s64"), 1) for each in parts]
    if window is not None:
        weights = known(np.array(call.floats(2, "its window")), x.dtype)
        parts = [Arithmetic(b, each).mul(each, weights) for each in parts]
    frames = Parts(parts[0], parts[1] if len(parts) > 1 else None)
    half = bool(call.whole("onesided", 1)) and frames.imaginary is None
    return _joined(b, _transformed(b, frames, width, inverse=False, half=half))


@operator("MelWeightMatrix")
def _mel_weight_matrix(call: Call) -> Value:
    bins, length, rate, low, high = (call.floats(place, "its inputs")[0] for place in range(5))
    if not (0 < bins < _MOST_BANDS and 0 < length < 1 << 20):
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
