"""Fourier transforms as products with constant matrices, because libraries contain no FFT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx.elementwise import type_of
from from_onnx.table import operator
from from_onnx.tensors import axis_of, ints, moved_back, moved_last, rank, required

if TYPE_CHECKING:
    from from_onnx.table import Node


_LONGEST = 4096
"""Elements of a transform: its matrices then take 128 MiB."""


@operator("DFT")
def _dft(node: Node, x: tf.Tensor, length: tf.Tensor | None = None, axis: tf.Tensor | None = None) -> tf.Tensor:
    place = node.get("axis", 1) if node.version < 20 else -2 if axis is None else ints(node, axis, "the axis")[0]
    place = axis_of(node, place, rank(node, x))
    size, inverse, half = x.shape[place], node.get("inverse", 0), node.get("onesided", 0)
    if size is None or x.shape[-1] is None:
        raise node.fault("the size of the axis that it transforms is not known")
    whole = 2 * (size - 1) if inverse and half else size
    points = whole if length is None else ints(node, length, "the length of the transform")[0]
    if points > _LONGEST:
        raise node.fault(f"a transform of {points} elements, more than {_LONGEST}")
    parts = [moved_last(x[..., part], place) for part in range(x.shape[-1])]
    # Elements beyond the length are cut off; missing ones count as zeros.
    parts = [each[..., : points // 2 + 1 if inverse and half else points] for each in parts]
    if inverse and half:
        made = [_real_inverse(parts, points)]
    else:
        made = _transform(parts, points, points // 2 + 1 if half else points, inverse=bool(inverse))
    return tf.stack([moved_back(each, place) for each in made], -1)


def _angles(rows: int, columns: int, points: int) -> tf.Tensor:
    # Reduced to one revolution in integers: sines of large angles would lose digits.
    return 2 * np.pi * ((np.arange(rows)[:, None] * np.arange(columns)[None, :]) % points) / points


def _product(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    return tf.tensordot(x, tf.constant(matrix, x.dtype), 1)


def _transform(parts: list[Any], points: int, outputs: int, *, inverse: bool, window: tf.Tensor = 1.0) -> list[Any]:
    """Real and imaginary part of the transform along the last axis; one part if `parts` are real numbers."""
    angles = _angles(parts[0].shape[-1], outputs, points)
    factor = np.reshape(window, (-1, 1)) / (points if inverse else 1)
    cosines, sines = np.cos(angles) * factor, np.sin(angles) * (factor if inverse else -factor)
    real, imaginary = _product(parts[0], cosines), _product(parts[0], sines)
    if len(parts) == 2:
        real, imaginary = real - _product(parts[1], sines), imaginary + _product(parts[1], cosines)
    return [real, imaginary]


def _real_inverse(parts: list[Any], points: int) -> tf.Tensor:
    """The real numbers whose transform begins with `parts`."""
    count = parts[0].shape[-1]
    angles = _angles(count, points, points)
    weight = np.full((count, 1), 2.0)
    weight[0] = 1
    if points % 2 == 0 and count == points // 2 + 1:
        # Half of a real signal's spectrum: all parts count twice, except the first, and the last of an even length.
        weight[-1] = 1
    made = _product(parts[0], np.cos(angles) * weight / points)
    return made if len(parts) == 1 else made - _product(parts[1], np.sin(angles) * weight / points)


@operator("STFT")
def _stft(
    node: Node, x: tf.Tensor, step: tf.Tensor, window: tf.Tensor | None = None, length: tf.Tensor | None = None
) -> tf.Tensor:
    step = ints(node, step, "the distance of frames")[0]
    if length is not None:
        width = ints(node, length, "the length of frames")[0]
    elif window is not None:
        width = window.shape[0]
    else:
        raise node.fault("it has neither a window nor a length of frames")
    if x.shape[1] is None or width > _LONGEST:
        raise node.fault("the length of its signal is not known, or its frames are longer than 4096")
    weights = np.ones(width) if window is None else required(node, window, "its window")
    count, half = 1 + (x.shape[1] - width) // step, node.get("onesided", 1)
    places = np.arange(count)[:, None] * step + np.arange(width)[None, :]
    parts = tf.unstack(x, axis=-1) if rank(node, x) == 3 else [x]
    parts = [tf.gather(each, places, axis=1) for each in parts]
    outputs = width // 2 + 1 if half and len(parts) == 1 else width
    return tf.stack(_transform(parts, width, outputs, inverse=False, window=weights), -1)


@operator("MelWeightMatrix")
def _mel_weight_matrix(
    node: Node, bins: tf.Tensor, length: tf.Tensor, rate: tf.Tensor, low: tf.Tensor, high: tf.Tensor
) -> tf.Tensor:
    bins, length, rate, low, high = (
        float(required(node, each, "its inputs").reshape(())) for each in (bins, length, rate, low, high)
    )
    # The mel scale with the constants of the standard (O'Shaughnessy).
    first, last = (2595 * np.log10(1 + each / 700) for each in (low, high))
    edges = np.arange(int(bins) + 2) * ((last - first) / (int(bins) + 2)) + first
    edges = np.floor((length + 1) * (700 * (10 ** (edges / 2595) - 1)) / rate).astype(int)
    made = np.zeros((int(length) // 2 + 1, int(bins)))
    for band, (left, center, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        up, down = np.arange(left, center + 1), np.arange(center, right)
        made[up, band] = (up - left) / (center - left) if center > left else 1
        if right > center:
            made[down, band] = (right - down) / (right - center)
    return tf.constant(made, type_of(node, node.get("output_datatype", 1)))
