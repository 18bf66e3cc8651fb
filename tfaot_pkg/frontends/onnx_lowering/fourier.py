"""Fourier transforms as products of real arrays with small constant matrices, which the kernel library has.

A length n = a b is transformed by Cooley and Tukey's decimation (Math. Comp. 19, 1965): a transform of length a for
each residue modulo b, a twiddle factor for each result, and transforms of length b. Lengths up to 32 take one product.
Lengths with a large prime factor become a convolution whose length is a power of two (Bluestein, 1970).
worker_program/fourier.py does the same with TensorFlow's operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfaot_pkg.compiler.program import Size, Unsupported
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import cut, join, pad, reverse
from tfaot_pkg.frontends.onnx_lowering.products import matmul
from tfaot_pkg.ground.arrays import Array

LONGEST = 1 << 16
"""Elements of a transform: its constants then take some MB."""
_RADIX = 16
_DIRECT, _DIRECT_PRIME = 32, 128
"""The longest lengths, in general and of primes, for which one product is cheaper than two."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Complex numbers: real and imaginary parts. Numbers that are real have no imaginary part."""

    real: Value
    imaginary: Value | None


def transformed(b: Builder, x: Parts, sign: int) -> Parts:
    """The sums of x[j] exp(sign 2 pi i j k / size) over j, along the last axis, whose size is known."""
    return _along(b, x, _length(x.real), sign)


def of_real(b: Builder, x: Value) -> Parts:
    """The first size // 2 + 1 results for real `x`, with the sign -1."""
    size = _length(x)
    kept = size // 2 + 1
    if size <= _DIRECT:
        made = _product(b, Parts(x, None), _matrix(size, -1)[:, :kept])
    else:
        made = _along(b, Parts(x, None), size, -1)
    assert made.imaginary is not None
    # The first result, and the middle one of even lengths, are real even if an input is infinite.
    last = (size + 1) // 2
    inner = [_cut(b, made.imaginary, 1, last)] if last > 1 else []
    zeros = b.spread(b.constant(0, x.dtype), (*x.sizes[:-1], Size(1)))
    parts = [zeros, *inner, *([zeros] if size % 2 == 0 else [])]
    return Parts(_cut(b, made.real, 0, kept), join(b, parts, x.rank - 1))


