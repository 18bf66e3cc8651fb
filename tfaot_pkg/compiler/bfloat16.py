"""Products of numbers that are rounded to bfloat16, to the bit, and their weights as the kernel library reads them.

Sums are float32 in the order of the instruction TDPBF16PS of AMX, which kernels.h describes (decision 093). Numbers may
be sums of two or three such numbers, their parts (decision 120).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.ground.arrays import Array

BLOCK = 32
"""Inputs whose products are added at a time (kBfloat16Block of tfaot_kernels/scratch.h), in some convolutions fewer."""
LAYERS = ("bfloat16_conv2d", "bfloat16_dense")
STORED = "u16"
"""The type of arrays of bfloat16."""
PARTS: Mapping[str, int] = {"bfloat16": 1, "float32x3": 2, "float32x6": 3}
"""The parts of numbers by compilation.precision.compute: their products are one, three or six."""
PRODUCTS: Mapping[int, tuple[tuple[tuple[int, int], ...], ...]] = {
    1: (((0, 0),),),
    2: (((1, 0), (0, 0), (0, 1)),),
    3: (((2, 0), (1, 0), (1, 1), (0, 1), (0, 2)), ((0, 0),)),
}
"""By the number of parts: the parts of inputs and weights whose products are added for each block, one pair after the
other; the second of several tuples after the last block of the first one (kPairsOfParts of the kernel library).
"""
_PANEL = 16
_LEAST = np.float32(2**-56)


def rounded_bits(numbers: Array) -> NDArray[np.uint16]:
    """The bits of float32 `numbers` as bfloat16: to nearest, half to even; below 2^-56 zeros of the same sign."""
    numbers = np.ascontiguousarray(numbers, np.float32)
    bits = numbers.view(np.uint32)
    nearest = ((bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    high = (bits >> 16).astype(np.uint16)
    with np.errstate(invalid="ignore"):
        tiny = np.abs(numbers) < _LEAST
    return np.where(np.isnan(numbers), high | 0x40, np.where(tiny, high & 0x8000, nearest)).astype(np.uint16)


def floats_of_bits(bits: Array) -> NDArray[np.float32]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded(numbers: Array) -> NDArray[np.float32]:
    """The same as float32."""
    return floats_of_bits(rounded_bits(numbers))


def in_parts(numbers: Array, count: int) -> list[NDArray[np.float32]]:
    """Each part is the rounded rest of those before it; all but the last are zeros if they would not be finite."""
    rest, found = np.ascontiguousarray(numbers, np.float32), []
    for _ in range(count - 1):
        part = rounded(rest)
        part[~np.isfinite(part)] = 0
        found.append(part)
        rest = rest - part
    return [*found, rounded(rest)]


@dataclass(frozen=True, slots=True)
class Windows:
    """How a convolution reads its windows: inputs whose products it adds at a time, and numbers of a pixel."""

    block: int
    channels: int

    def filled(self, numbers: Array, axis: int) -> Array:
        """With zeros for the channels that only the windows have."""
        behind = [(0, self.channels - numbers.shape[axis] if each == axis else 0) for each in range(numbers.ndim)]
        return np.pad(numbers, behind)


def windows_of(window: Sequence[int]) -> Windows:
    """blockOfBfloat16 and channelsOfBfloat16, by the numbers of a Window (kernels.h).

    Lines of windows whose inputs are adjacent consist of equal blocks, if these have at least a quarter of BLOCK, and
    of an even number of channels. Windows of one pixel are rows of a dense layer.
    """
    _, _, channels, _, _, lines, width, _, _, _, apart, *_ = window
    copied, even = Windows(BLOCK, channels), channels + channels % 2
    if apart != 1 != width or lines * width == 1:
        return copied
    line = width * even
    parts = next(count for count in range(-(-line // BLOCK), line + 1) if line // 2 % count == 0)
    block = line // parts
    return Windows(block, even) if 4 * block >= BLOCK or lines * parts == 1 else copied


def packed(weights: Array, block: int = BLOCK, parts: int = 1) -> NDArray[np.uint32]:
    """Weights of shape (inputs, outputs) as (panels, parts, pairs of inputs, columns of a panel), two inputs in a word.

    There are zeros after the last column, and for inputs up to a multiple of `block`.
    """
    inputs, outputs = weights.shape
    panels, pairs = -(-outputs // _PANEL), -(-inputs // block) * block // 2
    padded = np.zeros((parts, 2 * pairs, panels * _PANEL), np.uint32)
    for each, part in zip(padded, in_parts(weights, parts), strict=True):
        each[:inputs, :outputs] = rounded_bits(part)
    words = padded[:, ::2] | padded[:, 1::2] << 16
    return np.ascontiguousarray(words.reshape(parts, pairs, panels, _PANEL).transpose(2, 0, 1, 3))


def products(x: Array, weights: Array, block: int = BLOCK, parts: int = 1) -> NDArray[np.float32]:
    """Rows of `x` times `weights` of shape (inputs, outputs), both rounded first, `block` products at a time."""
    inputs, outputs = weights.shape
    whole = -(-inputs // block) * block
    left, right = np.zeros((parts, len(x), whole)), np.zeros((parts, whole, outputs))
    with np.errstate(all="ignore"):
        left[:, :, :inputs], right[:, :inputs] = in_parts(x, parts), in_parts(weights, parts)
        sums = np.zeros((len(x), outputs), np.float32)
        for pairs in PRODUCTS[parts]:
            for start in range(0, whole, block):
                for i, j in pairs:
                    sums = sums + _of_block(left[i, :, start : start + block], right[j, start : start + block])
    return sums


def _of_block(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float32]:
    chains = [np.zeros((len(left), right.shape[1]), np.float32) for _ in range(2)]
    for k, (column, row) in enumerate(zip(left.T, right, strict=True)):
        # Exact in float64, or one addend is so small that it does not change the float32 next to the other.
        chains[k % 2] = (chains[k % 2] + np.multiply.outer(column, row)).astype(np.float32)
    return chains[0] + chains[1]
