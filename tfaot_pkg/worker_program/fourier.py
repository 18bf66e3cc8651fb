"""Fourier transforms as products of real arrays with small matrices, which every toolchain and engine compiles.

A length n = a b is transformed by Cooley and Tukey's decimation (Math. Comp. 19, 1965): a transform of length a for
each residue modulo b, a twiddle factor for each result, and transforms of length b. Lengths up to 32 take one product.
Lengths with a large prime factor become a convolution whose length is a power of two (Bluestein, 1970).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    import numpy.typing as npt
    from framework_types import Array


_RADIX = 16
_DIRECT, _DIRECT_PRIME = 32, 128
"""The longest lengths, in general and of primes, for which one product is cheaper than two."""


def transformed(re: tf.Tensor, im: tf.Tensor | None, inverse: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Real and imaginary part of the transform along the last axis; the `inverse` is divided by its length.

    `im` may be None for zeros.
    """
    size = re.shape[-1]
    re, im = _along(re, im, size, 1 if inverse else -1)
    return (re / size, im / size) if inverse else (re, im)


def of_real(x: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Real and imaginary part of the first size // 2 + 1 results for real `x`, cropped or padded to `size`."""
    x, kept = fitted(x, size), size // 2 + 1
    if size <= _DIRECT:
        re, im = _product(x, None, _matrix(size, -1)[:, :kept])
    else:
        re, im = _along(x, None, size, -1)
    # The first result, and the middle one of even lengths, are real even if an input is infinite.
    last = (size + 1) // 2
    zeros = tf.zeros_like(im[..., :1])
    im = tf.concat([zeros, im[..., 1:last], zeros][: 3 - size % 2 - (size == 1)], -1)
    return re[..., :kept], im


def to_real(re: tf.Tensor, im: tf.Tensor, size: int) -> tf.Tensor:
    """The inverse of `of_real`: its results are cropped or padded to size // 2 + 1 first."""
    kept = size // 2 + 1
    re, im = fitted(re, kept), fitted(im, kept)
    # The other half holds the complex conjugates in reverse order.
    # The first result, and the middle one of an even length, have no counterpart in the other half.
    last = (size + 1) // 2
    re = tf.concat([re, tf.reverse(re[..., 1:last], [-1])], -1)
    im = tf.concat([im, -tf.reverse(im[..., 1:last], [-1])], -1)
    return transformed(re, im, True)[0]


def fitted(x: tf.Tensor, size: int) -> tf.Tensor:
    """`x` with `size` elements along the last axis: cropped, or padded with zeros."""
    x = x[..., :size]
    missing = size - x.shape[-1]
    return tf.pad(x, [[0, 0]] * (len(x.shape) - 1) + [[0, missing]]) if missing else x


def _along(re: tf.Tensor, im: tf.Tensor | None, size: int, sign: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The sums of x[j] exp(sign 2 pi i j k / size) over j."""
    radix = _radix(size)
    if radix == size:
        return _product(re, im, _matrix(size, sign))
    if not radix:
        return _bluestein(re, im, size, sign)
    rest = size // radix
    # j = rest * j1 + j2, k = k1 + radix * k2: first along j1, which is moved to the end.
    re, im = (None if each is None else _swapped(_split(each, radix, rest)) for each in (re, im))
    re, im = _product(re, im, _matrix(radix, sign))
    re, im = _scaled(re, im, _turns(sign * np.outer(np.arange(rest), np.arange(radix)), size))
    re, im = _along(_swapped(re), _swapped(im), rest, sign)
    return tuple(_joined(_swapped(each), size) for each in (re, im))


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


def _bluestein(re: tf.Tensor, im: tf.Tensor | None, size: int, sign: int) -> tuple[tf.Tensor, tf.Tensor]:
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
    re, im = _scaled(re, im, turns)
    re, im = _along(fitted(re, length), fitted(im, length), length, -1)
    re, im = _along(*_scaled(re, im, kernel), length, 1)
    return _scaled(re[..., :size], im[..., :size], turns)


def _matrix(size: int, sign: int) -> Array:
    numbers = np.arange(size)
    return _turns(np.outer(numbers, sign * numbers) % size, size)


def _turns(parts: npt.NDArray[np.int64], size: int) -> Array:
    """exp(2 pi i parts / size), exact for powers of i: a huge number times 0 must be 0."""
    quarters = (4 * parts + size // 2) // size
    rest = parts - quarters * size / 4  # at most an eighth of a turn
    result: Array = np.array([1, 1j, -1, -1j])[quarters % 4] * np.exp(2j * np.pi / size * rest)
    return result


def _product(re: tf.Tensor, im: tf.Tensor | None, matrix: Array) -> tuple[tf.Tensor, tf.Tensor]:
    """The products of complex rows with a matrix, as one product of real arrays."""
    columns = matrix.shape[1]
    of_re = np.concatenate([matrix.real, matrix.imag], 1)
    weights = of_re if im is None else np.concatenate([of_re, np.concatenate([-matrix.imag, matrix.real], 1)], 0)
    x = re if im is None else tf.concat([re, im], -1)
    outer = tf.shape(x)[:-1]
    flat = tf.reshape(x, [-1, len(weights)]) @ tf.constant(weights, x.dtype)
    found = tf.reshape(flat, tf.concat([outer, [2 * columns]], 0))
    # TensorFlow forgets sizes in a shape that is computed, and later steps need the last one.
    found.set_shape([*x.shape[:-1], 2 * columns])
    return found[..., :columns], found[..., columns:]


def _scaled(re: tf.Tensor, im: tf.Tensor | None, factors: Array) -> tuple[tf.Tensor, tf.Tensor]:
    """The product with complex constants."""
    factor_re, factor_im = (each.astype(re.dtype.as_numpy_dtype) for each in (factors.real, factors.imag))
    if im is None:
        # No imaginary part to multiply: zeros times infinities would be NaN.
        return re * factor_re, re * factor_im
    return re * factor_re - im * factor_im, re * factor_im + im * factor_re


def _split(x: tf.Tensor, *sizes: int) -> tf.Tensor:
    """Split the last axis into several."""
    made = tf.reshape(x, tf.concat([tf.shape(x)[:-1], sizes], 0))
    made.set_shape([*x.shape[:-1], *sizes])
    return made


def _joined(x: tf.Tensor, size: int) -> tf.Tensor:
    """Join the last two axes."""
    made = tf.reshape(x, tf.concat([tf.shape(x)[:-2], [size]], 0))
    made.set_shape([*x.shape[:-2], size])
    return made


def _swapped(x: tf.Tensor) -> tf.Tensor:
    return tf.linalg.matrix_transpose(x)


def swapped_with_last(x: tf.Tensor, axis: int) -> tf.Tensor:
    """`x` with axis `axis`, counted from the end (-1 is the last), swapped with the last axis."""
    rank = len(x.shape)
    order = list(range(rank))
    order[-1], order[axis] = order[axis], order[-1]
    return tf.transpose(x, order) if axis != -1 else x
