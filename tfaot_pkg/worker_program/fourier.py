"""Fourier transforms as products of real arrays with small matrices, by TensorFlow's operations.

messages/fourier_constants.py has the algorithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from messages.fourier_constants import chirp, matrix, radix, twiddles

if TYPE_CHECKING:
    from framework_types import Array


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
    if radix(size) == size:
        re, im = _product(x, None, matrix(size, -1)[:, :kept])
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
    first = radix(size)
    if first == size:
        return _product(re, im, matrix(size, sign))
    if not first:
        return _bluestein(re, im, size, sign)
    rest = size // first
    # j = rest * j1 + j2, k = k1 + first * k2: first along j1, which is moved to the end.
    re, im = (None if each is None else _swapped(_split(each, first, rest)) for each in (re, im))
    re, im = _product(re, im, matrix(first, sign))
    re, im = _scaled(re, im, twiddles(rest, first, sign))
    re, im = _along(_swapped(re), _swapped(im), rest, sign)
    return tuple(_joined(_swapped(each), size) for each in (re, im))


def _bluestein(re: tf.Tensor, im: tf.Tensor | None, size: int, sign: int) -> tuple[tf.Tensor, tf.Tensor]:
    factors = chirp(size, sign)
    length = len(factors.kernel)
    re, im = _scaled(re, im, factors.turns)
    re, im = _along(fitted(re, length), fitted(im, length), length, -1)
    re, im = _along(*_scaled(re, im, factors.kernel), length, 1)
    return _scaled(re[..., :size], im[..., :size], factors.turns)


def _product(re: tf.Tensor, im: tf.Tensor | None, factors: Array) -> tuple[tf.Tensor, tf.Tensor]:
    """The products of complex rows with a matrix, as one product of real arrays."""
    columns = factors.shape[1]
    of_re = np.concatenate([factors.real, factors.imag], 1)
    weights = of_re if im is None else np.concatenate([of_re, np.concatenate([-factors.imag, factors.real], 1)], 0)
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
