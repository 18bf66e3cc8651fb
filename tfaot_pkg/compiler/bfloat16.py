"""Products of numbers that are rounded to bfloat16, to the bit, and their weights as the kernel library reads them.

Sums are float32 in the order of the instruction TDPBF16PS of AMX, which kernels.h describes (decision 093).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.ground.arrays import Array

BLOCK = 32
"""Inputs whose products are added at a time (kBfloat16Block of tfaot_kernels/scratch.h)."""
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


def packed(weights: Array) -> NDArray[np.uint32]:
    """Weights of shape (inputs, outputs) as (panels, pairs of inputs, columns of a panel), two inputs in a word.

    There are zeros after the last column, and for inputs up to a multiple of BLOCK.
    """
    inputs, outputs = weights.shape
    panels, pairs = -(-outputs // _PANEL), -(-inputs // BLOCK) * BLOCK // 2
    padded = np.zeros((2 * pairs, panels * _PANEL), np.uint32)
    padded[:inputs, :outputs] = rounded_bits(weights)
    words = padded[::2] | padded[1::2] << 16
    return np.ascontiguousarray(words.reshape(pairs, panels, _PANEL).transpose(1, 0, 2))


def products(x: Array, weights: Array) -> NDArray[np.float32]:
    """Rows of `x` times `weights` of shape (inputs, outputs), both rounded first."""
    inputs, outputs = weights.shape
    blocks = -(-inputs // BLOCK)
    left, right = np.zeros((len(x), blocks * BLOCK)), np.zeros((blocks * BLOCK, outputs))
    left[:, :inputs], right[:inputs] = rounded(x), rounded(weights)
    sums = np.zeros((len(x), outputs), np.float32)
    with np.errstate(all="ignore"):
        for block in range(0, blocks * BLOCK, BLOCK):
            chains = [np.zeros_like(sums) for _ in range(2)]
            for place in range(BLOCK):
                k, parity = block + place, place % 2
                # Exact in float64, or one addend is so small that it does not change the float32 next to the other.
                chains[parity] = (chains[parity] + np.multiply.outer(left[:, k], right[k])).astype(np.float32)
            sums = sums + (chains[0] + chains[1])
    return sums
