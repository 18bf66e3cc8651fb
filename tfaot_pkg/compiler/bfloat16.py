"""Products of numbers that are rounded to bfloat16, to the bit, and their weights as the kernel library reads them.

Sums are float32 in the order of the instruction TDPBF16PS of AMX, which kernels.h describes (decision 093).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.ground.arrays import Array

BLOCK = 32
"""Inputs whose products are added at a time (kBfloat16Block of tfaot_kernels/scratch.h), in some convolutions fewer."""
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


def rounded(numbers: Array) -> NDArray[np.float32]:
    """The same as float32."""
    return (rounded_bits(numbers).astype(np.uint32) << 16).view(np.float32)


def block_of_window(window: Sequence[int]) -> int:
    """blockOfBfloat16: inputs whose products a convolution adds at a time, by the numbers of its Window (kernels.h).

    Lines of windows that are multiples of two adjacent inputs consist of equal blocks, if these have at least half of
    BLOCK. Windows of one pixel are rows of a dense layer.
    """
    _, _, channels, _, _, lines, width, _, _, _, apart, *_ = window
    line = width * channels
    if line % 2 or apart != 1 != width or lines * width == 1:
        return BLOCK
    parts = next(count for count in range(-(-line // BLOCK), line + 1) if line // 2 % count == 0)
    block = line // parts
    return block if 2 * block >= BLOCK or lines * parts == 1 else BLOCK


def packed(weights: Array, block: int = BLOCK) -> NDArray[np.uint32]:
    """Weights of shape (inputs, outputs) as (panels, pairs of inputs, columns of a panel), two inputs in a word.

    There are zeros after the last column, and for inputs up to a multiple of `block`.
    """
    inputs, outputs = weights.shape
    panels, pairs = -(-outputs // _PANEL), -(-inputs // block) * block // 2
    padded = np.zeros((2 * pairs, panels * _PANEL), np.uint32)
    padded[:inputs, :outputs] = rounded_bits(weights)
    words = padded[::2] | padded[1::2] << 16
    return np.ascontiguousarray(words.reshape(pairs, panels, _PANEL).transpose(1, 0, 2))


def products(x: Array, weights: Array, block: int = BLOCK) -> NDArray[np.float32]:
    """Rows of `x` times `weights` of shape (inputs, outputs), both rounded first, `block` products at a time."""
    inputs, outputs = weights.shape
    whole = -(-inputs // block) * block
    left, right = np.zeros((len(x), whole)), np.zeros((whole, outputs))
    left[:, :inputs], right[:inputs] = rounded(x), rounded(weights)
    sums = np.zeros((len(x), outputs), np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, whole, block):
            chains = [np.zeros_like(sums) for _ in range(2)]
            for k in range(start, start + block):
                parity = (k - start) % 2
                # Exact in float64, or one addend is so small that it does not change the float32 next to the other.
                chains[parity] = (chains[parity] + np.multiply.outer(left[:, k], right[k])).astype(np.float32)
            sums = sums + (chains[0] + chains[1])
    return sums