def to_real(b: Builder, x: Parts, size: int) -> Value:
    """The real numbers whose `of_real` is `x`, times `size`: its parts are cropped or padded to size // 2 + 1 first."""
    return transformed(b, mirrored(b, _fitted(b, x, size // 2 + 1), size), 1).real


def mirrored(b: Builder, x: Parts, size: int) -> Parts:
    """All `size` results for real numbers, of which `x` are the first size // 2 + 1: the others are conjugates."""
    last, axis = (size + 1) // 2, x.real.rank - 1
    assert x.imaginary is not None
    # The first result, and the middle one of an even length, have no counterpart in the other half.
    if last <= 1:
        return x
    real, imaginary = (reverse(b, _cut(b, each, 1, last), axis) for each in (x.real, x.imaginary))
    return Parts(join(b, [x.real, real], axis), join(b, [x.imaginary, b.op("negate", imaginary)], axis))


def swapped_with_last(b: Builder, x: Parts, axis: int) -> Parts:
    order = list(range(x.real.rank))
    order[-1], order[axis] = order[axis], order[-1]
    return _each(x, lambda part: b.transpose(part, order))


def _length(x: Value) -> int:
    size = x.sizes[-1]
    if not size.is_constant:
        raise Unsupported(f"a Fourier transform along an axis of {size} elements: export with a number for that axis")
    if not 0 < size.constant <= LONGEST:
        raise Unsupported(f"a Fourier transform of {size} elements: at most {LONGEST} are supported")
    return size.constant


def _along(b: Builder, x: Parts, size: int, sign: int) -> Parts:
    radix = _radix(size)
    if radix == size:
        return _product(b, x, _matrix(size, sign))
    if not radix:
        return _bluestein(b, x, size, sign)
    rest = size // radix
    # j = rest * j1 + j2, k = k1 + radix * k2: first along j1, which is moved to the end.
    x = _each(x, lambda part: _swapped(b, _split(b, part, radix, rest)))
    x = _product(b, x, _matrix(radix, sign))
    x = _scaled(b, x, _turns(sign * np.outer(np.arange(rest), np.arange(radix)), size))
    x = _along(b, _each(x, lambda part: _swapped(b, part)), rest, sign)
    return _each(x, lambda part: b.reshape(_swapped(b, part), (*part.sizes[:-2], Size(size))))


def _radix(size: int) -> int:
    """The length of the first transforms; `size` if one product suffices, 0 if there is no small divisor."""
    if size <= _DIRECT:
        return size
    # A small divisor that is as large as possible gives few steps; else a prime one, up to the length of one product.
    divisors = [each for each in range(2, _DIRECT_PRIME + 1) if size % each == 0]
    small = [each for each in divisors if each <= _RADIX]
    if small:
        return max(small)
    return min(divisors) if divisors else 0


def _bluestein(b: Builder, x: Parts, size: int, sign: int) -> Parts:
    """2 j k = j^2 + k^2 - (k - j)^2: multiply by factors, convolve with exp(-sign pi i j^2 / size), multiply again."""
    # A power of two, at least 2 size - 1, so that the circular convolution does not wrap around.
    length = 1 << (2 * size - 2).bit_length()
    numbers = np.arange(size)
    # Squares modulo 2 * size: large angles would lose digits.
    turns = _turns(sign * numbers * numbers % (2 * size), 2 * size)
    chirp = np.zeros(length, complex)
    chirp[:size] = turns.conj()
    chirp[length - size + 1 :] = chirp[1:size][::-1]
    # Divided here, because `_along` does not divide the inverse transform by its length.
    kernel = np.fft.fft(chirp) / length
    x = _along(b, _fitted(b, _scaled(b, x, turns), length), length, -1)
    x = _along(b, _scaled(b, x, kernel), length, 1)
    return _scaled(b, _each(x, lambda part: _cut(b, part, 0, size)), turns)


def _matrix(size: int, sign: int) -> Array:
    numbers = np.arange(size)
    return _turns(np.outer(numbers, sign * numbers) % size, size)


def _turns(parts: npt.NDArray[np.int64], size: int) -> Array:
    """exp(2 pi i parts / size), exact for powers of i: a huge number times 0 must be 0."""
    quarters = (4 * parts + size // 2) // size
    rest = parts - quarters * size / 4  # at most an eighth of a turn
    result: Array = np.array([1, 1j, -1, -1j])[quarters % 4] * np.exp(2j * np.pi / size * rest)
    return result


def _product(b: Builder, x: Parts, matrix: Array) -> Parts:
    """The products of complex rows with a matrix, as one product of real arrays."""
    columns = matrix.shape[1]
    weights = np.concatenate([matrix.real, matrix.imag], 1)
    given = x.real
    if x.imaginary is not None:
        weights = np.concatenate([weights, np.concatenate([-matrix.imag, matrix.real], 1)], 0)
        given = join(b, [x.real, x.imaginary], given.rank - 1)
    made = matmul(b, given, known(np.ascontiguousarray(weights), given.dtype))
    return Parts(_cut(b, made, 0, columns), _cut(b, made, columns, 2 * columns))


def _scaled(b: Builder, x: Parts, factors: Array) -> Parts:
    """The product with complex constants."""
    a = Arithmetic(b, x.real)
    real, imaginary = (known(np.ascontiguousarray(each), x.real.dtype) for each in (factors.real, factors.imag))
    if x.imaginary is None:
        # No imaginary part to multiply: zeros times infinities would be NaN.
        return Parts(a.mul(x.real, real), a.mul(x.real, imaginary))
    return Parts(
        a.sub(a.mul(x.real, real), a.mul(x.imaginary, imaginary)),
        a.add(a.mul(x.real, imaginary), a.mul(x.imaginary, real)),
    )


def _each(x: Parts, function: Callable[[Value], Value]) -> Parts:
    return Parts(function(x.real), None if x.imaginary is None else function(x.imaginary))


def _cut(b: Builder, x: Value, start: int, end: int) -> Value:
    return cut(b, x, x.rank - 1, Size(start), Size(end))


def _fitted(b: Builder, x: Parts, size: int) -> Parts:
    """`x` with `size` elements along the last axis: cropped, or padded with zeros."""

    def fit(part: Value) -> Value:
        kept = _cut(b, part, 0, min(size, part.sizes[-1].constant))
        edges = [(0, 0, 0)] * (part.rank - 1) + [(0, size - kept.sizes[-1].constant, 0)]
        return pad(b, kept, edges, b.constant(0, part.dtype))

    return _each(x, fit)


def _split(b: Builder, x: Value, *sizes: int) -> Value:
    return b.reshape(x, (*x.sizes[:-1], *map(Size, sizes)))


def _swapped(b: Builder, x: Value) -> Value:
    return b.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])
