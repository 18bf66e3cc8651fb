"""Constants of Fourier transforms as products of real arrays with small matrices, which every engine compiles.

A length n = a b is transformed by Cooley and Tukey's decimation (Math. Comp. 19, 1965): a transform of length a for
each residue modulo b, a twiddle factor for each result, and transforms of length b. Lengths up to 64 take one product.
Lengths with a large prime factor become a convolution whose length is a power of two (Bluestein, 1970).

The operations are TensorFlow's in worker_program/fourier.py, JAX's in from_mlir/transforms.py, and those of a Program
in frontends/onnx_lowering/fourier.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_DIRECT, _DIRECT_PRIME = 64, 128
"""The longest lengths, in general and of primes, for which one product is cheaper than two.

Measured on Zen 4 (x86-64-v3, 16 rows): 64 complex numbers take 0.40 us by one product and 0.84 us by two, 96 take 0.87
and 0.51 us.
"""


@dataclass(frozen=True, slots=True)
class Chirp:
    """Bluestein's factors: a transform is the circular convolution of `x * turns` with a chirp, times `turns`.

    `kernel` is the chirp's own transform, divided by its length.
    """

    turns: npt.NDArray[np.complex128]
    kernel: npt.NDArray[np.complex128]


def radix(size: int) -> int:
    """The length of the first transforms; `size` if one product suffices, 0 if there is no small divisor."""
    if size <= _DIRECT:
        return size
    divisors = [each for each in range(2, _DIRECT_PRIME + 1) if size % each == 0]
    # Two steps of nearly equal lengths have the fewest products; else a prime one, up to the length of one product.
    small = [each for each in divisors if each <= min(_DIRECT, math.isqrt(size))]
    if small:
        return max(small)
    return min(divisors) if divisors else 0


def matrix(size: int, sign: int) -> npt.NDArray[np.complex128]:
    """exp(sign 2 pi i j k / size) in row j, column k."""
    numbers = np.arange(size)
    return turns(np.outer(numbers, sign * numbers), size)


def twiddles(rest: int, first: int, sign: int) -> npt.NDArray[np.complex128]:
    """The factors between transforms of length `first` and those of length `rest`."""
    return turns(sign * np.outer(np.arange(rest), np.arange(first)), rest * first)


def chirp(size: int, sign: int) -> Chirp:
    """2 j k = j^2 + k^2 - (k - j)^2: multiply by factors, convolve with exp(-sign pi i j^2 / size), multiply again."""
    # A power of two, at least 2 size - 1, so that the circular convolution does not wrap around.
    length = 1 << (2 * size - 2).bit_length()
    numbers = np.arange(size)
    factors = turns(sign * numbers * numbers, 2 * size)
    made = np.zeros(length, complex)
    made[:size] = factors.conj()
    made[length - size + 1 :] = made[1:size][::-1]
    # Divided here, because inverse transforms are sums that are not divided by the length.
    return Chirp(factors, np.fft.fft(made) / length)


def turns(parts: npt.NDArray[Any], size: int) -> npt.NDArray[np.complex128]:
    """exp(2 pi i parts / size), exact for powers of i: a huge number times 0 must be 0."""
    parts = parts % size  # large angles would lose digits
    quarters = (4 * parts + size // 2) // size
    rest = parts - quarters * size / 4  # at most an eighth of a turn
    return np.asarray(np.array([1, 1j, -1, -1j])[quarters % 4] * np.exp(2j * np.pi / size * rest))
